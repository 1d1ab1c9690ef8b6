"""The book as a PDF: folds open, links within the one page, and a sentence where there is no
browser."""

import re

import pytest

from book import pdf

PAGE = (
    "<html><head></head><body><h1>First</h1>"
    '<details class="x"><summary>S</summary>in a fold</details>'
    '<div class="rbp-move"><noscript><img alt="still" src="../../_images/a.svg"></noscript></div>'
    '<a href="../book/intro.html#document-book/two">two</a><a href="#document-book/two#a">a</a>'
    '<span id="document-book/two"></span><section id="a"><h2>Two</h2></section>'
    '<span id="document-book/three"></span><section id="b"><h2>Three</h2></section></body></html>'
)


def test_folds_open_pictures_stand_and_links_lead_within_the_page():
    text = pdf.for_print(PAGE)
    assert '<details open class="x">' in text and '<img alt="still" src="_images/a.svg">' in text
    assert "<noscript>" not in text and 'class="rbp-move"' not in text
    assert re.findall('href="([^"]*)"', text) == ["#document-book/two", "#a"]


def test_without_a_browser_one_sentence(monkeypatch, capsys):
    monkeypatch.setenv("PATH", "")
    assert pdf.main() == 2 and "install chromium" in capsys.readouterr().err


def test_a_browser_prints_each_chapter_on_a_page_of_its_own(tmp_path):
    try:
        chromium = pdf.browser()
    except pdf.InputError:
        pytest.skip("no Chromium or Chrome is installed")
    (tmp_path / "page.html").write_text(pdf.for_print(PAGE))
    data = pdf.printed(tmp_path / "page.html", tmp_path / "book.pdf", chromium).read_bytes()
    assert b"/Dest" in data and b"file:" not in data  # links lead within, not to this machine
    assert data.startswith(b"%PDF") and len(re.findall(rb"/Type\s*/Page\b", data)) == 3


def test_a_browser_that_fails_leaves_the_pdf_of_before(tmp_path):
    kept, broken = tmp_path / "book.pdf", tmp_path / "chromium"
    kept.write_bytes(b"%PDF of before")
    write = 'case $a in *pdf=*) echo x > "${a#*pdf=}";; esac'
    broken.write_text(f"#!/bin/sh\nfor a; do {write}; done; exit 1\n")
    broken.chmod(0o755)
    with pytest.raises(pdf.Failed, match="chromium"):
        pdf.printed(tmp_path / "page.html", kept, str(broken))
    assert kept.read_bytes() == b"%PDF of before"
