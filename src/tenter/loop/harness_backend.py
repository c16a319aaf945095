"""Does an iteration with a run of a task of the same configuration, so that agent points fire inside the loop."""

from typing import Literal, assert_never

import msgspec

from tenter.catalogue import Status
from tenter.config import HarnessBackendSpec
from tenter.harness import RunResult
from tenter.kernel import TenterError
from tenter.loop.work import Equipment, Work, Worked


class HarnessBackend:
    """Runs the task once for each iteration; its hooks see the loop in `event.op`."""

    def __init__(self, spec: HarnessBackendSpec, equipment: Equipment) -> None:
        self._task = spec.harness
        self._equipment = equipment

    async def run(self, work: Work, /) -> Worked:
        """Programs of the run's tools get the work's environment, so that they can publish."""
        equipment = self._equipment
        try:
            result = await equipment.harness.run(
                self._task,
                work.prompt,
                loop=work.facts,
                deadline=work.deadline,
                environment=work.environment,
            )
        except TenterError as error:
            return Worked(status="failed", error=equipment.mask(f"the task {self._task!r} could not be run: {error}"))
        equipment.log.feed("stdout", _text(result.output).encode("utf-8", "backslashreplace"))
        said = equipment.log.finish()
        status, why = _standing(result.status), result.error
        queue = "" if why is None else why.details.get("queue")
        return Worked(
            status=status,
            last_line=said.last_line,
            error="" if status == "ok" else equipment.mask(_error(result)),
            queue=queue if isinstance(queue, str) and status == "escalated" else "",
            cost_usd=result.cost_usd,
            run_id=result.run_id,
        )


def _text(output: object) -> str:
    if output is None or isinstance(output, str):
        return output or ""
    return msgspec.json.encode(output).decode()


def _standing(status: Status) -> Literal["ok", "failed", "escalated"]:
    match status:
        case "completed":
            return "ok"
        case "escalated":
            return "escalated"
        case "pending" | "running" | "awaiting_approval" | "blocked" | "failed" | "cancelled":
            return "failed"
        case _:
            assert_never(status)


def _error(result: RunResult) -> str:
    run = f"the run {result.run_id} of the task {result.task!r}"
    if result.approvals:
        reasons = "; ".join(f"{one.hook}: {one.reason}" for request in result.approvals for one in request.reasons)
        return f"{run} waits for a person, and the loop does not ({reasons}); see 'tenter approvals list'"
    why = "" if result.error is None else f": {result.error.message}"
    return f"{run} ended {result.status}{why}"
