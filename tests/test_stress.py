"""The harness of `python -m tests.stress` in a small form: a kill, two processes that go on at once
from what it left, what is on the disk."""

from tests import stress


def test_accidents_are_survived_and_nothing_is_left(tmp_path):
    toys = stress.workshop(tmp_path)
    for count in (stress.kills(toys, tries=1, processes=2), stress.calls(toys)):
        assert count.tried and not count.failures, count
