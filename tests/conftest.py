"""A small book, built once per test session from the smallest embedded models and few documents."""

import gc
import os
import signal
from contextlib import closing
from pathlib import Path

import pytest
import yaml
from warm import Warm

if "PYTEST_XDIST_WORKER" in os.environ:  # one process a core already
    os.environ.setdefault("OMP_NUM_THREADS", "1")
gc.set_threshold(100_000, 50, 50)  # as in the workflow: text is gathered in half the time
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # processes that tests start and send it would be deaf to it under nohup

ROOT = Path(__file__).resolve().parents[1]
STORY = "nano-pythia"  # the family of the paper's part; another one has its own place in the contents
MODELS, DOCUMENTS = 4, 30  # extrapolation needs one model more than a fit's three
OF_THE_BOOK = ("test_offline", "test_figure_boxes", "test_tables", "test_workflow")  # files whose tests use it
SETTINGS = {"n_bootstrap": 200, "runs": 40, "resamples": 100, "tokens": 100_000, "rungs": 3, "documents": 12}
SETTINGS |= {"losses": ["c4"], "tasks": ["lambada_openai", "coqa"]}
LONGEST = ("test_degenerate", "test_hub_faults", "test_imported", "test_gpu_session", "test_family_file", "test_stress")
LONGEST += ("test_any_family", "test_locks", "test_hostile_text", "test_published_tokens", "test_training", "test_hub")
OF_PAGES = ("papermill", "ipykernel.kernelapp", "pandas", "matplotlib.pyplot", "scipy.stats", "altair")
COLD = ("02_top1_law", "html")  # steps of the small book that begin as in any book, one that runs a kernel among them
AS_THEY_ARE = ("models", "notebooks", "published", "training", "benchmarks", "_config.yml", "_toc.yml", "CITATION.cff")


def embedded():
    """Names of the embedded families, the story's own first, then the one that is no transformer."""
    found = [p.stem for p in (ROOT / "families").glob("*.yml") if yaml.safe_load(p.read_text()).get("embedded")]
    return sorted(found, key=lambda name: (name != STORY, "mamba" not in name, name))


def pytest_collection_modifyitems(items):
    """Tests of the small book come first, then the longest files: what is last must be short, or one process waits."""
    turn = {name: i for i, name in enumerate([*OF_THE_BOOK, *LONGEST])}
    for item in items:
        if "small_book" in item.fixturenames and item.path.stem not in OF_THE_BOOK:
            raise pytest.UsageError(f"{item.path.name} uses the small book: name it in OF_THE_BOOK of conftest.py.")
    items.sort(key=lambda item: turn.get(item.path.stem, len(turn)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers():
    """One process more than cores, as tests wait for programs, servers and a browser."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Under `-n`, one process runs all tests of a file, and one all those of the small book, built once."""
    from xdist.scheduler import LoadFileScheduling

    class ByBook(LoadFileScheduling):
        def _split_scope(self, nodeid):
            file = nodeid.split("::")[0]
            return "small book" if Path(file).stem in OF_THE_BOOK else file

    return ByBook(config, log)


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
        if corpus.get("source") == "embedded":
            corpus.pop("digest", None)
            corpus["documents"] = DOCUMENTS
            (place / "corpora" / path.name).write_text(yaml.safe_dump(corpus, sort_keys=False))
    return place


@pytest.fixture(scope="session")
def small_book(tmp_path_factory):
    """The root of the small book: measured, every notebook run, every page built with warnings as errors."""
    if given := os.environ.get("RBP_SMALL_BOOK"):  # one built earlier, for work on these tests
        return Path(given).resolve()
    if STORY not in embedded():
        pytest.skip(f"this checkout has no embedded family {STORY}")
    place = small_root(tmp_path_factory.mktemp("book"))
    keep = {name: os.environ.get(name) for name in ("RBP_ROOT", "RBP_RESULTS", "OMP_NUM_THREADS")}
    os.environ.update(RBP_ROOT=str(place), RBP_RESULTS=str(place / "results"), OMP_NUM_THREADS="1")
    try:
        from workflow.book import make_book

        started = Warm(tmp_path_factory.mktemp("warm"), OF_PAGES, ("workflow.book", "ipykernel_launcher"), COLD)
        with closing(started) as warm, pytest.MonkeyPatch.context() as patch:
            patch.setattr("sys.executable", warm.python)
            make_book(settings=SETTINGS, show=False)
    finally:
        for name, value in keep.items():
            os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)
    return place


@pytest.fixture(scope="session")
def other():
    """The small book's second family."""
    if len(embedded()) < 2:
        pytest.skip("this checkout has only one embedded family")
    return embedded()[1]


@pytest.fixture(scope="session")
def built_html(request):
    """A built book: the one RBP_HTML names, or the small one."""
    if given := os.environ.get("RBP_HTML"):
        return Path(given).resolve()
    return request.getfixturevalue("small_book") / "_build" / "html"


@pytest.fixture
def three_names(tmp_path, monkeypatch):
    """A root of its own with one family of three names."""
    for folder in ("families", "corpora", "notebooks"):
        (tmp_path / folder).mkdir()
    text = "models: [{id: a/small}, {id: a/middle}, {id: a/large}]\nembedded: true\n"
    (tmp_path / "families" / "nano-pythia.yml").write_text(text)
    (tmp_path / "families" / "other.yml").write_text(text + "title: Another <b>one</b>\n")
    monkeypatch.setenv("RBP_ROOT", str(tmp_path))
    return tmp_path
