"""What stands on a page: numbers readable, text of a corpus harmless, tables of six columns with
all as CSV."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from bs4 import BeautifulSoup
from markdown_it import MarkdownIt

from paper.show import claims, numbers, prose

NASTY = [
    "<script>alert(1)</script>",
    "$\\alpha$ `x` **b** [a](javascript:alert(1)) {eval-rst}`x`",
    "\u202egnp.exe\u0000\u200b",
    "</code>\n\n# heading\n\n- item | cell |\n```{raw} html\n<b>\n```",
]
WIDE = pd.DataFrame(
    {
        "corpus": ["a & <b>", "c"], "k": 1, "alpha": [0.123456789, 0.25],
        "other text: low": [0.25, 0.1], "other text: high": [0.75, 0.4],
        "other sizes: low": [0.0, np.nan], "other sizes: high": 0.9,
        "p": [1e-9, 0.25], "R²": [0.9, 0.99], "n": [3, 4], "status": ["ok", "few hits"],
    }
)  # fmt: skip


def csv_of(table):
    """Lines of the file that a table offers."""
    return json.loads(BeautifulSoup(table, "html.parser").a["data-csv"]).splitlines()


@pytest.mark.parametrize("text", NASTY)
def test_a_token_cannot_become_markup(text):
    # of a title or a note of people as of a tokenizer
    for shown, tags in ((prose.token(text), ["p", "code"]), (prose.shown(text), ["p"])):
        page = MarkdownIt("commonmark").render(f"The text {shown} follows.")
        assert re.findall(r"<(\w+)", page) == tags
        assert not re.search(r"[$`*{\[\n\u202e\u200b]", shown)


@pytest.mark.parametrize(
    ("x", "text"),
    [(0.05612, "0.0561"), (-0.056, "−0.0560"), (1234567.0, "1,234,567"), (np.nan, "–"),
     (np.inf, "∞"), (3.21e-9, "3.21 × 10⁻⁹"), (4.4e-16, "0")],
)  # fmt: skip
def test_numbers(x, text):
    assert numbers.number(x) == text


def test_every_word_of_a_verdict_has_its_mark():
    assert {*claims.ANSWERS, *claims.ANSWERS.values()} <= set(prose.MARKS)


def test_a_wide_table_shows_six_columns_with_intervals_in_one_cell_and_all_as_csv():
    text = prose.table_html(WIDE, "Laws < all.")
    lines = [row(["th", "td"]) for row in BeautifulSoup(text, "html.parser")("tr")]
    head, first, second = ([cell.text for cell in line] for line in lines)
    assert head == ["status", "corpus", "k", "alpha", "intervals", "p"]
    assert first[:2] == ["✓ ok", "a & <b>"] and second[0] == "! few hits" and first[5] == "< 0.001"
    assert first[4] == "other text [0.250, 0.750]other sizes [0, 0.900]"
    assert "Laws &lt; all." in text and "with all 11 columns" in text
    assert csv_of(text)[1].startswith("a & <b>,1,0.123456789")


@pytest.mark.parametrize("cell", ["=1+1", "+cmd|x", "-1+1|cmd", "@SUM(A1)"])
def test_no_text_of_a_download_is_a_formula_and_numbers_stay(cell):
    cells = [cell, "-0.05", "+3", "-log RBP_1", "a=b"]
    table = prose.table_html(pd.DataFrame({"text": cells, "value": -0.5}), "T", "t.csv")
    assert csv_of(table)[1:] == [f"'{cell},-0.5", *(f"{safe},-0.5" for safe in cells[1:])]
