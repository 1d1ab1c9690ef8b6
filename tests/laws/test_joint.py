"""The law in size and tokens: planted truth in every form, the optimum by brute force and by other tools, bad input."""

import numpy as np
import pytest
from scipy import optimize

from paper import joint
from rbplib.families import InputError

TRUTH = {
    "size": {"A": 9.0, "a": 0.13},
    "size_floor": {"A": 40.0, "a": 0.3, "E": 0.7},
    "product": {"A": 60.0, "a": 0.06, "b": 0.09},
    "additive": {"A": 12.0, "a": 0.15, "B": 300.0, "b": 0.31},
    "kaplan": {"A": 9.0, "a": 0.07, "B": 60.0, "b": 0.14},
    "additive_floor": {"A": 200.0, "a": 0.4, "B": 900.0, "b": 0.35, "E": 0.5},
}
WRITTEN = {  # the forms once more, by hand
    "size": lambda S, D, A, a: A * S**-a,
    "size_floor": lambda S, D, A, a, E: E + A * S**-a,
    "product": lambda S, D, A, a, b: A * S**-a * D**-b,
    "additive": lambda S, D, A, a, B, b: A * S**-a + B * D**-b,
    "kaplan": lambda S, D, A, a, B, b: np.exp(b * np.logaddexp(np.log(A * S**-a) / b, np.log(B) / b - np.log(D))),
    "additive_floor": lambda S, D, A, a, B, b, E: E + A * S**-a + B * D**-b,
}
S, D = (v.ravel() for v in np.meshgrid(np.geomspace(1e6, 1e9, 6), np.geomspace(1e8, 1e11, 5), indexing="ij"))


def planted(form, noise=0.0, seed=0):
    return WRITTEN[form](S, D, **TRUTH[form]) * np.exp(noise * np.random.default_rng(seed).standard_normal(len(S)))


@pytest.mark.parametrize("form", joint.FORMS)
def test_every_form_recovers_what_was_planted(form):
    law = joint.fit(S, D, planted(form), form)
    assert set(law.parameters) == set(TRUTH[form])
    for name, value in TRUTH[form].items():
        assert law.parameters[name] == pytest.approx(value, rel=1e-4), name
    assert law.residual_sd < 1e-6 and law.r2 > 1 - 1e-9 and law.notes == []
    assert law.predict(3e9, [1e9, 1e12]) == pytest.approx(
        WRITTEN[form](3e9, np.array([1e9, 1e12]), **TRUTH[form]), rel=1e-5
    )


@pytest.mark.parametrize("form", joint.FORMS)
def test_noise_spreads_parameters_around_the_truth_and_is_measured(form):
    noise, losses = 0.02, np.array([planted(form, 0.02, seed) for seed in range(60)])
    law = joint.fit(S, D, losses[0], form)
    sds = [joint.fit(S, D, loss, form).residual_sd for loss in losses[:20]]
    assert np.mean(sds) == pytest.approx(noise, rel=0.1)  # 20 fits of 25 to 28 degrees of freedom: 3% standard error
    drawn = law.resampled(losses)
    for values, (name, truth) in zip(drawn.T, TRUTH[form].items(), strict=True):
        logs = np.log(values / truth)
        assert abs(np.median(logs)) < 4 * logs.std() / np.sqrt(len(losses)), name  # a median's error is 1.25 of these


@pytest.mark.parametrize("form", ["size_floor", "additive", "kaplan", "additive_floor"])
def test_the_optimum_is_that_of_brute_force(form):
    loss, names = planted(form, 0.05), list(TRUTH[form])
    law = joint.fit(S, D, loss, form)

    def misfit(theta):  # logs of coefficients, exponents as they are
        values = {n: v if n in "ab" else np.exp(v) for n, v in zip(names, theta, strict=True)}
        return float(np.sum((np.log(WRITTEN[form](S, D, **values)) - np.log(loss)) ** 2))

    bounds = [(0.01, 1.0) if n in "ab" else (-8, 2) if n == "E" else (0, 10) for n in names]
    brute = optimize.differential_evolution(misfit, bounds, seed=1, tol=1e-10, maxiter=3000, popsize=8)
    ours = float(law.residuals @ law.residuals)
    assert ours <= brute.fun * (1 + 1e-6)
    there = [law.parameters[n] if n in "ab" else np.log(law.parameters[n]) for n in names]
    assert misfit(there) == pytest.approx(ours, rel=1e-9)


def test_single_terms_are_linear_least_squares_in_logs():
    loss = planted("additive", 0.1)
    ones, x, z = np.ones(len(S)), np.log(S), np.log(D)
    level, a, b = np.linalg.lstsq(np.column_stack([ones, -x, -z]), np.log(loss), rcond=None)[0]
    found = joint.fit(S, D, loss, "product").parameters
    assert [np.log(found["A"]), found["a"], found["b"]] == pytest.approx([level, a, b], abs=1e-9)
    slope, level = np.polyfit(x, np.log(loss), 1)
    law = joint.fit(S, D, loss, "size")
    assert [law.parameters["a"], np.log(law.parameters["A"])] == pytest.approx([-slope, level], abs=1e-9)
    miss = np.log(loss) - np.polyval((slope, level), x)
    assert law.residual_sd == pytest.approx(np.sqrt(miss @ miss / (len(S) - 2)), rel=1e-9)
    assert law.r2 == pytest.approx(np.corrcoef(x, np.log(loss))[0, 1] ** 2, rel=1e-9)


def test_a_term_that_is_not_there_is_noted():
    law = joint.fit(S, D, planted("additive"), "additive_floor")
    assert law.notes == ["E is 0"]
    assert {n: law.parameters[n] for n in TRUTH["additive"]} == pytest.approx(TRUTH["additive"], rel=1e-2)
    assert joint.fit(S, D, 1 / planted("size"), "size").notes == ["the exponent of S is negative"]
    assert joint.fit(S, D, planted("size"), "product").notes == ["the exponent of D is 0"]
    flat = joint.fit(S, D, np.full(len(S), 2.0), "size_floor")
    assert flat.predict(S, D) == pytest.approx(2.0) and np.isnan(flat.r2)


def test_a_resample_started_at_the_fit_ends_where_a_search_of_its_own_does():
    law = joint.fit(S, D, planted("additive", 0.03), "additive_floor")
    losses = law.loss * np.exp(0.03 * np.random.default_rng(1).standard_normal((25, len(S))))
    losses[3, 2] = np.inf
    drawn = law.resampled(losses)
    assert np.isnan(drawn[3]).all() and np.isfinite(np.delete(drawn, 3, axis=0)).all()
    for loss, row in zip(np.delete(losses, 3, axis=0), np.delete(drawn, 3, axis=0), strict=True):
        anew = joint.fit(S, D, loss, "additive_floor")
        values = dict(zip(law.parameters, row, strict=True))
        miss = np.log(WRITTEN["additive_floor"](S, D, **values)) - np.log(loss)
        assert miss @ miss == pytest.approx(anew.residuals @ anew.residuals, rel=1e-5)


def test_held_out_points_are_predicted_by_the_others():
    loss = planted("additive", 0.01)
    left = joint.groupings(S, D)
    assert {kind: len(groups) for kind, groups in left.items()} == {
        "each size": 6,
        "each budget": 5,
        "the largest size": 1,
        "the largest budget": 1,
        "the largest of either": 1,
    }
    assert left["the largest of either"][0].sum() == 5 + 6 - 1
    out = left["each size"][2]
    errors = joint.held_out(S, D, loss, left["each size"], ("product",))
    design = np.column_stack([np.ones(len(S)), np.log(S), np.log(D)])
    by_hand = design @ np.linalg.lstsq(design[~out], np.log(loss)[~out], rcond=None)[0]
    assert errors["product"][2] == pytest.approx(np.sqrt(np.mean((by_hand - np.log(loss))[out] ** 2)), rel=1e-9)
    verdicts = joint.compared(joint.held_out(S, D, loss, left["each budget"])).set_index("form")
    assert verdicts.index[0] in ("additive", "additive_floor")  # the truth, or the same with a floor near 0
    assert set(verdicts["verdict"][["additive", "additive_floor"]]) == {"best", "tie"}
    assert set(verdicts["verdict"][["size", "size_floor"]]) == {"behind"}


def test_the_comparison_is_that_of_paired_differences():
    held = joint.held_out(S, D, planted("product", 0.02), joint.groupings(S, D)["each size"])
    found = joint.compared(held).set_index("form")
    best = found.index[0]
    apart = held["size"].to_numpy() - held[best].to_numpy()
    half = 2.570582 * apart.std(ddof=1) / np.sqrt(6)  # Student's t, 5 degrees of freedom
    row = found.loc["size"]
    assert [row["behind"], row["low"], row["high"]] == pytest.approx(
        [apart.mean(), apart.mean() - half, apart.mean() + half]
    )
    assert found.loc[best, "verdict"] == "best" and found.loc[best, "behind"] == 0
    alone = joint.compared(joint.held_out(S, D, planted("product"), joint.groupings(S, D)["the largest size"]))
    assert (
        alone["verdict"].tolist() == ["best"] + ["cannot be told"] * 5 and alone["low"].isna().all()
    )  # one group rules on nothing


def test_losses_at_one_number_of_tokens_are_read_off_between_budgets():
    loss = planted("product")  # straight in logs: reading off between budgets is exact
    sizes, found = joint.at_tokens(S, D, loss, 3e9, apart=10)
    assert found == pytest.approx(WRITTEN["product"](np.unique(S), 3e9, **TRUTH["product"]), rel=1e-9)
    assert sizes.tolist() == np.unique(S).tolist()
    order = np.random.default_rng(0).permutation(len(S))
    assert joint.at_tokens(S[order], D[order], loss[order], 3e9, apart=10)[1] == pytest.approx(found, rel=1e-12)
    assert joint.at_tokens(S, D, loss, np.unique(D)[1])[1] == pytest.approx(loss[D == np.unique(D)[1]], rel=1e-9)
    assert len(joint.at_tokens(S, D, loss, 3e9)[0]) == 0  # budgets a factor of 5.6 apart: further than asked for
    short = (S > 2e6) | (D < 1e9)  # the smallest size was not trained so far
    assert joint.at_tokens(S[short], D[short], loss[short], 3e9, apart=10)[0].min() > 2e6
    assert len(joint.at_tokens(S, D, loss, 1e12, apart=10)[0]) == 0


def test_data_that_cannot_carry_a_form_are_told_why():
    loss, few = planted("additive"), slice(0, 4)
    cases = [
        ((S, np.full(len(S), 1e9), loss), "additive", "needs at least 3 different numbers of tokens, not 1"),
        ((S, np.full(len(S), 1e9), loss), "product", "needs at least 2 different numbers of tokens, not 1"),
        ((np.full(len(S), 1e6), D, loss), "size", "needs at least 2 different sizes, not 1"),
        ((S[few], D[few], loss[few]), "additive", "4 parameters and needs more points than that, not 4"),
        ((S, 1e9 * (1 + 1e-3 * (D > 1e9)), loss), "product", "at least 2 different numbers of tokens, not 1"),
        ((S, 20 * S, loss), "additive", "their parts cannot be told apart"),
        ((S, D, loss[few]), "size", "not every point has a loss"),
        ((S, D, np.where(S > 1e8, 0.0, loss)), "size", "not every point has a loss that is a positive number"),
        ((S, np.where(S > 1e8, np.nan, D), loss), "size", "not every point has a number of tokens that is a positive"),
        ((S, D, loss), "adition", "did you mean 'additive'"),
    ]
    for data, form, why in cases:
        with pytest.raises(InputError, match=why):
            joint.fit(*data, form)
    one = D == D[0]
    held = joint.held_out(S[one], D[one], loss[one], joint.groupings(S[one], D[one])["each size"])
    assert set(held.columns[held.notna().all()]) == set(held.columns[held.notna().any()]) == {"size", "size_floor"}
    assert set(joint.compared(held)["form"]) == {"size", "size_floor"}
    none = joint.held_out(S[few], D[few], loss[few], [np.ones(4, bool)])
    assert none.isna().all(axis=None) and len(joint.compared(none)) == 0
