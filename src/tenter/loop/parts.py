"""What a loop is made of, built once before it begins (by `starting`), and how it tells people of its progress."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

from tenter.config import LoopSpec
from tenter.executors import SuspendMode
from tenter.harness import Setup
from tenter.kernel import FrozenStruct
from tenter.loop.facts import Identity
from tenter.loop.place import Place
from tenter.loop.registry import Registry
from tenter.loop.registry_file import RegistryHeld
from tenter.loop.state import Asked
from tenter.loop.work import Backend

T = TypeVar("T")

HELD_SECONDS: Final = 0.5
"""Between two tries where another process holds the registry."""

ToldKind = Literal["began", "iteration", "output", "held", "released", "question", "note", "ended"]


class Told(FrozenStruct, frozen=True, kw_only=True):
    """Progress of a loop, for people: masked, and not yet escaped for a terminal."""

    kind: ToldKind
    loop_id: str
    text: str


Listener = Callable[[Told], None]

Asking = Callable[[Asked], Awaitable[str]]
"""Puts a question to the person at the terminal; cancelled where it is answered elsewhere, or no more waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """One loop's surroundings."""

    identity: Identity
    place: Place
    spec: LoopSpec
    setup: Setup
    registry: Registry
    modes: Mapping[tuple[str, str], SuspendMode]
    """By point and hook, where it is not the default."""
    backends: Mapping[str | None, Backend]
    """By hat; under None the one of all others."""
    environment: Mapping[str, str]
    """What backends get beside the user's own."""
    prompt: str
    task: str | None
    listener: Listener
    asking: Asking | None = None

    @property
    def loop_id(self) -> str:
        return self.identity.id

    def tell(self, kind: ToldKind, text: str) -> None:
        """Tells people, without what is secret or looks so."""
        self.listener(Told(kind=kind, loop_id=self.loop_id, text=self.setup.redactor.mask_fuzzy(text)))

    def note(self, text: str) -> None:
        self.tell("note", text)

    async def patiently(self, step: Callable[[], T]) -> T:
        """What `step` gives, which uses the registry: a loop waits as long as another process holds that.

        Raises TenterError for any other trouble of it.
        """
        told = False
        while True:
            try:
                return step()
            except RegistryHeld as error:
                if not told:
                    self.note(f"{error}; the loop waits for that")
                told = True
            await asyncio.sleep(HELD_SECONDS)
