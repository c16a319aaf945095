import os

import pytest

from tenter.loop.release import By, Release, by_this_process


def test_who_asked_is_told_by_name_and_number() -> None:
    release = Release(how="stop", by=By(7, "ann"), at="2026-02-28T15:31:00Z")
    assert release.who == "ann (process 7)"


def test_this_process_asks_in_the_name_of_its_user() -> None:
    by = by_this_process()
    assert by.pid == os.getpid()
    assert by.user


def test_a_user_without_a_name_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getuid", lambda: 4_000_123)
    assert by_this_process().user == "4000123"
