"""The first entry of a run's stream: with it, another process goes on with the run."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from tenter.agent import LOOP_VERSION, Plan
from tenter.catalogue import Envelope, Limits, LoopFacts
from tenter.harness.changes import parts_of, workspace_of
from tenter.harness.held import claim_of
from tenter.harness.parts import Begun
from tenter.harness.recording import Recording
from tenter.harness.setup import Setup
from tenter.kernel import TenterError


def first_entry(setup: Setup, plan: Plan, begun: Begun) -> Mapping[str, object]:
    """The content of a run's first entry: with it, the run is gone on with."""
    task = plan.envelope.task
    return {
        **claim_of(""),
        "task": task.name,
        "version": task.version,
        "envelope": plan.envelope,
        "input": plan.input,
        "limits": plan.limits,
        "root": plan.root_run_id,
        "depth": plan.depth,
        "began": begun.began,
        "spec": setup.spec.digest,
        "parts": parts_of(setup, task.name),
        "workspace": workspace_of(setup),
        "callers_hooks": setup.callers_hooks,
        "instructions": plan.instructions,
        "loop_version": LOOP_VERSION,
    }


def recalled(recording: Recording, plan: Plan, begun: Begun) -> tuple[Plan, Begun]:
    """The plan of a run that is on record with what is its own, and what it was begun with. Raises TenterError."""
    first = recording.first
    try:
        recorded = msgspec.structs.replace(
            plan,
            envelope=msgspec.convert(first["envelope"], Envelope),
            input=msgspec.convert(first["input"], str),
            limits=msgspec.convert(first["limits"], Limits),
            root_run_id=msgspec.convert(first["root"], str),
            depth=msgspec.convert(first["depth"], int),
            instructions=msgspec.convert(first["instructions"], str),
        )
        loop = None if first["loop"] is None else msgspec.convert(first["loop"], LoopFacts)
        own: dict[str, Any] = {"seed": str(first["seed"]), "began": float(first["began"]), "loop": loop}
    except (KeyError, TypeError, ValueError) as error:
        raise TenterError(
            f"this run cannot be gone on with: an earlier version of tenter began it ({error} is not on record)"
        ) from None
    return recorded, replace(begun, **own)
