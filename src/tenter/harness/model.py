"""What a model is to the harness, and which providers there are."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Protocol

from tenter.catalogue import ModelRequest, ModelResponse
from tenter.config import ModelSpec
from tenter.harness.scripted import ScriptedModel
from tenter.kernel import FrozenDict


class Model(Protocol):
    """Answers requests. Raises OperationFailed with `provider_transient` or `provider_permanent` where it cannot."""

    async def generate(self, request: ModelRequest) -> ModelResponse: ...


PROVIDERS: Final[Mapping[str, Callable[[ModelSpec, Path], Model]]] = FrozenDict({"scripted": ScriptedModel.from_spec})
"""By the word under `provider`: makes the model from its settings and the folder that relative paths start at."""


def make_model(spec: ModelSpec, folder: Path) -> Model:
    """The model of a configuration in `folder`. Raises ConfigError where it cannot be used as described."""
    return PROVIDERS[spec.provider](spec, folder)
