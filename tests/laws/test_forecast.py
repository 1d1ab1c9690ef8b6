"""Forecasts of sizes nobody trained: brute force, statsmodels, and intervals that hold on planted laws."""

from dataclasses import replace

import numpy as np
import pytest
from planted import S, exact, planted_curve, planted_loss, straight

import rbplib as rbp
from rbplib.forecasting import forecast_losses, mixture_quantiles
from tests.ranktables import write_family


def test_one_form_alone_gives_the_interval_of_statsmodels():
    sm = pytest.importorskip("statsmodels.api")
    loss = straight(np.random.default_rng(2)).keep([0, 3, 6])
    ahead = rbp.forecast(loss, 1e9)
    assert list(ahead.laws) == ["line"]  # three models spare none for more
    design = sm.add_constant(np.log(loss.S))
    row = sm.OLS(loss.y, design).fit().get_prediction([[1, np.log(1e9)]]).summary_frame()
    ends = np.exp(row[["obs_ci_lower", "obs_ci_upper"]].to_numpy()[0])
    assert ahead.interval[:, 0] == pytest.approx(ends, rel=1e-8)
    assert ahead.loss[0] == pytest.approx(np.exp(row["mean"][0]), rel=1e-8)


def test_quantiles_of_the_mixture_by_brute_force():
    centre, sd, df = np.array([[0.0], [1.0], [3.0]]), np.array([[1.0], [0.5], [0.1]]), np.array([[3], [5], [20]])
    rng = np.random.default_rng(4)
    draws = np.concatenate([c + s * rng.standard_t(d, 400_000) for c, s, d in zip(centre, sd, df, strict=True)])
    quantiles = mixture_quantiles(centre, sd, df, [0.05, 0.5, 0.95])
    assert quantiles[:, 0] == pytest.approx(np.quantile(draws, [0.05, 0.5, 0.95]), abs=0.02)
    assert mixture_quantiles(centre * 0, sd * 0, df, [0.5]) == pytest.approx(0)


def test_the_noise_of_training_is_in_the_interval():
    """Sizes on a line by luck say nothing of how trainings differ; repeats do."""
    y = 1 - 0.1 * np.log(S[:5])
    repeats = planted_loss(y, training_sd=0.05, seed=3).repeats
    quiet = rbp.forecast(exact(y, S[:5]), S[5]).y_interval
    trained = rbp.forecast(exact(y, S[:5], repeats=repeats), S[5]).y_interval
    assert np.ptp(trained) > 4 * 0.03 > 100 * np.ptp(quiet)


def test_the_choice_of_sources_is_in_the_interval():
    """The planted law itself, no longer that of the text scored, lies inside; without resamples too seldom."""
    inside = {0: [], 300: []}
    for seed in range(60):
        loss = planted_curve(documents=40, tokens=200, clustering=0.6, seed=seed, ks=(1,)).loss(1)
        new = 3 * loss.S[-1]
        for n, held in inside.items():
            low, high = rbp.forecast(loss, new, n_bootstrap=n).interval[:, 0]
            held.append(low <= (new / loss.S[0]) ** -0.1 <= high)
    assert np.mean(inside[300]) >= 0.92 > np.mean(inside[0])


def test_trainings_of_one_size_are_one_point_and_tell_the_scatter():
    rng = np.random.default_rng(8)
    once = straight(rng)
    thrice = replace(once, sums=np.hstack([once.sums] * 3), S=np.tile(once.S, 3), models=tuple(map(str, range(21))))
    assert rbp.forecast(thrice, 1e9).interval == pytest.approx(rbp.forecast(once, 1e9).interval)
    apart = replace(thrice, sums=thrice.sums * np.exp(rng.normal(0, 0.05, 21)))
    means = replace(once, sums=apart.sums.reshape(1, 3, 7).mean(axis=1))
    scattered, alone = rbp.forecast(apart, 1e9), rbp.forecast(means, 1e9)
    assert scattered.y == pytest.approx(alone.y)
    assert np.ptp(scattered.interval) > np.ptp(alone.interval)


def test_where_a_size_lies_is_said():
    ahead = rbp.forecast(straight(np.random.default_rng(5)), [1e3, 1e4, 1e6, 2e8, 2e9])
    places = [ahead.place(i) for i in range(5)]
    assert "1.00 decades below the smallest" in places[0]
    assert places[1] == places[2] == "inside the sizes measured, an interpolation"
    assert places[3] == "0.30 decades beyond the largest model" and "WARNING" in places[4]
    value, (low, high) = ahead.told(3)
    share, ends = ahead.told(3, times=-10)
    assert (value, low, high) == (ahead.loss[3], *ahead.interval[:, 3])
    assert share == pytest.approx(np.exp(-10 * value))
    assert ends == pytest.approx([np.exp(-10 * high), np.exp(-10 * low)])


@pytest.mark.parametrize("y, size", [(1 - S[:2] / 1e9, 1e9), (S * 0, 1e9), (S * np.nan, 1e9), (-np.log(S), 0)])
def test_what_has_no_forecast_is_said(y, size):
    with pytest.raises(rbp.InputError, match="three|above 0"):
        rbp.forecast(exact(y, S[: len(y)]), size)


def test_measured_losses_have_the_repeats_that_the_family_names(tmp_path, monkeypatch):
    monkeypatch.setenv("RBP_ROOT", str(write_family(tmp_path)))
    write_family(tmp_path, "again", sizes=(2_000, 9_000))
    with (tmp_path / "families" / "synthetic.yml").open("a") as file:
        file.write("repeats: again\n")
    losses = forecast_losses("synthetic", "code", 3, 2)
    assert [loss.name for loss in losses.values()] == ["-log RBP_3", "cross-entropy", "-log p_{2,3}"]
    for name in ("rbp", "cross_entropy"):
        assert losses[name].repeats.models == ("again-2000", "again-9000")
    next((tmp_path / "results").rglob("synthetic-9000/code.parquet")).unlink()
    with pytest.raises(rbp.InputError, match="synthetic-9000"):
        forecast_losses("synthetic", "code", 3, 2)
    part = forecast_losses("synthetic", "code", 3, 1_000, partial=True)
    assert part["rbp"].missing == ("synthetic-9000",) and "longest run" in part["run"]
