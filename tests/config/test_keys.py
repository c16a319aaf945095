"""The keys of `tenter.yaml` are those of D§12, and none is accepted that nothing carries out."""

import msgspec
import pytest

from tenter.catalogue import Budgets
from tenter.config.check import check
from tenter.config.document import parse
from tenter.config.keys import HOOK, project_keys, user_keys
from tenter.config.schema import ListOf, MapOf, Refused, Schema, Table
from tenter.config.spec import (
    HookDefaults,
    HookSpec,
    HooksSpec,
    ModelSpec,
    MutateSpec,
    PricesSpec,
    RuleSpec,
    Spec,
    TaskSpec,
    ToolSpec,
)

MODEL = "models: {m: {provider: scripted, file: f}}\n"


def problems(text: str, *, user: bool = False) -> list[str]:
    document = parse(text.encode(), "f")
    assert document.root is not None
    schema = user_keys() if user else project_keys(["shell"])
    return [str(one) for one in check(schema, document.root, {"tool": ["shell"]}).problems]


def hook_problems(hook: str) -> list[str]:
    return [one.split(": ", 2)[2] for one in problems(f"version: 1\nhooks: {{events: {{tool.before: [{hook}]}}}}")]


def usable(schema: Schema) -> set[str]:
    assert isinstance(schema, Table)
    return {key for key, inner in schema.keys.items() if not isinstance(inner, Refused)}


def table(schema: Schema, *path: str) -> Schema:
    for key in path:
        while isinstance(schema, MapOf | ListOf):
            schema = schema.value if isinstance(schema, MapOf) else schema.item
        assert isinstance(schema, Table)
        schema = schema.keys[key]
    while isinstance(schema, MapOf | ListOf):
        schema = schema.value if isinstance(schema, MapOf) else schema.item
    return schema


@pytest.mark.parametrize(
    ("path", "spec", "made"),
    [
        ((), Spec, {"file", "digest", "positions"}),
        (("models",), ModelSpec, set[str]()),
        (("models", "prices"), PricesSpec, set[str]()),
        (("tasks",), TaskSpec, set[str]()),
        (("tasks", "budgets"), Budgets, set[str]()),
        (("policy",), RuleSpec, {"where", "path"}),
        (("tools",), ToolSpec, set[str]()),
        (("hooks",), HooksSpec, set[str]()),
        (("hooks", "defaults"), HookDefaults, set[str]()),
        (("hooks", "events"), HookSpec, {"where", "path"}),
        (("hooks", "events", "mutate"), MutateSpec, set[str]()),
    ],
)
def test_every_usable_key_is_a_field_of_its_spec_and_every_field_a_key(
    path: tuple[str, ...], spec: type[msgspec.Struct], made: set[str]
) -> None:
    fields = {field.name for field in msgspec.structs.fields(spec)}
    assert fields - made == usable(table(project_keys([]), *path))


@pytest.mark.parametrize(
    "text",
    [
        "policy: [{name: x, at: tool.before, then: block, reason: y, when: 'true'}]",
        f"{MODEL}tasks: {{t: {{version: 1, model: m, instructions: x, guardrails: []}}}}",
        f"{MODEL}tasks: {{t: {{version: 1, model: m, instructions: x, output_schema: {{}}}}}}",
        "tools: {web: {python: 'a:b', mcp: {}}}",
        "hooks: {events: {tool.before: [{name: a, url: https://x}]}}",
        "hooks: {events: {tool.before: [{name: a, mcp: {}}]}}",
        "hooks: {events: {tool.before: [{name: a, python: 'a:b', when: 'true'}]}}",
    ],
)
def test_what_nothing_carries_out_yet_is_refused_as_that_and_not_as_unknown(text: str) -> None:
    said = problems(f"version: 1\n{text}\n")
    assert len(said) == 1
    assert "not supported yet" in said[0]


@pytest.mark.parametrize("key", ["command: [x]", "script: x"])
def test_a_hook_that_runs_a_process_must_say_what_a_failure_does(key: str) -> None:
    assert hook_problems(f"{{name: a, {key}, on_error: block}}") == []
    assert [one.split("; ")[0] for one in hook_problems(f"{{name: a, {key}}}")] == [
        f"'{key.split(':', 1)[0]}' needs 'on_error' beside it"
    ]


@pytest.mark.parametrize(
    ("point", "taken"),
    [
        ("tool.before", "say what a failure does: warn, block, suspend or fail"),
        ("pre.iteration.start", "say what a failure does: warn, block or suspend"),
        ("loop.error.post", "say what a failure does: warn, block or suspend"),
        ("run.end", "set it to warn: a failure can do nothing else here"),
        ("no.such.point", "say what a failure does: warn, block, suspend or fail"),
    ],
)
def test_what_a_failure_may_do_is_told_as_the_point_takes_it(point: str, taken: str) -> None:
    text = "version: 1\nhooks: {{events: {{{}: [{{name: a, script: x{}}}]}}}}"
    assert problems(text.format(point, ""))[0].endswith(f"; {taken}")
    (said,) = problems(text.format(point, ", on_error: explode"))
    assert ("'fail'" in said) is ("fail" in taken.split(": ")[1].split())


def test_a_python_hook_need_not_say_what_a_failure_does() -> None:
    assert hook_problems("{name: a, python: 'm:f'}") == []


@pytest.mark.parametrize(
    "setting",
    [
        *["cwd: x", "env: {A: b}", "pass_env: [A]", "grace_seconds: 1", "max_output_bytes: 1", "verdict: json"],
        "mutate: {enabled: false}",
    ],
)
def test_a_setting_of_processes_is_refused_for_a_python_hook(setting: str) -> None:
    assert hook_problems(f"{{name: a, script: x, on_error: warn, {setting}}}") == []
    assert [one.split("; ")[0] for one in hook_problems(f"{{name: a, python: 'm:f', {setting}}}")] == [
        f"'{setting.split(':', 1)[0]}' needs 'command' or 'script' beside it"
    ]


def test_a_process_may_give_metadata_with_a_verdict_and_without_one() -> None:
    hook = "{{name: a, script: x, on_error: warn, {}}}"
    assert hook_problems(hook.format("mutate: {enabled: true}, verdict: json")) == []
    assert hook_problems(hook.format("mutate: {enabled: true}")) == []
    assert hook_problems("{name: a, python: 'm:f', mutate: {enabled: true}}") != []


def test_an_observer_gives_no_metadata() -> None:
    hook = "{{name: a, script: x, on_error: warn, observe: true, mutate: {{enabled: {}}}}}"
    assert hook_problems(hook.format("false")) == []
    assert hook_problems(hook.format("true")) == [
        "'mutate' cannot stand where 'observe' is true; an observer gives no metadata"
    ]


@pytest.mark.parametrize("mode", ["wait_for_resume", "retry_backoff", "wait_then_retry"])
def test_a_mode_of_waiting_is_one_of_three_words(mode: str) -> None:
    assert hook_problems(f"{{name: a, script: x, on_error: suspend, suspend_mode: {mode}}}") == []
    assert problems(f"version: 1\nhooks: {{defaults: {{suspend_mode: {mode}}}}}") == []
    misspelt = mode.replace("r", "rr")
    for said in (
        hook_problems(f"{{name: a, script: x, on_error: suspend, suspend_mode: {misspelt}}}"),
        problems(f"version: 1\nhooks: {{defaults: {{suspend_mode: {misspelt}}}}}"),
    ):
        assert [f"did you mean {mode!r}?" in one for one in said] == [True]


def test_an_observer_has_no_verdict() -> None:
    said = hook_problems("{name: a, script: x, on_error: warn, observe: true, verdict: json}")
    assert said == ["'verdict' cannot stand where 'observe' is true; an observer gives no answer"]


@pytest.mark.parametrize(
    "target", ["m:f", "my.mod:Class.method", "_m1:f_2", "hooks/my.py:f", "../x.py:f", "m\u00fc:\u00e4"]
)
def test_a_target_is_a_module_or_a_file_and_an_attribute(target: str) -> None:
    assert hook_problems(f"{{name: a, python: '{target}'}}") == []


@pytest.mark.parametrize("target", ["m", "m:", ":f", "m:f()", "m f:g", "m:f:g", "1m:f", "m..n:f", "m/n:f"])
def test_what_is_no_target_is_refused(target: str) -> None:
    assert len(hook_problems(f"{{name: a, python: '{target}'}}")) == 1


@pytest.mark.parametrize("entry", ["sk-live-0123456789", "OPENAI API KEY", "A=b", "''", "1A"])
def test_a_secret_that_is_no_name_is_refused_and_not_shown(entry: str) -> None:
    said = problems(f"version: 1\nsecrets: [{entry}]")
    assert len(said) == 1
    assert "expected the name of an environment variable" in said[0]
    assert entry.strip("'") not in said[0] or entry == "''"


def test_a_value_in_env_is_text_and_not_shown() -> None:
    said = hook_problems("{name: a, script: x, on_error: warn, env: {TOKEN: 123456789}}")
    assert len(said) == 1
    assert "123456789" not in said[0]


@pytest.mark.parametrize("name", ["TENTER_RUN_ID", "a-b", "1", "A=b"])
def test_a_variable_of_a_hook_has_a_proper_name_that_is_not_one_of_ours(name: str) -> None:
    assert len(hook_problems(f"{{name: a, script: x, on_error: warn, env: {{'{name}': b}}}}")) == 1
    assert len(hook_problems(f"{{name: a, script: x, on_error: warn, pass_env: ['{name}']}}")) == 1


def test_a_tool_of_ones_own_needs_its_function_and_a_built_in_one_takes_none() -> None:
    assert problems("version: 1\ntools: {shell: {timeout_seconds: 5}, mine: {python: 'm:f'}}") == []
    assert problems("version: 1\ntools: {shel: {}}") == [
        "f:2:9: at tools.shel: the key 'python' is missing; did you mean 'shell'?"
    ]
    assert [one.split("; ")[0] for one in problems("version: 1\ntools: {shell: {python: 'm:f'}}")] == [
        "f:2:17: at tools.shell.python: 'python' cannot be given: a tool of this name is built in"
    ]


def test_a_task_names_models_and_tools_that_exist() -> None:
    said = problems("version: 1\ntasks:\n  fix: {version: 1, model: defalt, instructions: x, tools: [shell, lokup]}\n")
    assert [one.split(": ", 1)[0] for one in said] == ["f:3:28", "f:3:68"]
    assert [one.split("expected ")[1].split(";")[0] for one in said] == [
        "the name of a model, got 'defalt'",
        "the name of a tool, got 'lokup'",
    ]


@pytest.mark.parametrize(
    "text",
    [
        f"{MODEL}tasks: {{t: {{version: 1, model: m, instructions: x, budgets: {{}}}}}}",
        (
            f"{MODEL}tasks: {{u: {{version: 1, model: m, instructions: x}}, "
            "t: {version: 1, model: m, instructions: x, parallel_tools: true, subtasks: [u], "
            "budgets: {tokens: 1, cost_usd: 0.5, model_calls: 1, tool_calls: 1, wall_seconds: 0.5}}}"
        ),
        "models: {m: {provider: scripted, file: f, prices: {input: 0, output: 2.5}}}",
        "secrets: [A]\ntools: {shell: {risk: high, sandbox: process, principals: ['ops-*', ada], secrets: [A]}}",
        "tools: {shell: {secrets: []}}",
        "policy: []",
        "policy: [{name: a, at: tool.before, then: block, reason: x, match: {tool: [a, 'b*']}}]",
        "policy: [{name: a, at: tool.before, then: escalate, reason: x, queue: ops.night-1}]",
        (
            "policy: [{name: a, at: tool.before, then: suspend, reason: x, editable: ['*'], expires_in_seconds: 60, "
            "on_timeout: escalate}]"
        ),
    ],
)
def test_what_a_run_may_use_and_do_can_be_said(text: str) -> None:
    assert problems(f"version: 1\n{text}\n") == []


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("budgets: {tokens: 0}", "expected a whole number from 1 to 1000000000000, got 0"),
        ("budgets: {tokens: 1.5}", "expected a whole number from 1 to 1000000000000, got 1.5"),
        ("budgets: {cost_usd: 0}", "expected a number of US dollars above 0 and at most 1000000, got 0"),
        ("budgets: {wall_seconds: -1}", "expected a number of seconds above 0 and at most 31622400, got -1"),
        ("budgets: {tool_call: 1}", "unknown key 'tool_call'; did you mean 'tool_calls'?"),
        ("budgets: 5", "expected a mapping, got 5"),
        ("parallel_tools: yes", "expected true or false, got 'yes'; write true"),
        ("subtasks: [tt]", "expected the name of a task, got 'tt'; did you mean 't'?"),
        ("subtasks: t", "expected a list of tasks, got 't'; write a list: ['t']"),
    ],
)
def test_a_mistake_in_what_a_task_may_use_is_told_as_what_it_is(said: str, expected: str) -> None:
    (found,) = problems(f"version: 1\n{MODEL}tasks: {{t: {{version: 1, model: m, instructions: x, {said}}}}}")
    assert expected in found


@pytest.mark.parametrize(
    ("prices", "expected"),
    [
        ("{input: 1}", "the key 'output' is missing"),
        ("{input: 1, output: -0.1}", "expected a number of US dollars from 0 to 1000000, got -0.1"),
        ("3", "expected a mapping with input and output, got 3"),
    ],
)
def test_a_price_is_for_both_ways_and_nobody_is_paid_to_ask(prices: str, expected: str) -> None:
    (found,) = problems(f"version: 1\nmodels: {{m: {{provider: scripted, file: f, prices: {prices}}}}}")
    assert expected in found


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("risk: hihg", "expected 'low' or 'medium' or 'high', got 'hihg'; did you mean 'high'?"),
        ("sandbox: container", "expected 'none' or 'process', got 'container'"),
        ("principals: []", "expected a list of at least one name, got an empty list"),
        ("principals: [a, a]", "the same stands at line 3 already"),
        ("secrets: [A_KY]", "expected the name of a top-level secret, got something else (not shown); did you mean"),
    ],
)
def test_a_mistake_in_what_a_tool_may_do_is_told_as_what_it_is(setting: str, expected: str) -> None:
    (found,) = problems(f"version: 1\nsecrets: [A_KEY]\ntools: {{shell: {{{setting}}}}}")
    assert expected in found


@pytest.mark.promise(4)
@pytest.mark.parametrize("entry", ["ghp_0123456789abcdefghij", "sk-live-0123456789"])
def test_what_stands_among_a_tools_secrets_and_is_none_is_not_shown(entry: str) -> None:
    (found,) = problems(f"version: 1\ntools: {{shell: {{secrets: [{entry}]}}}}")
    assert "(not shown)" in found
    assert entry not in found


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("then: block, queue: ops", "'queue' cannot stand where 'then' is block; it names the people"),
        ("then: suspend, queue: ops", "'queue' cannot stand where 'then' is suspend"),
        ("then: escalate, queue: Ops!", "expected a word (lower-case letters"),
        ("then: block, editable: [a]", "'editable' cannot stand where 'then' is block; only who is asked can change"),
        ("then: escalate, editable: [a]", "'editable' cannot stand where 'then' is escalate"),
        ("then: suspend, editable: []", "expected a list of at least one field, got an empty list"),
        (
            "then: block, expires_in_seconds: 5",
            "'expires_in_seconds' cannot stand where 'then' is block; only a request",
        ),
        ("then: escalate, expires_in_seconds: 5", "'expires_in_seconds' cannot stand where 'then' is escalate"),
        ("then: suspend, expires_in: 5", "unknown key 'expires_in'; did you mean 'expires_in_seconds'?"),
        ("then: suspend, on_timeout: block", "'on_timeout' needs 'expires_in_seconds' beside it; without it the"),
        ("then: suspend, expires_in_seconds: 5, on_timeout: fail", "expected 'block' or 'escalate', got 'fail'"),
        ("then: suspnd", "expected 'block' or 'suspend' or 'escalate', got 'suspnd'; did you mean 'suspend'?"),
        ("match: {tool: x}", "the key 'then' is missing"),
        ("then: block, match: {}", "expected a mapping of at least one field of the event to a pattern, got an empty"),
        ("then: block, match: {tool: 3}", "expected a name with '*', a list of these or {re: …}, got 3"),
    ],
)
def test_a_mistake_in_a_rule_is_told_as_what_it_is(rule: str, expected: str) -> None:
    (found,) = problems(f"version: 1\npolicy: [{{name: a, at: tool.before, reason: x, {rule}}}]")
    assert expected in found


def test_a_rule_says_who_it_is_where_it_stands_and_why() -> None:
    assert [one.split("at policy[0]: ")[1] for one in problems("version: 1\npolicy: [{then: block}]")] == [
        "the key 'name' is missing",
        "the key 'at' is missing",
        "the key 'reason' is missing",
    ]


def test_the_users_file_holds_hooks_and_secrets_and_nothing_of_a_project() -> None:
    assert problems("version: 1\nsecrets: [A]\nhooks: {plugins: ['m:f']}", user=True) == []
    said = problems("version: 1\nmodels: {}\ntasks: {}\ntools: {}\npolicy: []\nloop: {}\nzzz: 1", user=True)
    assert len(said) == 6
    assert all("does not belong in the user's file" in one for one in said[:-1])
    assert said[-1].endswith("the keys here are hooks, secrets, version")


def test_the_version_is_one_and_must_be_said() -> None:
    assert problems("version: 2") == ["f:1:10: at version: expected 1, got 2"]
    assert problems("secrets: []") == ["f:1:1: the key 'version' is missing"]


def test_a_hook_is_asked_for_by_the_same_keys_at_every_point() -> None:
    assert table(project_keys([]), "hooks", "events") is HOOK
