"""The law in size and tokens: planted laws with a floor and without, published fits, points held
out, and other tools."""

import numpy as np
import pandas as pd
import pytest
from commands import told

import rbplib as rbp
from benchmarks import joint as bench
from rbplib.families import held

CHINCHILLA, LLAMA = rbp.table_losses(held("published", "size_and_tokens.csv"))
BESIROGLU = {  # 2024, with standard errors
    "E": (1.8172, 0.03),
    "A": (482.01, 124.58),
    "a": (0.3478, 0.02),
    "B": (2085.43, 1293.23),
    "b": (0.3658, 0.02),
}


def without_worst(loss, count=5):
    """As Besiroglu et al. leave points out."""
    return loss.keep(np.sort(np.argsort(loss.values)[:-count]))


def test_twenty_planted_laws_are_held_in_intervals_no_wider_than_need_be():
    inside, wider = [], []
    for seed in range(20):
        law = list(bench.LAWS.values())[seed % 4]
        loss, size, tokens, new = bench.planted(law, bench.DESIGNS["6 x 5"], seed)
        low, high = rbp.joint_forecast(loss, size, tokens).y_interval
        inside.append((low < new) & (new < high))
        wider.append((high - low) / bench.own_width(law, loss, size, tokens))
    assert np.mean(inside) >= 0.9
    assert (np.median(wider, axis=0) <= 2).all() and np.min(wider) > 0.4


def test_a_floor_is_known_and_none_is_invented():
    for law, least, most in (("Chinchilla's", 0.99, 1), ("no floor", 0, 0.5)):
        loss, *_ = bench.planted(bench.LAWS[law], bench.DESIGNS["6 x 5"], 1)
        fitted = rbp.joint_fit(loss)
        assert least <= fitted.draws.floor <= most
        assert (fitted.parameters["E"] > 0) == (law == "Chinchilla's")
        for name, true in zip("AaBbE", bench.LAWS[law], strict=True):
            low, high = fitted.intervals[name]
            assert low <= true <= high


def test_chinchillas_points_give_the_published_fit_and_ratio():
    fitted = rbp.joint_fit(without_worst(CHINCHILLA))
    for name, (value, error) in BESIROGLU.items():
        low, high = fitted.intervals[name]
        assert abs(fitted.parameters[name] - value) < error and low < value < high
    # twenty tokens a parameter at the compute of Chinchilla itself
    ratio, (low, high) = fitted.ratio(5.76e23)
    assert low < 20 < high and low < ratio < high
    # and the best of a grid
    S = np.geomspace(1e10, 1e12, 20_001)
    best = S[np.argmin(fitted.law.predict(S, 5.76e23 / 6 / S))]
    assert low < 5.76e23 / 6 / best**2 < high


@pytest.mark.parametrize("loss, share, least", [(CHINCHILLA, 0.91, 20), (LLAMA, 0.915, 11)])
def test_published_points_of_most_compute_are_held(loss, share, least):
    compute = loss.S * loss.D
    out = compute >= np.quantile(compute, share)
    assert out.sum() == least + (2 if loss is CHINCHILLA else 1)
    low, high = (
        rbp.joint_fit(loss.keep(np.flatnonzero(~out))).forecast(loss.S[out], loss.D[out]).interval
    )
    assert ((low < loss.values[out]) & (loss.values[out] < high)).sum() >= least
    assert np.median(np.log(high / low)) < 0.08


def test_outliers_hardly_move_it_and_trainings_at_one_point_tell_their_scatter():
    loss, size, tokens, _ = bench.planted(bench.LAWS["no floor"], bench.DESIGNS["6 x 5"], 3)
    ahead = rbp.joint_forecast(loss, size, tokens)
    far = loss.values * np.where(np.arange(len(loss.S)) == 7, 1.4, 1)
    moved = rbp.joint_forecast(bench.points(loss.S, loss.D, far), size, tokens)
    assert np.abs(moved.y - ahead.y).max() < 0.02
    # each point trained twice, 5% off and on
    S, D = np.tile([loss.S, loss.D], 2)
    values = np.concatenate([loss.values * 0.95, loss.values * 1.05])
    low, high = rbp.joint_forecast(bench.points(S, D, values), size, tokens).y_interval
    assert ((high - low) > 2 * 1.96 * 0.05).all()


def test_what_has_no_joint_law_is_said():
    S, D = bench.DESIGNS["4 x 3"][0]
    for tokens, few in ((20 * S, len(S)), (D, 4)):
        loss = bench.points(S, tokens, S**-0.1).keep(np.arange(few))
        with pytest.raises(rbp.InputError, match="grow together"):
            rbp.joint_fit(loss)
    # one that rises has none that falls, and no interval that says so
    rising = rbp.joint_forecast(bench.points(S, D, (S * D) ** 0.1), S.max(), D.max())
    assert rising.interval[0] < rising.loss and rising.interval[1] / rising.interval[0] > 2


def test_fit_joint_tells_parameters_and_the_ratio(tmp_path):
    frame = pd.DataFrame({"S": CHINCHILLA.S, "D": CHINCHILLA.D, "loss": CHINCHILLA.values})
    frame.to_csv(tmp_path / "runs.csv", index=False)
    (record,) = told(f"fit {tmp_path}/runs.csv --joint")
    fitted = rbp.joint_fit(CHINCHILLA)
    assert record["E"] == pytest.approx(fitted.parameters["E"])
    assert record["ci_ratio"] == pytest.approx(fitted.ratio()[1].tolist())
    assert record["n_points"] == len(frame) and record["floor"] > 0.99
