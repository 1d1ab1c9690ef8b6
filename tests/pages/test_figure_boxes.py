"""No text of a static figure lies over another, is cut at its edge or crossed by what is drawn; nothing is pale."""

import re
from io import StringIO

import figureboxes
import numpy as np
import pytest
from matplotlib import pyplot as plt

from paper.show import style


@pytest.fixture
def axes():
    with plt.rc_context(style.RC):
        figure, ax = plt.subplots()
        ax.plot([1, 2, 3], [1, 2, 3], label="a line")
        yield figure, ax
        plt.close(figure)


def faults(figure):
    return figureboxes.Figure(style.svg_of(figure)).faults()


def test_a_clean_figure_has_its_texts_and_no_fault(axes):
    figure, ax = axes
    ax.set(xlabel="size $S$", title="x < y & z")
    ax.legend(loc="upper left")
    said = [text for text, *_ in figureboxes.Figure(style.svg_of(figure)).texts]
    assert {"size S", "x < y & z", "a line", "3.00"} <= {text for text in said}
    assert faults(figure) == []


def test_a_number_in_a_formula_has_no_space_behind_its_comma_and_a_name_of_rbp_is_set(axes):
    figure, ax = axes
    ax.set(title="$k = 1,630$, 0.4 of $|V|$", xlabel="−log RBP_1: slope", ylabel=r"\$1,000 and $(1, 2,445)$")
    style.svg_of(figure)
    set_as = "$k = 1{,}630$, 0.4 of $|V|$", "−log RBP$_{1}$: slope", r"\$1,000 and $(1, 2{,}445)$"
    assert (ax.get_title(), ax.get_xlabel(), ax.get_ylabel()) == set_as
    assert [style.drawn(text) for text in set_as] == [*set_as]


def test_texts_over_each_other_are_found(axes):
    figure, ax = axes
    ax.text(1.5, 2.6, "one")
    ax.text(1.52, 2.62, "two")
    assert faults(figure) == ["'one' and 'two' overlap"]


def test_a_text_beyond_the_edge_is_found(axes):
    figure, ax = axes
    figure.text(0.97, 0.5, "beyond")
    assert faults(figure) == ["'beyond' is cut at the edge of the figure"]


def test_a_legend_over_a_line_is_found_and_the_grid_is_no_line(axes):
    figure, ax = axes
    ax.legend(loc="center")
    assert faults(figure) == ["'a line' is crossed by 1 of what is drawn"]


def test_a_gap_between_two_pieces_of_a_line_crosses_nothing(axes):
    figure, ax = axes
    ax.plot([1, 1.2, float("nan"), 2.8, 3], [2.8] * 5)
    ax.text(1.8, 2.77, "between")
    assert faults(figure) == []


@pytest.mark.parametrize("low, high", [(1.1, 1.4), (4e4, 3e5), (1.3e-3, 3.7e-2), (38, 520), (1e3, 1e6), (2e-9, 3e9)])
@pytest.mark.parametrize("width", [style.WIDTH, style.WIDTH / 2])
def test_numbers_of_a_logarithmic_axis_do_not_meet_and_there_are_two_or_more(low, high, width):
    with plt.rc_context(style.RC):
        figure, ax = plt.subplots(figsize=(width, width))
        ax.plot([low, high], [low, high])
        ax.set(xscale="log", yscale="log")
        svg = style.svg_of(figure)
        assert figureboxes.Figure(svg).faults() == []
        shown = [t for t in ax.get_xticklabels() if t.get_text() and low <= t.get_position()[0] <= high]
        assert len(shown) >= 2
        assert high > 10 * low or not len(ax.yaxis.get_minorticklocs())  # else a mark may stand above the last number
        plt.close(figure)


@pytest.mark.parametrize(
    "colour, alpha, said", [("#E69F00", 1, "#e69f00"), ("#0072B2", 0.6, "#0072b2"), ("#0072B2", 1, "")]
)
def test_a_pale_line_is_found_and_a_band_is_none(axes, colour, alpha, said):
    figure, ax = axes
    ax.plot([1, 3], [2, 1], color=colour, alpha=alpha)
    ax.fill_between([1, 3], [1, 1], [2, 2], color=colour, alpha=0.3, linewidth=0)
    assert faults(figure) == [f"what is drawn in {said} is too pale on white"] * bool(said)


def test_no_colour_of_the_book_is_pale_on_white():
    looks = [style.COLOURS, *({i: look["color"] for i, look in enumerate(style.series(n))} for n in range(1, 13))]
    pale = [(name, colour) for look in looks for name, colour in look.items() if figureboxes.contrast(colour) < 3]
    assert pale == [] and figureboxes.contrast(style.GREY) > 3


def test_a_map_and_its_scale_are_not_said_to_be_empty():
    with plt.rc_context(style.RC):
        figure, ax = plt.subplots()
        figure.colorbar(ax.pcolormesh([[0, 1], [2, 3]]), ax=ax)
        said = {text for text, *_ in figureboxes.Figure(style.svg_of(figure)).texts}
        plt.close(figure)
    assert len(said) > 3 and not any("nothing" in text for text in said)


def test_no_figure_of_the_book_has_a_fault(built_html):
    every = figureboxes.figures_of(built_html)
    assert len(every) > 40
    assert {name: said for name, svg in every.items() if (said := figureboxes.Figure(svg).faults())} == {}


def test_a_figure_says_nothing_twice_and_shows_what_matplotlib_would(axes):
    """Of a figure with many ticks, marks, letters and lines at most three fifths of matplotlib's own SVG is kept; what
    the kept text draws, and where, is the same within a hundredth of a point."""
    figure, ax = axes
    ax.clear()
    ax.loglog(np.geomspace(1e3, 1e9, 40), np.geomspace(3, 0.1, 40), "s-", label="measured", markerfacecolor="white")
    ax.fill_between([1e4, 1e8], [1, 0.2], [2, 0.4], alpha=0.2)
    ax.set(title="the law", xlabel="model size $S$", ylabel=r"$-\log\,\mathrm{RBP}_1$")
    ax.legend()
    kept = style.svg_of(figure)
    out = StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None})
    whole = out.getvalue()
    assert len(kept) < 0.6 * len(whole)
    ours, theirs = figureboxes.Figure(kept), figureboxes.Figure(whole)
    assert len(ours.drawn) == len(theirs.drawn) > 40 and len(ours.texts) == len(theirs.texts) > 8
    assert [t[0] for t in ours.texts] == [t[0] for t in theirs.texts]
    for a, b in zip((*ours.texts, *ours.drawn), (*theirs.texts, *theirs.drawn), strict=True):
        assert np.allclose(a[1], b[1], rtol=0, atol=0.025)
    fills = [re.findall(r'<use [^>]*(fill[^;"]*)', svg) for svg in (kept, whole)]
    assert fills[0] == fills[1] and len(fills[0]) >= 40
