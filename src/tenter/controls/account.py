"""What a run has used and may still use (D§11): reserved before a call is made, settled when it has ended.

Whoever runs operations keeps one `Account` a run; that of a sub-run has the outer run's as its `parent`, and what it
uses counts there as well. Everything in it follows from what was settled and called, so that replay rebuilds it. It
knows nothing of events, prices or clocks: `wall_seconds` is carried, and counted elsewhere.
"""

import math
from typing import Final, TypeVar

import msgspec

from tenter.catalogue import Budgets

N = TypeVar("N", int, float)

_Amounts = tuple[int, int, int, int]

_NAMES: Final = ("tokens", "cost_usd", "model_calls", "tool_calls")
_COST: Final = 1
_MODEL_CALLS: Final = 2
_NONE: Final[_Amounts] = (0, 0, 0, 0)

_UNITS: Final = 10**12
"""Money is counted in whole millionths of a millionth of a dollar: ten times 0.1 are 1, and no rest is left behind."""


class Used(msgspec.Struct, frozen=True, kw_only=True):
    """What was used, or is about to be. `tokens` are those of requests and responses."""

    tokens: int = 0
    cost_usd: float = 0.0
    model_calls: int = 0
    tool_calls: int = 0


class Account:
    """The figures of one run. `parent` is the account of the run around it."""

    __slots__ = ("_held", "_last", "_limits", "_lineage", "_reserved", "_settled", "_used", "budgets", "cost_known")

    def __init__(self, budgets: Budgets, parent: "Account | None" = None) -> None:
        self.budgets = budgets
        """What the run may use, as tightened."""
        self.cost_known = True
        """Whether the cost of everything that was settled here is known."""
        self._limits = _limits(budgets)
        self._lineage: tuple[Account, ...] = (self, *(() if parent is None else parent._lineage))
        self._used = self._reserved = _NONE
        self._held: dict[str, _Amounts] = {}
        self._settled: set[str] = set()
        self._last = ("", "", 0)

    @property
    def lineage(self) -> "tuple[Account, ...]":
        """This account and those around it, from the inside out."""
        return self._lineage

    @property
    def used(self) -> Used:
        """What was settled."""
        return _told(self._used)

    @property
    def reserved(self) -> Used:
        """What is held for calls that have not ended."""
        return _told(self._reserved)

    @property
    def counts_tokens(self) -> bool:
        """Whether a budget here or around it needs to know how large a model call is."""
        return any(one.budgets.tokens is not None or one.budgets.cost_usd is not None for one in self._lineage)

    @property
    def blind(self) -> bool:
        """Whether a budget for cost, here or around it, cannot be kept, because a cost is not known."""
        return any(one.budgets.cost_usd is not None and not one.cost_known for one in self._lineage)

    @property
    def streak(self) -> int:
        """How often in a row the last tool call was made and came to the same."""
        return self._last[2]

    def tighten(self, budgets: Budgets) -> None:
        """Lowers what may be used to `budgets`; nothing is raised by it."""
        fields = Budgets.__struct_fields__
        self.budgets = Budgets(**{name: _lower(getattr(self.budgets, name), getattr(budgets, name)) for name in fields})
        self._limits = _limits(self.budgets)

    def reserve(self, op_id: str, want: Used) -> str | None:
        """Holds `want` for a call; the name of the first budget, here or around it, that it would exceed, or None.

        Takes the place of what was held for the same call. Where a budget refuses, nothing is held for it any more. A
        model call is refused by a budget for cost, too, that cannot be kept (`blind`).
        """
        amounts = _amounts(want)
        for one in self._lineage:
            one._release(op_id)
        for one in self._lineage:
            if (name := one._exceeded(amounts)) is not None:
                return name
        self._hold(op_id, amounts)
        return None

    def hold(self, op_id: str, want: Used) -> None:
        """Holds `want` for a call that was let through before, in another process perhaps: no budget refuses it."""
        for one in self._lineage:
            one._release(op_id)
        self._hold(op_id, _amounts(want))

    def settle(self, op_id: str, used: Used, *, cost_known: bool = True) -> None:
        """Adds what a call used, here and in the accounts around it, and lets go of what was held for it.

        A call is settled once: what is said of it again changes nothing.
        """
        amounts = _amounts(used)
        for one in self._lineage:
            one._release(op_id)
            if op_id not in one._settled:  # of a sub-run that is gone through again, this account may know it already
                one._settled.add(op_id)
                one._used = _sum(one._used, amounts)
                one.cost_known = one.cost_known and cost_known

    def called(self, digest: str, result: str) -> None:
        """A tool call and the digest of what came of it, in call order. An empty `digest` is like no other call."""
        last, came, times = self._last
        same = digest == last != "" and result == came
        self._last = (digest, result, times + 1 if same else 1)

    def refused(self) -> None:
        """The last call was to be made once more, and was refused for that: nothing new came of it."""
        last, came, times = self._last
        self._last = (last, came, times + 1)

    def repeats(self, digest: str) -> int:
        """How often in a row, up to the last call, that very call was made and came to the same; 0 for any other."""
        last, _, times = self._last
        return times if digest == last != "" else 0

    def _hold(self, op_id: str, amounts: _Amounts) -> None:
        for one in self._lineage:
            one._held[op_id] = amounts
            one._reserved = _sum(one._reserved, amounts)

    def _release(self, op_id: str) -> None:
        if (held := self._held.pop(op_id, None)) is not None:
            self._reserved = _sum(self._reserved, held, -1)

    def _exceeded(self, want: _Amounts) -> str | None:
        limits = self._limits
        if limits is None:
            return None
        if want[_MODEL_CALLS] and limits[_COST] is not None and not self.cost_known:
            return _NAMES[_COST]
        for place, limit in enumerate(limits):
            concerned = want[place] or (place == _COST and want[_MODEL_CALLS])
            if limit is not None and concerned and self._used[place] + self._reserved[place] + want[place] > limit:
                return _NAMES[place]
        return None


def _amounts(used: Used) -> _Amounts:
    cost = used.cost_usd
    return (used.tokens, round(cost * _UNITS) if cost else 0, used.model_calls, used.tool_calls)


def _told(amounts: _Amounts) -> Used:
    tokens, cost, model_calls, tool_calls = amounts
    return Used(tokens=tokens, cost_usd=cost / _UNITS, model_calls=model_calls, tool_calls=tool_calls)


def _sum(one: _Amounts, other: _Amounts, sign: int = 1) -> _Amounts:
    return (
        one[0] + sign * other[0],
        one[1] + sign * other[1],
        one[2] + sign * other[2],
        one[3] + sign * other[3],
    )


def _limits(budgets: Budgets) -> tuple[int | None, ...] | None:
    """The limits in the order of amounts; None where there is none."""
    cost = budgets.cost_usd
    if cost is not None:
        # A hook may have set it: of what is no number nothing can be said, so nothing is allowed.
        cost = 0 if math.isnan(cost) else None if cost == math.inf else round(max(cost, -1.0) * _UNITS)
    limits = (budgets.tokens, cost, budgets.model_calls, budgets.tool_calls)
    return None if all(limit is None for limit in limits) else limits


def _lower(one: N | None, other: N | None) -> N | None:
    """The tighter of two limits. What is no number is tighter than any other."""
    if one is None or other is None:
        return other if one is None else one
    return one if one != one or one <= other else other  # noqa: PLR0124  # a NaN is not itself
