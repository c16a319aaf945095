"""The end of a run as its entries tell, for those whose record does not lead there any more."""

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from tenter.agent import Ended, Progress
from tenter.catalogue import ErrorInfo, Usage
from tenter.journal import TERMINAL, Store, Stream


async def recorded_end(store: Store, stream: Stream) -> Ended:
    """The end of a run as its entries tell: by its result, and without output where that was not stored."""
    ended = Ended(status="failed")
    async for recorded in store.read(stream):
        content = recorded.entry.content
        if recorded.entry.kind in ("status", "result") and content.get("status") in TERMINAL:
            ended = _end_of(content)
    return ended


def _end_of(content: Mapping[str, object]) -> Ended:
    error, code = content.get("error"), content.get("code")
    if error is None and isinstance(code, str):
        error = {"code": code, "message": "how it came to that was not stored: its process ended first"}
    cost, usage = content.get("cost_usd"), content.get("usage")
    return Ended(
        status=cast("Any", content["status"]),
        output=content.get("output"),
        error=None if error is None else msgspec.convert(error, ErrorInfo),
        progress=Progress(
            usage=msgspec.convert(usage or {}, Usage),
            cost_usd=cost if isinstance(cost, int | float) else 0.0,
            cost_known=cost is not None,
        ),
    )
