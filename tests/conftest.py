"""A small book, built once per test session from the smallest embedded models and few documents."""

import gc
import os
import signal
from pathlib import Path

import pytest
import yaml

if "PYTEST_XDIST_WORKER" in os.environ:  # one process a core already
    os.environ.setdefault("OMP_NUM_THREADS", "1")
gc.set_threshold(100_000, 50, 50)  # as in the workflow: text is gathered in half the time
signal.signal(
    signal.SIGHUP, signal.SIG_DFL
)  # processes that tests start and send it would be deaf to it under nohup

ROOT = Path(__file__).resolve().parents[1]
STORY = (
    "nano-pythia"  # the family of the paper's part; another one has its own place in the contents
)
MODELS, DOCUMENTS = 4, 30  # extrapolation needs one model more than a fit's three
SETTINGS = {
    "n_bootstrap": 200,
    "runs": 40,
    "resamples": 100,
    "tokens": 100_000,
    "rungs": 3,
    "documents": 12,
}
SETTINGS |= {"losses": ["c4"], "tasks": ["lambada_openai", "coqa"]}
LONGEST = ("test_book", "test_pages", "test_workflow", "test_site", "test_training")  # files
AS_THEY_ARE = (
    "models",
    "notebooks",
    "published",
    "training",
    "benchmarks",
    "_config.yml",
    "_toc.yml",
    "CITATION.cff",
)


def embedded():
    """Names of the embedded families, the story's own first, then the one that is no transformer."""
    found = [
        p.stem
        for p in (ROOT / "families").glob("*.yml")
        if yaml.safe_load(p.read_text()).get("embedded")
    ]
    return sorted(found, key=lambda name: (name != STORY, "mamba" not in name, name))


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
    """Under `-n`, one process runs all tests of a file: the small book is built once, by test_book.py."""
    from xdist.scheduler import LoadFileScheduling

    return LoadFileScheduling(config, log)


def small_root(place):
    """A root of its own that shares what is not changed with the checkout."""
    for name in AS_THEY_ARE:
        if (ROOT / name).exists():
            (place / name).symlink_to(ROOT / name)
    for folder in ("families", "corpora", "book"):
        (place / folder).mkdir()
    for entry in (ROOT / "book").iterdir():
        if entry.name not in ("_executed", "__pycache__"):
            (place / "book" / entry.name).symlink_to(entry)
    for name in (*embedded()[:2], f"{STORY}-seeds"):
        family = yaml.safe_load((ROOT / "families" / f"{name}.yml").read_text())
        family["models"] = family["models"][:MODELS]
        (place / "families" / f"{name}.yml").write_text(yaml.safe_dump(family, sort_keys=False))
    for path in (ROOT / "corpora").glob("*.yml"):
        corpus = yaml.safe_load(path.read_text())
        if corpus.get("kind"):
            corpus.pop("digest", None)
            corpus["documents"] = DOCUMENTS
            (place / "corpora" / path.name).write_text(yaml.safe_dump(corpus, sort_keys=False))
    return place


@pytest.fixture(scope="session")
def small_book(tmp_path_factory):
    """The root of the small book: measured, every notebook run, every page built with warnings as errors."""
    if given := os.environ.get("RBP_SMALL_BOOK"):  # one built earlier, for work on these tests
        return Path(given).resolve()
    place = small_root(tmp_path_factory.mktemp("book"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RBP_ROOT", str(place))
        patch.setenv("RBP_RESULTS", str(place / "results"))
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.setenv("PYTHONPATH", str(ROOT))
        from workflow.book import make_book

        make_book(settings=SETTINGS, show=False)
    return place


@pytest.fixture(scope="session")
def built_html(request):
    """A built book: the one RBP_HTML names, or the small one."""
    if given := os.environ.get("RBP_HTML"):
        return Path(given).resolve()
    return request.getfixturevalue("small_book") / "_build" / "html"
