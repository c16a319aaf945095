import functools
import unicodedata
from typing import Any, cast

import pytest
from hypothesis import given, strategies as st

from tenter.kernel import (
    BANDS,
    AfterEvent,
    Allow,
    BeforeEvent,
    Block,
    Catalogue,
    Declaration,
    Event,
    Hook,
    HookFailure,
    Operation,
    RegistrationError,
    Result,
    Rule,
    Suspend,
    attach,
    compile_chains,
    declarations,
    hook,
    is_slug,
)


class Asked(BeforeEvent, frozen=True, kw_only=True):
    tool: str = ""


class Answered(AfterEvent, frozen=True, kw_only=True):
    tool: str = ""
    output: str = ""


class Told(Event, frozen=True, kw_only=True):
    reason: str = ""


TOOL = Operation(
    name="tool.invoked",
    shape="leaf",
    before=Asked,
    after=Answered,
    results=("output",),
    matches={"tool": "tool"},
    rules={
        "pre": Rule("Before.", takes=frozenset({Allow, Block, Suspend}), replaces=True, portable="tool.before"),
        "in": Rule("There.", takes=frozenset({Block, Result}), replaces=True),
        "post": Rule("After.", replaces=True, portable="tool.after"),
    },
)
ERROR = Operation(
    name="activity.failed",
    shape="leaf",
    before=Asked,
    after=Answered,
    rules={"post": Rule("After.", portable="run.error")},
)
TOLD = Operation(
    name="shutdown", shape="fact", before=Told, after=Told, rules={"pre": Rule("Once.", observe_only=True)}
)

CATALOGUE = Catalogue(cast("tuple[Operation[Event, Event], ...]", (TOOL, ERROR, TOLD)))


def nothing(event: Event) -> None:
    """A hook that has nothing to say."""


def declared(name: object = "guard", point: object = "tool.before", **settings: Any) -> Declaration:
    return Declaration(name=cast(str, name), point=cast(str, point), call=nothing, **settings)


def refusal(one: object, **settings: Any) -> str:
    with pytest.raises(RegistrationError) as caught:
        compile_chains(CATALOGUE, [one], **settings)
    return str(caught.value)


@pytest.mark.parametrize("name", ["a", "_", "0", "no-force-push", "a" * 64, "conx", "com", "com10", "lpt0"])
def test_a_slug_is_taken(name: str) -> None:
    assert is_slug(name)
    assert attach(declared(name), CATALOGUE).name == name


HOSTILE = [
    "../../x", "/etc/x", "..", ".", "a/b", "a\\b", "a\x00b", "a\n", "\na", "a b", "a" * 65, "é" * 150, "a" * 300,
    "con", "prn", "aux", "nul", "com1", "lpt9", "%2e%2e", "-rf", "Guard", "", "guard\u200b", "gu\u0430rd",
    unicodedata.normalize("NFC", "café"), unicodedata.normalize("NFD", "café"), "con.txt", "a" * 1_000_000,
    None, 7, b"a",
]  # fmt: skip


@pytest.mark.fault(64)
@pytest.mark.promise(2)
@pytest.mark.parametrize("name", HOSTILE, ids=lambda name: ascii(name)[:20])
def test_a_name_that_is_no_slug_is_refused_in_few_printable_words(name: object) -> None:
    assert not is_slug(name)
    said = refusal(declared(name))
    assert "has no usable name; give it one of 1 to 64 of a-z, 0-9" in said
    assert len(said) < 400
    assert said.isprintable()


@given(st.text(max_size=80))
def test_a_slug_is_small_letters_digits_and_two_signs(name: str) -> None:
    allowed = set("abcdefghijklmnopqrstuvwxyz0123456789_-")
    expected = 0 < len(name) <= 64 and set(name) <= allowed and name[0] != "-"
    assert is_slug(name) == (expected and name not in {"con", "prn", "aux", "nul"})


@pytest.mark.promise(2)
@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"point": "tool.befor"}, "names the point 'tool.befor', which does not exist; did you mean 'tool.before'?"),
        ({"point": ["tool.before"]}, "names the point ['tool.before']; expected text"),
        ({"point": None}, "names the point None"),
        ({"band": "outer"}, "names the band 'outer'; expected one of 'baseline', 'control', 'app'"),
        ({"band": ["app"]}, "names the band ['app']"),
        ({"band": "gate"}, "names the band 'gate', which is tenter's own; use one of 'baseline', 'control', 'app'"),
        ({"priority": -1}, "the priority -1; expected a whole number from 0 to 999"),
        ({"priority": 1000}, "the priority 1000"),
        ({"priority": True}, "the priority True"),
        ({"priority": 5.0}, "the priority 5.0"),
        ({"priority": "5"}, "the priority '5'"),
        ({"mode": "dark"}, "the mode 'dark'; expected 'active', 'shadow'"),
        ({"observe": "yes"}, "the observe 'yes'; expected True or False"),
        ({"observe": 1}, "the observe 1"),
        ({"timeout": 0}, "the timeout 0; expected seconds above 0, at most 86400"),
        ({"timeout": -1}, "the timeout -1"),
        ({"timeout": True}, "the timeout True"),
        ({"timeout": "5"}, "the timeout '5'"),
        ({"timeout": float("nan")}, "the timeout nan"),
        ({"timeout": float("inf")}, "the timeout inf"),
        ({"timeout": 86_401}, "the timeout 86401"),
        ({"on_error": "ignore"}, "on_error 'ignore'; expected one of 'warn', 'block', 'suspend', 'fail'"),
        ({"on_error": ["warn"]}, "on_error ['warn']"),
        ({"on_error": True}, "on_error True"),
        ({"on_error": "suspend", "point": "tool.invoked.in"}, "'suspend'; this point takes 'warn', 'block', 'fail'"),
        ({"on_error": "block", "point": "tool.after"}, "at 'tool.after' has on_error 'block'; this point takes 'warn'"),
        ({"on_error": "fail", "point": "shutdown.pre"}, "on_error 'fail'; this point takes 'warn'"),
        ({"match": {"tol": "x"}}, "matches on 'tol'; this point can match on tool"),
        ({"match": "shell"}, "has the match 'shell'"),
        ({"match": {"tool": "x"}, "point": "shutdown.pre"}, "can match on no field at all"),
    ],
)  # fmt: skip
def test_a_setting_that_cannot_be_is_refused_naming_hook_value_and_what_was_expected(
    settings: dict[str, Any], why: str
) -> None:
    said = refusal(declared(source="hooks.py:7", **settings))
    assert said.startswith("hook 'guard' (hooks.py:7)")
    assert why in said


@pytest.mark.parametrize(
    ("point", "settings", "policy"),
    [
        ("tool.before", {}, "block"),
        ("tool.after", {}, "fail"),
        ("shutdown.pre", {}, "warn"),
        ("tool.before", {"on_error": "suspend"}, "suspend"),
        ("tool.before", {"on_error": "warn"}, "warn"),
        ("tool.before", {"observe": True}, "warn"),
        ("tool.before", {"observe": True, "on_error": "block"}, "block"),
        ("tool.before", {"mode": "shadow"}, "warn"),
        ("tool.before", {"mode": "shadow", "on_error": "block"}, "warn"),
    ],
)
@pytest.mark.promise(8)
def test_a_control_fails_closed_an_observer_open_and_of_a_shadow_nothing_is_applied(
    point: str, settings: dict[str, Any], policy: str
) -> None:
    assert attach(declared(point=point, **settings), CATALOGUE).on_error == policy


def test_an_observer_of_the_work_runs_after_it_and_can_only_warn() -> None:
    assert attach(declared(point="tool.invoked.in", observe=True), CATALOGUE).on_error == "warn"
    said = refusal(declared(point="tool.invoked.in", observe=True, on_error="block"))
    assert "an observer of the work, which runs when that is done, takes 'warn'" in said


def test_a_shadow_hook_may_not_have_a_policy_that_its_point_could_not_take() -> None:
    assert "this point takes 'warn', 'fail'" in refusal(declared(point="tool.after", mode="shadow", on_error="block"))


def test_a_deadline_that_a_hook_names_is_hard_and_the_runtimes_soft() -> None:
    async def waits(event: Event) -> None: ...

    def link(call: Any, **settings: Any) -> tuple[float, bool, bool]:
        one = Declaration(name="guard", point="tool.before", call=call, **settings)
        made = attach(one, CATALOGUE, timeout=7)
        return made.timeout, made.hard, made.soft

    assert link(waits) == (7, False, True)
    assert link(waits, timeout=2) == (2, True, False)
    assert link(waits, self_timed=True) == (7, True, False)
    assert link(nothing) == (7, False, False)
    assert link(nothing, timeout=2) == (2, True, False)


@pytest.mark.parametrize("timeout", [0, True, float("nan"), float("inf"), "30", None])
def test_a_deadline_of_the_runtime_that_cannot_be_is_refused(timeout: object) -> None:
    assert f"the runtime has the timeout {timeout!r}" in refusal(declared(), timeout=timeout)


def test_only_the_gates_may_stand_in_the_reserved_band() -> None:
    gate = declared("check", band="gate")
    chain = compile_chains(CATALOGUE, [declared()], gates=[gate])["tool.invoked.pre"]
    assert [(link.name, link.hook.band, link.index) for link in chain.links] == [
        ("guard", "app", 0),
        ("check", "gate", 1),
    ]


@pytest.mark.promise(11)
@pytest.mark.parametrize("band", BANDS)
def test_hooks_of_all_bands_but_the_apps_judge_a_later_rewrite_on_the_way_in(band: Any) -> None:
    def guards(**settings: Any) -> bool:
        return attach(declared(band=band, **settings), CATALOGUE, reserved=True).guards

    assert guards() is (band != "app")
    assert guards(point="tool.invoked.in") is (band != "app")
    assert not guards(point="tool.after")
    assert not guards(observe=True)
    assert not guards(mode="shadow")


def test_a_match_is_compiled_and_asked_for() -> None:
    link = attach(declared(match={"tool": "sh*"}), CATALOGUE)
    assert link.picky
    assert link.matches is not None
    assert link.matches(Asked(tool="shell"))
    assert not link.matches(Asked(tool="net"))
    assert not attach(declared(), CATALOGUE).picky


@pytest.mark.promise(2)
@pytest.mark.parametrize("other", ["tool.before", "tool.invoked.pre", "pre.tool.invoked"])
def test_two_hooks_with_one_name_at_a_point_are_refused_by_whatever_name_the_point_is_called(other: str) -> None:
    pair = [declared(source="one.py:1"), declared(point=other, source="two.py:2", band="control", priority=1)]
    with pytest.raises(RegistrationError) as caught:
        compile_chains(CATALOGUE, pair)
    assert str(caught.value) == (
        "two hooks are called 'guard' at 'tool.before': one.py:1 and two.py:2; give one another name"
    )


def test_one_name_at_two_points_is_fine() -> None:
    chains = compile_chains(CATALOGUE, [declared(), declared(point="tool.after")])
    assert [chains[name].links[0].name for name in ("tool.invoked.pre", "tool.invoked.post")] == ["guard", "guard"]


def test_every_point_has_a_chain_and_hooks_are_numbered_as_they_were_handed_over() -> None:
    @hook("tool.before", "tool.after", name="first")
    def first(event: Event) -> None: ...

    chains = compile_chains(CATALOGUE, [first, declared("second")])
    assert list(chains) == list(CATALOGUE)
    assert [link.index for chain in chains.values() for link in chain.links] == [0, 2, 1]
    assert chains["shutdown.pre"].empty


def test_a_decorated_function_is_attached_as_itself_at_all_its_points() -> None:
    @hook("tool.before")
    @hook("tool.after", name="late")
    def check(event: Event) -> None: ...

    made = declarations(check, CATALOGUE)
    assert [(one.name, one.point, one.call) for one in made] == [
        ("check", "tool.before", check),
        ("late", "tool.after", check),
    ]
    assert all(one.source.startswith(__file__) for one in made)


def test_a_decorated_method_is_attached_with_its_object() -> None:
    class Guard:
        def __init__(self) -> None:
            self.seen: list[Event] = []

        @hook("tool.before")
        def check(self, event: Event) -> None:
            self.seen.append(event)

    guard = Guard()
    chain = compile_chains(CATALOGUE, [guard.check])["tool.invoked.pre"]
    chain.links[0].call(Asked(tool="shell"))
    assert guard.seen == [Asked(tool="shell")]


class Audit(Hook):
    def __init__(self) -> None:
        self.seen: list[str] = []

    def on_tool_before(self, event: Asked) -> None:
        self.seen.append("before")

    async def on_tool_invoked_post(self, event: Answered) -> None: ...

    @staticmethod
    def on_shutdown_pre(event: Told) -> None: ...

    @classmethod
    def on_tool_invoked_in(cls, event: Asked) -> None: ...

    def once(self, event: Asked) -> None: ...


@pytest.mark.parametrize("plugin", [Audit, Audit()])
def test_a_plugin_is_attached_by_the_methods_that_it_defines(plugin: object) -> None:
    made = declarations(plugin, CATALOGUE)
    assert {one.point for one in made} == {"tool.invoked.pre", "tool.invoked.post", "tool.invoked.in", "shutdown.pre"}
    assert {one.name for one in made} == {"audit"}
    assert {one.abandon for one in made} == {None}
    links = [link for chain in compile_chains(CATALOGUE, [plugin]).values() for link in chain.links]
    assert {link.point.name: link.awaits for link in links} == {
        "tool.invoked.pre": False,
        "tool.invoked.post": True,
        "tool.invoked.in": False,
        "shutdown.pre": False,
    }


def test_the_methods_of_a_plugin_share_its_state() -> None:
    audit = Audit()
    compile_chains(CATALOGUE, [audit])["tool.invoked.pre"].links[0].call(Asked())
    assert audit.seen == ["before"]


def test_the_attributes_of_a_plugin_are_its_settings_and_on_error_is_no_method() -> None:
    class Guard(Hook):
        name = "guard-2"
        band = "control"
        priority = 3
        on_error = "warn"
        timeout = 1.5
        match = {"tool": "shell"}  # noqa: RUF012  # as a user writes it
        observe = True
        mode = "shadow"

        def on_tool_before(self, event: Event) -> None: ...

        def abandon(self, point: str, event: object, error: object) -> None: ...

    guard = Guard()
    (one,) = declarations(guard, CATALOGUE)
    assert (one.name, one.band, one.priority, one.on_error) == ("guard-2", "control", 3, "warn")
    assert (one.timeout, one.match, one.observe, one.mode) == (1.5, {"tool": "shell"}, True, "shadow")
    assert one.abandon == guard.abandon


@pytest.mark.promise(2)
def test_an_on_method_that_is_no_point_is_refused_with_the_nearest_name() -> None:
    class Typo(Hook):
        def on_tool_befor(self, event: Event) -> None: ...

    said = refusal(Typo())
    assert "Typo.on_tool_befor is the method of no point; did you mean 'tool.before'?" in said


@pytest.mark.promise(2)
def test_an_inherited_on_method_counts_as_well() -> None:
    class Base(Hook):
        def on_tool_befor(self, event: Event) -> None: ...

    class Derived(Base):
        def on_tool_before(self, event: Event) -> None: ...

    assert "Derived.on_tool_befor is the method of no point" in refusal(Derived)


def test_a_method_called_on_error_is_told_where_it_belongs() -> None:
    class Wrong(Hook):
        def on_error(self, event: Event) -> None: ...  # pyright: ignore[reportIncompatibleVariableOverride]  # the test

        def on_run_error(self, event: Event) -> None: ...

    said = refusal(Wrong())
    assert "Wrong.on_error is a method; on_error is the failure policy" in said
    assert "'run.error', and its method on_run_error" in said


def test_an_on_attribute_that_is_no_method_is_refused() -> None:
    class Wrong(Hook):
        on_tool_before = None

    assert "Wrong.on_tool_before is no method" in refusal(Wrong)


def test_a_plugin_with_two_methods_for_one_point_is_refused() -> None:
    class Twice(Hook):
        def on_tool_before(self, event: Event) -> None: ...

        def on_tool_invoked_pre(self, event: Event) -> None: ...

    assert "two hooks are called 'twice' at 'tool.before'" in refusal(Twice)


def test_a_plugin_without_methods_is_refused() -> None:
    class Empty(Hook):
        def helper(self, event: Event) -> None: ...

    assert "Empty' has no on_<point> method, such as on_tool_before" in refusal(Empty)
    assert "'Hook' has no on_<point> method" in refusal(Hook)


def test_a_plugin_class_that_cannot_be_made_is_refused_with_the_reason() -> None:
    class Needs(Hook):
        def __init__(self, path: str) -> None: ...

    class Breaks(Hook):
        def __init__(self) -> None:
            raise OSError("no such folder")

    assert "Needs' cannot be made without arguments (TypeError: " in refusal(Needs)
    assert "missing 1 required positional argument: 'path'); hand over an instance" in refusal(Needs)
    assert "(OSError: no such folder)" in refusal(Breaks)


def test_a_method_without_self_is_refused_as_it_was_written() -> None:
    class Wrong(Hook):
        def on_tool_before(event) -> None:  # noqa: N805  # pyright: ignore[reportSelfClsParameterName]  # the test
            ...

    assert "has the signature () -> None; expected (event)" in refusal(Wrong)


def test_an_async_abandon_is_refused() -> None:
    class Wrong(Hook):
        def on_tool_before(self, event: Event) -> None: ...

        async def abandon(self, point: str, event: object, error: object) -> None: ...

    assert "hook 'wrong'" in refusal(Wrong)
    assert "has an async abandon" in refusal(Wrong)


@pytest.mark.parametrize(
    "other", [nothing, functools.partial(nothing), 3, None, "my_hooks:Audit", object, [nothing], Block("no")]
)
def test_what_is_no_hook_is_refused_with_what_to_do(other: object) -> None:
    said = refusal(other)
    assert " is no hook; decorate the function with @hook('<point>') or derive the class from tenter.Hook" in said


def test_a_lambda_and_a_partial_want_a_name() -> None:
    silent = cast(Any, lambda event: None)  # pyright: ignore[reportUnknownLambdaType]  # as a user writes it
    assert "hook '<lambda>'" in refusal(hook("tool.before")(silent))
    assert "hook ''" in refusal(hook("tool.before")(functools.partial(nothing)))
    assert declarations(hook("tool.before", name="ok")(silent), CATALOGUE)[0].name == "ok"


def test_nothing_is_attached_when_one_hook_is_wrong() -> None:
    with pytest.raises(RegistrationError, match="'wrong'"):
        compile_chains(CATALOGUE, [declared(), declared("wrong", priority=-1)])


def test_a_value_too_long_for_the_match_is_the_hooks_failure() -> None:
    link = attach(declared(match={"tool": {"re": "(a|b)*a(a|b){100}"}}), CATALOGUE)
    assert link.matches is not None
    with pytest.raises(HookFailure):
        link.matches(Asked(tool="a" * 1_000_000))


def test_what_is_no_hook_is_told_by_its_name_and_place() -> None:
    def plain(event: Event) -> None: ...

    class Other: ...

    for target, name in ((plain, "the function '"), (Other, "the class '")):
        with pytest.raises(RegistrationError, match=rf"^{name}.*test_registration\.py:\d+\) is no hook; "):
            declarations(target, CATALOGUE)


@pytest.mark.parametrize("hooks", [nothing, Hook, Hook(), "tool.before", {"a": 1}, None])
def test_hooks_that_are_no_list_are_refused(hooks: Any) -> None:
    with pytest.raises(RegistrationError, match=r"^hooks must be a list, such as hooks=\[guard\]; got "):
        compile_chains(CATALOGUE, hooks)
