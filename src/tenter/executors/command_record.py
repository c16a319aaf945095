"""What is put on record of one execution of a command hook, before and after (D§10). Pure: it hands over nothing."""

from collections.abc import Mapping
from dataclasses import dataclass

from tenter.executors.answer import disposition_of, result_of
from tenter.executors.command_settings import CommandHook
from tenter.executors.kind import HookEnded, HookStarted, Surroundings
from tenter.executors.process import ProcessResult
from tenter.kernel import Event, HookFailure
from tenter.wire import Verdict, execution_key


@dataclass(frozen=True, slots=True)
class Finished:
    """An execution after its process: what it says, and its end with redacted texts."""

    said: Verdict | HookFailure
    result: ProcessResult
    metadata: Mapping[str, object] | None = None


def started_record(
    hook: CommandHook, surroundings: Surroundings, event: Event, *, recheck: bool, attempt: int
) -> HookStarted:
    """An execution that is about to begin, with an id of its own."""
    return HookStarted(
        id=f"{surroundings.random.getrandbits(128):032x}",
        key=execution_key(event, hook.point, hook=hook.name, recheck=recheck),
        hook=hook.name,
        point=hook.point.name,
        at=surroundings.clock.now(),
        attempt=attempt,
    )


def ended_record(
    started: HookStarted, finished: Finished, hook: CommandHook, *, surroundings: Surroundings, again: bool
) -> HookEnded:
    """Its end. With `again` the hook is to be tried again: its metadata do not count."""
    said, result = finished.said, finished.result
    failure = said if isinstance(said, HookFailure) else None
    return HookEnded(
        id=started.id,
        key=started.key,
        hook=started.hook,
        point=started.point,
        started_at=started.at,
        ended_at=surroundings.clock.now(),
        duration_ms=result.duration_seconds * 1000,
        result=result_of(said),
        disposition="retry" if again else disposition_of(said, hook),
        exit_code=result.exit_code,
        signal=result.signal,
        timed_out=result.timed_out,
        stdout=result.stdout.text,
        stderr=result.stderr.text,
        stdout_truncated=result.stdout.truncated,
        stderr_truncated=result.stderr.truncated,
        stdout_bytes=result.stdout.total_bytes,
        stderr_bytes=result.stderr.total_bytes,
        stderr_tail=result.stderr.tail,
        ended_descendants=result.ended_descendants,
        error=surroundings.redactor.mask_fuzzy(failure.reason) if failure else "",
        metadata=None if again else finished.metadata,
        attempt=started.attempt,
    )
