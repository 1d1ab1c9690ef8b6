"""The prose of the built book, measured: bounds that only fall."""

from tests import prose

PAGES = {  # of a page at most
    "words": 900,
    "most": 4,  # numbers of a paragraph
    "long": 0,  # sentences over 25 words
    "headed": 0,  # headings followed by code, rules of verdicts apart
    "silent": 1,  # folds of code that show nothing, likewise; one where no model of others is here
    "short": 60,  # words of the answer
    "facts": 6,  # its numbers
}
BOOK = {"words": 11_800, "of": 1, "turns": 0}  # of all; of: sentences with three "of" or more


def test_a_page_is_read_to_its_end(built_html):
    measured = prose.frame(built_html)
    for name, most in PAGES.items():
        over = measured[name][measured[name] > most]
        assert over.empty, f"{name}: {over.to_dict()}"
    sums = measured.sum()
    assert {name: most for name, most in BOOK.items() if sums[name] > most} == {}, sums.to_dict()


def test_measures_find_what_was_planted(tmp_path):
    code = '<div class="cell"><details class="hide">x = 1</details>{}</div>'
    page = tmp_path / "page.html"
    page.write_text(
        "<article><h1>A</h1><p>From 1 to 2, 3 of 4 of 5 of 6 things goes as <em>S</em>.</p>"
        "<details><p>Unseen 7 8 9 10 11 12.</p></details><h2>B</h2>"
        + code.format("")
        + "<p>"
        + "word " * 26
        + "end. Short.</p>"
        + code.format('<div class="cell_output"><p class="rbp-caption">Fig. 02.1. 1</p></div>')
        + "<h2>C</h2>"
        + code.format("").replace("x = 1", 'book.claim("a", rows)')  # a rule
        + "</article>"
    )
    assert prose.measures(page) == {
        "words": 46,
        "most": 6,
        "long": 1,
        "of": 1,
        "turns": 1,
        "headed": 1,
        "silent": 1,
        "short": 0,
        "facts": 0,
    }
