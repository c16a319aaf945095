#!/usr/bin/env python3
"""Watches: adds a line to tool-calls.log for each tool call, also for one that was refused."""

import json
import os
import sys
from pathlib import Path

told = json.load(sys.stdin)
call, ended = told["payload"]["call"], told["ended"]
verdict = "allowed" if ended is None else f"{ended['hook']} answered {ended['decision']}"
with Path(os.environ["TENTER_WORKSPACE"], "tool-calls.log").open("a", encoding="utf-8") as log:
    log.write(f"{verdict}: {call['name']} {json.dumps(call['arguments'])}\n")
