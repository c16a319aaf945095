"""Which providers there are, and what makes a model of theirs."""

from pathlib import Path
from typing import get_args

import msgspec

from tenter.config import ModelSpec
from tenter.harness.model import PROVIDERS, Model, make_model
from tenter.harness.scripted import ScriptedModel


def test_every_provider_that_a_configuration_may_name_is_in_the_table() -> None:
    (provider,) = (field for field in msgspec.structs.fields(ModelSpec) if field.name == "provider")
    assert set(PROVIDERS) == set(get_args(provider.type))


def test_a_model_is_made_from_its_settings_and_the_folder_of_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("version: 1\nturns: [Done.]\n")
    model: Model = make_model(ModelSpec(provider="scripted", file="s.yaml"), tmp_path)
    assert isinstance(model, ScriptedModel)
