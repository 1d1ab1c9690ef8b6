"""Titles, notes and file names that try to be markup: pages show them letter by letter, and nothing of them runs."""

import html
import json
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser

import nbformat
import pytest

from paper.show.prose import shown, table_html
from paper.show.tables import corpus_title
from tests.conftest import ROOT
from tests.degenerate import MANY, Planted, falling, write_degenerate
from tests.pagerunner import run_page
from workflow import notebooks

HOSTILE = (
    "<img src=x onerror=alert(1)> </script><script>alert(2)</script> $x_1$ `code` [a](javascript:alert(3)) "
    "{math}`x` {{ title }} | *b* _c_ \\(z\\) &lt;i&gt; <!-- # --> <svg/onload=alert(4)> ![i](x) \\$"
)
FILE = "<img src=x onerror=alert(5)> $a_1$ `b` [c](d) *e*.jsonl"
PAGES = [p.stem for p in sorted((ROOT / "notebooks").glob("0[1-8]_*.md"))]
YAML = "".join(f"{key}: {json.dumps(HOSTILE)}\n" for key in ("title", "note", "licence"))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A root with a family and corpora of hostile titles, its pages run."""
    place, keep = tmp_path_factory.mktemp("hostile"), dict(os.environ)
    for name in ("notebooks", "published", "training"):
        (place / name).symlink_to(ROOT / name)
    for folder in ("families", "corpora", "models", "book"):
        (place / folder).mkdir()
    for name in ("claims.yml", "_ext", "_static", "references.bib"):
        (place / "book" / name).symlink_to(ROOT / "book" / name)
    os.environ.update(RBP_ROOT=str(place), RBP_RESULTS=str(place / "results"), OMP_NUM_THREADS="1")
    try:
        write_degenerate(place, {"hostile": Planted(falling)})
        for kind, name in (("families", "hostile"), ("corpora", MANY)):
            path = place / kind / f"{name}.yml"
            rest = re.sub(r"^title:.*\n", "", path.read_text())
            path.write_text((YAML if kind == "corpora" else YAML.replace("licence", "# licence")) + rest)
        own = place / FILE
        own.write_text("".join(json.dumps({"text": f"{HOSTILE} {i} " * 9}) + "\n" for i in range(25)))
        for name in PAGES:
            nb = run_page(name, family="hostile", corpora=[str(own), MANY], n_bootstrap=200)
            notebooks.tidy(nb, "hostile")
            nb.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
            path = place / "book" / "_executed" / "hostile" / f"{name}.ipynb"
            notebooks.write_page(nb, path, {"made_of": None})
        yield place
    finally:
        os.environ.clear()
        os.environ.update(keep)


class Tags(HTMLParser):
    """Every live tag of a page with its attributes, and the words between the tags."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.words, self.inside = [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.inside = "data" if ("type", "application/json") in attrs else tag  # a browser runs no script of that type

    def handle_data(self, data):
        self.words.append((self.inside, data))

    @property
    def alive(self):
        """What of HOSTILE became a tag, an attribute that runs, a link or a script."""
        said = [(t, a) for t, a in self.tags if any(n.startswith("on") and "alert" in (v or "") for n, v in a.items())]
        said += [(t, a) for t, a in self.tags if (a.get("href") or "").startswith("javascript:alert")]
        said += [(t, a) for t, a in self.tags if t in ("img", "svg") and (a.get("src") == "x" or "onload" in a)]
        return said + [(t, w) for t, w in self.words if t == "script" and re.search(r"alert\(\d", w)]


def ran(place, name):
    return place / "book" / "_executed" / "hostile" / f"{name}.ipynb"


def outputs(path):
    """(kind, text) of everything that the code of an executed page displayed."""
    for cell in nbformat.read(path, 4).cells:
        for output in cell.get("outputs", []):
            yield from output.get("data", {}).items()


@pytest.mark.slow
class TestPages:
    def test_markdown_holds_no_markup_of_theirs(self, place):
        said = [t for name in PAGES for kind, t in outputs(ran(place, name)) if kind == "text/markdown"]
        assert any(corpus_title(MANY) in text for text in said)
        for text in said:
            assert not re.search(r'<(?!/?code\b|span data-page="\w+">|/span>| )', text), text
            assert not any(sign in text for sign in ("javascript:", "{{", "`code`", "_c_", "$x_1$")), text

    def test_tables_and_figures_hold_no_tag_of_theirs_and_show_every_letter(self, place):
        found = {kind: [] for kind in ("text/html", "image/svg+xml")}
        for name in PAGES:
            for kind, text in outputs(ran(place, name)):
                if kind in found:
                    found[kind].append(text)
        for text in found["text/html"] + found["image/svg+xml"]:
            assert not Tags(text).alive
        cells = {w for text in found["text/html"] for _, w in Tags(text).words}
        assert HOSTILE in cells or any(HOSTILE in w for w in cells)
        assert not any("&#" in w for w in cells)

    def test_alternative_text_is_the_title_itself(self, place):
        alts = []
        for name in PAGES:
            for cell in nbformat.read(ran(place, name), 4).cells:
                shown = (o.get("metadata", {}).get("image/svg+xml", {}) for o in cell.get("outputs", ()))
                alts += [about.get("alt", "") for about in shown]
        assert any(HOSTILE in alt for alt in alts) and not any("&#" in alt for alt in alts)

    def test_a_built_book_runs_nothing_of_theirs(self, place):
        shutil.copy(ROOT / "_config.yml", place)
        toc = "format: jb-book\nroot: book/intro\nchapters:\n- file: book/references\n"
        toc += "- glob: book/_executed/hostile/[0-9]*\n"
        (place / "_toc.yml").write_text(toc)
        (place / "book" / "intro.md").write_text("# Start\n")
        shutil.copy(ROOT / "book" / "references.md", place / "book")  # the pages cite
        script = [sys.executable, "-c", "from workflow.html import build_html; build_html()"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(script, capture_output=True, text=True, cwd=place, env=environment)
        assert not done.returncode, done.stdout + done.stderr
        built = place / "_build" / "html" / "book" / "_executed" / "hostile"
        pages = sorted((place / "_build" / "html").rglob("*.html"))
        assert len(pages) > len(PAGES)
        for path in pages:
            assert not Tags(path.read_text(encoding="utf-8")).alive, path.name
        index = " ".join(
            "".join(word for _, word in Tags((built.parent / "all" / "families.html").read_text()).words).split()
        )
        assert index.count(" ".join(HOSTILE.split())) >= 2  # title and note
        assert HOSTILE in html.unescape((built / "02_top1_law.html").read_text())
        search = (place / "_build" / "html" / "searchindex.js").read_text()
        assert "<img" not in search  # a title found is shown as HTML


def test_what_people_write_means_nothing_in_markdown():
    from markdown_it import MarkdownIt

    for text in (HOSTILE, FILE, "1. a", "# a", "- a", "    a", "a\n\n> b", "~~a~~", "a  \nb", "***", "|a|b|\n|-|-|"):
        rendered = MarkdownIt("gfm-like", {"linkify": False}).render(f"{shown(text)}\n")
        assert re.fullmatch(r"<p>[^<]*</p>\n", rendered), rendered
        assert " ".join(html.unescape(rendered[3:-5]).split()) == " ".join(text.split())


def test_a_download_holds_titles_as_they_are():
    import pandas as pd

    frame = pd.DataFrame({"corpus": [shown(HOSTILE)], "x": [0.5]})
    text = table_html(frame, shown(HOSTILE), "a.csv")
    data = json.loads(next(a for t, a in Tags(text).tags if t == "a")["data-csv"])
    assert data.splitlines()[1].startswith('"' + HOSTILE[:20]) or HOSTILE in data
    assert "&#" not in data and not Tags(text).alive
