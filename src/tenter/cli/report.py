"""What is told at the end of a run: what each hook did, how it ended and why (D§13). Values in, text out."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from tenter.cli.command_line import quoted
from tenter.cli.decisions import call_of, editable_of, fields_of, root_of
from tenter.cli.masking import Masking
from tenter.cli.texts import escaped, json_text, moment, one_line, quoted_block, seconds
from tenter.cli.words import Said
from tenter.kernel import Link

if TYPE_CHECKING:
    from tenter.catalogue import ApprovalReason, ApprovalRequest, ErrorInfo
    from tenter.harness import RunResult

LONGEST: Final = 1000
"""Characters of a line about a run."""
AGAIN: Final = "approve makes the call AGAIN: look first whether it was done; reject ends the run without it"
"""What is said of a call that may have been made when its process ended."""
MOST_REASONS: Final = 3
"""For which a hook failed at a point, in the summary."""
MOST_OF_A_CALL: Final = 10_000
"""Characters of a call on a screen."""


def status_line(result: "RunResult") -> str:
    """The run in one line: its id, status, duration and use, and where its journal ends."""
    usage = f"{result.usage.input_tokens} + {result.usage.output_tokens} tokens"
    known = "" if result.cost_known else "at least "
    cost = f", {known}${result.cost_usd:.4f}" if result.cost_known or result.cost_usd else ""
    head = f", journal head {result.journal_head}" if result.journal_head else ""
    took = seconds(result.ended_at - result.started_at)
    return one_line(f"run {result.run_id}: {result.status} in {took}, {usage}{cost}{head}", LONGEST)


def verdict(result: "RunResult", mask: Masking, *, config: str) -> str:
    """Why the run of the project did not complete, and what can be done."""
    if result.approvals:
        asked = [request_text(one, mask, config=config) for one in result.approvals]
        return "\n".join([*asked, how_to_answer(result.approvals, config=config)])
    if result.error is None:
        return result.status
    return told(f"{result.status}{_by(result.error)}", mask(result.error.message))


def told(head: str, text: str) -> str:
    """Foreign text after a head of ours, whole; where it has several lines, none can be taken for one of ours."""
    text = text.strip()
    return f"{escaped(head)}:\n{quoted_block(text)}" if "\n" in text else f"{escaped(head)}: {escaped(text)}"


def summary(links: Sequence[Link], said: Sequence[Said], *, config: str) -> str:
    """What each hook did in the run, a line for each of its points, in running order, and why it failed."""
    by_link: dict[tuple[str, str], list[Said]] = {}
    for one in said:
        by_link.setdefault((one.hook, one.point), []).append(one)
    counted = [(link, by_link.get((link.name, link.point.label), [])) for link in links]
    # A gate is a check of tenter's own: it is told of where it had something to say.
    rows = [(*_row(link, own), _reasons(own)) for link, own in counted if link.hook.band != "gate" or own]
    if not rows:
        return "no hooks"
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    lines: list[str] = []
    for point, hook, did, reasons in rows:
        lines += [one_line(f"  {point:{widths[0]}}  {hook:{widths[1]}}  {did}", 200), *reasons]
    failed = any(link.hook.kind == "command" and link.failures for link in links)
    why = [f"{quoted(config, 'hooks', 'log')} tells why a command failed"] if failed else []
    return "\n".join(["what the hooks did:", *lines, *why])


def _row(link: Link, said: Sequence[Said]) -> tuple[str, str, str]:
    if not link.calls:
        return link.point.label, link.name, "was not called"
    silent = link.calls - len(said)
    words = [f"{words} {count}x" for words, count in sorted(Counter(one.phrase for one in said).items())]
    words += [f"{'watched' if link.hook.observe else 'passed'} {silent}x"] if silent > 0 else []
    return link.point.label, link.name, f"{', '.join(words)}  ({seconds(link.seconds / link.calls)} a call)"


def _reasons(said: Sequence[Said]) -> list[str]:
    """Why a hook failed, each reason once."""
    reasons = list(dict.fromkeys(one.reason for one in said if one.reason))
    shown = [f"    {reason}" for reason in reasons[:MOST_REASONS]]
    more = len(reasons) - MOST_REASONS
    return [*shown, f"    and {more} other reasons"] if more > 0 else shown


def asked_by(reason: "ApprovalReason") -> str:
    """Who wants a person to decide, and until when."""
    until = "" if reason.expires_at is None else f" until {moment(reason.expires_at)} (then: {reason.on_timeout})"
    return (f"asked by {reason.hook!r}" if reason.hook else "asked") + until


def _by(error: "ErrorInfo") -> str:
    from tenter.controls import GATES

    hook, queue = error.details.get("hook"), error.details.get("queue")
    whose = "tenter's own check" if hook in {gate.name for gate in GATES} else "the hook"
    return (f" to {queue!r}" if queue else "") + (f" by {whose} {hook!r}" if hook else "")


def request_text(request: "ApprovalRequest", mask: Masking, *, config: str) -> str:
    """What waits for a person: the operation, the exact call, every reason with its expiry, and the digest."""
    run = f" of its sub-run {request.run_id}" if root_of(request) != request.run_id else ""
    given = fields_of(request)
    editable = ", ".join(name if name in given else f"{name} (not given)" for name in editable_of(request))
    return "\n".join(
        (
            escaped(f"waiting for a person to decide on {request.operation}{run}, request {request.id}:"),
            *_call(request, mask, config),
            *(f"  {told(asked_by(one), mask(one.reason))}" for one in request.reasons),
            *([one_line(f"  may be edited: {mask(editable)}", LONGEST)] if editable else []),
            *([f"  {AGAIN}"] if any(one.code == "unknown" for one in request.reasons) else []),
            one_line(f"  digest {request.digest}"),
        )
    )


def _call(request: "ApprovalRequest", mask: Masking, config: str) -> Iterator[str]:
    """All of the call, since it is what a person decides on; where it is huge, it is said that this is not all."""
    call = mask(json_text(call_of(request)))
    yield f"  {escaped(call[:MOST_OF_A_CALL])}"
    if (more := len(call) - MOST_OF_A_CALL) > 0:
        show = quoted(config, "approvals", "show", root_of(request), request.id, "--json")
        yield f"  NOT ALL OF IT: {more} characters more; {show} has the whole call"


def how_to_answer(requests: Sequence["ApprovalRequest"], *, config: str) -> str:
    """What a person does about requests of one run of the project."""
    run_id = root_of(requests[0])
    others = "or reject, edit" if any(editable_of(one) for one in requests) else "or reject"
    is_one = len(requests) == 1
    approve = quoted(config, "approvals", "approve", run_id, requests[0].id if is_one else "ID")
    decides = "decides" if is_one else "decides on each"
    return f"{approve} ({others}) {decides}; {quoted(config, 'resume', run_id)} goes on then"
