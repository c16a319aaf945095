#!/bin/sh
# Reads the payload on stdin and answers with a verdict: nothing is removed by force or in bulk, no push is forced.
payload=$(cat)
case "$payload" in
  *'rm -r'* | *'rm -f'* | *'git push --force'* | *'git push -f'*)
    echo '{"decision": "block", "code": "policy_denied", "reason": "removing folders or forcing a push is not allowed here"}' ;;
  *)
    echo '{"decision": "pass"}' ;;
esac
