"""Forecasts of sizes nobody trained: statsmodels, brute force, and intervals that hold on planted
laws."""

import numpy as np
import pandas as pd
import pytest
from commands import call, told
from planted import S, bent, broken, exact, planted_losses, straight

import rbplib as rbp


def statsmodels_interval(loss, size):
    """(median, low, high) of log L of a new model at a size, by least squares."""
    sm = pytest.importorskip("statsmodels.api")
    law = sm.OLS(loss.y, sm.add_constant(np.log(loss.S))).fit()
    row = law.get_prediction([[1, np.log(size)]]).summary_frame()
    return row[["mean", "obs_ci_lower", "obs_ci_upper"]].to_numpy()[0]


def test_one_form_alone_gives_the_interval_of_statsmodels():
    loss = straight(np.random.default_rng(2))
    ahead = rbp.forecast(loss.keep([0, 3, 6]), "1B")
    assert list(ahead.laws) == ["line"]  # three models spare none for more
    middle, *ends = np.exp(statsmodels_interval(loss.keep([0, 3, 6]), 1e9))
    assert ahead.interval[:, 0] == pytest.approx(ends, rel=1e-8)
    assert ahead.loss[0] == pytest.approx(middle, rel=1e-8)
    # and where the largest model was left out
    rest, held = loss.split()
    line = rbp.extrapolate(rest, held.S)
    middle, *ends = statsmodels_interval(loss.keep(np.arange(6)), loss.S[6])
    assert held.models == ("m6",) and line.y == pytest.approx([middle])
    assert line.y_interval[:, 0] == pytest.approx(ends)


def test_the_choice_of_sources_is_in_the_interval():
    """The planted law itself lies inside; without resamples too seldom."""
    inside = {0: [], 300: []}
    for seed in range(60):
        loss = planted_losses(40, tokens=200, clustering=0.6, seed=seed, ks=(1,))[1]
        new = 3 * loss.S[-1]
        for n, cases in inside.items():
            low, high = rbp.forecast(loss, new, n_bootstrap=n).interval[:, 0]
            cases.append(low <= (new / loss.S[0]) ** -0.1 <= high)
    assert np.mean(inside[300]) >= 0.92 > np.mean(inside[0])


@pytest.mark.parametrize("y, size", [(1 - S[:2] / 1e9, 1e9), (S * 0, 1e9), (-np.log(S), 0)])
def test_what_has_no_forecast_is_said(y, size):
    with pytest.raises(rbp.InputError, match="three|above 0"):
        rbp.forecast(exact(y, S[: len(y)]), size)
    with pytest.raises(rbp.InputError, match="above 0"):
        rbp.extrapolate(exact(1 / S, S), 0)


@pytest.mark.parametrize("law", [straight, bent])
def test_intervals_hold_on_planted_laws_that_a_form_knows(law):
    rng = np.random.default_rng(0)
    ladders = [law(rng) for _ in range(80)]
    frame = rbp.backtest(ladders)
    assert len(frame) == 240 and frame["inside"].mean() >= 0.93
    width = np.log(frame["high"] / frame["low"]).median()
    assert width < 0.55 * np.ptp(ladders[0].y)  # to lean on


def test_where_the_last_steps_break_intervals_nearly_hold():
    rng = np.random.default_rng(0)
    frame = rbp.backtest([broken(rng) for _ in range(80)])
    frame = frame[frame["of"] == 1]
    assert frame["inside"].mean() >= 0.9 and frame["line_inside"].mean() < 0.75


def test_predict_takes_tokens_from_a_table(tmp_path, capsys):
    sizes, tokens = np.repeat([1e6, 4e6, 16e6, 64e6], 3), np.tile([1e8, 4e8, 16e8], 4)
    noise = np.exp(0.01 * np.random.default_rng(0).normal(size=12))
    table = pd.DataFrame({"model": [f"m{S:g}" for S in sizes], "S": sizes, "D": tokens})
    table["loss"] = (30 * sizes**-0.25 + 60 * tokens**-0.2) * noise
    table.to_csv(tmp_path / "grid.csv", index=False)
    (record,) = told(f"predict {tmp_path}/grid.csv --size 256M --tokens 2T")
    assert record["tokens"] == 2e12 and record["beyond"] == pytest.approx(np.log10(2e12 / 16e8))
    low, high = record["ci_loss"]
    assert low < 30 * 256e6**-0.25 + 60 * 2e12**-0.2 < high
    for bad in (table.drop(columns="D"), table[table.D == 1e8], table.assign(D=20 * table["S"])):
        bad.drop_duplicates("model").to_csv(tmp_path / "bad.csv", index=False)
        assert call(f"predict {tmp_path}/bad.csv --size 1B --tokens 2T") == 2
        out, err = capsys.readouterr()
        assert not out and "tokens" in err.splitlines()[-1]


@pytest.mark.parametrize("seeds", [2, 10])
@pytest.mark.parametrize("scatter", [(0.02, 0.005), (0.005, 0.02)])  # of sizes, of trainings
def test_one_form_takes_no_seeds_for_sizes(seeds, scatter):
    rng, inside, sizes = np.random.default_rng(0), [], np.repeat(S[:6], seeds)
    for _ in range(200):
        away = np.repeat(rng.normal(0, scatter[0], 6), seeds) + rng.normal(0, scatter[1], 6 * seeds)
        loss = exact(away - 0.1 * np.log(sizes), sizes)
        low, high = rbp.extrapolate(loss, [S[6]]).y_interval[:, 0]
        inside.append(low <= rng.normal(0, np.hypot(*scatter)) - 0.1 * np.log(S[6]) <= high)
    assert 0.92 <= np.mean(inside) <= 0.98
