"""What stands on a page: numbers readable, and text from a corpus harmless."""

import html
import json
import math
import re

import pandas as pd
import pytest
from markdown_it import MarkdownIt

from rbplib.pages import prose

NASTY = [
    "<script>alert(1)</script>",
    "</code><img src=x onerror=alert(1)>",
    "$\\alpha$ `x` **b** [a](javascript:alert(1)) {eval-rst}`x`",
    "![x](http://example.org/x.png) http://example.org &lt;b&gt;",
    "\u202egnp.exe\u0000\u200b",
    "\n\n# heading\n\n- item | cell |\n```{raw} html\n<b>\n```",
]


@pytest.mark.parametrize("text", NASTY)
def test_tokens_cannot_become_markup(text):
    shown = prose.token(text)
    inner = re.fullmatch(r'<code class="token">(.*)</code>', shown, re.S).group(1)
    assert re.fullmatch(r"(?:[A-Za-z0-9]|&#[0-9]+;|U\+[0-9A-F]{4})*", inner)
    page = MarkdownIt("commonmark").render(f"The token {shown} follows.")
    assert set(re.findall(r"</?([a-zA-Z]+)", page)) <= {"p", "code"}


def test_every_visible_character_of_a_token_is_kept():
    text = "a <b> 'c' \"d\" $e$ é 漢"
    assert html.unescape(prose.plain(text)) == text
    assert "␣" in html.unescape(prose.token(" x"))


@pytest.mark.parametrize(
    ("x", "shown"),
    [(0.05612, "0.0561"), (-0.056, "−0.0560"), (1234567.0, "1,234,567"), (0, "0"), (math.nan, "–"), (math.inf, "∞")],
)
def test_numbers(x, shown):
    assert prose.number(x) == shown


def test_tiny_numbers_keep_their_size():
    assert prose.number(3.21e-9) == "3.21e−9"


def test_table_escapes_text_sorts_numbers_and_keeps_all_digits_in_the_csv():
    frame = pd.DataFrame({"name": ["<b>x</b>", "y"], "alpha": [0.123456789, 2.0]})
    text = prose.table_html(frame, caption="a < b", download="x.csv")
    assert "<b>x" not in text and "&lt;b&gt;x" in text and "a &lt; b" in text
    assert 'data-sort="0.123456789"' in text
    csv = json.loads(html.unescape(re.search(r'data-csv="([^"]*)"', text).group(1)))
    assert csv.splitlines()[1] == "<b>x</b>,0.123456789"


def test_a_long_table_scrolls_and_a_name_keeps_its_line():
    frame = pd.DataFrame({"family": ["nano-qwen2.5"] * 31, "corpus": ["Documentation prose"] * 31})
    html = prose.table_html(frame)
    assert 'class="rbp-table-wrap tall"' in html and "tall" not in prose.table_html(frame[:30])
    assert html.count('<td class="text word">nano-qwen2.5</td>') == 31
    assert html.count('<td class="text">Documentation prose</td>') == 31
