"""Pages of a family on families without a law, and on an imported one."""

import re

import pytest

from rbplib.doors import export_family
from tests.commands import take
from tests.degenerate import CORPUS, ROOT, SHORT, root_of_its_own, write_degenerate
from tests.pagerunner import NO_NUMBER, read_once, run_page, words

OF_A_FAMILY = sorted(p.stem for p in (ROOT / "notebooks").glob("0[1-8]*.md"))
UNTRUE = {  # sentences that a family makes untrue
    "one-model": r"larger models do (worse|better)|exponent is 0",
    "two-models": r"\*\*(agrees|differs)[^\n]*no value|of the resamples|R²\s1\s",
    "all-equal": r"of the resamples",
    "no-hits": r"\*\*agrees",
    "backwards": r"\*\*agrees[^\n]*(describes -log|falls along)"
    r"|reverses[^\n]*holds in [12]|places apart|Take a larger N|is then 3|[1-9] of \d+ lines fall",
}
DRAWN = ("one-model", "no-hits")
FEW = {"03_moderate_k": {"ks": [10]}, "06_emergence": {"ks": [1], "lengths": [1, 5]}}  # figures


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    with (
        root_of_its_own(tmp_path_factory.mktemp("pages")) as folder,
        pytest.MonkeyPatch.context() as p,
    ):
        # a third of the time, and nobody looks at these figures
        p.setattr("matplotlib.layout_engine.ConstrainedLayoutEngine.execute", lambda *_: None)
        read_once(p)
        write_degenerate(folder)
        yield folder


@pytest.fixture(autouse=True)
def few_figures(request, monkeypatch):
    """Figures are drawn of families of one model or without hits, where drawing is hardest."""
    if "family" in request.fixturenames and request.getfixturevalue("family") not in DRAWN:
        monkeypatch.setattr("paper.show.style.svg_of", lambda figure: "<svg></svg>")


def said(name, **parameters):
    text = words(run_page(name, **parameters))
    assert not re.findall(NO_NUMBER, text)
    return text


@pytest.mark.slow
@pytest.mark.parametrize("family", [*UNTRUE])
@pytest.mark.parametrize("name", OF_A_FAMILY)
def test_a_page_of_a_family_without_a_law_says_so(root, name, family):
    text = said(name, family=family, **SHORT, **FEW.get(name, {}))
    assert not re.findall(UNTRUE[family], text)
    assert name != "02_top1_law" or re.search("No line could be fitted|do worse", text)


@pytest.mark.slow
def test_a_page_of_an_imported_family_says_the_same_and_where_they_come_from(root):
    take(export_family("planted", root / "planted.ranks", corpora=[CORPUS]), "theirs")
    ours, theirs = (
        said("02_top1_law", family=f, **SHORT).split("\n") for f in ("planted", "theirs")
    )
    ours, theirs = ([line for line in text if line.strip()] for text in (ours, theirs))
    origin = [line for line in theirs if line.startswith("**Imported.**")]
    assert [line.replace("theirs", "planted") for line in theirs if line not in origin] == ours
    assert len(origin) == 1 and "was measured elsewhere, as planted" in origin[0]
    # a family beside its own import: nothing lies between the two
    both = said("11_families", families=["planted", "theirs"], **SHORT)
    assert re.search(r"between families\s+between corpora\s+other text\s+1\s+0\s", both)
