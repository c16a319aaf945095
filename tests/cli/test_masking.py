"""What is printed holds no secret."""

from pathlib import Path

import pytest

from tenter.cli.masking import mask, mask_of, masked, told_mask_of
from tenter.journal import KEY_VARIABLE

KEY = "ghp_" + "a1B2" * 9


@pytest.mark.promise(4)
@pytest.mark.parametrize("name", ["API_KEY", "github_token", "DB_PASSWORD", "MY_SECRET", "AWS_CREDENTIALS"])
def test_the_value_of_a_variable_that_is_called_like_a_secret_is_masked(name: str) -> None:
    assert "opensesame" not in mask({name: "opensesame"})("it said opensesame twice")


def test_the_value_of_another_variable_is_left() -> None:
    assert mask({"EDITOR": "opensesame"})("opensesame") == "opensesame"


@pytest.mark.promise(4)
@pytest.mark.parametrize("text", [KEY, f"key={KEY}", "password: hunter2hunter2", '{"password": "hunter2hunter2"}'])
def test_published_keys_and_what_looks_like_a_secret_are_masked(text: str) -> None:
    shown = mask({})(text)
    assert KEY not in shown
    assert "hunter2hunter2" not in shown


@pytest.mark.fault(60)
def test_every_text_of_a_value_is_masked_and_its_shape_stays() -> None:
    value = {"a": [KEY, 1, None, {"b": (KEY, True)}]}
    assert masked(value, mask({})) == {"a": ["[redacted]", 1, None, {"b": ["[redacted]", True]}]}


@pytest.mark.promise(4)
def test_the_values_that_the_files_name_as_secrets_are_masked(tmp_path: Path) -> None:
    (tmp_path / "tenter.yaml").write_text("version: 1\nsecrets: [PLAIN, UNSET]\nwrong: 1\n")
    masking = mask_of(str(tmp_path / "tenter.yaml"), {"PLAIN": "opensesame", "OTHER": "sesame"})
    assert masking("opensesame, sesame") == "[redacted], sesame"
    assert mask_of(str(tmp_path / "none.yaml"), {})(KEY) == "[redacted]"


@pytest.mark.promise(4)
def test_for_the_record_only_what_is_certainly_a_secret_is_masked(tmp_path: Path) -> None:
    (tmp_path / "tenter.yaml").write_text("version: 1\nsecrets: [PLAIN]\n")
    environment = {"PLAIN": "opensesame", "MY_PASSWORD": "elsewhere", KEY_VARIABLE: "0123456789abcdefgh"}
    masking = told_mask_of(str(tmp_path / "tenter.yaml"), environment)
    assert masking(f"opensesame {KEY} 0123456789abcdefgh") == "[redacted] [redacted] [redacted]"
    assert masking("password: hunter2hunter2, elsewhere") == "password: hunter2hunter2, elsewhere"
