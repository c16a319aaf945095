"""A project whose journal holds runs that a test wrote itself, as an engine would."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from tenter.catalogue import ApprovalDecision, ApprovalReason, ApprovalRequest, DecisionKind
from tenter.journal import Entry, SqliteStore, Stream

LONG_AGO = 1_000.0
"""When these runs began, in seconds since the epoch."""
SHELL = {"name": "shell", "arguments": {"command": "rm x", "cwd": "."}}


async def journal(folder: Path, *streams: tuple[str, list[Entry]], key: bytes | None = None, **spec: object) -> Path:
    """A project whose journal holds these runs."""
    (folder / "tenter.yaml").write_text(json.dumps({"version": 1, **spec}))
    store = SqliteStore(folder / ".tenter" / "journal.db", key=key)
    for run_id, entries in streams:
        await store.append(Stream("run", run_id), entries)
    await store.close()
    return folder


def entry(kind: str, at: float = 0.0, **content: object) -> Entry:
    return Entry(kind=kind, time=round(at * 1_000_000), content=content)


def begun(task: str = "job", *, parent: str | None = None, **content: object) -> Entry:
    return entry("run", LONG_AGO, task=task, envelope={"parent_run_id": parent}, **content)


def result(status: str, at: float = LONG_AGO + 1.5, **content: object) -> Entry:
    return entry("result", at, status=status, **content)


def request(
    run_id: str,
    request_id: str = "r1",
    *,
    reasons: Sequence[ApprovalReason] = (),
    call: Mapping[str, object] = SHELL,
    root: str = "",
    at: float = LONG_AGO,
) -> ApprovalRequest:
    """A request for a tool call, which one hook wants a person to see and lets be edited."""
    why = ApprovalReason(hook="ask", reason="it removes", code="risk", editable=("command",))
    return ApprovalRequest(
        id=request_id,
        run_id=run_id,
        operation="tool.invoked",
        path="1.tool.invoked.0",
        call={"call": call, "tool": "shell"},
        digest="sha256:0",
        reasons=tuple(reasons) or (why,),
        requested_at=at,
        task="job",
        root_run_id=root,
    )


def asked(request: ApprovalRequest) -> Entry:
    content: dict[str, object] = msgspec.to_builtins(request)
    return entry("approval_requested", request.requested_at, **content)


def waiting(*requests: ApprovalRequest) -> list[Entry]:
    """The entries of a run that waits for decisions on these."""
    return [begun(), *map(asked, requests), entry("status", LONG_AGO + 1, status="awaiting_approval")]


def decided(run_id: str, request_id: str, decision: DecisionKind = "approve") -> Entry:
    """What a person decided on a request of that run."""
    made = ApprovalDecision(request_id=request_id, run_id=run_id, decision=decision, by="ann", decided_at=LONG_AGO + 2)
    content: dict[str, object] = msgspec.to_builtins(made)
    return entry("approval_decided", LONG_AGO + 2, **content)
