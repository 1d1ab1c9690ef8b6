"""Families for which some numbers do not exist: every page of a family ends, and its words stay true."""

import os
import re

import pytest

from tests.conftest import ROOT
from tests.degenerate import FAMILIES, write_degenerate
from tests.pagerunner import run_page, words

PER_FAMILY = [p.stem for p in sorted((ROOT / "notebooks").glob("0[1-8]_*.md"))]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    place, keep = tmp_path_factory.mktemp("degenerate"), dict(os.environ)
    for name in ("notebooks", "published", "training"):
        (place / name).symlink_to(ROOT / name)
    for folder in ("families", "corpora", "models", "book"):
        (place / folder).mkdir()
    (place / "book" / "claims.yml").symlink_to(ROOT / "book" / "claims.yml")
    os.environ.update(RBP_ROOT=str(place), RBP_RESULTS=str(place / "results"), OMP_NUM_THREADS="1")
    try:
        write_degenerate(place)
        yield place
    finally:
        os.environ.clear()
        os.environ.update(keep)


@pytest.fixture(scope="module")
def pages(root):
    """What gives the words of one page of one family, run once."""
    found = {}

    def page(family, notebook):
        if (family, notebook) not in found:
            ran = run_page(notebook, family=family, corpora=list(FAMILIES[family].corpora), n_bootstrap=200)
            found[family, notebook] = words(ran)
        return found[family, notebook]

    return page


@pytest.mark.slow
@pytest.mark.parametrize("notebook", PER_FAMILY)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_page_of_every_family_ends_and_shows_no_number_that_is_none(pages, family, notebook):
    _, said = pages(family, notebook)
    assert not re.findall(r".{0,40}(?:\bnan\b|\binf\b|∞ ?%|\bNone\b(?! of)|[-−]0\.0+\b(?!\d)|Traceback).{0,40}", said)
