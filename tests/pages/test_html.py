"""The HTML book: pages compared with their records, the page of all families, and the contents."""

import re
from pathlib import Path
from types import SimpleNamespace

import yaml
from nbformat.v4 import new_markdown_cell, new_notebook
from notebookfiles import write_notebook

from workflow import html, notebooks

ROOT = Path(__file__).resolve().parents[2]


def test_check_pages_sees_a_changed_page_and_a_changed_notebook(three_names):
    source = write_notebook(three_names / "notebooks/01_x.ipynb", "1 + 1")
    out = notebooks.run_notebook("01_x", "other")
    write_notebook(source, "1 + 2")
    assert "older than its notebook" in html.check_pages()[1][0]
    out.write_text(out.read_text().replace("1 + 1", "1 + 3"))
    assert "was changed" in html.check_pages()[1][0]
    out.write_text("cut short")
    assert "not a page" in html.check_pages()[1][0]


def test_check_pages_sees_a_page_of_what_its_family_no_longer_is(three_names):
    write_notebook(three_names / "notebooks/01_x.ipynb", "1 + 1")
    (three_names / "a").mkdir()
    own, path = three_names / "a/lad.yml", three_names / "families/other.yml"
    own.write_text("models: [a/small]\n")
    for family in ("other", str(own)):
        notebooks.run_notebook("01_x", family)
    text = path.read_text()
    path.write_text(f"{text}# a remark, and the keys as they were\n")
    assert html.check_pages() == (2, [])
    path.write_text(text.replace("a/middle", "b/middle"))
    own.write_text("models: [a/small, a/large]\n")
    problems = html.check_pages()[1]
    assert len(problems) == 2 and all("its file says otherwise now" in problem for problem in problems)


def contents():
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text())
    return {part["caption"]: [next(iter(c.values())) for c in part["chapters"]] for part in toc["parts"]}


def test_one_page_leads_to_every_page_of_every_family(three_names):
    write_notebook(three_names / "notebooks/01_x.ipynb", "1 + 1")
    write_notebook(three_names / "notebooks/02_y.ipynb", "1 + 2")
    page = three_names / "book/_executed/all/families.md"
    assert html.families_page() == html.DEFAULT_FAMILY and "No page of a family was run." in page.read_text()
    notebooks.run_notebook("01_x", "other")
    notebooks.run_notebook("02_y", "other")
    left = three_names / "book/_executed/other/index.md"
    left.write_text("# Edited by hand, or of an earlier version\n")
    assert html.families_page() == "other" and not left.exists()
    notebooks.run_notebook("02_y", html.DEFAULT_FAMILY)
    assert html.families_page() == html.DEFAULT_FAMILY
    text = page.read_text()
    assert text.startswith("---\norphan: true\n---\n") and "<b>" not in text and "&#60;b&#62;one" in text
    assert "| family | 01 | 02 |" in text and "- 01: A page\n- 02: A page\n" in text
    assert "| `nano-pythia` | – | [02](../nano-pythia/02_y.ipynb) |" in text
    assert "| `other` | [01](../other/01_x.ipynb) | [02](../other/02_y.ipynb) |" in text
    assert re.findall(r"^/book/_executed/(.+)$", text, re.M) == ["nano-pythia/02_y", "other/01_x", "other/02_y"]


def test_a_title_names_another_family_than_the_default_once():
    for family, title in (("other", "A page (other)"), (html.DEFAULT_FAMILY, "A page")):
        nb = new_notebook(cells=[new_markdown_cell("# A page")])
        for _ in range(2):
            notebooks.tidy(nb, family)
        assert nb.cells[0].source == f"# {title}"


def test_the_contents_hold_each_topic_once_and_no_other_family(monkeypatch):
    from sphinx.util.matching import patfilter

    monkeypatch.delenv("RBP_ROOT", raising=False)
    families = [html.DEFAULT_FAMILY, *(f"family-{i}" for i in range(25))]
    per_family, once = notebooks.notebook_names()
    pages = [f"book/_executed/{f}/{n}" for f in families for n in per_family]
    pages += [f"book/_executed/all/{n}" for n in (*once, "22_new", "families")]
    shown = [p for part in contents().values() for pattern in part for p in patfilter(pages, pattern)]
    assert len(shown) == len(set(shown))
    new = pages[len(families) * len(per_family) : -1]
    assert set(shown) == {f"book/_executed/{html.DEFAULT_FAMILY}/{n}" for n in per_family} | set(new)
    assert list(contents()) == ["Learn", "Check", "Prove", "Teach", "Use", "Reference"]


def test_every_hand_written_page_is_in_the_contents_once():
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text())
    listed = [toc["root"]] + [c["file"] for part in toc["parts"] for c in part["chapters"] if "file" in c]
    written = [p.relative_to(ROOT).with_suffix("").as_posix() for p in (ROOT / "book").rglob("*.md")]
    assert sorted(listed) == sorted(p for p in written if not p.startswith("book/_"))


def test_what_the_build_changes_in_other_libraries_is_there_to_be_changed(monkeypatch):
    """Each is for time alone: where a library changed, the change does nothing, and has to go."""
    import inspect

    import pybtex.plugin
    import sphinx_book_theme
    from myst_nb import sphinx_
    from sphinx import events
    from sphinx.highlighting import PygmentsBridge

    monkeypatch.syspath_prepend(ROOT / "book" / "_ext")
    import rbpbook

    assert re.findall(r"\brepr\(\w+", inspect.getsource(events)) == ["repr(args"]
    assert inspect.getsource(sphinx_).count("nbformat.writes(") == 1
    known = list(inspect.signature(PygmentsBridge.highlight_block).parameters)
    assert known == ["self", "source", "lang", "opts", "force", "location", "kwargs"]
    theme = Path(sphinx_book_theme.__file__).parent / "theme" / "sphinx_book_theme"
    ours = ROOT / "book" / "_templates" / "sbt-sidebar-nav.html"
    assert ours.name in (theme / "theme.conf").read_text()
    assert "generate_toctree_html(" in (theme / "components" / ours.name).read_text()
    rbpbook.find_backends_once()
    monkeypatch.setattr(pybtex.plugin, "entry_points", None)
    assert pybtex.plugin.find_plugin("pybtex.backends", "docutils").__name__ == "Backend"


def test_contents_are_made_once_for_pages_that_they_do_not_lead_to(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "book" / "_ext")
    import rbpbook

    handlers, made = [], []
    app = SimpleNamespace(builder=SimpleNamespace(relations={"a/1": (), "a/2": ()}))
    app.connect = lambda event, handler, priority: handlers.append(handler)
    rbpbook.make_contents_once(app)
    for page in ("a/1", "a/1", "a/2", "a/3", "a/4", "b/3", "b/4", "b/4"):
        handlers[0](app, page, "page.html", context := {}, None)

        def make(page=page, **how):
            made.append((page, *how.values()))
            return page

        shown = context["kept"](make)(depth=1)
        assert shown == (page if page in app.builder.relations else page[0] + "/3")
    assert made == [(page, 1) for page in ("a/1", "a/2", "a/3", "b/3")]
    assert context["kept"](make)(depth=2) == "b/4"
