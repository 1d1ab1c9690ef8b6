"""A built book reads offline: nothing from outside, links lead somewhere, pictures have words,
figures are clean."""

import re
from functools import cache
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

import nbformat
import pytest
from matplotlib import pyplot as plt

from paper.show import style
from tests import browser, figureboxes
from tests.pagerunner import NO_NUMBER, words

LOADED = {"src", "srcset", "data", "poster", "xlink:href"}  # what a browser fetches by itself
INERT = {"canonical", "search", "prev", "next", "author", "license"}
IN_CODE = re.compile(
    r"(?:@import\s+|url\(|(?:fetch|import|importScripts|src\s*=|href\s*=)\s*\(?)"
    r"\s*[\"'`]?((?:https?:)?//[^\"'`)\s]+)"
)
NAMES = [path.stem for path in (browser.ROOT / "notebooks").glob("[0-9]*.md")]
NOTEBOOKS = sorted([*NAMES, "real_model"])


class Page(HTMLParser):
    """What a page loads, where its links lead, its ids, and its pictures without words."""

    def __init__(self, path):
        super().__init__()
        self.path, self.loads, self.links, self.ids, self.wordless = path, [], [], set(), []
        self.inside = ""
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        about = {name: value or "" for name, value in attributes}
        self.inside = tag
        self.ids |= {about.get("id"), about.get("name")}
        self.loads += IN_CODE.findall(about.get("style", ""))
        if tag == "a":
            self.links.append(about.get("href", ""))
        elif tag == "link" and not INERT & set(about.get("rel", "").split()):
            self.loads.append(about.get("href", ""))
        for name in LOADED & set(about):
            self.loads += [part.split()[0] for part in about[name].split(",") if part.strip()]
        if tag == "img" and not re.match(r"(?!.*\\(log|mathrm))\s*\S", about.get("alt", ""), re.S):
            self.wordless.append(about.get("src"))

    def handle_data(self, data):
        if self.inside in ("script", "style"):
            self.loads += IN_CODE.findall(data)

    def handle_endtag(self, tag):
        self.inside = ""

    def faults(self):
        """Sentences, none for a page that reads offline."""
        outside = [a for a in self.loads if re.match(r"([a-z][a-z0-9+.-]*:)?//", a, re.I)]
        dead = [a for a in self.loads + self.links if not self.leads_somewhere(urlsplit(a))]
        sentences = [f"loads {address}" for address in outside]
        sentences += [f"{address} leads nowhere" for address in dead]
        return sentences + [f"{picture} has no words" for picture in self.wordless]

    def leads_somewhere(self, to):
        path = self.path.parent / unquote(to.path) if to.path else self.path
        if to.scheme or to.netloc or not path.exists():
            return bool(to.scheme or to.netloc)
        inside = to.fragment and path.suffix == ".html" and "_static" not in path.parts
        return not inside or unquote(to.fragment) in page_at(path.resolve()).ids | {"top"}


@cache
def page_at(path):
    return Page(path)


def test_every_notebook_ran_and_says_no_number_that_does_not_exist(small_book):
    pages = sorted(small_book.glob("book/_executed/*/*.ipynb"))
    assert [p.stem for p in sorted(pages, key=lambda p: p.stem)] == NOTEBOOKS
    for path in pages:
        notebook = nbformat.read(path, 4)
        assert not re.findall(NO_NUMBER, words(notebook)), path.stem
        # what a cell's last line happens to give is shown by nobody
        outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
        assert "execute_result" not in {output.output_type for output in outputs}, path.stem


@pytest.fixture(scope="module")
def pages(built_html):
    paths = [p.resolve() for p in sorted(built_html.rglob("*.html")) if "_static" not in p.parts]
    return {p.relative_to(built_html.resolve()).as_posix(): page_at(p) for p in paths}


PLANTED = {
    '<script src="https://cdn.example.org/a.js"></script>': "loads https://cdn.example.org/a.js",
    "<style>@import url(https://x.org/c)</style>": "loads https://x.org/c",
    "<script>fetch('https://x.org/d')</script>": "loads https://x.org/d",
    '<a href="gone.html">x</a>': "gone.html leads nowhere",
    '<img src="page.html" alt="$\\log$">': "page.html has no words",
    '<link rel="canonical" href="https://x.org"><a href="https://x.org">x</a>': None,
    '<h1 id="here">x</h1><a href="page.html#here">x</a><img src="page.html" alt="words">': None,
}


@pytest.mark.parametrize(("html", "fault"), PLANTED.items())
def test_the_scan_sees_what_it_should(tmp_path, html, fault):
    (tmp_path / "page.html").write_text(html)
    assert Page(tmp_path / "page.html").faults() == ([fault] if fault else [])


def test_every_page_reads_offline(pages):
    assert len(pages) > 40
    assert {name: page.faults() for name, page in pages.items() if page.faults()} == {}


def test_what_pages_quote_of_a_run_is_there(pages):
    texts = {name: page.path.read_text() for name, page in pages.items()}
    quoting = [name for name, text in texts.items() if "rbp-figure" in text]
    assert len(quoting) > 5
    absent = re.compile("built without (what|this)")
    assert not [name for name, text in texts.items() if absent.search(text)]


def test_no_style_or_own_script_loads_anything_from_outside(built_html):
    files = [*built_html.rglob("*.css"), built_html / "_static" / "rbp.js"]
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in files]
    assert len(files) > 3 and not IN_CODE.findall("\n".join(texts))


@pytest.mark.parametrize(
    "point, fault", [((0.51, 0.505), "overlap"), ((0.99, 0.1), "cut"), ((0.5, 0.2), "")]
)
def test_texts_of_a_figure_that_meet_or_are_cut_are_found(point, fault):
    figure = plt.figure()
    figure.text(0.5, 0.5, "one")
    figure.text(*point, "two")
    sentences = figureboxes.faults(style.svg_of(figure))
    plt.close(figure)
    assert [fault in sentence for sentence in sentences] == [True] * bool(fault)


def test_texts_of_no_figure_of_the_book_meet_or_are_cut(built_html):
    figures = figureboxes.figures_of(built_html)
    faults = {name: figureboxes.faults(svg) for name, svg in figures.items()}
    assert len(figures) > 40 and {name: f for name, f in faults.items() if f} == {}
