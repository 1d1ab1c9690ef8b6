"""What all test processes share: a small book, the embedded text, and the order of the files."""

import gc
import os
import shutil
import signal
from pathlib import Path

import pytest

from tests import degenerate

for name in ("RBP_ROOT", "RBP_RESULTS"):  # a user's own have no part in tests
    os.environ.pop(name, None)

if "PYTEST_XDIST_WORKER" in os.environ:  # one process a core already
    os.environ.setdefault("OMP_NUM_THREADS", "1")
gc.set_threshold(100_000, 50, 50)  # as in the workflow: text is gathered in half the time
# processes that tests start and stop are deaf to a signal that nohup, or a shell's job, ignores
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)

# a book is made by one process while another is at the workflow
LONGEST = ("test_book", "test_workflow", "test_browser", "test_pages", "test_stress", "test_site")


def pytest_collection_modifyitems(items):
    """The longest files come first: what is last must be short, or one process waits."""
    turn = {name: i for i, name in enumerate(LONGEST)}
    items.sort(key=lambda item: turn.get(item.path.stem, len(turn)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Under `-n`, one process runs all tests of a file. Files are taken in the order above, not by
    how many tests they have."""
    from xdist.scheduler import LoadFileScheduling

    config.option.loadscopereorder = False
    return LoadFileScheduling(config, log)


@pytest.fixture
def empty_root(tmp_path, monkeypatch):
    """A root without a family or a corpus."""
    for folder in ("families", "corpora"):
        (tmp_path / folder).mkdir()
    monkeypatch.setenv("RBP_ROOT", str(tmp_path))
    return tmp_path


def shared(factory):
    """The folder that all test processes have together."""
    folder = factory.getbasetemp()
    return folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder


@pytest.fixture(scope="session")
def small_book(tmp_path_factory):
    """The root of a small book: every notebook run once on planted tables, and every page built, by
    all processes that ask for it."""
    with degenerate.root_of_its_own(shared(tmp_path_factory) / "book", degenerate.WHOLE) as root:
        degenerate.write_book(root)
    return root


@pytest.fixture(scope="session")
def built_html(request):
    """A built book: the one RBP_HTML names, or the small one."""
    given = os.environ.get("RBP_HTML")
    return Path(given or request.getfixturevalue("small_book") / "_build/html").resolve()


@pytest.fixture(scope="session")
def embedded(tmp_path_factory):
    """{kind: (Corpus, its documents)}: the text that is here, or drawn now from the packages, once
    for all processes."""
    from corpora.make import KINDS, make_text
    from rbplib.families import load_corpus, one_at_a_time
    from rbplib.texts import load_documents

    root, here = shared(tmp_path_factory) / "embedded", degenerate.ROOT / "results/text"
    with one_at_a_time(root), pytest.MonkeyPatch.context() as patch:
        if not root.exists():
            (root / "families").mkdir(parents=True)
            (root / "corpora").symlink_to(degenerate.ROOT / "corpora")
            if here.is_dir():
                shutil.copytree(here, root / "results/text")
        patch.setenv("RBP_ROOT", str(root))
        for kind in KINDS:
            make_text(load_corpus(kind))  # where what is here is of other code or packages
        return {kind: (load_corpus(kind), load_documents(kind)) for kind in KINDS}
