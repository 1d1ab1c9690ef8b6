"""The law in size and tokens: planted laws with a floor and without, published fits, points held
out."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from commands import answers

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


def planted(law, seed):
    """(Loss, size, tokens, log losses of new models there) on six sizes and five amounts of
    text."""
    return bench.planted(bench.LAWS[law], bench.DESIGNS["6 x 5"], seed)


def test_planted_laws_are_held_in_intervals_no_wider_than_need_be_and_no_floor_is_invented():
    inside, wider = [], []
    for seed in range(12):
        law = [*bench.LAWS][seed % 4]
        loss, size, tokens, new = planted(law, seed)
        fitted = rbp.joint_fit(loss)
        low, high = fitted.forecast(size, tokens).y_interval
        inside.append((low < new) & (new < high))
        wider.append((high - low) / bench.own_width(bench.LAWS[law], loss, size, tokens))
        assert law != "Chinchilla's" or fitted.parameters["E"] > 0 and fitted.draws.floor > 0.99
        assert law != "no floor" or fitted.parameters["E"] == 0 and fitted.draws.floor < 0.5
    assert np.mean(inside) >= 0.9
    assert (np.median(wider, axis=0) <= 2).all() and np.min(wider) > 0.4


def test_chinchillas_points_give_the_published_fit_and_ratio():
    # without the five worst points, as Besiroglu et al. leave them out
    fitted = rbp.joint_fit(CHINCHILLA.keep(np.sort(np.argsort(CHINCHILLA.values)[:-5])))
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


def test_published_points_of_most_compute_are_held():
    loss, compute = CHINCHILLA, CHINCHILLA.S * CHINCHILLA.D
    out = compute >= np.quantile(compute, 0.91)
    fitted = rbp.joint_fit(loss.keep(np.flatnonzero(~out)))
    low, high = fitted.forecast(loss.S[out], loss.D[out]).interval
    inside = (low < loss.values[out]) & (loss.values[out] < high)
    assert inside.sum() >= 20 and len(inside) == 22
    assert np.median(np.log(high / low)) < 0.08


def test_outliers_hardly_move_it_and_trainings_at_one_point_add_their_scatter():
    loss, size, tokens, _ = planted("no floor", 3)
    ahead = rbp.joint_forecast(loss, size, tokens)
    far = loss.values * np.where(np.arange(len(loss.S)) == 7, 1.4, 1)
    moved = rbp.joint_forecast(bench.points(loss.S, loss.D, far), size, tokens)
    assert np.abs(moved.y - ahead.y).max() < 0.02
    # each point trained twice, 5% off and on
    twice = bench.points(*np.tile([loss.S, loss.D], 2), np.outer([0.95, 1.05], loss.values).ravel())
    low, high = rbp.joint_forecast(twice, size, tokens).y_interval
    assert ((high - low) > 2 * 1.96 * 0.05).all()


def test_what_has_no_joint_law_is_said():
    S, D = bench.DESIGNS["4 x 3"][0]
    for tokens, few in ((20 * S, len(S)), (D, 4)):
        loss = bench.points(S, tokens, S**-0.1).keep(np.arange(few))
        with pytest.raises(rbp.InputError, match="grow together"):
            rbp.joint_fit(loss)
    with pytest.raises(rbp.InputError, match="as many of one as of the other"):
        rbp.joint_forecast(bench.points(S, D, S**-0.1), [1e9, 2e9], [1e9, 2e9, 3e9])
    # one that rises has none that falls, and no interval that says so
    rising = rbp.joint_forecast(bench.points(S, D, (S * D) ** 0.1), S.max(), D.max())
    assert rising.interval[0] < rising.loss and rising.interval[1] / rising.interval[0] > 2


def test_a_joint_law_and_its_loss_are_shown_by_numbers_not_arrays():
    fitted = rbp.joint_fit(replace(LLAMA, family="llama", corpus="theirs"))
    title, *rows, about = repr(fitted).splitlines()
    assert [row.split()[0] for row in rows] == list("AaBbE") and title == fitted.law.form.title
    assert rows[1].startswith(f"a {fitted.parameters['a']:.4g} (95%: ")
    assert about.startswith(f"{LLAMA.name} of llama on theirs: {len(LLAMA.S)} models, S ")


def test_commands_give_parameters_ratio_and_forecast(tmp_path):
    path, fitted = tmp_path / "runs.csv", rbp.joint_fit(LLAMA)
    frame = pd.DataFrame({"S": LLAMA.S, "D": LLAMA.D, "loss": LLAMA.values})
    frame.to_csv(path, index=False)
    (record,) = answers(f"fit {path} --joint")
    assert record["E"] == pytest.approx(fitted.parameters["E"])
    assert record["ci_ratio"] == pytest.approx(fitted.ratio()[1].tolist())
    assert record["n_points"] == len(frame) and record["floor"] == fitted.draws.floor
    (record,) = answers(f"predict {path} --size 256B --tokens 20T")
    ahead = fitted.forecast([256e9], [2e13])
    assert record["ci_loss"] == pytest.approx(ahead.interval[:, 0])
    assert record["tokens"] == 2e13 and record["beyond"] == pytest.approx(ahead.horizon[0])
