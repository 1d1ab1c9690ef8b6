"""Pages of an imported family say, word for word, what those of the measured one say, and where it comes from."""

import os

import nbformat
import pytest
from ranktables import write_family

from paper.evidence import shown_ks
from rbplib.sharing import export_family, import_counts
from tests.conftest import ROOT
from tests.pagerunner import run_page, words
from tests.pages.test_workflow import planned
from workflow import notebooks

PER_FAMILY = [p.stem for p in sorted((ROOT / "notebooks").glob("0[1-8]_*.md"))]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    place, keep = write_family(tmp_path_factory.mktemp("imported")), dict(os.environ)
    for name in ("notebooks", "published", "_config.yml", "_toc.yml"):
        (place / name).symlink_to(ROOT / name)
    (place / "book").mkdir()
    (place / "book" / "claims.yml").symlink_to(ROOT / "book" / "claims.yml")
    os.environ.update(RBP_ROOT=str(place), RBP_RESULTS=str(place / "results"), OMP_NUM_THREADS="1")
    try:
        import_counts(export_family("synthetic", place / "s.counts", shown_ks, by="A <b>*Person*</b>"), "theirs")
        yield place
    finally:
        os.environ.clear()
        os.environ.update(keep)


def said(nb):
    """Its words; where it comes from; tables as a page holds them."""
    lines = [line for line in words(nb)[1].splitlines() if line.strip()]
    origin = [line for line in lines if line.startswith("**Imported.**")]
    return [line.replace("theirs", "synthetic") for line in lines if line not in origin], origin


@pytest.mark.slow
@pytest.mark.parametrize("name", PER_FAMILY[1:])
def test_a_page_says_the_same_of_an_imported_family(name, root):
    (ours, none), (theirs, origin) = (
        said(run_page(name, family=family, n_bootstrap=200)) for family in ("synthetic", "theirs")
    )
    assert ours == theirs and len(ours) > 5
    assert not none and len(origin) == 1
    assert "theirs was measured elsewhere, as synthetic, by A <b>*Person*</b>" in origin[0] and "SHA-256" in origin[0]


def test_the_page_of_the_metric_leaves_out_what_needs_the_text(root):
    nb = nbformat.read(notebooks.run_notebook("01_metric", "theirs", parameters={"n_bootstrap": 200}), 4)
    fixed, told = words(nb)
    assert "is left out of this page" in fixed and "**Imported.**" in told and "Both metrics on" in told
    assert "first tokens of a document" not in fixed and "by Equation 3" in told
    assert not any("runs-models" in c.metadata.get("tags", []) for c in nb.cells)


def test_the_book_of_an_imported_family_measures_nothing(root):
    (root / "book/_executed/theirs/01_metric.ipynb").unlink(missing_ok=True)  # of the test before
    jobs = planned(root, "--config", "families=theirs")
    assert jobs["notebook"] == len(PER_FAMILY) and not [rule for rule in jobs if rule.startswith("measure")]
