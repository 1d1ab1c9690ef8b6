"""The harness of `make stress` in a small form: a kill, two processes that go on at once from what
it left, what is on the disk."""

from commands import python


def test_accidents_are_survived_and_nothing_is_left():
    run = python("-m", "tests.stress", "--small")
    assert run.returncode == 0, run.stdout + run.stderr[-3000:]
    assert run.stdout.count("tried") == 2
