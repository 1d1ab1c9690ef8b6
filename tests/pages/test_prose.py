"""What stands on a page: numbers readable, and text from a corpus harmless."""

import html
import json
import math
import re

import numpy as np
import pandas as pd
import pytest
from markdown_it import MarkdownIt

from paper.show import prose

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
    assert prose.number(3.21e-9) == "3.21 × 10⁻⁹" and prose.number(1e9) == "1,000,000,000"
    assert prose.number(1.7e15 + 0.5) == "1.70 × 10¹⁵" and prose.number(4.4e-16) == "0" == prose.number(-9.9e-10)


def test_a_p_value_says_no_more_than_resampling_can():
    assert [prose.p_value(p) for p in (1.7e-72, 0.00099, 0.001, 0.0312)] == ["p < 0.001"] * 2 + [
        "p = 0.0010",
        "p = 0.031",
    ]
    told = prose.Values([1e-9, 0.4])
    assert told.p == "p < 0.001 to p = 0.40" and f"{told.low:p}" == "p < 0.001"


def test_every_column_of_p_values_says_them_so():
    """A page once gave p as 0, where its column was named by the noise that it is against."""
    found = pd.DataFrame({"p, documents": [1e-9], "p of noise": [0.0312], "power": [1e-9]})
    assert rows(prose.table_html(found))[1] == ["&lt; 0.001", "0.031", "1.00 × 10⁻⁹"]


def rows(text):
    return [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.S) for row in re.findall(r"<tr>(.*?)</tr>", text, re.S)]


WIDE = pd.DataFrame(
    {
        "corpus": ["a", "b"], "k": [1, 1], "alpha": [0.5, 0.25], "documents: low": [0.1, 0.1], "documents: high": 0.6,
        "other text: low": [0.25, 0.1], "other text: high": [0.75, 0.4],
        "other sizes: low": [0.0, math.nan], "other sizes: high": 0.9,
        "R²": [0.9, 0.99], "p": [1e-9, 0.25], "p, documents": [0.5, 0.75], "n": [3, 4],
        "status": ["ok", "few hits"],
    }
)  # fmt: skip


def test_a_wide_table_shows_six_columns_with_intervals_in_one_cell_and_the_rest_as_csv():
    text = prose.table_html(WIDE, "Laws.")
    head, first, second = rows(text)
    assert head == ["status", "corpus", "alpha", "intervals", "R²", "p"]
    plain = [re.sub("<[^>]+>", "", cell) for cell in first]
    assert plain[0] == "✓ ok" and plain[3] == "other\u00a0text [0.250, 0.750]other\u00a0sizes [0, 0.900]"
    assert plain[5] == "&lt; 0.001"
    assert re.sub("<[^>]+>", "", second[0]) == "! few hits" and "In every row: k 1." in text
    csv = json.loads(html.unescape(re.search(r'data-csv="([^"]*)"', text).group(1)))
    assert (
        csv.splitlines()[0].split(",")[:3] == ["corpus", "k", "alpha"] and "1e-09" in csv and "all 14 columns" in text
    )


def test_an_interval_that_is_not_known_is_one_dash():
    """A book once held 245 cells of '[–, –]'."""
    unknown = WIDE.assign(**{"other text: low": [np.nan, 0.5], "other text: high": [np.nan, 0.75]})
    first, second = (re.sub("<[^>]+>", "", row[3]) for row in rows(prose.table_html(unknown))[1:])
    assert first.startswith("other\u00a0sizes [")
    assert second.startswith("other\u00a0text [0.500, 0.750]other\u00a0sizes [")
    trained = pd.DataFrame(
        {"text: low": [np.nan], "text: high": np.nan, "and trainings: low": 0, "and trainings: high": 1}
    )
    assert ">text and trainings <" in prose.table_html(trained.assign(a=1))  # with nothing above it to add to
    again = trained.assign(
        **{"gap: low": 0.2, "gap: high": 0.4, "gap, and trainings: low": 0, "gap, and trainings: high": 1}
    )
    ((cell,),) = rows(prose.table_html(again))[1:]  # the long name once took a line of its own
    assert re.findall(r"<div>(.*?) <span>", cell) == ["text and trainings", "gap", "and\u00a0trainings"]
    alone = WIDE[["corpus"]].assign(low=np.nan, high=None)
    assert rows(prose.table_html(alone))[1][1] == "–" and prose.interval((np.nan, np.nan)) == "(no interval)"


def test_what_a_cell_shows_as_html_is_plain_in_the_csv():
    frame = pd.DataFrame({"page": ["a & b", "c"], "n": [1, 2]})
    text = prose.table_html(frame, download="x.csv", safe={"page": ["<b>A</b>", "<b>C</b>"]})
    assert "<b>A</b>" in text
    assert json.loads(html.unescape(re.search(r'data-csv="([^"]*)"', text).group(1))).splitlines()[1] == "a & b,1"


def test_a_csv_is_named_by_its_caption_and_has_empty_cells_for_no_value():
    frame = pd.DataFrame({"k": [1, "–"], "note": ["a – b", "c"]}, index=[3, 4])
    told = [prose.table_html(frame, caption, keep=[True, False]) for caption in ("Laws at k = 1 & <more>.", "")]
    assert 'data-name="laws-at-k-1-more.csv"' in told[0] and 'data-name="table.csv"' in told[1]
    csv = json.loads(html.unescape(re.search(r'data-csv="([^"]*)"', told[0]).group(1)))
    assert csv.splitlines() == ["k,note", "1,a – b", ",c"]


@pytest.mark.parametrize(
    "caption, name",
    [
        ("Licence texts: misses, and the R² that a true law would have", "licence-texts-misses-and-the-r2-that.csv"),
        ("a" * 60, f"{'a' * 36}.csv"), ("exponent α", "exponent.csv"), ("Мера", "table.csv"),
        ("One two three four five six seven 8 9", "one-two-three-four-five-six-seven-8.csv"),
    ],
)  # fmt: skip
def test_a_csv_has_a_short_name_in_plain_letters(caption, name):
    assert f'data-name="{name}"' in prose.table_html(WIDE, caption) and len(name) <= 40


def test_a_narrow_table_keeps_its_columns_and_chosen_ones_are_shown():
    narrow = WIDE[["corpus", "k", "other text: low", "other text: high"]]
    assert rows(prose.table_html(narrow))[0] == ["corpus", "k", "intervals"] and "data-csv" not in prose.table_html(
        narrow
    )
    assert rows(prose.table_html(WIDE, columns=["n", "status"]))[0] == ["status", "n"]
    assert "nothing to show" in prose.table_html(WIDE[:0]) and len(rows(prose.table_html(WIDE[:0]))[0]) == 6


def test_an_interval_in_words_is_not_broken():
    text = prose.table_html(pd.DataFrame({"a": ["0.3 [0.1, 0.5]", "[a note]"]}))
    assert "0.3 <span>[0.1, 0.5]</span>" in text and '<td class="text">[a note]' in text


def test_a_table_shows_the_rows_kept_and_gives_all_as_csv():
    text = prose.table_html(WIDE, columns=["corpus", "n"], keep=[False, True])
    assert len(rows(text)) == 2 and rows(text)[1] == ["b", "4"] and "with all 2 rows and 14 columns" in text
    csv = json.loads(html.unescape(re.search(r'data-csv="([^"]*)"', text).group(1)))
    assert len(csv.splitlines()) == 3 and "all 14 columns" in prose.table_html(WIDE, keep=[True, True])
    assert "nothing to show" in prose.table_html(WIDE, keep=[False, False])


def test_a_folded_table_shows_its_caption_alone():
    text = prose.table_html(WIDE, "a < b", fold=True)
    assert text.startswith('<details class="rbp-fold"><summary>a &lt; b</summary>') and "<caption>" not in text


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


def test_predictions_are_counted_and_not_taken_for_independent():
    """A sign test once stood beside them, which takes errors for independent, though they share models and text."""
    said = prose.predictions([-0.1, 0.3, np.nan, 0.1], [True, True, False])
    assert said.startswith(
        "The predicted loss is off by 10% in the median, 30% at worst. 95% of the intervals should hold, 67%"
    )
    assert "(2 of 3)" in said and "too low 1 times, too high 2 times" in said and "share models" in said
    assert "intervals" not in prose.predictions([0.1], []) and prose.predictions([], []).startswith("No model")
