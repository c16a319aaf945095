"""Bytes move by the event loop, and stop when they are told to."""

import asyncio
import os
import subprocess
from dataclasses import dataclass, field

from tests.outside import comes_true, leaves_nothing, open_files

from tenter.executors.pipes import CHUNK, Pipes
from tenter.executors.spawn import Spawned


@dataclass
class World:
    """Three pipes whose far ends the test holds, as a child would."""

    stdin: int
    stdout: int
    stderr: int
    pipes: Pipes
    changes: list[str] = field(default_factory=list[str])


def world(unwritten: bytes = b"", *, limit: int = 100, answer: bool = False) -> World:
    far_in, near_in = os.pipe()
    near_out, far_out = os.pipe()
    near_err, far_err = os.pipe()
    for near in (near_in, near_out, near_err):
        os.set_blocking(near, False)
    process = subprocess.Popen(["/bin/true"])
    process.wait(5)
    changes: list[str] = []
    spawned = Spawned(process, near_in, near_out, near_err, memoryview(unwritten))
    pipes = Pipes(spawned, limit=limit, stdout_is_answer=answer, changed=lambda: changes.append("changed"))
    return World(far_in, far_out, far_err, pipes, changes)


async def test_outputs_are_read_to_their_ends_and_that_is_told_once() -> None:
    async with leaves_nothing():
        here = world(b"x")
        here.pipes.watch()
        os.write(here.stdout, b"out")
        os.write(here.stderr, b"err")
        os.close(here.stdout)
        assert await comes_true(lambda: here.pipes.stdout.total_bytes == 3)
        assert (here.pipes.drained, here.changes) == (False, [])
        os.close(here.stderr)
        assert await comes_true(lambda: here.pipes.drained)
        assert here.changes == ["changed"]
        assert (here.pipes.stdout.captured().text, here.pipes.stderr.captured().tail) == ("out", "err")
        here.pipes.close()
        os.close(here.stdin)


async def test_stdin_is_written_piece_by_piece_and_closed() -> None:
    async with leaves_nothing():
        here = world(b"x" * 300_000)
        here.pipes.watch()
        received = 0
        while chunk := await asyncio.wait_for(asyncio.to_thread(os.read, here.stdin, 70_000), 5):
            received += len(chunk)
        assert received == 300_000
        here.pipes.close()
        for far in (here.stdin, here.stdout, here.stderr):
            os.close(far)
        await asyncio.get_running_loop().shutdown_default_executor()


async def test_a_stdin_that_comes_later_is_written_and_closed() -> None:
    async with leaves_nothing():
        here = world()
        here.pipes.feed(b"all of it")
        assert (os.read(here.stdin, 100), os.read(here.stdin, 100)) == (b"all of it", b"")
        here.pipes.watch()
        here.pipes.close()
        for far in (here.stdin, here.stdout, here.stderr):
            os.close(far)


async def test_a_stdin_that_nobody_reads_any_more_is_let_go() -> None:
    async with leaves_nothing():
        before = len(open_files())
        here = world(b"x" * 300_000)
        os.close(here.stdin)
        here.pipes.watch()
        os.close(here.stdout)
        os.close(here.stderr)
        assert await comes_true(lambda: len(open_files()) == before)
        here.pipes.close()


async def test_an_answer_that_is_too_long_is_told_and_read_no_further() -> None:
    async with leaves_nothing():
        here = world(limit=5, answer=True)
        here.pipes.watch()
        os.write(here.stdout, b"123456")
        assert await comes_true(lambda: here.pipes.overflowed)
        assert here.changes == ["changed"]
        here.pipes.close()
        for far in (here.stdin, here.stdout, here.stderr):
            os.close(far)


async def test_what_is_no_answer_is_counted_past_its_limit() -> None:
    async with leaves_nothing():
        here = world(limit=5)
        here.pipes.watch()
        os.write(here.stdout, b"123456")
        assert await comes_true(lambda: here.pipes.stdout.truncated)
        assert (here.pipes.overflowed, here.changes) == (False, [])
        here.pipes.close()
        for far in (here.stdin, here.stdout, here.stderr):
            os.close(far)


async def test_each_piece_of_an_output_is_handed_over_with_its_name_also_past_the_limit() -> None:
    async with leaves_nothing():
        here = world(limit=2)
        heard: list[tuple[str, bytes]] = []
        here.pipes.heard = lambda output, chunk: heard.append((output, chunk))
        here.pipes.watch()
        os.write(here.stdout, b"123456")
        assert await comes_true(lambda: len(heard) == 1)
        os.write(here.stderr, b"why")
        here.pipes.drain()
        assert heard == [("stdout", b"123456"), ("stderr", b"why")]
        here.pipes.close()
        for far in (here.stdin, here.stdout, here.stderr):
            os.close(far)


async def test_draining_takes_a_pipeful_and_the_end_without_waiting() -> None:
    async with leaves_nothing():
        here = world(limit=2 * CHUNK)
        here.pipes.watch()
        os.write(here.stdout, b"x" * CHUNK)
        os.close(here.stdout)
        here.pipes.drain()
        assert (here.pipes.stdout.total_bytes, here.pipes.drained) == (CHUNK, False)
        os.write(here.stderr, b"x")
        os.close(here.stderr)
        here.pipes.drain()
        assert here.pipes.drained
        here.pipes.close()
        here.pipes.close()
        os.close(here.stdin)
