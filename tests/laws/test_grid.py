"""Grids of sizes and tokens: laws along both sides, bends, best sizes, against planted truth and by hand."""

from dataclasses import replace

import numpy as np
import pytest

from paper import grid as grids
from paper import joint
from rbplib.families import InputError
from tests.planted import planted_grid


def test_laws_along_a_side_are_lines_through_its_models():
    grid = planted_grid()
    along_size, along_tokens = grid.along_size(None, n_bootstrap=0), grid.along_tokens(None, n_bootstrap=0)
    assert list(along_size) == list(grid.budgets) and list(along_tokens) == list(np.unique(grid.curve.S))
    y = np.log(grid.loss().values)
    for d, law in along_size.items():
        own = grid.D == d
        assert law.alpha == pytest.approx(-np.polyfit(np.log(grid.curve.S[own]), y[own], 1)[0], abs=1e-10)
    for s, law in along_tokens.items():
        own = grid.curve.S == s
        assert law.alpha == pytest.approx(-np.polyfit(np.log(grid.D[own]), y[own], 1)[0], abs=1e-10)
        assert law.S.tolist() == grid.budgets.tolist()


def test_a_grid_shows_the_law_that_was_planted():
    grid = planted_grid(a=0.2, b=0.3)
    law = joint.fit(grid.curve.S, grid.D, grid.loss().values, "additive")
    assert law.parameters["a"] == pytest.approx(0.2, abs=1e-4) and law.parameters["b"] == pytest.approx(0.3, abs=1e-4)


def test_the_last_step_catches_up_with_more_tokens_under_an_additive_law():
    D, ratio, draws = grids.last_steps(planted_grid(a=0.2, b=0.3), None, 200)
    assert (np.diff(ratio) > 0).all() and (ratio < 1).all()
    assert (draws[:, -1] > draws[:, 0]).mean() > 0.99
    assert grids.last_steps(planted_grid(a=0.2, B=0.0), None, 50)[1] == pytest.approx(1)  # no term in tokens, no bend


def test_the_last_step_by_hand():
    grid = planted_grid()
    D, ratio, _ = grids.last_steps(grid, 1, 10)
    for d, found in zip(D, ratio, strict=True):
        own = grid.D == d
        steps = -np.diff(grid.loss(1).y[own]) / np.diff(np.log(grid.curve.S[own]))
        assert found == pytest.approx(steps[-1] / steps[:-1].mean(), abs=1e-12)


def test_sizes_that_some_budget_lacks_do_not_enter_the_last_step():
    grid = planted_grid()
    keep = ~((grid.curve.S == grid.curve.S.max()) & (grid.D == grid.D.max()))
    part = grids.Grid(grid.curve.keep(np.flatnonzero(keep)), grid.D[keep])
    whole = grids.Grid(
        grid.curve.keep(np.flatnonzero(grid.curve.S < grid.curve.S.max())), grid.D[grid.curve.S < grid.curve.S.max()]
    )
    assert grids.last_steps(part, 1, 10)[1] == pytest.approx(grids.last_steps(whole, 1, 10)[1])


def test_training_noise_widens_what_sources_alone_scatter():
    grid = planted_grid()
    quiet = grids.noisy_losses(grid.loss(1), 400)
    again = [planted_grid(training_sd=0.05, budgets=1, seed=seed).curve for seed in range(12)]
    parts = {"hits": np.concatenate([c.hits for c in again], axis=1), "nll": np.hstack([c.nll for c in again])}
    repeats = replace(again[0], S=np.tile(again[0].S, 12), models=again[0].models * 12, **parts)
    loud = grids.noisy_losses(replace(grid.curve, repeats=repeats).loss(1), 400)
    ratio = loud / quiet
    assert np.log(ratio).std() == pytest.approx(0.05, rel=0.25)
    assert abs(np.corrcoef(np.log(ratio[:, 0]), np.log(ratio[:, 1]))[0, 1]) < 0.3  # each model on its own


def test_the_best_size_is_where_both_terms_balance():
    a, b, A, B = 0.3, 0.4, 5.0, 50.0
    S, D = (x.ravel() for x in np.meshgrid(np.geomspace(1e3, 1e6, 6), np.geomspace(1e6, 1e8, 6)))
    law = joint.fit(S, D, A * S**-a + B * D**-b, "additive")
    compute = np.array([1e11, 1e13])
    best = grids.best_sizes(law, compute)
    exact = (a * A / (b * B) * (compute / 6) ** b) ** (1 / (a + b))
    assert best[:, 0] == pytest.approx(exact, rel=0.01)
    assert 6 * best.prod(axis=1) == pytest.approx(compute)


def test_a_family_that_does_not_say_its_tokens_is_refused(tmp_path, monkeypatch):
    (tmp_path / "silent.yml").write_text("models:\n  - owner/x\n")
    with pytest.raises(InputError, match="does not say how much text x saw: add 'tokens:'"):
        grids.grid([tmp_path / "silent.yml"], "docs", [1])
    with pytest.raises(InputError, match="no family was given"):
        grids.grid([], "docs", [1])


def test_budgets_are_compared_on_the_sizes_that_all_hold():
    grid = planted_grid()
    holes = (grid.curve.S == grid.curve.S.max()) & (grid.D > grid.D.min())
    part = grids.Grid(grid.curve.keep(np.flatnonzero(~holes)), grid.D[~holes])
    assert np.unique(part.whole.curve.S).tolist() == np.unique(grid.curve.S)[:-1].tolist()
    assert {law.n_models for law in part.whole.along_size(n_bootstrap=0).values()} == {5}
    assert [law.n_models for law in part.along_size(n_bootstrap=0).values()] == [6, 5, 5, 5, 5]
