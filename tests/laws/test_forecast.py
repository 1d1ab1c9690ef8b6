"""Forecasts of sizes nobody trained: statsmodels, and intervals that hold on planted laws."""

from dataclasses import replace

import numpy as np
import pytest
from planted import S, bent, broken, exact, planted_losses, straight

import rbplib as rbp


def test_one_form_alone_gives_the_interval_of_statsmodels():
    sm = pytest.importorskip("statsmodels.api")

    def interval(loss, size):
        """(median, low, high) of log L of a new model at a size, by least squares."""
        law = sm.OLS(loss.y, sm.add_constant(np.log(loss.S))).fit()
        row = law.get_prediction([[1, np.log(size)]]).summary_frame()
        return row[["mean", "obs_ci_lower", "obs_ci_upper"]].to_numpy()[0]

    loss = straight(np.random.default_rng(2))
    few, (rest, held) = loss.keep([0, 3, 6]), loss.split()
    ahead = rbp.forecast(few, "1B")
    assert list(ahead.laws) == ["line"]  # three models spare none for more
    assert ahead.horizon == pytest.approx(1) and ahead.below == 0  # decades outside of those
    assert rbp.forecast(few, 1e3).below == pytest.approx(1)
    for line, theirs in (
        (ahead, interval(few, 1e9)),
        (rbp.extrapolate(rest, held.S), interval(rest, loss.S[6])),
    ):
        assert [*line.y, *line.y_interval[:, 0]] == pytest.approx(theirs, rel=1e-8)


def test_the_choice_of_sources_is_in_the_interval():
    """The planted law itself lies inside; without resamples too seldom."""
    inside = {0: [], 300: []}
    for seed in range(60):
        loss = planted_losses(40, tokens=200, clustering=0.6, seed=seed, ks=(1,))[1]
        size = 3 * loss.S[-1]
        for n, cases in inside.items():
            low, high = rbp.forecast(loss, size, n_bootstrap=n).interval[:, 0]
            cases.append(low <= (size / loss.S[0]) ** -0.1 <= high)
    assert np.mean(inside[300]) >= 0.92 > np.mean(inside[0])


@pytest.mark.parametrize("y, size", [(1 - S[:2] / 1e9, 1e9), (S * 0, 1e9), (-np.log(S), 0)])
def test_what_has_no_forecast_is_said(y, size):
    with pytest.raises(rbp.InputError, match="three|above 0"):
        rbp.forecast(exact(y, S[: len(y)]), size)
    with pytest.raises(rbp.InputError, match="above 0"):
        rbp.extrapolate(exact(1 / S, S), 0)
    with pytest.raises(rbp.InputError, match="a forecast takes a Loss"):
        rbp.forecast(None, size)


@pytest.mark.parametrize(
    # how often it holds, and Student's t about the line
    ("law", "least", "line"),
    [(straight, 0.93, 1), (bent, 0.93, 1), (broken, 0.9, 0.75)],
)
def test_intervals_hold_on_planted_laws_and_nearly_where_the_last_steps_break(law, least, line):
    rng = np.random.default_rng(0)
    ladders = [law(rng) for _ in range(80)]
    frame = rbp.backtest(ladders)
    assert len(frame) == 240
    # models without names too
    assert len(rbp.backtest([replace(ladders[0], models=())])) == 3
    frame = frame if least > 0.9 else frame[frame["of"] == 1]
    assert frame["inside"].mean() >= least and frame["line_inside"].mean() < line
    # narrow enough to lean on
    assert law is broken or np.log(frame.high / frame.low).median() < 0.55 * np.ptp(ladders[0].y)
