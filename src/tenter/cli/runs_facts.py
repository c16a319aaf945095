"""What a run was begun with, and what it used, as far as its record tells. Entries in, values out."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, cast

import msgspec

from tenter.catalogue import EMPTY, Limits, Usage
from tenter.cli.masking import Masking
from tenter.cli.texts import json_text, moment, one_line
from tenter.journal import Entry, Recorded

Place = tuple[object, object]
"""The path of an operation, and the number of a pass of it."""

LONGEST: Final = 200
"""Characters of a line."""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """None where the record does not tell, or does not tell any more. What sub-runs used that ended is in it."""

    principal: str | None = None
    input: object = None
    limits: Mapping[str, object] | None = None
    """As hooks at `run.start` tightened them. Times are in UTC."""
    models: Sequence[str] = ()
    """Those that answered it, the first one first; without those of sub-runs."""
    usage: Usage | None = None
    cost_usd: float | None = None
    """The sum of what is known."""
    cost_known: bool | None = None
    model_calls: int | None = None
    tool_calls: int | None = None


def facts_of(records: Sequence[Recorded]) -> Facts:
    """What the entries of one run tell of it; of one whose content was erased that is nothing."""
    if any(record.erased for record in records):
        return Facts()
    entries = [record.entry for record in records]
    first = next((entry.content for entry in entries if entry.kind == "run"), EMPTY)
    principal = _mapping(first.get("envelope")).get("principal")
    answers = list(_answers(entries))
    ended = list(_sub_runs(entries))
    costs = [one.get("cost_usd") for one in (*answers, *ended)]
    return Facts(
        principal=principal if isinstance(principal, str) else None,
        input=first.get("input"),
        limits=_limits(entries, first),
        models=tuple(dict.fromkeys(str(one["model"]) for one in answers if one.get("model"))),
        usage=sum((_usage(one) for one in (*answers, *ended)), Usage()),
        cost_usd=sum((cost for cost in costs if isinstance(cost, int | float)), 0.0),
        cost_known=None not in costs,
        model_calls=_begun(entries, ".llm.invoked.") + sum(_number(one.get("model_calls")) for one in ended),
        tool_calls=_begun(entries, ".tool.invoked.") + sum(_number(one.get("tool_calls")) for one in ended),
    )


def fact_lines(facts: Facts, mask: Masking) -> Iterator[str]:
    """The facts for people, masked, a line each, to be escaped; of the input the first line."""
    if facts.principal is not None:
        yield f"principal: {mask(facts.principal)}"
    if facts.limits is not None:
        yield f"limits:   {', '.join(_limit_words(facts.limits))}"
    if facts.usage is not None and (facts.model_calls or facts.tool_calls):
        by = f" of {mask(', '.join(facts.models))}" if facts.models else ""
        known = "" if facts.cost_known else "at least "
        cost = f", {known}${facts.cost_usd:.4f}" if facts.cost_known or facts.cost_usd else ""
        calls = f"{_counted(facts.model_calls, 'model call')}{by}, {_counted(facts.tool_calls, 'tool call')}"
        yield f"used:     {facts.usage.input_tokens} + {facts.usage.output_tokens} tokens{cost}; {calls}"
    if facts.input is not None:
        text = facts.input if isinstance(facts.input, str) else json_text(facts.input)
        line, *more = mask(text).strip().split("\n")
        lines = f" ({len(more) + 1} lines)" if more else ""
        yield f"input:    {one_line(line, LONGEST)}{lines}"


def _answers(entries: Iterable[Entry]) -> Iterator[Mapping[str, object]]:
    """The responses of models, as they count: what hooks made of one that they let pass, and else what came."""
    found: dict[Place, Mapping[str, object]] = {}
    for entry in entries:
        if entry.kind in ("acted", "finished") and ".llm.invoked." in str(entry.content.get("path")):
            response = _mapping(entry.content.get("result")).get("response")
            if isinstance(response, Mapping):
                found[_place(entry)] = cast("Mapping[str, object]", response)
    yield from found.values()


def _sub_runs(entries: Iterable[Entry]) -> Iterator[Mapping[str, object]]:
    """What sub-runs came to, each told by the two ends of its span."""
    found: dict[object, Mapping[str, object]] = {}
    for entry in entries:
        if entry.kind in ("acted", "finished") and ".subtask.spawned." in str(entry.content.get("path")):
            result = _mapping(entry.content.get("result")).get("result")
            if isinstance(result, Mapping):
                found[entry.content.get("path")] = cast("Mapping[str, object]", result)
    yield from found.values()


def _begun(entries: Iterable[Entry], operation: str) -> int:
    """How many calls came to their work."""
    return len({_place(one) for one in entries if one.kind == "acting" and operation in str(one.content.get("path"))})


def _limits(entries: Iterable[Entry], first: Mapping[str, object]) -> Mapping[str, object] | None:
    limits = first.get("limits")
    for entry in entries:
        if entry.kind == "finished" and (entry.content.get("path"), entry.content.get("phase")) == ("0.run.0", "pre"):
            limits = _mapping(entry.content.get("event")).get("limits", limits)
    try:
        known = msgspec.convert(limits, Limits)
    except msgspec.ValidationError:
        return None
    deadline = None if known.deadline is None else moment(known.deadline)
    return {"max_steps": known.max_steps, "deadline": deadline, "budgets": msgspec.to_builtins(known.budgets)}


def _limit_words(limits: Mapping[str, object]) -> Iterator[str]:
    budgets = _mapping(limits.get("budgets"))
    yield f"{limits.get('max_steps')} steps"
    for name, words in (
        ("tokens", "{} tokens"),
        ("cost_usd", "${}"),
        ("model_calls", "{} model calls"),
        ("tool_calls", "{} tool calls"),
        ("wall_seconds", "{} s"),
    ):
        if budgets.get(name) is not None:
            yield words.format(budgets[name])
    if limits.get("deadline") is not None:
        yield f"until {limits['deadline']}"


def _usage(of: Mapping[str, object]) -> Usage:
    try:
        return msgspec.convert(of.get("usage") or {}, Usage)
    except msgspec.ValidationError:
        return Usage()


def _place(entry: Entry) -> Place:
    return entry.content.get("path"), entry.content.get("pass")


def _counted(number: int | None, what: str) -> str:
    return f"{number or 0} {what}{'' if number == 1 else 's'}"


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _mapping(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}
