"""Forecasts: intervals hold on planted laws, straight and bent; parts equal what brute force and statsmodels give."""

from dataclasses import replace

import numpy as np
import pytest
from planted import planted_curve, planted_loss

from rbplib.families import InputError
from rbplib.forecasting import (
    by_horizon,
    forecast,
    forecast_losses,
    held_out_forecasts,
    mixture_quantiles,
    published_losses,
    tried,
)
from rbplib.losses import Loss, mean

S = np.geomspace(1e4, 1e8, 7)


def exact(y, S=S, **more):
    """A Loss whose log is y, of one document."""
    names = tuple(f"m{i}" for i in range(len(y)))
    return Loss(np.exp(y)[None], np.array([1]), S, of=mean, name="loss", family="f", corpus="c", models=names, **more)


def straight(rng, sd=0.02):
    return exact(1 - 0.1 * np.log(S) + rng.normal(0, sd, len(S)))


def bent(rng, sd=0.005):
    """A floor of half the smallest model's loss."""
    return exact(np.log(0.5 + 0.5 * (S / S[0]) ** -0.25) + rng.normal(0, sd, len(S)))


def broken(rng, sd=0.01):
    """Half the exponent in the last two steps, as ladders that are trained too short at their top."""
    steps = -np.repeat([0.1, 0.05], [4, 2]) * np.diff(np.log(S))
    return exact(np.append(0, np.cumsum(steps)) + rng.normal(0, sd, len(S)))


@pytest.mark.parametrize("law", [straight, bent])
def test_intervals_hold_on_planted_laws_that_a_form_knows(law):
    rng = np.random.default_rng(0)
    ladders = [law(rng) for _ in range(80)]
    for held in (1, 2):
        found = held_out_forecasts(ladders, [held])
        assert len(found) == 80 * held and found["inside"].mean() >= 0.93
        assert np.log(found["high"] / found["low"]).median() < 0.55 * np.ptp(ladders[0].y)  # to lean on, not any


def test_intervals_nearly_hold_where_the_last_steps_break_and_those_of_the_line_do_not():
    rng = np.random.default_rng(0)
    found = held_out_forecasts([broken(rng) for _ in range(80)], [1])
    assert found["inside"].mean() >= 0.9 and found["line_inside"].mean() < 0.75
    missed = found[~found["inside"]]
    assert (missed["measured"] > missed["high"]).all() and (found["error"] < 0).mean() > 0.9


def test_the_noise_of_training_is_in_the_interval():
    """Three sizes on a line by luck say nothing of how trainings differ; repeats do."""
    y, rng = 1 - 0.1 * np.log(S[:5]), np.random.default_rng(1)
    known = planted_loss(y, training_sd=0.05, seed=3)
    lucky = planted_loss(y, training_sd=0.0, source_sd=0.0, again=0)
    quiet = forecast(lucky, S[5]).interval
    trained = forecast(exact(y, S[:5], repeats=known.repeats), S[5]).interval
    assert np.ptp(trained) > 4 * 0.03 > 100 * np.ptp(quiet)
    inside = []
    for seed in range(100):
        loss = planted_loss(y, training_sd=0.05, source_sd=0.0, seed=seed)
        found, line = forecast(loss, S[5]), np.polyval(np.polyfit(np.log(loss.S), y, 1), np.log(S[5]))
        inside.append(found.interval[0] <= line + rng.normal(0, 0.05) <= found.interval[1])
    assert np.mean(inside) >= 0.93


def test_the_choice_of_sources_is_in_the_interval():
    """The planted law itself, no longer that of the text scored, lies inside; without resamples too seldom."""
    new, inside = np.geomspace(2e4, 2e7, 7)[-1] * 10**0.5, {0: [], 300: []}
    for seed in range(80):
        loss = planted_curve(documents=40, tokens=200, clustering=0.6, seed=seed, ks=(1,)).loss(1)
        for n, found in inside.items():
            low, high = forecast(loss, new, n_bootstrap=n).interval[:, 0]
            found.append(low <= np.log((new / loss.S[0]) ** -0.1) <= high)
    assert np.mean(inside[300]) >= 0.93 > np.mean(inside[0])


def test_one_form_alone_gives_the_interval_of_statsmodels():
    sm = pytest.importorskip("statsmodels.api")
    loss, new = straight(np.random.default_rng(2)).keep([0, 3, 6]), 1e9
    found = forecast(loss, new)
    assert list(found.laws) == ["line"]  # three models spare none for more
    fitted = sm.OLS(loss.y, sm.add_constant(np.log(loss.S))).fit().get_prediction([[1.0, np.log(new)]])
    assert found.interval[:, 0] == pytest.approx(fitted.conf_int(obs=True)[0], abs=1e-9)
    assert found.y[0] == pytest.approx(fitted.predicted_mean[0])


def test_quantiles_of_the_mixture_by_brute_force():
    centre, sd, df = np.array([[0.0], [1.0], [3.0]]), np.array([[1.0], [0.5], [0.1]]), np.array([[3], [5], [20]])
    rng = np.random.default_rng(4)
    draws = np.concatenate([c + s * rng.standard_t(d, 400_000) for c, s, d in zip(centre, sd, df, strict=True)])
    found = mixture_quantiles(centre, sd, df, [0.05, 0.5, 0.95])
    assert found[:, 0] == pytest.approx(np.quantile(draws, [0.05, 0.5, 0.95]), abs=0.02)
    assert mixture_quantiles(centre * 0, sd * 0, df, [0.5]) == pytest.approx(0)


def test_trials_are_counted_by_hand():
    rng = np.random.default_rng(3)
    frame = held_out_forecasts([broken(rng) for _ in range(5)])
    (case,), rows = tried(frame), by_horizon(frame)
    inside = (frame["low"] <= frame["measured"]) & (frame["measured"] <= frame["high"])
    assert case.share == inside.mean() and case.held == f"{inside.sum()} of 15" and case.left_out == len(frame) == 15
    assert case.worst_error == np.abs(frame["forecast"] / frame["measured"] - 1).max()
    assert list(rows["decades beyond"]) == ["0.6 to 1", "1 to 2", "all"] and list(rows["left out"]) == [10, 5, 15]
    assert frame["horizon"].unique() == pytest.approx(np.array([2, 4]) / 3)
    assert rows["inside 95% interval"].iloc[1] == inside[frame["horizon"] > 1].mean()
    far = frame[frame["horizon"] > 1]
    assert case.line_far == f"{far['line_inside'].sum()} of {len(far)}" and len(far) == 5
    assert case.line_low == f"{(far['line_error'] < 0).sum()} of {len(far)}"
    assert tried(frame[:0]) == []


def test_published_ladders_are_as_carried():
    losses = {(loss.family, loss.corpus, loss.name): loss for loss in published_losses()}
    gpt2 = losses["GPT-2", "Wikipedia", "loss"]
    assert gpt2.values == pytest.approx([0.8769, 0.8028, 0.7694, 0.7484]) and gpt2.S[0] == 85_056_000
    one = losses["open_lm rpj, x1", "openlm", "loss"]
    assert len(one.S) == 6 and one.values[0] > one.values[-1] > 1 and len(losses) > 80
    line = np.polyval(np.polyfit(np.log(gpt2.S[:3]), gpt2.y[:3], 1), np.log(gpt2.S[3]))
    (row,) = held_out_forecasts([gpt2]).to_dict("records")  # two left out leave too few
    assert row["line_error"] == pytest.approx(np.expm1(line - gpt2.y[3])) and row["forecast"] == pytest.approx(
        np.exp(line)
    )


def test_trainings_of_one_size_are_one_point_and_tell_the_scatter():
    rng = np.random.default_rng(8)
    once = straight(rng)
    loss = replace(once, sums=np.hstack([once.sums] * 3), S=np.tile(once.S, 3), models=once.models * 3)
    assert forecast(loss, 1e9).interval == pytest.approx(forecast(once, 1e9).interval)
    scattered = np.exp(rng.normal(0, 0.05, len(loss.S)))
    apart = replace(loss, sums=loss.sums * scattered)
    means = replace(once, sums=apart.sums.reshape(len(apart.sums), 3, -1).mean(axis=1))
    told, alone = forecast(apart, 1e9), forecast(means, 1e9)
    assert told.y == pytest.approx(alone.y) and told.laws["line"].n_models == len(once.S)
    assert np.ptp(told.interval) > np.ptp(alone.interval)  # one new training scatters more than means of three
    rows = held_out_forecasts([apart])
    assert len(rows) == 3 and rows["models"].tolist() == [len(once.S) - 1] + [len(once.S) - 2] * 2


def test_where_a_size_lies_is_said():
    found = forecast(straight(np.random.default_rng(5)), [1e3, 1e4, 1e6, 2e8, 2e9])
    places = [found.place(i) for i in range(5)]
    assert "1.00 decades below the smallest" in places[0]
    assert places[1] == places[2] == "inside the sizes measured, an interpolation"
    assert places[3] == "0.30 decades beyond the largest model" and "WARNING" in places[4]
    value, (low, high) = found.told(3)
    share, ends = found.told(3, times=-10)
    assert low < value < high and share == pytest.approx(np.exp(-10 * value))
    assert ends == pytest.approx([np.exp(-10 * high), np.exp(-10 * low)])


def test_what_has_no_forecast_is_said():
    for loss in (straight(np.random.default_rng(6)).keep([0, 1]), exact(np.zeros(7)), exact(np.full(7, np.nan))):
        with pytest.raises(InputError, match="it takes three sizes"):
            forecast(loss, 1e9)
        assert not len(held_out_forecasts([loss]))
    with pytest.raises(InputError, match="at least 1 hit"):
        forecast_losses("nano-pythia", "docs", 1, 0)


def test_a_page_shows_whether_an_interval_held_and_leaves_numbers_alone():
    from paper.show.tables import held_out_table

    frame = held_out_forecasts([straight(np.random.default_rng(8))], [1]).assign(k=1, error=1.0, line_inside=False)
    (row,) = held_out_table(frame).to_dict("records")
    assert (row["k"], row["error"], row["line: inside"]) == (1, 1.0, "no") and row["inside"] in ("yes", "no")
    assert row["interval: low"] < row["forecast"] < row["interval: high"]
