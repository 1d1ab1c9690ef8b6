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
    '<a href="book/two.html">on to two</a>'
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


LINKED = (
    "<html><head></head><body><h1>First</h1>"
    '<li class="toctree-l1"><a href="#document-book/_executed/all/14_x">Do they cover?</a></li>'
    '<a href="book/intro.html#id2">cited</a><a href="#document-book/two#a">a of two</a><a href="book/two.html">two</a>'
    '<a href="../_executed/all/14_x.html#b">b</a><a href="https://x.org/y.html#a">out</a><a href="gone.html">gone</a>'
    '<span id="document-book/two"></span><section id="a"><h2>Two</h2><i id="id2">[1]</i><a href="#a">own</a></section>'
    '<span id="document-book/_executed/all/14_x"></span><section id="a"><h2>Do they cover?</h2><p id="b">B</p>'
    '</section><span id="document-book/references"></span><h2>References</h2><p id="id2">A book</p></body></html>'
)


def test_links_lead_to_one_place_within_the_page_and_headings_have_their_notebooks_numbers():
    text = pdf.for_print(LINKED.replace("../_", "../book/_"))
    links = {words: address for address, words in re.findall(r'<a href="([^"]*)">(.*?)</a>', text)}
    assert links.pop("out") == "https://x.org/y.html#a" and "gone" not in links and ">gone</a>" in text
    after = {words: text.partition(f'id="{address[1:]}"')[2] for words, address in links.items()}
    assert all(text.count(f'id="{address[1:]}"') == 1 for address in links.values())
    assert after["cited"].startswith(">A book") and after["b"].startswith(">B") and "<h2>Two" in after["two"]
    assert after["own"] == after["a of two"] and after["own"].startswith("><h2>Two")
    assert ">14 · Do they cover?</a></li>" in text
    assert "<h2>14 · Do they cover?" in text and "<h2>Two" in text


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
    assert b"/Outlines" in data and b"/Dest" in data and b"file:" not in data  # links lead within, not to this machine
    assert data.startswith(b"%PDF") and len(re.findall(rb"/Type\s*/Page\b", data)) == 2
