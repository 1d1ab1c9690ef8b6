"""Figures: one meaning a colour, a title that says what was found, data as a file; and what a page
rests on."""

import io
import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt

from paper import book, tables_here
from paper.show import describe, style
from paper.show.numbers import digits
from rbplib.law import fit
from tests.commands import ROOT, python
from tests.planted import exact, straight

SIZES = np.array([1e3, 1e4, 1e5])


def test_no_colour_means_two_things():
    palettes = [{*style.COLOURS.values()}, {*style.TEXTS}, {*style.INKS}, {style.ACCENT}]
    assert len(set().union(*palettes)) == sum(map(len, palettes))
    alone, among = book.looks(["code"]), book.looks(["new", "docs", "code"])
    assert alone["code"] == among["code"] != among["new"]


@pytest.mark.parametrize(
    ("losses", "title"),
    [
        ([exact(-0.1 * np.log(SIZES), SIZES)], "1 fitted line: R² 1, exponent 0.100"),
        (map(straight, map(np.random.default_rng, range(3))), "3 fitted lines: R² 0.9"),
        ([exact([-1.0], S=[1e3])], "No line can be fitted"),
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


TABLE = {"family": "nano-pythia", "model": "1.9k", "nonembedding_params": 1908, "model_id": "x/y"}
TABLE |= {"corpus": "docs", "scored_tokens": 100}
LARGE = {"model": "656k", "nonembedding_params": 655_928}


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ([{}, LARGE], "2 models of nano&#45;pythia, 1.91k to 656k"),
        ([{}], "on 4.1M tokens; scored on 100 tokens"),
        ([{"model_id": "EleutherAI/pythia-14m"}], "The paper's"),
        ([{"model_digest": 1}, {"family": "copy", "model_digest": 1}], "1 model of nano"),
        ([{"vocab_size": 9, "unscored": {"<unk>": 5}}], " 4.8% of the tokens are special ones"),
        ([{"vocab_size": 9}, LARGE | {"vocab_size": 8}], "have outputs of different"),
        ([{"weights_dtype": "f16"}], "Measured in f16."),
        ([{"quantisation": {"file_type": "Q4_1"}}], "in Q4_1."),
    ],
)
def test_a_page_says_what_it_rests_on(records, said):
    tables = [SimpleNamespace(record=TABLE | record) for record in records]
    text = book.fill("{{ words.scope(scope) }}", {"scope": tables_here.scope({"docs": tables})})
    assert said in text


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
