"""The book as a PDF: a page made ready for print, a browser that prints it, and a sentence where there is none."""

import importlib.util
import re
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

ROOT = Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location("rbp_pdf", ROOT / "book" / "pdf.py")
pdf = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(pdf)
PAGE = (
    '<html><head><title>T</title></head><body><h1>One</h1><details class="x"><summary>S</summary>in a fold</details>'
    '<div class="rbp-move" data-spec="{}"><noscript><img alt="still" src="../../_images/a.svg"></noscript></div>'
    '<details class="rbp-fold"><summary>More: all panels</summary>'
    '<img class="rbp-figure" style="display: block; height: 240mm" alt="on its own page"></details>'
    f'<dl class="rbp-made"><dt>Date</dt><dd>today</dd><dt>Rank tables</dt><dd>{"a digest<br>" * 200}</dd></dl>'
    '<span id="document-book/two"></span><section><h2>Two</h2></section></body></html>'
)


def test_folds_open_and_still_pictures_stand():
    text = pdf.for_print(PAGE)
    assert '<details open class="x">' in text and "<noscript>" not in text and 'class="rbp-move"' not in text
    assert '<img alt="still" src="_images/a.svg">' in text and "counter(page)" in text
    assert pdf.for_print("<details open>").count("open") == 1


def test_links_between_pages_are_named_in_the_book_as_one_page(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "book" / "_ext")
    from rbppage import DEFAULT, link_pages

    names = {"book/_executed/all/09_families": "All families", f"book/_executed/{DEFAULT}/02_top1_law": "The law"}
    titles = {name: SimpleNamespace(astext=lambda title=title: title) for name, title in names.items()}
    builder = SimpleNamespace(get_relative_uri=lambda page, to: f"#document-{to}")
    app = SimpleNamespace(env=Mock(found_docs=set(names), titles=titles), builder=builder)
    context = {"body": '<span data-page="02_top1_law"></span>, <span data-page="09_families"></span>'}
    link_pages(app, "intro", "page.html", context, None)
    assert re.findall('href="#document-(.*?)">(.*?)</a>', context["body"]) == [*reversed(names.items())]


def test_without_a_browser_one_sentence(monkeypatch, capsys):
    monkeypatch.setattr(pdf.shutil, "which", lambda name: None)
    assert pdf.main() == 2
    assert capsys.readouterr().err == (
        "rbp: a PDF is printed by Chromium or Chrome, and neither is found: install one (chromium).\n"
    )


def test_a_browser_prints_each_chapter_on_a_page_of_its_own(tmp_path):
    try:
        chromium = pdf.browser()
    except pdf.InputError:
        pytest.skip("no Chromium or Chrome is installed")
    page = tmp_path / "page.html"
    page.write_text(pdf.for_print(PAGE))
    data = pdf.printed(page, tmp_path / "book.pdf", chromium).read_bytes()
    assert data.startswith(b"%PDF") and len(re.findall(rb"/Type\s*/Page\b", data)) == 2
