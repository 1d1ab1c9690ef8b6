"""A small book, built once per test session from the smallest embedded models and few documents."""

import gc
import os
import signal
from pathlib import Path

import pytest

from tests import degenerate

if "PYTEST_XDIST_WORKER" in os.environ:  # one process a core already
    os.environ.setdefault("OMP_NUM_THREADS", "1")
gc.set_threshold(100_000, 50, 50)  # as in the workflow: text is gathered in half the time
signal.signal(
    signal.SIGHUP, signal.SIG_DFL
)  # processes that tests start and send it would be deaf to it under nohup

LONGEST = ("test_book", "test_pages", "test_workflow", "test_site", "test_training")  # files


def pytest_collection_modifyitems(items):
    """The longest files come first: what is last must be short, or one process waits."""
    turn = {name: i for i, name in enumerate(LONGEST)}
    items.sort(key=lambda item: turn.get(item.path.stem, len(turn)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers():
    """One process more than cores, as tests wait for programs, servers and a browser."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Under `-n`, one process runs all tests of a file: the small book is built once, by
    test_book.py."""
    from xdist.scheduler import LoadFileScheduling

    return LoadFileScheduling(config, log)


@pytest.fixture(scope="session")
def small_book(tmp_path_factory):
    """The root of a small book: every notebook run once on planted tables, and every page built."""
    if given := os.environ.get("RBP_SMALL_BOOK"):  # one built earlier, for work on these tests
        return Path(given).resolve()
    with degenerate.root_of_its_own(tmp_path_factory.mktemp("book"), degenerate.WHOLE) as place:
        degenerate.write_book(place)
    return place
