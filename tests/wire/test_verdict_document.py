from tenter.kernel import OUTCOMES
from tenter.wire.verdict_document import DOCUMENTS, KEYS


def test_each_answer_of_the_kernel_has_its_decision() -> None:
    assert set(DOCUMENTS) == (set(OUTCOMES) - {"result"}) | {"pass"}


def test_the_keys_are_those_of_the_design() -> None:
    documented = (
        "decision reason code stop queue feedback editable expires_in on_timeout replace result metadata"  # D§9
    )
    assert set(KEYS) == set(documented.split())


def test_each_document_can_bear_metadata_and_refuses_what_it_does_not_know() -> None:
    for kind in DOCUMENTS.values():
        assert "metadata" in kind.__struct_fields__
        assert kind.__struct_config__.forbid_unknown_fields
