"""What a loop is asked to do is kept, so that another process can go on with it."""

import msgspec
from hypothesis import given, strategies as st

from tenter.loop.request import LoopRequest

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(
    st.builds(
        LoopRequest,
        config=TEXT,
        task=st.none() | TEXT,
        prompt=st.none() | TEXT,
        max_iterations=st.none() | st.integers(1, 9),
        exclusive=st.booleans(),
        skip_preflight=st.booleans(),
    )
)
def test_a_request_is_read_back_as_it_was_kept(request: LoopRequest) -> None:
    kept = msgspec.json.decode(msgspec.json.encode(request))
    assert msgspec.convert(kept, LoopRequest) == request


def test_a_request_that_names_no_more_than_its_configuration_leaves_the_rest_to_it() -> None:
    request = LoopRequest(config="tenter.yaml")
    assert (request.task, request.prompt, request.max_iterations) == (None, None, None)
    assert not request.exclusive
    assert not request.skip_preflight
