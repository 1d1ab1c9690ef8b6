"""Every notebook but 12 once in this process on a planted family, and those of a family on families without a law."""

import re

import pytest

from paper import tokens
from rbplib.doors import export_family, import_counts
from tests.degenerate import CORPUS, FAMILIES, ROOT, root_of_its_own, write_degenerate
from tests.pagerunner import run_page, words
from tests.planted import planted_grid

NAMES = sorted(p.stem for p in (ROOT / "notebooks").glob("[0-9]*.md"))
NAMES.remove("12_train_your_own")  # trains for minutes: the small book runs it
OF_A_FAMILY = [name for name in NAMES if name < "09"]
SHORT = {"corpora": [CORPUS], "n_bootstrap": 100}
ASKED = {  # what else than the planted family, so that each takes seconds
    "09_families": {"families": ["planted", "backwards"], **SHORT},
    "10_published": {"families": ["pythia", "rwkv-4"]},
    "11_precision": {"family": "planted", "documents": 5, **SHORT},
    "13_findings": {"families": ["planted", "backwards"], **SHORT},
    "14_coverage": {"families": ["planted"], "corpora": [CORPUS], "runs": 20, "resamples": 50},
    "15_appendix": {},
    "16_new_text": {"families": ["planted", "backwards"], **SHORT},
    "17_real_model": {"families": ["planted"], **SHORT},
    "18_authors_figures": {},
    "19_tokens": {"corpora": ["docs"], "ks": [1, 10], "n_bootstrap": 100},
    "20_published_tokens": {"losses": ["c4"], "tasks": ["lambada_openai"], "pool": ["pythia"]},
    "21_models_and_text": {"families": ["planted"], "corpora": [CORPUS]},
    "22_reproduced": {},
}
NO_NUMBER = r".{0,40}(?:\bnan\b|\binf\b|∞ ?%|\bNone\b(?! of)|Traceback|\b[A-Z]\w+Error\b).{0,40}"
UNTRUE = {  # sentences that a family makes untrue
    "one-model": r"larger models do (worse|better)|exponent is 0",
    "no-hits": r"\*\*agrees",
    "backwards": r"\*\*agrees[^\n]*describes -log",
}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    with root_of_its_own(tmp_path_factory.mktemp("pages")) as place:
        write_degenerate(place)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tokens, "grid", lambda families, corpus, ks: planted_grid())
            yield place


def said(name, **parameters):
    fixed, text = words(run_page(name, **parameters))
    assert len(fixed) > 100 and len(text) > 100
    assert not re.findall(NO_NUMBER, text)
    return text


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_runs_on_a_planted_family(root, name):
    said(name, **ASKED.get(name, {"family": "planted", **SHORT}))


@pytest.mark.slow
@pytest.mark.parametrize("family", [name for name in FAMILIES if name != "planted"])
@pytest.mark.parametrize("name", OF_A_FAMILY)
def test_a_page_of_a_family_without_a_law_says_so(root, name, family):
    text = said(name, family=family, **SHORT)
    assert family not in UNTRUE or not re.findall(UNTRUE[family], text)
    assert name != "02_top1_law" or re.search("No line could be fitted|do worse", text)


@pytest.mark.slow
def test_a_page_of_imported_counts_says_the_same_and_where_they_come_from(root):
    counts = export_family("planted", root / "planted.counts", corpora=[CORPUS])
    import_counts(counts, "theirs")
    ours, theirs = (
        said("02_top1_law", family=f, **SHORT).split("\n") for f in ("planted", "theirs")
    )
    ours, theirs = ([line for line in text if line.strip()] for text in (ours, theirs))
    origin = [line for line in theirs if line.startswith("**Imported.**")]
    assert [line.replace("theirs", "planted") for line in theirs if line not in origin] == ours
    assert len(origin) == 1 and "was measured elsewhere, as planted" in origin[0]
