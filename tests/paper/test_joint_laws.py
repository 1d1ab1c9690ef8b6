"""The law in size and tokens: planted truth in every form, other tools, grids, forecasts, bad
input.
"""

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import optimize

from paper import tokens
from rbplib.families import InputError
from rbplib.forecasting import mixture_quantiles
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
GRID = planted_grid(a=0.2, b=0.3)
POINTS = GRID.curve.S, GRID.D, GRID.loss().values


def planted(form, noise=0.0, seed=0):
    values, formula = TRUTH[form]
    return formula(**values) * np.exp(noise * np.random.default_rng(seed).standard_normal(len(S)))


@pytest.mark.parametrize("form", tokens.FORMS)
def test_every_form_recovers_what_was_planted(form):
    law = tokens.fit(S, D, planted(form), form)
    assert law.parameters == pytest.approx(TRUTH[form][0], rel=1e-4)
    assert law.residual_sd < 1e-6 and law.r2 > 1 - 1e-9 and law.notes == []
    assert law.predict(S, D) == pytest.approx(planted(form), rel=1e-5)
    noisy = tokens.fit(S, D, planted(form, 0.02), form)
    drawn = noisy.resampled(np.array([planted(form, 0.02, seed) for seed in range(60)]))
    logs = np.log(drawn / list(TRUTH[form][0].values()))
    assert (np.abs(np.median(logs, axis=0)) < 4 * logs.std(axis=0) / np.sqrt(60)).all()


@pytest.mark.parametrize("form", ["size_floor", "kaplan", "additive_floor"])
def test_the_optimum_is_that_of_brute_force(form):
    loss, names = planted(form, 0.05), list(TRUTH[form][0])
    law = tokens.fit(S, D, loss, form)

    def misfit(theta):  # logs of coefficients, exponents as they are
        values = {n: v if n in "ab" else np.exp(v) for n, v in zip(names, theta, strict=True)}
        return float(np.sum(np.log(TRUTH[form][1](**values) / loss) ** 2))

    bounds = [(0.01, 1.0) if n in "ab" else (-8, 2) if n == "E" else (0, 10) for n in names]
    options = {"seed": 1, "tol": 1e-10, "maxiter": 3000, "popsize": 8}
    brute = optimize.differential_evolution(misfit, bounds, **options)
    assert law.residuals @ law.residuals <= brute.fun * (1 + 1e-6)
    drawn = law.resampled(loss * np.ones((2, 1)))  # a refit from the fit stays there
    assert drawn[0] == pytest.approx(list(law.parameters.values()), rel=1e-4)


def test_a_product_is_a_regression_in_logs_and_widens_as_one():
    loss, ahead = planted("additive", 0.1), (np.array([1e10, 3e7]), np.array([4e12, 3e9]))
    law = tokens.fit(S, D, loss, "product")
    ols = sm.OLS(np.log(loss), np.column_stack([np.ones(len(S)), -np.log(S), -np.log(D)])).fit()
    names = law.parameters
    assert [np.log(names["A"]), names["a"], names["b"]] == pytest.approx(list(ols.params), abs=1e-9)
    assert [law.residual_sd, law.r2] == pytest.approx([np.sqrt(ols.scale), ols.rsquared], rel=1e-9)
    new = ols.get_prediction(np.column_stack([np.ones(2), -np.log(ahead[0]), -np.log(ahead[1])]))
    assert law.widening(*ahead) == pytest.approx(new.se_obs / np.sqrt(ols.scale), rel=1e-6)
    assert np.log(law.predict(*ahead)) == pytest.approx(new.predicted_mean)


@pytest.mark.parametrize(
    "form, loss, note",
    [
        ("additive_floor", planted("additive"), "E is 0"),
        ("size", 1 / planted("size"), "the exponent of S is negative"),
        ("product", planted("size"), "the exponent of D is 0"),
    ],
)
def test_a_term_that_is_not_there_is_noted(form, loss, note):
    assert tokens.fit(S, D, loss, form).notes == [note]


def test_held_out_points_are_predicted_by_the_others():
    loss, left = planted("additive", 0.01), tokens.groupings(S, D)
    assert [len(groups) for groups in left.values()] == [6, 5, 1, 1, 1]
    assert left["the largest of either"][0].sum() == 5 + 6 - 1
    out = left["each size"][2]
    errors = tokens.held_out(S, D, loss, left["each size"], ("product",))
    design = np.column_stack([np.ones(len(S)), np.log(S), np.log(D)])
    fitted = np.linalg.lstsq(design[~out], np.log(loss)[~out], rcond=None)[0]
    missed = design[out] @ fitted - np.log(loss)[out]
    assert errors["product"][2] == pytest.approx(np.sqrt(np.mean(missed**2)), rel=1e-9)
    frame = tokens.compared(tokens.held_out(S, D, loss, left["each budget"]))
    verdicts = frame.set_index("form")["verdict"]
    assert set(verdicts[["additive", "additive_floor"]]) == {
        "best",
        "tie",
    }  # the truth, or its floor near 0
    assert set(verdicts[["size", "size_floor"]]) == {"behind"}


def test_the_comparison_is_that_of_paired_differences():
    rng = np.random.default_rng(0)
    errors = np.abs(rng.normal(1, 0.1, (6, 2))) + [[0.0, 0.3]]
    frame = tokens.compared(tokens.pd.DataFrame(errors, columns=["good", "bad"])).set_index("form")
    apart = sm.stats.DescrStatsW(errors[:, 1] - errors[:, 0]).tconfint_mean()
    assert frame.loc["bad", ["low", "high"]].tolist() == pytest.approx(apart)
    one = tokens.compared(tokens.pd.DataFrame(errors[:1], columns=["good", "bad"]))
    assert one["verdict"].tolist() == ["best", "cannot be told"]


def test_losses_at_one_number_of_tokens_are_read_off_between_budgets():
    loss = planted("product")  # straight in logs: reading off between budgets is exact
    order = np.random.default_rng(0).permutation(len(S))
    sizes, read = tokens.at_tokens(S[order], D[order], loss[order], 3e9, apart=10)
    assert sizes.tolist() == np.unique(S).tolist()
    assert read == pytest.approx(60 * sizes**-0.06 * 3e9**-0.09, rel=1e-9)
    assert len(tokens.at_tokens(S, D, loss, 3e9)[0]) == 0  # budgets 5.6 apart: too far
    assert len(tokens.at_tokens(S, D, loss, 1e12, apart=10)[0]) == 0


@pytest.mark.parametrize(
    "points, form, why",
    [
        ((S, D * 0 + 1e9, S), "additive", "needs at least 3 different numbers of tokens, not 1"),
        ((S, D * 0 + 1e9, S), "product", "needs at least 2 different numbers of tokens, not 1"),
        ((S[:4], D[:4], S[:4]), "additive", "4 parameters and needs more points than that, not 4"),
        ((S, 20 * S, S), "additive", "their parts cannot be told apart"),
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


def test_a_planted_law_is_foretold_and_the_interval_is_the_mixture():
    sizes, texts = np.array([1e6, 1e5]), np.array([6e7, 5e6])
    ahead = tokens.joint_forecast(POINTS, sizes, texts)
    truth = np.log(3 * (2.0 * sizes**-0.2 + 20.0 * texts**-0.3))
    assert ((ahead.y_interval[0] < truth) & (truth < ahead.y_interval[1])).all()
    sd = [law.residual_sd * law.widening(sizes, texts) for law in ahead.laws.values()]
    y = np.log([law.predict(sizes, texts) for law in ahead.laws.values()])
    spare = np.full((4, 1), 3.0)  # of 5 amounts of text, and 2 exponents
    alone = mixture_quantiles(y, np.array(sd), spare, [0.025, 0.5, 0.975])
    assert alone == pytest.approx(np.stack([ahead.y_interval[0], ahead.y, ahead.y_interval[1]]))
    twice = tokens.joint_forecast([np.tile(p, 2) for p in POINTS], sizes, texts)
    assert twice.y_interval == pytest.approx(ahead.y_interval)


def test_what_is_left_out_is_counted_by_hand():
    frame = tokens.held_out_joint(POINTS, tokens.grid_ends(*POINTS[:2]), {"corpus": "docs"})
    counts = frame["left"].value_counts(sort=False).to_dict()
    assert list(counts.values()) == [5, 10, 6, 2] and (frame["corpus"] == "docs").all()
    new, last = POINTS[1] == POINTS[1].max(), frame[frame["left"] == "the most text"]
    again = tokens.joint_forecast([p[~new] for p in POINTS], POINTS[0][new], POINTS[1][new])
    assert last["forecast"].to_numpy() == pytest.approx(np.exp(again.y))
    assert last["error"].to_numpy() == pytest.approx(np.exp(again.y) / POINTS[2][new] - 1)
    few = [side[:4] for side in POINTS]
    assert tokens.held_out_joint(few, tokens.grid_ends(*few[:2])).empty
