"""The switch for family, and sentences of a run that another page shows: built by the book's own extension."""

import json
import re
import sys
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import yaml

from paper import open_questions as front

ROOT = Path(__file__).resolve().parents[2]
FAMILIES = ["a-1", "b", "c.x"]
INTRO = """# First

```{run-words} 13_x front
```

```{run-words} 13_x nothing
```

```{run-words} 14_y front
```

```{run-words} 05_w front
```
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """{page: HTML} of three families with a page, of which the last has two, and of a page that shows a run's words."""
    from sphinx.application import Sphinx

    place = tmp_path_factory.mktemp("front")
    pages = [f"{family}/02_x" for family in FAMILIES] + ["c.x/03_y", "all/09_z", "all/families"]
    for page in pages:
        path = place / "book/_executed" / f"{page}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# Page {page}\n\nWords.\n")
    said = {"data": {"text/markdown": ["- **A claim**: ", "0.25."]}, "metadata": {"rbp": "front"}}
    other = {"data": {"text/markdown": "Not this."}, "metadata": {}}
    cells = [{}, {"outputs": [other]}, {"outputs": [said]}]
    (place / "book/_executed/all/13_x.ipynb").write_text(json.dumps({"cells": cells}))
    for family in FAMILIES[1:]:
        said["data"] = {"text/markdown": [f"Said of {family}."]}
        (place / f"book/_executed/{family}/05_w.ipynb").write_text(json.dumps({"cells": [{"outputs": [said]}]}))
    (place / "book/intro.md").write_text(INTRO)
    listed = "\n".join(["book/intro", *(f"book/_executed/{page}" for page in pages)])
    (place / "index.md").write_text(f"# X\n\n```{{toctree}}\n{listed}\n```\n")
    warnings, before = StringIO(), list(sys.path)
    sys.path.insert(0, str(ROOT / "book" / "_ext"))
    try:
        config = {"extensions": ["myst_parser", "rbpfront"]}
        Sphinx(place, None, place / "out", place / "trees", "html", config, StringIO(), warnings, parallel=0).build()
    finally:
        sys.path[:] = before
    # a second site in one process hears that the first one's parts are there already
    assert not [line for line in warnings.getvalue().splitlines() if "already registered" not in line]
    out = place / "out" / "book"
    return {p.relative_to(out).with_suffix("").as_posix(): p.read_text() for p in out.rglob("*.html")}


def test_the_switch_leads_to_the_same_page_of_every_other_family(built):
    html = built["_executed/b/02_x"]
    (switch,) = re.findall(r'</h1>\s*<nav class="rbp-families".*?</nav>', html, re.S)
    assert re.findall(r'href="([^"]+)">([^<]+)', switch) == [
        ("../a-1/02_x.html", "a-1"),
        ("../c.x/02_x.html", "c.x"),
        ("../all/families.html", "all pages"),
    ]
    assert re.findall(r'aria-current="page">([^<]+)', switch) == ["b"]


def test_only_pages_of_a_family_have_a_switch_and_only_to_pages_that_are_there(built):
    assert 'href="../a-1/' not in built["_executed/c.x/03_y"].split("rbp-families")[1].split("</nav>")[0]
    assert not [page for page in ("intro", "_executed/all/09_z") if "rbp-families" in built[page]]


def test_words_of_a_run_stand_where_they_are_asked_for(built):
    text = " ".join(re.sub(r"<[^>]+>", "", built["intro"]).split())
    assert "A claim: 0.25." in text and "<strong>A claim</strong>" in built["intro"] and "Not this" not in text
    assert "was built without what the page 13_x says here" in text
    assert "was built without what the page 14_y says here" in text
    assert "Said of b." in text and "Said of c.x." not in text


def test_the_first_page_asks_for_what_the_notebooks_say():
    text = (ROOT / "book/intro.md").read_text(encoding="utf-8")
    asked = re.findall(r"{run-words} (\S+) (\S+)", text)
    assert len(asked) == 2
    for page, name in asked:
        assert f'name="{name}")' in (ROOT / "notebooks" / f"{page}.md").read_text(encoding="utf-8"), page
    page, words = re.search(r"{run-move} (\S+) (.+)", text).groups()
    drawn = (ROOT / "notebooks" / f"{page}.md").read_text(encoding="utf-8")
    assert words in drawn and "moving.show(" in drawn
    assert set(front.FRONT) <= set(yaml.safe_load((ROOT / "book/claims.yml").read_text(encoding="utf-8")))


def test_the_first_page_says_in_words_what_the_middle_case_is():
    place = {"family": "fam", "corpus": "made up"}
    runs = [SimpleNamespace(k=10, N=10, gap=g, times=10**g, interval=(g - 1, g + 1)) for g in (0.0, 1.0, 2.0)]
    pairs = [
        SimpleNamespace(ratio=1.5 + a, around=(1.2, 1.8), more=a, ci_tokens=(-0.01, 0.06), ci_trainings=(np.nan,) * 2)
        for a in (-0.02, -0.01, 0.04)
    ]
    found = [SimpleNamespace(place=place, runs=[r], pairs=[p]) for r, p in zip(runs, pairs, strict=True)]
    said = front.front_words("independent_hits", found)
    assert "has 10 hits in a row 10 times as often as independence says, [1, 100] over other text" in said
    assert "(95%; fam on made up, the median of 3)" in said.replace("&#32;", " ")
    assert "just below the median of 2)" in front.front_words("independent_hits", found[:2])
    said = front.front_words("equal_exponents", found)
    said = said.replace("&#32;", " ")
    assert "is 1.49 times that of cross-entropy, [1.20, 1.80] over other sizes (95%; fam on" in said
    assert "differs, holds in 0 of 3 cases, the interval of the ratio is above 1 in 3 of 3** (rule" in said


def test_the_paper_has_as_many_models_as_the_page_says():
    families = [
        yaml.safe_load((ROOT / "families" / f"{f}.yml").read_text()) for f in ("gpt2", "opt", "pythia", "qwen2.5")
    ]
    corpora = [yaml.safe_load(p.read_text()) for p in (ROOT / "corpora").glob("*.yml")]
    assert sum(len(f["models"]) for f in families) == 24
    assert sum(c["source"] == "hub" and c.get("default", True) for c in corpora) == 4
