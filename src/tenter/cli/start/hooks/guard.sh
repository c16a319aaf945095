#!/bin/sh
# Reads the payload on stdin, answers with a verdict on stdout: no recursive removal.
payload=$(cat)
case "$payload" in
  *'rm -rf'*) echo '{"decision": "block", "code": "policy_denied", "reason": "rm -rf is not allowed here"}' ;;
  *) echo '{"decision": "pass"}' ;;
esac
