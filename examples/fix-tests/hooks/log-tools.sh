#!/bin/sh
# Watches: one line for each tool call, with the tool's name and whether it failed.
payload=$(cat)
name=$(printf '%s' "$payload" | sed -n 's/.*"call":{"id":"[^"]*","name":"\([a-z_]*\)".*/\1/p')
case "$payload" in
  *'"is_error":true'*) ending=failed ;;
  *) ending=worked ;;
esac
printf '%s %s\n' "$name" "$ending" >> "$TENTER_WORKSPACE/tool-calls.log"
