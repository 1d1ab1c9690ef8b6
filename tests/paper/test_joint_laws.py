"""The law in size and tokens: planted truth in every form, other tools, grids, forecasts."""

import numpy as np
import pandas as pd
import pytest

import rbplib as rbp
from paper import recipes, tokens
from rbplib import InputError, joint
from tests.planted import planted_grid

TRUTH = {  # parameters, and the form once more, by hand
    "size": ({"A": 9.0, "a": 0.13}, lambda A, a: A * S**-a),
    "size_floor": ({"A": 40.0, "a": 0.3, "E": 0.7}, lambda A, a, E: E + A * S**-a),
    "product": ({"A": 60.0, "a": 0.06, "b": 0.09}, lambda A, a, b: A * S**-a * D**-b),
    "additive": (
        {"A": 12.0, "a": 0.15, "B": 300.0, "b": 0.31},
        lambda A, a, B, b: A * S**-a + B * D**-b,
    ),
    "kaplan": (
        {"A": 9.0, "a": 0.07, "B": 60.0, "b": 0.14},
        lambda A, a, B, b: ((A * S**-a) ** (1 / b) + B ** (1 / b) / D) ** b,
    ),
    "additive_floor": (
        {"A": 200.0, "a": 0.4, "B": 900.0, "b": 0.35, "E": 0.5},
        lambda A, a, B, b, E: E + A * S**-a + B * D**-b,
    ),
}
S, D = np.meshgrid(np.geomspace(1e6, 1e9, 6), np.geomspace(1e8, 1e11, 5), indexing="ij")
S, D = S.ravel(), D.ravel()


def planted(form, noise=0.0):
    values, formula = TRUTH[form]
    return formula(**values) * np.exp(noise * np.random.default_rng(0).standard_normal(len(S)))


@pytest.mark.parametrize("form", tokens.FORMS)
def test_every_form_recovers_what_was_planted(form):
    law = tokens.fit(S, D, planted(form), form)
    assert law.parameters == pytest.approx(TRUTH[form][0], rel=1e-4)


def test_a_contest_knows_the_planted_form_beyond_the_spread_and_scores_it_as_least_squares():
    for form, better in (("additive", 1), ("product", -1)):
        points = pd.DataFrame({"S": S, "D": D, "loss": planted(form, 0.01), "budget": D})
        contests = tokens.contest(points).set_index("left")
        assert contests["better_beyond_the_spread"]["each budget"] == better
        assert np.isnan(contests["better_beyond_the_spread"]["the largest size"])
    assert contests["product"]["each size"] < 0.02 < contests["size"]["each size"]
    # the product, by the last of these
    sm = pytest.importorskip("statsmodels.api")
    out, design = S == S.max(), sm.add_constant(np.log([S, D]).T)
    y = np.log(points.loss.to_numpy())
    missed = sm.OLS(y[~out], design[~out]).fit().predict(design[out]) - y[out]
    rmse = contests["product"]["the largest size"]
    assert rmse == pytest.approx(np.sqrt(np.mean(missed**2)), rel=1e-9)


def test_losses_at_one_number_of_tokens_are_read_off_between_budgets():
    loss = planted("product")  # straight in logs: reading off between budgets is exact
    order = np.random.default_rng(0).permutation(len(S))
    sizes, read = tokens.at_tokens(S[order], D[order], loss[order], 3e9, most=10)
    assert sizes.tolist() == np.unique(S).tolist()
    assert read == pytest.approx(60 * sizes**-0.06 * 3e9**-0.09, rel=1e-9)
    assert len(tokens.at_tokens(S, D, loss, 3e9)[0]) == 0  # budgets 5.6 apart: too far


@pytest.mark.parametrize(
    "points, form, why",
    [
        ((S, D * 0 + 1e9, S), "additive", "needs at least 3 different numbers of tokens, not 1"),
        ((S[:4], D[:4], S[:4]), "additive", "4 parameters and needs more points than that, not 4"),
        ((S, D, np.where(S > 1e8, 0.0, S)), "size", "a loss that is a positive number"),
    ],
)
def test_points_that_cannot_carry_a_form_are_told_why(points, form, why):
    with pytest.raises(InputError, match=why):
        tokens.fit(*points, form)


def test_a_family_that_does_not_say_its_tokens_is_refused(tmp_path):
    (tmp_path / "silent.yml").write_text("models:\n  - owner/x\n")
    with pytest.raises(InputError, match="does not say how much text x saw: add 'tokens:'"):
        tokens.grid([tmp_path / "silent.yml"], "docs", [1])


def test_the_published_grid_is_one_loss_of_all_models_with_their_tokens():
    families = ["nano-pythia-2m", "nano-pythia-1m"]  # in any order
    loss = tokens.grid(families, "docs", [1])[1]
    assert (np.diff(loss.S) >= 0).all() and (np.diff(loss.D)[np.diff(loss.S) == 0] > 0).all()
    for family in families:
        at = [name.startswith(f"{family} ") for name in loss.models]
        ladder, _ = tokens.family_tables(family, "docs")
        assert loss.sums[:, at].sum(axis=0).tolist() == rbp.rbp_loss(ladder, 1).sums.sum(0).tolist()


def test_the_ends_of_a_grid_are_left_out_and_forecast_from_the_rest(monkeypatch):
    monkeypatch.setattr(joint, "SEARCHES", 1)
    loss = planted_grid(sizes=5, budgets=4)[None]
    frame = tokens.held_out_forecasts(loss, corpus="docs")
    assert frame["left"].value_counts(sort=False).tolist() == [4, 8, 5, 2]
    assert frame["S"][:4].tolist() == [loss.S.max()] * 4 and (frame["corpus"] == "docs").all()
    assert (frame["error"].abs() < 1e-4).all()  # the planted law is forecast
    new, last = loss.D == loss.D.max(), frame[frame["left"] == "the most text"]
    rest = rbp.joint_forecast(loss.keep(np.flatnonzero(~new)), loss.S[new], loss.D[new])
    assert last["forecast"].to_numpy() == pytest.approx(rest.loss)
    assert last["measured"].to_numpy() == pytest.approx(loss.values[new])


def test_what_a_vocabulary_does_to_exponents_is_what_was_planted():
    """Exponents that fall as V^-0.25 at k = 1, and else depend on the share of the vocabulary."""
    ladders = pd.DataFrame({"vocabulary": [1024, 2048, 2048, 2048, 4096], "seed": [1, 1, 2, 3, 1]})
    ladders = ladders.merge(pd.DataFrame({"k": [0, 1, 64, 128, 256], "corpus": "docs"}), "cross")
    V, k = ladders.vocabulary, ladders.k
    ladders["alpha"] = np.where(k < 2, V**-0.25, (k / V) ** 0.5)
    aligned = recipes.alignments(ladders)
    assert {*aligned["base"]} == {2048, 4096} and len(aligned) == 3 * 2 + 2
    assert aligned["at_share"].max() < 1e-9 and aligned["at_k"].min() > 0.3
