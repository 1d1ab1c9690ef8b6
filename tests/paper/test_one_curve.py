"""Planted curves in cross-entropy come back; optima are what brute force finds."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from paper import compute, one_curve
from tests.pagerunner import records, run_page
from tests.planted import exact

SIZES = np.geomspace(1e4, 1e7, 6)


def planted(x):
    """log(-log RBP_k) from log cross-entropy: the slope at x is 1.5 + 0.8 x."""
    return -1 + 1.5 * x + 0.4 * x**2


def pair(rng, family, alpha, level, lifted, scatter):
    """(cross-entropy, -log RBP_k) of a family on the planted curve, or lifted off it, with four
    trainings of each size as repeats."""

    def losses(S):
        x = level - alpha * np.log(S / SIZES[0])
        y = planted(x) + lifted + scatter * rng.normal(size=len(S))
        return [exact(values, S, family=family) for values in (x, y)]

    pairs = zip(losses(SIZES), losses(np.repeat(SIZES, 4)), strict=True)
    return [replace(loss, repeats=repeats) for loss, repeats in pairs]


def groups(lifted=0.0, scatter=1e-10, seed=0):
    """Three families on one text, the second maybe off the curve."""
    rng = np.random.default_rng(seed)
    families = (("a", 0.03, 1.6, 0), ("b", 0.05, 1.7, lifted), ("c", 0.08, 1.8, 0))
    return {("text", 100, 1): [pair(rng, *family, scatter) for family in families]}


def test_families_on_one_curve_have_its_slope_for_the_ratio_of_their_exponents():
    (row,) = one_curve.curve_rows(groups())
    assert row["r2"] == pytest.approx(1) and row["sd"] < 1e-9 and row["models"] == 18
    for row in one_curve.family_rows(groups()):
        assert row["slope"] == pytest.approx(row["ratio"]) and row["given"] == pytest.approx(1)
    # a steeper family crosses more of a curve that bends: the ratio is the slope where it lies
    rows = one_curve.points(groups()["text", 100, 1][:1])
    assert one_curve.one_curve(rows).deriv()(1.5) == pytest.approx(1.5 + 0.8 * 1.5)


def test_a_family_is_as_far_off_the_curve_of_the_others_as_it_was_lifted():
    offs = {row["family"]: row["off"] for row in one_curve.family_rows(groups(lifted=0.1))}
    assert offs["b"] == pytest.approx(0.1)


def test_a_family_beside_the_curve_is_told_from_the_scatter_of_trainings():
    rows = [one_curve.curve_rows(groups(scatter=0.02, seed=seed))[0] for seed in range(30)]
    assert np.mean([row["p_of_one_curve"] < 0.05 for row in rows]) < 0.15
    assert np.median([row["times"] for row in rows]) == pytest.approx(1, abs=0.15)
    lifted = groups(lifted=0.1, scatter=0.02)
    (row,) = one_curve.curve_rows(lifted)
    assert row["p_of_one_curve"] < 0.01
    points = one_curve.points(lifted["text", 100, 1])
    _, (squares,), *_ = np.polyfit(points.x, points.y, 2, full=True)
    assert row["sd"] == pytest.approx(np.sqrt(squares / (18 - 3)))
    assert row["r2"] == pytest.approx(1 - squares / 18 / points.y.var(ddof=0))


def test_a_curve_that_is_not_rejected_decides_nothing(monkeypatch):
    """The rule of `beyond_entropy`, on planted p of one curve."""
    (row,) = one_curve.curve_rows(groups())
    rows = [row | {"p_of_one_curve": p} for p in (0.01, 0.049, 0.05, 0.9, np.nan)]
    monkeypatch.setattr(one_curve, "curve_rows", lambda groups: rows)
    page = run_page("13_one_curve", families=["nano-pythia-1m"], n_bootstrap=100)
    judged = records(page)["claim beyond_entropy"]["rows"]
    assert [row["holds"] for row in judged] == [True, True, None, None, None]
    assert [row["hidden"] for row in judged] == [False, False, True, True, False]


def test_the_larger_model_is_missed_by_what_was_planted():
    """By 0.03 in log loss at an exponent of 0.06 and a noise of 0.01: 0.5 in ln S, 3 in noise."""
    y = 1 - 0.06 * np.log(SIZES) + 0.03 * (SIZES == SIZES[-1])
    loss = exact(y, SIZES, se=0.01 * np.exp(y))
    assert one_curve.ahead(loss, 20_000) == pytest.approx((0.5, 3), rel=0.02)
    straight = exact(1 - 0.04 * np.log(SIZES), SIZES)
    (row,) = one_curve.ahead_rows([(straight, loss)])
    assert row["nearer"] == pytest.approx(0.5)


# ---- compute


S, D = np.meshgrid(np.geomspace(1e6, 1e9, 6), np.geomspace(1e8, 1e11, 6))
S, D = S.ravel(), D.ravel()


def summed(S, D, B=60.0, a=0.3, b=0.3):
    return 30 * S**-a + B * D**-b


@pytest.mark.parametrize("C", [1e16, 1e19])
def test_the_optimum_is_where_no_other_split_of_the_compute_is_better(C):
    form, sizes = {"a": 0.2, "b": 0.4}, np.geomspace(1e3, 1e12, 20_001)
    best = sizes[np.argmin(summed(sizes, C / 6 / sizes, **form))]
    optimum = compute.optimum(S, D, summed(S, D, **form), C)
    assert optimum == pytest.approx(np.log(C / 6 / best**2), abs=0.02)


def test_the_ratio_of_two_optima_is_the_planted_one_and_inside_its_interval():
    """With like exponents the tokens a parameter are (B / A)^(1 / a) at any compute."""

    def optima(C=1e18, noise=(1, 1)):
        models = {"S": S, "D": D, "entropy": summed(S, D) * noise[0]}
        models["hits"] = summed(S, D, B=90.0) * noise[1]
        return compute.optima(pd.DataFrame(models), C).iloc[0]

    exact = optima()
    assert exact["first"] == pytest.approx(2 ** (1 / 0.3), rel=1e-3)
    assert exact["times"] == pytest.approx(1.5 ** (1 / 0.3), rel=1e-3) and exact["inside"]
    assert not optima(1e25)["inside"]
    noise = np.exp(0.01 * np.random.default_rng(3).normal(size=(2, len(S))))
    low, high = optima(noise=noise)["around"]
    assert low < 1.5 ** (1 / 0.3) < high
