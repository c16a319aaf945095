"""Stores a checkpoint or a result through `persistence.write`: hooks may change or refuse it, but not what it is."""

from collections.abc import Mapping

from tenter.catalogue import PERSISTENCE_WRITE, Op, PersistenceWriteEvent, RunEndEvent
from tenter.harness.ledger import Ledger
from tenter.harness.parts import Run
from tenter.journal import JournalError
from tenter.kernel import Failed, OperationFailed

STORED = ("checkpoint", "result")
"""The place of a kind is the index in its path."""


def path_of(kind: str) -> str:
    return f"0.persistence.write.{STORED.index(kind)}"


async def store(run: Run, ledger: Ledger, *, op: Op, kind: str, record: Mapping[str, object]) -> Failed | None:
    """Stores the record, durably; the failure where hooks or the work failed. Raises JournalError."""
    key = run.envelope.run_id
    pinned = {"key": key} | ({"status": record["status"]} if "status" in record else {})
    trouble: JournalError | None = None

    async def write(event: PersistenceWriteEvent) -> object:
        nonlocal trouble
        if (event.kind, event.key) != (kind, key):
            raise OperationFailed(f"a hook made the {kind} of {key!r} another record; it may change 'record' alone")
        try:
            content = {**event.record, **pinned}
            await ledger.append(lambda: ledger.entry(kind, content), durable=True)
        except JournalError as error:
            trouble = error
            raise
        return event.record

    event = PersistenceWriteEvent(envelope=run.envelope, op=op, kind=kind, key=key, record=record)
    ending = await run.runtime.run(PERSISTENCE_WRITE, event, write, trace=run.trace)
    ledger.check()
    if trouble is not None:
        raise trouble
    return ending if isinstance(ending, Failed) else None


def result_of(event: RunEndEvent) -> Mapping[str, object]:
    """What is stored of a run's end."""
    return {name: getattr(event, name) for name in ("status", "output", "error", "usage", "cost_usd")}
