"""Forecasts of sizes nobody trained: statsmodels, brute force, and intervals that hold on planted
laws."""

import numpy as np
import pytest
from planted import S, bent, broken, exact, planted_curve, straight

import rbplib as rbp
from paper.forecasts import by_horizon, extrapolate, held_out_forecasts, tried
from rbplib.forecasting import mixture_quantiles


def statsmodels_interval(loss, size):
    """(median, low, high) of log L of a new model at a size, by least squares."""
    sm = pytest.importorskip("statsmodels.api")
    law = sm.OLS(loss.y, sm.add_constant(np.log(loss.S))).fit()
    row = law.get_prediction([[1, np.log(size)]]).summary_frame()
    return row[["mean", "obs_ci_lower", "obs_ci_upper"]].to_numpy()[0]


def test_one_form_alone_gives_the_interval_of_statsmodels():
    loss = straight(np.random.default_rng(2))
    ahead = rbp.forecast(loss.keep([0, 3, 6]), 1e9)
    assert list(ahead.laws) == ["line"]  # three models spare none for more
    middle, *ends = np.exp(statsmodels_interval(loss.keep([0, 3, 6]), 1e9))
    assert ahead.interval[:, 0] == pytest.approx(ends, rel=1e-8)
    assert ahead.loss[0] == pytest.approx(middle, rel=1e-8)
    # and where the largest model was left out
    held = extrapolate(loss)
    middle, *ends = statsmodels_interval(loss.keep(np.arange(6)), loss.S[6])
    assert held.models == ("m6",) and held.predicted == pytest.approx([middle])
    assert held.interval[:, 0] == pytest.approx(ends)
    assert held.error == pytest.approx([np.exp(middle - loss.y[6]) - 1])


def test_quantiles_of_the_mixture_by_brute_force():
    centre, sd, df = np.array([[0.0, 1.0, 3.0], [1.0, 0.5, 0.1], [3, 5, 20]])[..., None]
    rng = np.random.default_rng(4)
    draws = centre + sd * rng.standard_t(df, (3, 400_000))
    quantiles = mixture_quantiles(centre, sd, df, [0.05, 0.5, 0.95])
    assert quantiles[:, 0] == pytest.approx(np.quantile(draws, [0.05, 0.5, 0.95]), abs=0.02)


def test_the_choice_of_sources_is_in_the_interval():
    """The planted law itself lies inside; without resamples too seldom."""
    inside = {0: [], 300: []}
    for seed in range(60):
        loss = planted_curve(documents=40, tokens=200, clustering=0.6, seed=seed, ks=(1,)).loss(1)
        new = 3 * loss.S[-1]
        for n, cases in inside.items():
            low, high = rbp.forecast(loss, new, n_bootstrap=n).interval[:, 0]
            cases.append(low <= (new / loss.S[0]) ** -0.1 <= high)
    assert np.mean(inside[300]) >= 0.92 > np.mean(inside[0])


@pytest.mark.parametrize(
    "y, size", [(1 - S[:2] / 1e9, 1e9), (S * 0, 1e9), (S * np.nan, 1e9), (-np.log(S), 0)]
)
def test_what_has_no_forecast_is_said(y, size):
    with pytest.raises(rbp.InputError, match="three|above 0"):
        rbp.forecast(exact(y, S[: len(y)]), size)


@pytest.mark.parametrize("law", [straight, bent])
def test_intervals_hold_on_planted_laws_that_a_form_knows(law):
    rng = np.random.default_rng(0)
    ladders = [law(rng) for _ in range(80)]
    frame = held_out_forecasts(ladders, [1, 2])
    assert len(frame) == 240 and frame["inside"].mean() >= 0.93
    width = np.log(frame["high"] / frame["low"]).median()
    assert width < 0.55 * np.ptp(ladders[0].y)  # to lean on


def test_where_the_last_steps_break_intervals_nearly_hold_and_are_counted():
    rng = np.random.default_rng(0)
    frame = held_out_forecasts([broken(rng) for _ in range(80)], [1])
    assert frame["inside"].mean() >= 0.9 and frame["line_inside"].mean() < 0.75
    (case,), rows = tried(frame), by_horizon(frame)
    assert case.left_out == 80 and case.share == frame["inside"].mean()
    assert case.worst_error == np.abs(frame["forecast"] / frame["measured"] - 1).max()
    assert list(rows["decades beyond"]) == ["0.6 to 1", "all"] and list(rows["left out"]) == [
        80,
        80,
    ]
