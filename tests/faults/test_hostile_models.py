"""Models that answer nothing, nonsense, too much, or the same for ever: each run ends as it must, told clearly."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.faults.acting import acted, acting, of
from tests.harness.world import journal, lines, of_kind, with_model

from tenter.catalogue import ModelRequest, ModelResponse, ToolCall
from tenter.harness import RunResult
from tenter.journal import MemoryStore, SqliteStore, verify

MANY = 1_000
LONG = 10_000_000


class Answering:
    """Meets `Model`: answers what a function makes of the number of the request."""

    def __init__(self, answer: Callable[[int], ModelResponse]) -> None:
        self.answer = answer
        self.heard: list[ModelRequest] = []

    async def generate(self, request: ModelRequest) -> ModelResponse:
        self.heard.append(request)
        return self.answer(len(self.heard))


def called(*made: ToolCall) -> ModelResponse:
    return ModelResponse(model="hostile", tool_calls=made, finish_reason="tool_calls")


def said(result: RunResult) -> tuple[str, str, object]:
    assert result.error is not None
    return result.status, result.error.code, result.error.details.get("code")


async def run(folder: Path, answer: Callable[[int], ModelResponse], **settings: object) -> tuple[RunResult, Answering]:
    model = Answering(answer)
    async with with_model(acting(folder, **settings), model, store=MemoryStore()) as harness:
        return await harness.run("work", "go"), model


@pytest.mark.parametrize("text", ["", " \n\t"], ids=["nothing", "blanks"])
async def test_a_model_that_gives_neither_text_nor_calls_is_told_so_and_then_the_run_fails(
    tmp_path: Path, text: str
) -> None:
    result, model = await run(tmp_path, lambda _: ModelResponse(model="hostile", text=text))
    assert said(result)[:2] == ("failed", "validation")
    assert result.error is not None
    assert "neither text nor a tool call" in result.error.message
    assert 1 < len(model.heard) < 10
    assert "Your answer was empty" in model.heard[-1].messages[-1].content


async def test_a_call_of_an_unknown_tool_is_refused_and_the_model_hears_which_there_are(tmp_path: Path) -> None:
    turns = (called(ToolCall(id="1", name="acts")), ModelResponse(model="hostile", text="Done."))
    result, model = await run(tmp_path, lambda number: turns[number - 1])
    assert result.status == "completed"
    told = model.heard[1].messages[-1]
    assert told.is_error
    assert "acts" in told.content
    assert "act" in told.content
    assert acted(result.run_id) == []


async def test_one_call_for_ever_is_refused_and_then_ends_the_run(tmp_path: Path) -> None:
    call = ToolCall(id="1", name="act", arguments={"text": "again"})
    result, model = await run(tmp_path, lambda _: called(call))
    assert said(result) == ("blocked", "budget", "loop_detected")
    assert len(acted(result.run_id)) == 5
    assert len(model.heard) == 8


async def test_other_calls_for_ever_end_at_the_limit_of_steps(tmp_path: Path) -> None:
    result, model = await run(
        tmp_path, lambda number: called(ToolCall(id="1", name="act", arguments={"text": f"{number}"}))
    )
    assert said(result) == ("failed", "budget", "max_steps")
    assert len(model.heard) == len(acted(result.run_id))


@pytest.mark.parametrize(
    "arguments",
    ['{"text": ', "null", "[1]", "", '{"text": "a", "text": "b"', "{" * 100_000],
    ids=["cut off", "null", "a list", "nothing", "keys twice", "100,000 brackets"],
)
async def test_arguments_that_are_no_object_are_refused_and_the_model_hears_why(tmp_path: Path, arguments: str) -> None:
    script = {"tool_calls": [{"name": "act", "arguments": arguments}]}
    harness = of(acting(tmp_path, script, "Done."), store := MemoryStore())
    result = await harness.run("work", "go")
    (told,) = of_kind(await journal(store, result.run_id), "finished", "1.tool.invoked.0")
    await harness.close()
    assert (result.status, acted(result.run_id)) == ("completed", [])
    assert (told["outcome"], told["code"]) == ("blocked", "invalid_arguments")


@pytest.mark.timeout(120)
@pytest.mark.parametrize("parallel", [False, True], ids=["in turn", "side by side"])
async def test_a_thousand_calls_at_once_are_made_once_each_and_answered_in_order(
    tmp_path: Path, parallel: bool
) -> None:
    many = [ToolCall(id=f"c{number}", name="act", arguments={"text": f"{number}"}) for number in range(MANY)]
    turns = (called(*many), ModelResponse(model="hostile", text="Done."))
    result, model = await run(tmp_path, lambda number: turns[number - 1], task={"parallel_tools": parallel})
    assert result.status == "completed"
    made = [f"1.tool.invoked.{number}" for number in range(MANY)]
    assert (sorted(acted(result.run_id)) if parallel else acted(result.run_id)) == (sorted(made) if parallel else made)
    answers = [(one.tool_call_id, one.content) for one in model.heard[1].messages if one.role == "tool"]
    assert answers == [(f"c{number}", f"{number}") for number in range(MANY)]


async def test_ten_million_characters_are_an_output_like_any_other(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / ".tenter" / "journal.db")
    model = Answering(lambda _: ModelResponse(model="hostile", text="x" * LONG))
    async with with_model(acting(tmp_path), model, store=store) as harness:
        result = await harness.run("work", "go")
        entries = await journal(store, result.run_id)
    assert result.status == "completed"
    assert isinstance(result.output, str)
    assert len(result.output) == LONG
    assert verify(entries) is None
    assert "result" in lines(entries)
