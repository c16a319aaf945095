"""Where the governor's checks ask about the runs of one harness, and leave their notes (D§14)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tenter.catalogue import ModelRequestEvent, ToolCallEvent, ToolInfo
from tenter.controls import Account, Prices
from tenter.kernel import Detail, FrozenDict, Trace

Call = ToolCallEvent | ModelRequestEvent


@dataclass(frozen=True, slots=True)
class Offer:
    """What a task works with, as far as checks ask."""

    tools: Mapping[str, ToolInfo]
    prices: Prices | None = None


class HarnessDesk:
    """Meets `tenter.controls.Desk`. A run is known to it while it goes on in this process."""

    def __init__(self, offers: Mapping[str, Offer], now: Callable[[], float]) -> None:
        self._offers = offers
        self._known = FrozenDict({name: tool for offer in offers.values() for name, tool in offer.tools.items()})
        self._now = now
        self._runs: dict[str, tuple[Account, Trace]] = {}

    def attend(self, run_id: str, account: Account, trace: Trace) -> None:
        """The run begins here, or goes on here."""
        self._runs[run_id] = account, trace

    def leave(self, run_id: str) -> None:
        """The run's part here is over."""
        self._runs.pop(run_id, None)

    def known(self) -> Mapping[str, ToolInfo]:
        return self._known

    def offered(self, event: ToolCallEvent, /) -> Mapping[str, ToolInfo]:
        offer = self._offers.get(event.envelope.task.name)
        return FrozenDict() if offer is None else offer.tools

    def account(self, event: Call, /) -> Account | None:
        run = self._runs.get(event.envelope.run_id)
        return None if run is None else run[0]

    def prices(self, event: ModelRequestEvent, /) -> Prices | None:
        offer = self._offers.get(event.envelope.task.name)
        return None if offer is None else offer.prices

    def note(self, event: Call, code: str, /, **details: Detail) -> None:
        run = self._runs.get(event.envelope.run_id)
        if run is not None:
            run[1].add((self._now(), "note", "governor", code, event.op.id, details))
