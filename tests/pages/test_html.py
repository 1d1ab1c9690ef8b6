"""The HTML book: pages compared with their records, index pages of families, and the contents."""

from pathlib import Path

import yaml
from notebookfiles import write_notebook

from rbplib.pages import html, notebooks

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


def test_an_index_page_never_carries_markup_of_a_title(three_names):
    page = html.family_index("other").read_text()
    assert "<b>" not in page and "toctree" in page
    write_notebook(three_names / "notebooks/01_x.ipynb", "1 + 1")
    notebooks.run_notebook("01_x", html.DEFAULT_FAMILY)
    assert "[A page: nano-pythia](01_x.ipynb)" in html.family_index(html.DEFAULT_FAMILY).read_text()


def test_the_contents_tell_the_default_familys_story():
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text())
    globs = [c["glob"] for part in toc["parts"] for c in part["chapters"] if "glob" in c]
    assert f"book/_executed/{html.DEFAULT_FAMILY}/[0-9]*" in globs
    assert f"book/_executed/{notebooks.TOGETHER}/[0-9]*" in globs
    assert "book/_executed/*/index" in globs


def test_every_hand_written_page_is_in_the_contents_once():
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text())
    listed = [toc["root"]] + [c["file"] for part in toc["parts"] for c in part["chapters"] if "file" in c]
    written = [p.relative_to(ROOT).with_suffix("").as_posix() for p in (ROOT / "book").rglob("*.md")]
    assert sorted(listed) == sorted(p for p in written if not p.startswith("book/_"))
