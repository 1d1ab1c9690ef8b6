"""Figures: one meaning a colour, lines named where they end, a title that says what is found, data
as a file; and what a page rests on."""

import io
import json
import re
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from matplotlib import colors
from matplotlib import pyplot as plt

from paper import book, front, tables_here
from paper.examples import Example
from paper.show import describe, figures, style
from paper.show.numbers import digits, high, known, low
from rbplib.law import fit
from tests import figureboxes
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


@pytest.mark.parametrize("ends", [(0.15, 9), (2e-5, 1.5e-3)])
def test_a_logarithmic_axis_has_two_numbers_or_more(ends):
    axis = plt.figure().add_subplot(yscale="log", ylim=ends).yaxis
    style.log_numbers(axis)
    ticks = axis.get_majorticklocs()
    assert np.sum(np.clip(ticks, *ends) == ticks) > 1
    plt.close()


@pytest.mark.parametrize(("ends", "fits"), [([1, 2, 3], True), ([1, 1, 1, 1, 3], False)])
def test_lines_are_named_where_they_end_if_their_ends_are_apart(ends, fits):
    fig, ax = plt.subplots()
    for i, end in enumerate(ends):
        ax.plot([1, 2], [1, end], label=f"line {i}", color=style.INKS[i])
    assert bool(figures.label_ends(ax)) == fits
    named = {text.get_text(): text.xy for text in ax.texts}
    assert named == ({f"line {i}": (2, end) for i, end in enumerate(ends)} if fits else {})
    plt.close(fig)


def test_candidates_carry_their_ranks_and_dots_stand_for_those_left_out():
    example = Example([], "b", 9, 0.1, [("a", 0.5), ("b", 0.1)])
    ax = figures.draw_candidates(plt.figure().add_subplot(), example)
    assert [label.get_text()[0] for label in ax.get_yticklabels()] == ["1", "⋮", "9"]


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


def test_rows_of_names_are_told_with_their_intervals():
    fig, ax = plt.subplots()
    ax.hlines([1, 0], [0.1, 0.3], [0.2, 0.4], label="other text")
    ax.plot([0.15, 0.35], [1, 0], "o")
    ax.set_yticks([1, 0], ["docs", "code"])
    words = "by row: docs 0.150, other text [0.100, 0.200]; code 0.350, other text [0.300, 0.400]."
    assert describe.describe(fig) == words
    plt.close(fig)


def test_a_title_breaks_before_the_edge_of_its_figure():
    with plt.rc_context(style.RC):
        fig, _ = plt.subplots()
        fig.suptitle("Worked examples")
        run = {"N": 100, "k": 1, "times": 1.67e7, "sources": 20}
        book.set_title(fig, book.fill("{{ words.shows_runs(of) }}", {"of": [run]}))
        assert figureboxes.faults(style.svg_of(fig)) == []
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


def test_numbers_that_no_case_knows_are_left_out():
    kept = pd.Series([0.5, pd.NA, 1.5], dtype="Float64")  # as claims keep their rows
    assert digits(kept) == "0.50 to 1.5" and known(kept[1:2]) == []
    assert digits(kept, "%", around=[(0, 1)] * 3) == "50% [0, 1] to 150% [0, 1]"
    assert high([2e-5], 2) == "2.0 × 10⁻⁵" and low([np.nan]) == "no value"


def test_the_readme_takes_the_figure_of_the_law(tmp_path, monkeypatch):
    monkeypatch.setattr(front, "root", lambda: tmp_path)
    shown = [
        {"data": {front.SVG: "<svg><defs></svg>"}, "metadata": {front.SVG: {"alt": alt}}}
        for alt in ("Tokens per parameter. x", "2 lines. Loss of RBP against size")
    ]
    page = tmp_path / "book/_executed/all/11_families.ipynb"
    page.parent.mkdir(parents=True)
    page.write_text(json.dumps({"cells": [{}, {"outputs": [{}, *shown]}]}))
    path = front.law_figure(tmp_path / "law.svg")
    assert path.read_text() == "<svg><title>2 lines</title><defs></svg>"


def test_the_readmes_figure_is_that_of_the_books_numbers():
    """Its title has the exponents that `rbp verify` holds of every embedded family and text."""
    title = re.search("<title>(.*?)</title>", (ROOT / "book/_static/law.svg").read_text(), re.S)[1]
    rows = pd.read_csv(ROOT / "book/reference.csv", dtype=str)
    alphas = rows[rows["page"].str.endswith("02_top1_law") & (rows["number"] == "alpha")]["value"]
    assert title.startswith(f"{len(alphas)} fitted lines: R² ")
    assert title.endswith(f"exponent {digits(map(float, alphas), 3)}")
