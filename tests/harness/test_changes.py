"""What a run rests on may be another when it goes on, where that is accepted by name."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.harness.world import (
    ACT,
    BOTH,
    act,
    acted,
    acting,
    cut,
    go_on,
    processes,
    whole,
)

from tenter import Suspend, hook
from tenter.catalogue import ToolCallEvent
from tenter.harness import changes
from tenter.harness.changes import SpecChanged
from tenter.journal import MemoryStore, Stream
from tenter.kernel import TenterError

ONCE = act("a")


def changed(path: Path, part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes one part of what a run rests on."""
    config: dict[str, Any] = json.loads(path.read_text())
    match part:
        case "task":
            config["tasks"]["work"]["instructions"] = "Do it otherwise."
        case "models":
            config["models"]["default"]["prices"] = {"input": 1, "output": 1}
        case "tools":
            config["tools"]["act"]["timeout_seconds"] = 9
        case "hooks":
            config["hooks"] = {"events": {"tool.after": [{"name": "n", "script": "true", "on_error": "warn"}]}}
        case "policy":
            config["policy"] = [{"name": "p", "at": "tool.before", "then": "block", "reason": "no"}]
        case _:
            monkeypatch.setattr(changes, "LOOP_VERSION", 99)
    path.write_text(json.dumps(config))


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("part", ["task", "models", "tools", "hooks", "policy", "loop_version"])
async def test_what_a_run_rests_on_may_change_only_where_that_is_accepted_by_name(
    tmp_path: Path, kind: str, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = acting(tmp_path, "Done.", "Done.")
    source, result = await whole(path)
    async with processes(path, kind) as made:
        await cut(source, result.run_id, 1, made.store)
        changed(path, part, monkeypatch)
        head = await made.store.head(Stream("run", result.run_id))
        with pytest.raises(SpecChanged, match=rf"begun with other {part}.*--accept {part}'\)") as raised:
            await made.harness().resume(result.run_id)
        assert raised.value.changed == (part,)
        assert await made.store.head(Stream("run", result.run_id)) == head
        again = await made.harness().resume(result.run_id, accept=[part])
    assert again.status == "completed"


@pytest.mark.parametrize("begun", ["", "elsewhere"])
async def test_a_run_goes_on_in_another_folder_only_where_that_is_accepted(tmp_path: Path, begun: str) -> None:
    path = acting(tmp_path, ONCE, "Done.", tool={"risk": "high"})
    for name in ("elsewhere", "another"):
        (tmp_path / name).mkdir()
    async with processes(path, "sqlite") as made:
        waiting = await made.harness(workspace=tmp_path / begun).run("work", "go")
        await made.harness().approve(waiting.run_id, by="ann")
        with pytest.raises(SpecChanged, match=f"it was .*{begun or 'the folder of the file'}.*--accept workspace"):
            await made.harness(workspace=tmp_path / "another").resume(waiting.run_id)
        assert (await made.harness(workspace=tmp_path / begun).resume(waiting.run_id)).status == "completed"
    assert [place.parent for place in tmp_path.rglob("acted")] == [tmp_path / begun]


async def test_a_run_may_go_on_where_its_project_was_moved_to(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    path = acting(tmp_path / "old", ONCE, "Done.", tool={"risk": "high"})
    async with processes(path, "sqlite") as made:
        waiting = await made.harness().run("work", "go")
    (tmp_path / "old").rename(tmp_path / "new")
    async with processes(tmp_path / "new" / path.name, "sqlite") as made:
        await made.harness().approve(waiting.run_id, by="ann")
        assert (await made.harness().resume(waiting.run_id)).status == "completed"


async def test_every_part_that_changed_is_named_and_a_name_of_none_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = acting(tmp_path, "Done.")
    source, result = await whole(path)
    store = MemoryStore()
    await cut(source, result.run_id, 1, store)
    for part in ("tools", "loop_version", "task"):
        changed(path, part, monkeypatch)
    with pytest.raises(SpecChanged) as raised:
        await go_on(path, store, result.run_id, accept=("task",))
    assert set(raised.value.changed) == {"tools", "loop_version"}
    with pytest.raises(TenterError, match="'taks' is nothing that can be accepted; there are task, "):
        await go_on(path, store, result.run_id, accept=("taks",))


@pytest.mark.parametrize("kind", BOTH)
async def test_what_was_accepted_may_lead_to_other_requests_than_those_on_record(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = acting(tmp_path, ONCE, "Done.", tool={"risk": "high"})
    async with processes(path, kind) as made:
        waiting = await made.harness().run("work", "go")
        await made.harness().approve(waiting.run_id, by="ada")
        (tmp_path / "my_tools.py").write_text(ACT.replace('mark: str = ""', 'mark: str = "none"'))
        changed(path, "tools", monkeypatch)
        again = await made.harness().resume(waiting.run_id, accept=["tools"])
        assert (again.status, acted(tmp_path)) == ("awaiting_approval", [])  # it is not the tool that was approved
        await made.harness().approve(waiting.run_id, by="ada")
        result = await made.harness().resume(waiting.run_id, accept=["tools"])
    assert (result.status, acted(tmp_path)) == ("completed", ["a"])


async def test_a_change_of_the_users_file_is_one_of_the_hooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user = tmp_path / "config" / "tenter" / "tenter.yaml"
    user.parent.mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    path = acting(tmp_path, "Done.")
    source, result = await whole(path)
    store = MemoryStore()
    await cut(source, result.run_id, 1, store)
    user.write_text("version: 1\n")
    with pytest.raises(SpecChanged) as raised:
        await go_on(path, store, result.run_id)
    assert raised.value.changed == ("hooks",)
    assert (await go_on(path, store, result.run_id, accept=("hooks",))).status == "completed"


@pytest.mark.promise(11)
async def test_a_run_goes_on_without_a_hook_of_its_program_only_where_that_is_accepted(
    tmp_path: Path,
) -> None:
    @hook("tool.before", name="guard")
    def guard(event: ToolCallEvent) -> Suspend:
        return Suspend("a person looks at it")

    @hook("tool.before", name="more")
    def more(event: ToolCallEvent) -> None:
        heard.append(event.call.name)

    path, heard = acting(tmp_path, ONCE, "Done."), list[str]()
    async with processes(path, "sqlite") as made:
        waiting = await made.harness(guard).run("work", "go")
        await made.harness().approve(waiting.run_id, by="ann")
        with pytest.raises(
            SpecChanged, match=r"its program gave it the hook tool.invoked.pre guard \(app 500\)"
        ) as raised:
            await made.harness(more).resume(waiting.run_id)
        assert (raised.value.changed, heard) == (("hooks",), [])
        result = await made.harness(guard, more).resume(waiting.run_id)
    assert (result.status, heard, acted(tmp_path)) == ("completed", ["act"], ["a"])


async def test_what_a_run_lacks_of_its_programs_hooks_may_be_accepted(tmp_path: Path) -> None:
    @hook("tool.before", name="guard")
    def guard(event: ToolCallEvent) -> Suspend:
        return Suspend("a person looks at it")

    async with processes(acting(tmp_path, ONCE, "Done."), "sqlite") as made:
        waiting = await made.harness(guard).run("work", "go")
        result = await made.harness().resume(waiting.run_id, accept=["hooks"])
    assert result.status == "awaiting_approval", "nobody decided on what is on record"


async def test_a_run_goes_on_in_its_workspace_also_where_that_bears_a_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "opensesame-opensesame")
    (tmp_path / "opensesame-opensesame").mkdir()
    settings = {"secrets": ["TOKEN"]}
    async with processes(acting(tmp_path, ONCE, "Done.", tool={"risk": "high"}, settings=settings), "memory") as made:
        waiting = await made.harness(workspace=tmp_path / "opensesame-opensesame").run("work", "go")
        await made.harness().approve(waiting.run_id, by="ada")
        assert (await made.harness(workspace=tmp_path / "opensesame-opensesame").resume(waiting.run_id)).status == (
            "completed"
        )
