"""The form of notebooks and of the book's contents; pages made fit for the book."""

import ast
import re
from pathlib import Path

import jupytext
import nbformat
import pytest
import yaml

from paper import book
from tests.commands import ROOT
from tests.test_form import names_in
from workflow import pages

OUTSIDE = ("numpy", "pandas", "matplotlib", "scipy", "statsmodels")
OUTSIDE += ("dataclasses", "itertools", "json")
IMPORTED = {"rbplib", "torch", "training.live.train_ladder"}
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def code_of(path):
    return [c for c in nbformat.read(path, 4).cells if c.cell_type == "code"]


def python_of(path):
    """The cells of Python alone, without templates of words."""
    return [cell for cell in code_of(path) if not book.MAGIC.match(cell.source)]


def test_the_first_page_is_read_in_a_minute():
    """Its prose with what findings lend it, above its doors: at most 260 words and 11 numbers."""
    opening = (ROOT / "book/intro.md").read_text().split("---\n", 2)[2].split("::::{grid}")[0]
    text = "\n".join(line for line in opening.splitlines() if not re.match(r"`{3}|:|#", line))
    front = (ROOT / "notebooks/17_findings.md").read_text().split("%%words front")[1]
    front = re.sub(r"{% else %}.*?{% endif %}", "", front.split("```")[0], flags=re.S)
    text += re.sub(r"{%.*?%}", "", re.sub(r"{{[^}]*\.count }}", "1 of 1", front), flags=re.S)
    text = re.sub(r"{{.*?}}", "1", re.sub(r" <[^>]*>`|{\w*:?\w*}`", "", text))
    assert 150 < len(text.split()) <= 260
    assert 5 < len(re.findall(r"(?<![\w^-])\d", text)) <= 11


def test_every_notebook_has_its_pair():
    names = {p.stem for p in (ROOT / "notebooks").glob("*.md")} - {"words"}
    assert NOTEBOOKS and names == {p.stem for p in NOTEBOOKS}


def test_every_page_says_how_it_opens():
    openings = yaml.safe_load((ROOT / "book/pages.yml").read_text())
    # what is to be copied is no page
    assert {path.stem for path in NOTEBOOKS} - set(openings) == {"template"}
    for opening in openings.values():
        assert {"question", "goals", "needs", "minutes"} <= set(opening)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_both_halves_say_the_same_and_hold_no_output(path):
    halves = []
    for half in map(jupytext.read, (path, path.with_suffix(".md"))):
        assert half.metadata["kernelspec"]["name"] == "python3"
        cells = [(c.cell_type, c.source.strip(), c.metadata.get("tags", [])) for c in half.cells]
        halves.append(cells)
    assert halves[0] == halves[1], f"run `jupytext --sync notebooks/{path.stem}.md`"
    for cell in code_of(path):
        assert not cell.outputs and cell.execution_count is None


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_page_imports_the_library_as_a_whole_and_few_modules_of_paper(path):
    """`import rbplib as rbp`, `paper.book`, three modules more; some pages show the library's
    own parts, or train."""
    code = "\n".join(cell.source for cell in python_of(path))
    modules = set()
    for name in names_in(re.sub(r"^[%!].*$", "", code, flags=re.M)):
        allowed = name in IMPORTED or name.startswith(("paper.", *OUTSIDE))
        assert allowed, name
        modules |= {name} if name.startswith("paper.") else set()
    most = 4 + (path.stem == "17_findings")  # which collects all kinds of evidence
    assert len(modules) <= most, modules


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_cells_are_short_and_parameters_typed_and_commented(path):
    parameters = []
    for cell in python_of(path):
        lines = cell.source.splitlines()
        if "parameters" in cell.metadata.get("tags", []):
            parameters.append(lines)
            continue
        assert len(lines) <= 12 and max(map(len, lines)) <= 76, cell.source
        for node in ast.walk(ast.parse(re.sub(r"^[%!].*$", "", cell.source, flags=re.M))):
            if isinstance(node, ast.FunctionDef):
                assert node.end_lineno - node.lineno < 5, f"{node.name} belongs in paper/"
    (lines,) = parameters
    for line in lines:
        assert re.match(r"(#|$|seed: int = \d+$|\w+: \w+(\[.*\])? = .*  # )", line), line
    if path.stem in pages.notebooks() and not pages.is_once(path.stem):
        assert {"family", "corpora", "seed"} <= set(pages.defaults(path.stem))


def test_nothing_of_the_paper_is_lost():
    """The table of the findings names each section, figure and equation of the paper, with a page
    that speaks of it."""
    text = (ROOT / "notebooks/17_findings.md").read_text().split("## Where each part of the")[1]
    rows = [line.strip("| ").split("|") for line in text.split("##")[0].splitlines()[4:] if line]
    named, equations = set(), set()
    for part, figures, numbers, places in rows:
        pages = re.findall(r'data-page="(\w+)"', places) or ["17_findings"]
        texts = [p.read_text() for n in pages for p in ROOT.glob(f"[nb]*/**/{n}.md")]
        assert len(texts) == len(pages), places
        wanted = [f"Figure {n}" for n in re.findall(r"\d\w?", figures)]
        wanted += re.findall(r"\b\d\.\d|\b[A-D]\b", part)
        for name in wanted:
            words = name.replace("Figure ", r"Figures? (\d\w? and )?")
            assert re.search(rf"{words}\b", " ".join(texts)), (pages, name)
        named.update(name[:8] for name in wanted)
        ends = [int(n) for n in re.findall(r"\d+", numbers)]
        equations.update(range(ends[0], ends[-1] + 1) if "to" in numbers else ends)
    parts = "4.1 4.2 4.3 4.4 5.1 5.2 A B D".split()
    assert named == {f"Figure {n}" for n in range(1, 9)} | {*parts}
    assert equations == {*range(1, 28)}


def test_the_contents_hold_each_topic_once_and_no_other_family():
    from sphinx.util.matching import patfilter

    once = set(filter(pages.is_once, pages.notebooks()))
    story = {f"{pages.DEFAULT_FAMILY}/{name}" for name in pages.notebooks().keys() - once}
    story |= {f"all/{name}" for name in once}
    others = {f"other/{name}" for name in pages.notebooks().keys() - once} | {"all/families"}
    paths = [f"book/_executed/{name}" for name in story | others]
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text())
    chapters = [chapter for part in toc["parts"] for chapter in part["chapters"]]
    patterns = [chapter["glob"] for chapter in chapters if "glob" in chapter]
    shown = [path for pattern in patterns for path in patfilter(sorted(paths), pattern)]
    assert sorted(shown) == sorted(f"book/_executed/{name}" for name in story)
    # a page's number is its place in the menu
    numbers = [int(stem[:2]) for stem in (Path(p).stem for p in shown) if stem[0].isdigit()]
    assert numbers == [*range(1, 19)]
