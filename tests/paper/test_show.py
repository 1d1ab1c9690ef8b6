"""Figures: one meaning a colour, lines named where they end, a title that says what is found, data
as a file; and what a page rests on."""

import io
import re
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from matplotlib import colors
from matplotlib import pyplot as plt

from paper import book, tables_here
from paper.show import describe, figures, style
from paper.show.numbers import digits
from rbplib.law import fit
from tests.commands import ROOT, python
from tests.planted import exact, straight

SIZES = np.array([1e3, 1e4, 1e5])


def contrast(colour):
    """Of a colour with white, as WCAG has it."""
    rgb = np.array(colors.to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return 1.05 / (linear @ [0.2126, 0.7152, 0.0722] + 0.05)


def test_no_colour_means_two_things_and_each_is_seen_on_white():
    palettes = [set(style.COLOURS.values()), set(style.TEXTS), set(style.INKS), {style.ACCENT}]
    assert not any(first & second for first, second in combinations(palettes, 2))
    assert all(contrast(colour) >= 3 for colour in set().union(*palettes))
    alone, among = book.looks(["code"]), book.looks(["new", "docs", "code"])
    assert alone["code"] == among["code"] != among["new"]
    # ladders of one family on several amounts of text
    looks = [style.family_style(f"nano-pythia-{n}m") for n in (1, 2, 4, 8, 16)]
    assert len({look["marker"] for look in looks}) == 5 > len({look["color"] for look in looks})


@pytest.mark.parametrize(("ends", "fits"), [([1, 2, 3], True), ([1, 1, 1, 1, 3], False)])
def test_lines_are_named_where_they_end_if_their_ends_are_apart(ends, fits):
    fig, ax = plt.subplots()
    for i, end in enumerate(ends):
        ax.plot([1, 2], [1, end], label=f"line {i}", color=style.INKS[i])
    assert bool(figures.label_ends(ax)) == fits
    named = {text.get_text(): text.xy for text in ax.texts}
    assert named == ({f"line {i}": (2, end) for i, end in enumerate(ends)} if fits else {})
    plt.close(fig)


@pytest.mark.parametrize(
    ("losses", "title"),
    [
        ([exact(-0.1 * np.log(SIZES), SIZES)], "1 fitted line: R² 1, exponent 0.100"),
        (map(straight, map(np.random.default_rng, range(3))), "3 fitted lines: R² 0.9"),
        ([exact(np.array([-1.0]), np.array([1e3]))], "No line can be fitted"),
    ],
)
def test_a_figure_is_titled_by_what_was_found_and_gives_its_points(losses, title):
    (fig, ax), laws = plt.subplots(), [fit(loss, n_bootstrap=0) for loss in losses]
    for law in laws:
        law.plot(ax, label="=cmd")
    book.set_title(fig, book.fill("{{ words.shows_fits(laws) }}", {"laws": laws}))
    assert fig.get_suptitle().startswith(title) and title in describe.describe(fig)
    frame = pd.read_csv(io.StringIO(describe.drawn_data(fig)))
    points = frame[frame["part"] == "points"]
    np.testing.assert_allclose(points["y"], np.exp(np.concatenate([x.y for x in laws])), rtol=1e-5)
    assert set(points["name"]) == {"'=cmd"}  # no formula for a spreadsheet
    plt.close(fig)


def ranks(family, model, size, ident="x/y", **about):
    record = {"family": family, "model": model, "nonembedding_params": size, "model_id": ident}
    return SimpleNamespace(record=record | {"corpus": "docs", "scored_tokens": 100} | about)


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        (
            {"docs": [ranks("nano-pythia", "1.9k", 1908), ranks("nano-pythia", "656k", 655928)]},
            ["2 models of nano&#45;pythia, 1.91k to 656k", "on 4.1M tokens; scored on 100 tokens"],
        ),
        ({"docs": [ranks("p", "m", 10, "EleutherAI/pythia-14m")]}, ["1 model of", "The paper's"]),
        (
            {
                "a": [ranks("p", "m", 10, model_digest=1)],
                "b": [ranks("p again", "m", 10, model_digest=1), ranks("q", "m", 20)],
            },
            ["2 models of p, q, 10 to 20 parameters", "Not the paper's models."],
        ),
        (
            {"docs": [ranks("p", "a", 10, vocab_size=9, unscored={"<unk>": 5})]},
            [" 4.8% of the tokens are special ones"],
        ),
        (
            {"docs": [ranks("p", n, 10, vocab_size=ord(n), weights_dtype="f16") for n in "ab"]},
            ["Measured in f16.", "Models of p have outputs of different"],
        ),
        ({"docs": [ranks("p", "a", 10, quantisation={"file_type": "Q4_1"})]}, ["in Q4_1."]),
    ],
)
def test_a_page_says_what_it_rests_on(tables, words):
    text = book.fill("{{ words.scope(scope) }}", {"scope": tables_here.scope(tables)})
    assert all(part in text for part in words), text


CELLS = """
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

shell = InteractiveShell.instance()
shell.run_cell("from matplotlib import pyplot as plt\\nfrom paper import book\\nbook.start()")
for cell in ("figure, ax = plt.subplots()", "book.show(figure)", "plt.subplots()", "plt.show()"):
    with capture_output() as seen:
        shell.run_cell(f"{cell};")
    print(len(seen.outputs))
"""


def test_a_figure_begun_in_one_cell_is_shown_only_when_it_is_done():
    inline = "module://matplotlib_inline.backend_inline"  # a kernel's
    run = python("-c", CELLS, MPLBACKEND=inline)
    assert run.stdout.split() == ["0", "1", "0", "1"], run.stderr


def test_the_readmes_figure_is_that_of_the_books_numbers():
    """Its title has the exponents that `rbp verify` holds of every embedded family and text."""
    title = re.search("<title>(.*?)</title>", (ROOT / "book/_static/law.svg").read_text(), re.S)[1]
    rows = pd.read_csv(ROOT / "book/reference.csv", dtype=str)
    alphas = rows[rows["page"].str.endswith("02_top1_law") & (rows["number"] == "alpha")]["value"]
    assert title.startswith(f"{len(alphas)} fitted lines: R² ")
    assert title.endswith(f"exponent {digits(map(float, alphas), 3)}")
