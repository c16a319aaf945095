"""The Python hooks of this project."""

from collections import Counter

from tenter import Hook
from tenter.catalogue import RunEndEvent, ToolCallEvent, ToolResultEvent


def no_bytecode(event: ToolCallEvent) -> ToolCallEvent | None:
    """Runs Python so that it writes no bytecode beside the sources."""
    command = str(event.call.arguments.get("command", ""))
    if not command.startswith("python3 -m "):
        return None
    return event.with_arguments(command=command.replace("python3 -m ", "python3 -B -m ", 1))


class Audit(Hook):
    """Counts how the calls ended that were allowed, and says so when the run ends."""

    name = "audit"
    observe = True

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()

    def on_tool_after(self, event: ToolResultEvent) -> None:
        self.calls[f"{event.call.name} {'failed' if event.result.is_error else 'worked'}"] += 1

    def on_run_end(self, event: RunEndEvent) -> None:
        print("audit:", ", ".join(f"{name} {count}x" for name, count in sorted(self.calls.items())))
