"""What is remembered of the paths of a run: as long as its loop may ask for it, and no longer."""

from tests.harness.test_local import INPUT

from tenter.harness.places import Places


def test_each_path_counts_its_own_passes() -> None:
    places = Places()
    paths = ("1.llm.invoked.0", "1.llm.invoked.0", "1.tool.invoked.0", "1.tool.invoked.1", "1.llm.invoked.0")
    assert [places.next(path) for path in paths] == [1, 2, 1, 1, 3]


def test_with_a_new_step_what_was_of_the_one_before_is_forgotten() -> None:
    places = Places()
    for step in range(1, 200):
        path = f"{step}.tool.invoked.0"
        assert places.next(path) == 1
        places.executions[path], places.times[path], places.worked[path] = 2, 3.0, INPUT
        places.once[path] = True
    for kept in (places.passes, places.executions, places.times, places.worked, places.once):
        assert list(kept) == ["199.tool.invoked.0"]


def test_what_is_of_no_step_stays_and_ends_no_step() -> None:
    places = Places()
    places.next("0.run.0")
    places.next("1.llm.invoked.0")
    places.executions["0.persistence.write.1"] = 1
    assert places.next("0.persistence.write.1") == 1
    assert places.next("1.llm.invoked.0") == 2
    places.next("2.llm.invoked.0")
    assert places.next("0.persistence.write.1") == 2
    assert places.next("0.run.0") == 2
    assert places.executions == {"0.persistence.write.1": 1}
