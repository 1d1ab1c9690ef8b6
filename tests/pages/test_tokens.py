"""The page on size and tokens, on planted grids: it finds what was planted, and speaks where little can be told."""

from ast import literal_eval
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from paper import grid as grids
from paper.show import grid_tables
from tests.pagerunner import run_page, words
from tests.planted import planted_grid
from workflow.notebooks import notebook_path, parameter_defaults

PARAMETERS = {"corpora": ["docs"], "ks": [1, 10], "n_bootstrap": 60, "families": []}


def page(monkeypatch, grid):
    monkeypatch.setattr(grids, "grid", lambda families, corpus, ks: grid)
    return words(run_page("19_tokens", **PARAMETERS))[1]


def part(grid, keep):
    return grids.Grid(grid.curve.keep(np.flatnonzero(keep)), grid.D[keep])


def test_the_page_finds_the_law_that_was_planted(monkeypatch):
    said = page(monkeypatch, planted_grid(sizes=7, training_sd=0.005))
    assert "left out, the best is the sum in" in said and "35 models of 7 sizes" in said and "on 5 budgets" in said
    assert "nan" not in said.lower().split()


@pytest.mark.parametrize("budgets, sizes", [(1, 6), (2, 6), (5, 2), (1, 2)])
def test_the_page_ends_on_grids_that_tell_little(monkeypatch, budgets, sizes):
    said = page(monkeypatch, planted_grid(sizes=sizes, budgets=budgets))
    assert f"{budgets * sizes} models of {sizes} sizes" in said


def test_the_page_ends_where_no_token_was_hit(monkeypatch):
    grid = planted_grid(sizes=4, budgets=3)
    nothing = replace(grid.curve, hits=np.zeros_like(grid.curve.hits))
    assert "12 models" in page(monkeypatch, grids.Grid(nothing, grid.D))


def test_a_grid_with_a_hole_is_read(monkeypatch):
    grid = planted_grid(sizes=5, budgets=4)
    hole = ~((grid.curve.S == grid.curve.S.max()) & (grid.D == grid.D.min()))
    assert "19 models of 5 sizes" in page(monkeypatch, part(grid, hole))


def test_cases_are_what_their_names_say():
    grid = planted_grid(a=0.2, b=0.3)
    found = grid_tables.exponent_cases({"docs": grid}, [None])
    (case,) = found["grid_exponents"]
    assert [line.r2 for line in found["grid_lines"]] == [law.r2 for law in grid.along_size(n_bootstrap=0).values()]
    ends = [law.alpha for law in grid.along_size(None, n_bootstrap=0).values()]
    assert (case.first, case.last) == (ends[0], ends[-1]) and case.growth == pytest.approx(ends[-1] / ends[0])
    (ratio,) = grid_tables.ratio_cases({"docs": grid}, 1)
    low, high = ratio.band
    assert (low <= ratio.ratio).all() and (ratio.ratio <= high).all()
    assert ratio.first == pytest.approx(1, abs=0.01) and ratio.last == pytest.approx(1, abs=0.01)  # planted alike
    forms = grid_tables.form_frame({"docs": grid}, [1])
    ahead = grid_tables.grid_forecasts({"docs": grid}, [1, None])
    kinds = grid_tables.grid_kinds([], forms, [ratio], found, ahead)
    assert kinds["grid_forms"][0].lead < 0.1 and kinds["grid_exponents"] == [case]
    (told,) = kinds["grid_forecasts"]
    assert told.left_out == len(ahead) == 2 * (5 + 10 + 6 + 2) and told.share == ahead["inside"].mean()


def test_every_form_on_what_was_left_out():
    """Medians over corpora and losses in percent, forms in the order asked for."""
    rows = [("b", "each size", 0.2), ("a", "each size", 0.1), ("a", "each size", 0.3), ("a", "the largest size", 0.5)]
    frame = grid_tables.left_out_frame(pd.DataFrame(rows, columns=["form", "left", "rmse"]), ["a", "b", "c"])
    assert frame["form"].tolist() == ["a", "b"]
    assert frame["each size"].tolist() == pytest.approx([20, 20]) and frame["the largest size"][0] == pytest.approx(50)


def test_the_page_and_the_findings_show_one_grid():
    defaults = parameter_defaults(notebook_path("19_tokens"))
    shown = [tuple(literal_eval(defaults[name])) for name in ("families", "corpora", "ks")]
    assert shown == [grid_tables.GRID, grid_tables.KINDS, (1, 10, 100)]
