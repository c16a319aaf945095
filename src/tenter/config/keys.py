"""The keys of `tenter.yaml` and of the user's file, as a schema (D§12).

The one place where a key is declared. What D§12 names and nothing carries out yet is here too, as `Refused`, so that it
is neither unknown nor accepted and then ignored.
"""

from collections.abc import Collection, Iterator
from typing import Final, get_args

import msgspec

from tenter.catalogue import CATALOGUE, Risk, Sandbox
from tenter.config.loop_spec import TOPIC, TOPIC_PATTERN, PreflightCheck, PromptWay
from tenter.config.problem import KeyPath
from tenter.config.schema import (
    Choice,
    Clash,
    Dollars,
    Either,
    Flag,
    ListOf,
    MapOf,
    Needs,
    Refused,
    Schema,
    Seconds,
    Slug,
    Table,
    Text,
    Whole,
)
from tenter.config.spec import Then
from tenter.executors import SuspendMode
from tenter.kernel import FrozenDict, Mode, OnTimeout, Policy

LONGEST_DEADLINE: Final = 86_400
LONGEST_GRACE: Final = 60
LARGEST_OUTPUT: Final = 64 << 20
LONGEST_LOOP: Final = 366 * 86_400
MOST_CALLS: Final = 1_000_000
MOST_TOKENS: Final = 1_000_000_000_000
MOST_DOLLARS: Final = 1_000_000

_LATER: Final = Refused("is not supported yet", "remove it")
_NOT_IN_USER_FILE: Final = Refused("does not belong in the user's file", "move it to the project's tenter.yaml")

_VERSION: Final = Whole(least=1, most=1)
_PYTHON: Final = Text(
    what="'module:attribute' or 'path.py:attribute'",
    pattern=r"(?:[^\W\d]\w*(?:\.[^\W\d]\w*)*|[^:\n]+\.py):[^\W\d]\w*(?:\.[^\W\d]\w*)*",
)
_VARIABLE: Final = Text(
    what="the name of an environment variable",
    pattern=r"[A-Za-z_][A-Za-z0-9_]*",
    hint="the value itself never stands in this file",
    private=True,
)
_SECRET: Final = "top-level secret"
"""What a name among the file's `secrets` is called."""
_HOOK_VARIABLE: Final = Text(
    what="the name of an environment variable, not one of tenter's own (TENTER_…)",
    pattern=r"(?!TENTER_)[A-Za-z_][A-Za-z0-9_]*",
)
_COMMAND: Final = ListOf(item=Text(pattern=r"(?s:.*)"), what="a program and its arguments as a list", least=1)
_SUSPEND_MODE: Final = Choice(words=get_args(SuspendMode))
_NAME_PATTERN: Final = Text(what="a name, in which '*' stands for any text")
_MATCH: Final = MapOf(
    key=Text(what="the name of a field"),
    what="a mapping of at least one field of the event to a pattern",
    least=1,
    value=Either(
        what="a name with '*', a list of these or {re: …}",
        single=_NAME_PATTERN,
        items=ListOf(item=_NAME_PATTERN, what="a list of at least one name", least=1),
        mapping=Table(keys={"re": Text(what="an expression for RE2 as text")}, required=("re",)),
    ),
)

_NO_METADATA: Final = FrozenDict[str, object](enabled=False)

_PROCESS_ONLY: Final = ("cwd", "env", "pass_env", "grace_seconds", "max_output_bytes", "verdict", "mutate")


def _policies(path: KeyPath) -> tuple[str, ...]:
    """What a failure may do of the hook that stands at `path`, or around it: anything, where the point is unknown."""
    match path:
        case ("hooks", "events", str(name), *_) if name in CATALOGUE:
            return CATALOGUE[name].policies
        case _:
            return get_args(Policy)


def _policy_hint(path: KeyPath) -> str:
    *others, last = _policies(path)
    if not others:
        return f"set it to {last}: a failure can do nothing else here"
    return f"say what a failure does: {', '.join(others)} or {last}"


HOOK: Final = Table(
    what="a hook (a mapping with a name and one of command, script, python)",
    positioned=True,
    required=("name",),
    one_of=("command", "script", "python", "url", "mcp"),
    rules=(
        Needs(("command", "script"), ("on_error",), _policy_hint),
        Needs(_PROCESS_ONLY, ("command", "script"), "it says how a process is run"),
        Clash("verdict", "observe", True, "an observer gives no answer"),
        Clash("mutate", "observe", True, "an observer gives no metadata", unless=_NO_METADATA),
    ),
    keys={
        "name": Slug(),
        "command": _COMMAND,
        "script": Text(what="a script for /bin/sh as text"),
        "python": _PYTHON,
        "url": _LATER,
        "mcp": _LATER,
        "match": _MATCH,
        "when": _LATER,
        "observe": Flag(),
        "mode": Choice(words=get_args(Mode)),
        "priority": Whole(least=0, most=999),
        "on_error": Choice(words=get_args(Policy), here=_policies),
        "timeout_seconds": Seconds(most=LONGEST_DEADLINE),
        "grace_seconds": Seconds(most=LONGEST_GRACE),
        "max_output_bytes": Whole(least=1, most=LARGEST_OUTPUT),
        "cwd": Text(what="a folder as text"),
        "env": MapOf(
            key=_HOOK_VARIABLE,
            what="a mapping from environment variables to text",
            value=Text(pattern=r"(?s:.*)", private=True),
        ),
        "pass_env": ListOf(item=_HOOK_VARIABLE, what="a list of environment variables", distinct=True),
        "verdict": Choice(words=("json",)),
        "mutate": Table(keys={"enabled": Flag()}, required=("enabled",)),
        "suspend_mode": _SUSPEND_MODE,
    },
)

_HOOKS: Final = Table(
    keys={
        "enabled": Flag(),
        "defaults": Table(
            keys={
                "timeout_seconds": Seconds(most=LONGEST_DEADLINE),
                "max_output_bytes": Whole(least=1, most=LARGEST_OUTPUT),
                "suspend_mode": _SUSPEND_MODE,
            }
        ),
        "plugins": ListOf(item=_PYTHON, what="a list of 'module:attribute'", distinct=True),
        "events": MapOf(
            key=Text(what="the name of a point"),
            what="a mapping from points to lists of hooks",
            value=ListOf(item=HOOK, what="a list of hooks"),
        ),
    }
)


def _only(key: str, then: Then, hint: str) -> Iterator[Clash]:
    """`key` stands only with that `then`."""
    return (Clash(key, "then", word, hint) for word in get_args(Then) if word != then)


RULE: Final = Table(
    what="a rule (a mapping with name, at, then and reason)",
    positioned=True,
    required=("name", "at", "then", "reason"),
    rules=(
        *_only("queue", "escalate", "it names the people whom an escalation is handed to"),
        *_only("editable", "suspend", "only who is asked can change something"),
        *_only("expires_in_seconds", "suspend", "only a request waits"),
        *_only("on_timeout", "suspend", "only a request waits"),
        Needs(("on_timeout",), ("expires_in_seconds",), "without it the request waits for ever"),
    ),
    keys={
        "name": Slug(),
        "at": Text(what="the name of a point"),
        "match": _MATCH,
        "when": _LATER,
        "then": Choice(words=get_args(Then)),
        "reason": Text(),
        "queue": Text(
            what="a word (lower-case letters, digits, '_', '-' and '.', at most 64)",
            pattern=r"[a-z0-9_][a-z0-9_.-]{0,63}",
        ),
        "editable": ListOf(
            item=Text(what="the name of a field, or '*'"), what="a list of at least one field", least=1, distinct=True
        ),
        "expires_in_seconds": Seconds(most=LONGEST_LOOP),
        "on_timeout": Choice(words=get_args(OnTimeout)),
    },
)

_PRICE: Final = Dollars(most=MOST_DOLLARS, free=True)

MODEL: Final = Table(
    keys={
        "provider": Choice(words=("scripted",)),
        "file": Text(what="the path of a script as text"),
        "prices": Table(
            what="a mapping with input and output",
            keys={"input": _PRICE, "output": _PRICE},
            required=("input", "output"),
        ),
    },
    required=("provider", "file"),
)

BUDGETS: Final = Table(
    keys={
        "tokens": Whole(least=1, most=MOST_TOKENS),
        "cost_usd": Dollars(most=MOST_DOLLARS),
        "model_calls": Whole(least=1, most=MOST_CALLS),
        "tool_calls": Whole(least=1, most=MOST_CALLS),
        "wall_seconds": Seconds(most=LONGEST_LOOP),
    }
)

TASK: Final = Table(
    keys={
        "version": Whole(least=1, most=1_000_000),
        "model": Text(what="the name of a model", refers_to="model"),
        "instructions": Text(),
        "tools": ListOf(item=Text(what="the name of a tool", refers_to="tool"), what="a list of tools", distinct=True),
        "budgets": BUDGETS,
        "parallel_tools": Flag(),
        "subtasks": ListOf(
            item=Text(what="the name of a task", refers_to="task"), what="a list of tasks", distinct=True
        ),
        "guardrails": _LATER,
        "output_schema": _LATER,
    },
    required=("version", "model", "instructions"),
)

_MODELS: Final = MapOf(key=Slug(), defines="model", what="a mapping from names to models", value=MODEL)
_TASKS: Final = MapOf(key=Slug(), defines="task", what="a mapping from names to tasks", value=TASK)

_TOPIC: Final = Text(
    what="a topic (words of letters, digits, '_' and '-', joined by dots, at most 200 characters)", pattern=TOPIC
)
_TOPIC_PATTERN: Final = Text(
    what="a topic, in which '*' may stand for any of the words between its dots", pattern=TOPIC_PATTERN
)

_LINE: Final = r"[^\x00-\x1f\x7f-\x9f\u2028\u2029]"
_PROMISE: Final = Text(
    what="one line of at most 200 characters with no white space around it, not 'loop.cancel' or 'human.interact'",
    pattern=rf"(?!(?:loop\.cancel|human\.interact)\Z)(?=\S){_LINE}{{1,200}}(?<=\S)",
)

_BACKEND: Final = Table(
    what="a backend (a mapping with one of command, harness)",
    kind_key="kind",
    one_of=("command", "harness"),
    rules=(Needs(("prompt", "inactivity_timeout_seconds"), ("command",), "it says how a program is run"),),
    keys={
        "command": _COMMAND,
        "prompt": Choice(words=get_args(PromptWay)),
        "inactivity_timeout_seconds": Seconds(most=LONGEST_DEADLINE),
        "harness": Text(what="the name of a task", refers_to="task"),
    },
)

_HAT: Final = Table(
    what="a hat (a mapping with triggers)",
    required=("triggers",),
    keys={
        "description": Text(),
        "instructions": Text(),
        "triggers": ListOf(item=_TOPIC_PATTERN, what="a list of at least one topic", least=1, distinct=True),
        "publishes": ListOf(item=_TOPIC_PATTERN, what="a list of topics", distinct=True),
        "backend": _BACKEND,
    },
)

_LOOP: Final = Table(
    keys={
        "backend": _BACKEND,
        "hats": MapOf(key=Slug(), what="a mapping from names to hats", value=_HAT),
        "completion_promise": _PROMISE,
        "required_events": ListOf(item=_TOPIC, what="a list of topics", distinct=True),
        "max_iterations": Whole(least=1, most=1_000_000),
        "max_runtime_seconds": Seconds(most=LONGEST_LOOP),
        "max_cost_usd": Dollars(most=MOST_DOLLARS),
        "max_consecutive_failures": Whole(least=1, most=1_000_000),
        "answer_timeout_seconds": Seconds(most=LONGEST_LOOP),
        "preflight": Table(
            keys={
                "enabled": Flag(),
                "skip": ListOf(item=Choice(words=get_args(PreflightCheck)), what="a list of checks", distinct=True),
                "strict": Flag(),
            }
        ),
    }
)


def project_keys(builtin_tools: Collection[str]) -> Table:
    """The schema of `tenter.yaml`, where `builtin_tools` names the tools that need no `python`."""
    return Table(
        what="a mapping that begins with 'version: 1'",
        keys={
            "version": _VERSION,
            "secrets": ListOf(item=_VARIABLE, what="a list of environment variables", distinct=True, defines=_SECRET),
            "models": _MODELS,
            "tasks": _TASKS,
            "tools": _tools(builtin_tools),
            "policy": ListOf(item=RULE, what="a list of rules"),
            "hooks": _HOOKS,
            "loop": _LOOP,
        },
        required=("version",),
    )


def user_keys() -> Table:
    """The schema of the user's file, which adds hooks and secrets and nothing else (D§12)."""
    whole = project_keys(())
    allowed = {"version", "secrets", "hooks"}
    keys = {key: schema if key in allowed else _NOT_IN_USER_FILE for key, schema in whole.keys.items()}
    return Table(what=whole.what, keys=keys, required=whole.required)


def _tools(builtin: Collection[str]) -> MapOf:
    settings: dict[str, Schema] = {
        "timeout_seconds": Seconds(most=LONGEST_DEADLINE),
        "idempotent": Flag(),
        "risk": Choice(words=get_args(Risk)),
        "sandbox": Choice(words=get_args(Sandbox)),
        # None at all would be read as "nobody", and an empty list means "anyone" to the governor.
        "principals": ListOf(item=_NAME_PATTERN, what="a list of at least one name", least=1, distinct=True),
        "secrets": ListOf(
            item=msgspec.structs.replace(_VARIABLE, refers_to=_SECRET),
            what="a list of environment variables",
            distinct=True,
        ),
        "mcp": _LATER,
    }
    taken = Refused("cannot be given: a tool of this name is built in", "choose another name for yours")
    shipped = Table(keys={**settings, "python": taken})
    own = Table(keys={**settings, "python": _PYTHON}, required=("python",), not_for=tuple(sorted(builtin)))
    what = "a mapping from names to tools"
    return MapOf(key=Slug(), defines="tool", what=what, value=own, named=dict.fromkeys(builtin, shipped))
