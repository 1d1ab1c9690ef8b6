"""Families for which some numbers do not exist: every page of a family ends, and its words stay true."""

import os
import re
from functools import cache, partial

import pytest

from paper import published_cases
from paper.show import grid_tables
from rbplib import exchange
from tests.conftest import ROOT
from tests.degenerate import FAMILIES, write_degenerate
from tests.pagerunner import run_page, words

ALIKE = ("three-models", "two-sizes", "never-at-all", "all-within-three", "backward", "mid-perfect", "up-and-down")
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


@pytest.fixture(scope="module", autouse=True)
def published_once():
    """What pages compute of published tables and read of counts, whatever their families are: once for all runs, the
    grid at k = 1."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grid_tables, "grid_numbers", cache(partial(grid_tables.grid_numbers, ks=(1,))))
        patch.setattr(published_cases, "published_numbers", cache(published_cases.published_numbers))
        patch.setattr(exchange, "read_counts", cache(exchange.read_counts))
        yield


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
@pytest.mark.parametrize("family", [f for f in FAMILIES if f not in ALIKE])
def test_every_page_of_every_family_ends_and_shows_no_number_that_is_none(pages, family, notebook):
    _, said = pages(family, notebook)
    assert not re.findall(r".{0,40}(?:\bnan\b|\binf\b|∞ ?%|\bNone\b(?! of)|[-−]0\.0+\b(?!\d)|Traceback).{0,40}", said)


SENTENCES = [  # (family, notebook, what stands there, what does not)
    ("all-first", "01_metric", "all ranks are the same, and one place stands for both", "fails at the first"),
    ("all-first", "01_metric", "not defined, for one of them is always the same", "Neither determines the other"),
    ("all-first", "01_metric", "No three neighbouring tokens have three ranks", "Three neighbouring tokens of which"),
    ("never-first", "01_metric", "every time, fails at the first and fails at the second", "succeeds"),
    ("all-tied", "01_metric", ": 2,520 of the 2,520 true tokens tie with another", ": 0 of the"),
    ("all-first", "02_top1_law", "No line could be fitted (1 × *too few models; saturated*)", "larger models do worse"),
    ("never-at-all", "02_top1_law", "fitted (1 × *too few models; no hits*)", "larger models do worse"),
    ("all-alike", "02_top1_law", "No line could be fitted (1 × *equal losses*)", "too few models"),
    ("one-model", "02_top1_law", "One model is no ladder", "1 models span"),
    ("one-model", "02_top1_law", "No model is held out: fewer than three would be left", "The predicted loss is off"),
    ("two-models", "02_top1_law", "No line could be fitted (1 × *too few models*)", "larger models do worse"),
    ("last-perfect", "02_top1_law", "In 1 of 1 fits some model has no hit, or no miss, and is left out", "No line"),
    ("first-blind", "02_top1_law", "In 1 of 1 fits some model has no hit, or no miss, and is left out", "No line"),
    ("largest-worst", "02_top1_law", "A negative exponent says that larger models do worse", "are left out"),
    ("two-sizes", "02_top1_law", "too few sizes with a value to compare", "The exponent of the last"),
    ("three-models", "02_top1_law", "No model is held out: fewer than three would be left", "too few models to hold"),
    ("up-and-down", "02_top1_law", "tested: resampled sources move some models alike, or one not at all.", "too few s"),
    ("all-alike", "02_top1_law", "the last one is the smaller in 0 of 1 cases", "is not enough in 1"),
    ("one-model", "02_top1_law", "could be tested: no line could be fitted.", "too few sources"),
    ("few-documents", "02_top1_law", "None of the 4 cases could be tested: too few sources.", "models with a value"),
    ("one-model", "02_top1_law", "with one line per corpus where it can be fitted", "axes, one line"),
    ("one-model", "03_moderate_k", "with a line per corpus where it can be fitted", "k, a line per corpus"),
    ("all-within-three", "03_moderate_k", "fitted (3 × *too few models; saturated*)", "of 3 lines reach"),
    ("two-models", "03_moderate_k", "No line could be fitted (3 × *too few models*)", "of 3 lines reach"),
    ("backward", "03_moderate_k", "A negative exponent says that larger models do worse", "No line could be fitted"),
    ("few-documents", "03_moderate_k", "of 11 lines reach the paper's", "of 12 lines reach"),
    ("all-first", "04_large_k", "The largest model misses 0 tokens", "between"),
    ("one-model", "04_large_k", "not known, as no line at large $k$ takes in every model", "no miss is left"),
    ("one-model", "04_large_k", "a fitted line per corpus, each where there is one", "a fitted line per corpus."),
    ("mid-perfect", "04_large_k", "not known, as no line at large $k$ takes", "no line could be fitted"),
    ("mid-perfect", "04_large_k", "could be tested: no line takes in every model.", "too few sources"),
    ("up-and-down", "04_large_k", "its median is:\n\n- **Text notes**: 0.", "times fewer"),
    ("few-documents", "04_large_k", "No corpus here has sources enough to resample", "One case in twenty"),
    ("two-models", "05_k_dependence", "is given: there are fewer than three sizes", "it falls"),
    ("mid-perfect", "05_k_dependence", "is given: at one of the two some model has no hit", "no exponent at"),
    ("mid-perfect", "05_k_dependence", "hits and misses of every model at both", "and enough sources."),
    ("letters", "05_k_dependence", "is given: at one of the two some model has no hit", "no exponent at"),
    ("all-alike", "05_k_dependence", "or all have one loss, and a difference takes", "the exponent changes"),
    ("backward", "05_k_dependence", "cannot be told to rise or fall", "falls with k"),
    ("all-first", "06_emergence", "nothing can be told about independence", "rejects independence"),
    ("all-first", "06_emergence", "it foretells no size at which runs succeed", "half of all runs succeed"),
    ("backward", "06_emergence", "is in doubt (*wrong sign*)", "half of all runs succeed"),
    ("never-at-all", "06_emergence", "nothing can be told about independence", "The largest measured gap"),
    ("backward", "06_emergence", "ten in a row at k = 10 are 0.7", "more often by"),
    ("one-model", "07_two_laws", "its least-squares line where one can be fitted", "least-squares line."),
    ("all-alike", "07_two_laws", "or there are too few models, or all are alike", "not told apart"),
    ("one-model", "07_two_laws", "the gap of the one model is", "at the largest."),
    ("one-size", "07_two_laws", "There is one size alone", "does not fall from the smallest"),
    ("last-perfect", "07_two_laws", "is 0 for the largest model", "does not fall from the smallest"),
    ("last-perfect", "07_two_laws", "cannot be compared with it on", "not told apart from"),
    ("never-first", "07_two_laws", "has no value for the smallest model", "does not fall from the smallest"),
    ("few-documents", "08_rank_distribution", "The laws are not compared on Text one: that takes 5 sources", "best is"),
    ("letters", "08_rank_distribution", "Left out: $k$ = 1000, beyond this family's vocabulary of 100", "100, 1000]"),
    ("letters", "03_moderate_k", "vocabulary of 100 tokens", "Left out"),
    ("all-alike", "08_rank_distribution", "fewer than three sizes have a finite, well-determined", "against $S$ has"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("family", "notebook", "there", "not_there"), SENTENCES, ids=lambda x: x[:24])
def test_a_page_says_what_cannot_be_shown_and_nothing_untrue(pages, family, notebook, there, not_there):
    _, said = pages(family, notebook)
    assert there in said and not_there not in said


@pytest.mark.slow
def test_the_page_of_two_laws_says_that_it_is_about_one_rank(root):
    _, said = words(run_page("07_two_laws", family="one-model", corpora=["notes"], n_bootstrap=100, ks=[5, 1]))
    assert "Left out: $k$ = 5, for this page is about $k = 1$ alone." in said


@pytest.mark.slow
@pytest.mark.parametrize("notebook", PER_FAMILY)
def test_every_page_takes_names_and_paths(root, notebook):
    (root / "my own.txt").write_text("\n\n".join((ROOT / "README.md").read_text().split("\n\n")[:30]))
    _, said = words(
        run_page(notebook, family="three-models", corpora=[str(root / "my own.txt"), "notes"], n_bootstrap=100)
    )
    assert re.search(r"my[- ]own", said) and ("Text notes" in said or notebook == "01_metric")  # 01 shows the first


MIXES = {
    "all kinds": ["three-models", "all-first", "one-model", "two-sizes", "never-at-all", "letters"],
    "one model": ["one-model"],
    "all first": ["all-first"],
    "all tied": ["all-tied"],
    "alike": ["all-alike"],
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "notebook", ["09_families", "11_precision", "13_findings", "14_coverage", "16_new_text", "21_models_and_text"]
)
@pytest.mark.parametrize("families", MIXES)
def test_pages_of_all_families_end_with_degenerate_ones_among_them(root, families, notebook):
    asked = {"families": MIXES[families], "corpora": ["notes"], "n_bootstrap": 100}
    if notebook == "14_coverage":
        asked = {"families": MIXES[families], "corpora": ["notes"], "runs": 20, "resamples": 50}
    if notebook == "11_precision":
        asked = {"family": MIXES[families][0], "corpora": ["notes"], "documents": 5, "n_bootstrap": 100}
    _, said = words(run_page(notebook, **asked))
    assert not re.findall(r".{0,40}(?:\bnan\b|\binf\b|∞ ?%|\bNone\b(?! of)|[-−]0\.0+\b(?!\d)).{0,40}", said)
