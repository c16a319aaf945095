import random

from hypothesis import given, strategies as st

from tenter.journal.references import references
from tenter.wire import Document, digest

TEXTS = st.sampled_from(["x", "y" * 70_000, "é" * 40_000, '"$sha256":"' + "0" * 64 + '"', "$document", "\udcff"])
VALUES = st.recursive(
    TEXTS | st.integers(-5, 5) | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=2) | inner.map(Document),
    max_leaves=8,
)


@given(VALUES, st.integers(1, 200))
def test_what_a_form_names_and_what_that_names_is_all_that_was_kept_apart(value: object, cut: int) -> None:
    document = Document({"value": value})
    found, left = set[str](), [document.data]
    while left:
        data = left.pop()
        for name in references(data[start : start + cut] for start in range(0, len(data), cut)):
            assert name in document.kept
            if name not in found:
                found.add(name)
                left.append(b"".join(document.kept[name]))
    assert found == set(document.kept)


def test_every_mark_is_found_wherever_the_parts_are_cut() -> None:
    documents = [Document({"n": number}) for number in range(20)]
    data = Document(documents).data
    chance = random.Random(1)
    for _ in range(300):
        cuts = sorted(chance.sample(range(len(data)), chance.randrange(1, 30)))
        parts = [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
        assert list(references(parts)) == [document.digest for document in documents]


def test_text_is_taken_for_no_mark() -> None:
    mark = '{"$document":"' + digest(1).removeprefix("sha256:") + '"}'
    assert list(references([Document({"text": mark, "$document": digest(1), mark: 1}).data])) == []
