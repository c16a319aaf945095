"""What a pass used, for the account of its run."""

from tests.harness.test_local import CALL, INPUT, engine

from tenter.catalogue import REQUEST_RECEIVED, TOOL_INVOKED, Budgets, SubtaskResult, Usage
from tenter.controls import Account, Used
from tenter.harness.counting import used_of
from tenter.journal import MemoryStore


async def test_what_a_tool_used_is_settled_by_its_op_and_counted_as_a_call() -> None:
    account = Account(Budgets())
    one = engine(MemoryStore(), account=account)
    for _ in range(2):
        await one.run("1.tool.invoked.0", TOOL_INVOKED, CALL)
    assert account.used.tool_calls == 2
    assert account.streak == 2
    await one.run("0.request.received.0", REQUEST_RECEIVED, INPUT)
    assert account.used.tool_calls == 2


def test_a_sub_run_that_tells_negative_use_gives_nothing_back() -> None:
    told = Usage(input_tokens=-1_000_000, output_tokens=5)
    result = SubtaskResult(run_id="r", task="part", status="completed", usage=told, cost_usd=-5.0, model_calls=1)
    assert used_of(result) == (Used(tokens=5, model_calls=1), False)
