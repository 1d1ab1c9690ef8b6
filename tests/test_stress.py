"""The harness of `python -m tests.stress` in a small form: a kill, two processes that go on at once
from what it left, what is on the disk, bits of tables. tests/faults.yml has the faults it finds."""

from tests import stress


def test_accidents_are_survived_and_nothing_is_left(tmp_path):
    toys = stress.workshop(tmp_path)
    parts = stress.kills(toys, tries=1, processes=2), stress.calls(toys), stress.damage(toys, 20)
    stress.server(toys).communicate()
    for count in parts:
        assert count.tried and not count.failures, count
