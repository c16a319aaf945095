#!/bin/sh
# Reads the payload on stdin and answers with a verdict: no recursive removal, no forced push.
payload=$(cat)
case "$payload" in
  *'rm -rf'* | *'rm -fr'* | *'git push --force'*)
    echo '{"decision": "block", "code": "policy_denied", "reason": "removing folders or forcing a push is not allowed here"}' ;;
  *)
    echo '{"decision": "pass"}' ;;
esac
