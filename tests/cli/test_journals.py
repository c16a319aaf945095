"""The journal of a project, as verbs find it."""

from pathlib import Path

import click
import pytest

from tenter.cli.journals import find_loop, find_run, journal_of, open_journal, outermost
from tenter.journal import Entry, MemoryStore, SqliteStore, Store, Stream
from tenter.kernel import TenterError


async def store_with(*run_ids: str) -> Store:
    store = MemoryStore()
    for run_id in run_ids:
        await store.append(Stream("run", run_id), [Entry(kind="run", time=1, content={"task": "job"})])
    return store


async def streams_of(config: Path) -> list[str]:
    async with journal_of(config) as store:
        assert store is not None
        return [summary.stream.id for summary in await store.streams("run")]


def test_a_project_without_a_journal_has_none_and_gets_none(tmp_path: Path) -> None:
    (tmp_path / "tenter.yaml").write_text("version: 1\n")
    assert open_journal(tmp_path / "tenter.yaml") is None
    assert [path.name for path in tmp_path.iterdir()] == ["tenter.yaml"]


def test_a_folder_that_is_no_project_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TenterError, match=r"there is no configuration '.*tenter\.yaml', and no journal beside it"):
        open_journal(tmp_path / "tenter.yaml")


@pytest.mark.parametrize("named", ["inner", "..", ".", "inner/", "/dev/null"])
def test_the_journal_beside_a_folder_is_not_taken_for_that_of_a_project(
    named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here" / "inner").mkdir(parents=True)
    for folder in (tmp_path, tmp_path / "here", tmp_path / "here" / "inner"):
        (folder / "tenter.yaml").write_text("version: 1\n")
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(TenterError, match=r"is not a regular file; name the project's file with --config"):
        open_journal(Path(named))


async def test_a_journal_is_read_where_the_configuration_is_gone(tmp_path: Path) -> None:
    writer = SqliteStore(tmp_path / ".tenter" / "journal.db")
    await writer.append(Stream("run", "abc"), [Entry(kind="run", time=1, content={"task": "job"})])
    await writer.close()
    assert await streams_of(tmp_path / "tenter.yaml") == ["abc"]


async def test_a_damaged_journal_ends_the_verb_with_1_and_says_which_file(tmp_path: Path) -> None:
    (tmp_path / ".tenter").mkdir()
    (tmp_path / ".tenter" / "journal.db").write_bytes(b"this is no database at all" * 400)
    with pytest.raises(click.ClickException, match=r"journal\.db.*damaged") as caught:
        await streams_of(tmp_path / "tenter.yaml")
    assert caught.value.exit_code == 1


async def test_a_run_is_found_by_its_id_or_the_beginning_of_it() -> None:
    store = await store_with("abc1", "abc2", "b")
    for wanted, found in (("abc1", "abc1"), ("b", "b"), ("abc2", "abc2")):
        assert (await find_run(store, wanted)).stream.id == found


async def test_a_whole_id_counts_before_what_it_begins() -> None:
    assert (await find_run(await store_with("abcd", "abc"), "abc")).stream.id == "abc"


async def test_a_beginning_of_several_ids_is_refused_with_their_names() -> None:
    with pytest.raises(TenterError, match=r"'abc' begins 2 run ids \(abc2, abc1\); give more of it"):
        await find_run(await store_with("abc1", "abc2"), "abc")


async def test_only_some_of_many_ids_are_named() -> None:
    with pytest.raises(TenterError) as caught:
        await find_run(await store_with(*(f"a{n}" for n in range(9))), "a")
    assert "begins 9 run ids" in str(caught.value)
    assert ", …)" in str(caught.value)
    assert str(caught.value).count("a") < 20


@pytest.mark.parametrize("wanted", ["zzz", "", "ABC1"])
async def test_an_unknown_run_is_refused_with_what_to_do(wanted: str) -> None:
    with pytest.raises(TenterError, match=r"there is no run .*'tenter runs list' prints them"):
        await find_run(await store_with("abc1"), wanted)


async def test_a_loop_is_found_among_loops_alone() -> None:
    store = await store_with("abc1")
    await store.append(Stream("loop", "abcd"), [Entry(kind="note", time=0, content={})])
    assert (await find_loop(store, "abc")).stream == Stream("loop", "abcd")
    with pytest.raises(TenterError, match="there is no loop 'abc1'; 'tenter loop list --all' prints them"):
        await find_loop(store, "abc1")


async def test_no_run_is_found_where_nothing_ran() -> None:
    with pytest.raises(TenterError, match="there is no run 'a'"):
        await find_run(None, "a")


async def test_the_outermost_run_is_found_from_any_run_in_it() -> None:
    store = MemoryStore()
    for run_id, parent in (("root", None), ("child", "root"), ("grandchild", "child"), ("orphan", "gone")):
        content = {"task": "job", "envelope": {"parent_run_id": parent}}
        await store.append(Stream("run", run_id), [Entry(kind="run", time=1, content=content)])
    for run_id, root in (("root", "root"), ("child", "root"), ("grandchild", "root"), ("orphan", "orphan")):
        assert (await outermost(store, await find_run(store, run_id))).stream.id == root


async def test_runs_that_name_each_other_as_parents_have_an_end() -> None:
    store = MemoryStore()
    for run_id, parent in (("a", "b"), ("b", "a")):
        content = {"task": "job", "envelope": {"parent_run_id": parent}}
        await store.append(Stream("run", run_id), [Entry(kind="run", time=1, content=content)])
    assert (await outermost(store, await find_run(store, "a"))).stream.id == "b"


async def test_a_journal_is_opened_with_the_key_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = SqliteStore(tmp_path / ".tenter" / "journal.db", key=b"not to be guessed")
    await writer.append(Stream("run", "abc"), [Entry(kind="run", time=1, content={"task": "job"})])
    await writer.close()
    monkeypatch.setenv("TENTER_JOURNAL_KEY", "not to be guessed")
    async with journal_of(tmp_path / "tenter.yaml") as store:
        assert store is not None
        assert await store.key_of(Stream("run", "abc")) == b"not to be guessed"
    monkeypatch.setenv("TENTER_JOURNAL_KEY", "short")
    with pytest.raises(TenterError, match="at least 16"):
        open_journal(tmp_path / "tenter.yaml")
