"""Laws: planted exponents come back, doubt is said, and other people's code agrees."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from planted import planted_curve, planted_loss
from scipy import stats

import rbplib as rbp
from rbplib.estimators import ESTIMATORS, EXPONENTS
from rbplib.noise import exceeding, generalised_squares, own_seeds

X = np.log(np.geomspace(1e4, 1e6, 6))


@pytest.fixture(scope="module")
def curve():
    return planted_curve(alpha=0.1, documents=300, tokens=400)


@pytest.fixture(scope="module")
def loss(curve):
    return curve.loss(1)


@pytest.mark.parametrize("estimator", ["least_squares", "binomial", "quadratic"])
def test_a_planted_exponent_comes_back(curve, estimator):
    law = rbp.fit(curve.loss(10), estimator, n_bootstrap=1000)
    assert law.alpha == pytest.approx(0.1, abs=0.004) and law.status == "ok" and law.r2 > 0.99
    for of in ("text", "models"):
        low, high = law.intervals[of]["alpha"]
        assert low < law.alpha < high
    assert low < 0.1 < high and law.p["sources"] > 0.001


def test_the_law_and_its_interval_over_models_are_those_of_statsmodels(loss):
    sm = pytest.importorskip("statsmodels.api")
    law, bend = (rbp.fit(loss, kind, n_bootstrap=0) for kind in ("least_squares", "quadratic"))
    x = np.log(loss.S)
    theirs = sm.OLS(law.y, sm.add_constant(x)).fit()
    assert [law.log_c, -law.alpha, law.r2] == pytest.approx([*theirs.params, theirs.rsquared])
    assert law.intervals["models"]["alpha"] == pytest.approx(sorted(-theirs.conf_int()[1]), rel=1e-8)
    z = x - x.mean()
    theirs = sm.OLS(law.y, np.column_stack([-z, np.ones(7), z**2])).fit()
    assert [bend.alpha, bend.parameters["curvature"]] == pytest.approx(theirs.params[[0, 2]], rel=1e-8)
    assert bend.intervals["models"]["curvature"] == pytest.approx(theirs.conf_int()[2], rel=1e-8)


def test_the_binomial_law_is_the_glm_of_statsmodels(curve):
    sm = pytest.importorskip("statsmodels.api")
    loss = curve.loss(100)
    law = rbp.fit(loss, "binomial", n_bootstrap=0)
    counts = np.column_stack([loss.misses, loss.sums.sum(0)])
    family = sm.families.Binomial(link=sm.families.links.CLogLog())
    glm = sm.GLM(counts, sm.add_constant(np.log(loss.S)), family=family).fit(tol=1e-12)
    assert [law.log_c, -law.alpha] == pytest.approx(glm.params, rel=1e-7)


def test_the_interval_over_text_is_that_of_a_plain_fit_to_each_resample(loss):
    law, drawn = rbp.fit(loss, n_bootstrap=400, seed=3), loss.resampled(400, 3).y
    slopes = np.polyfit(np.log(loss.S), drawn.T, 1)[0]
    assert law.intervals["text"]["alpha"] == pytest.approx(np.quantile(-slopes, [0.025, 0.975]), rel=1e-8)
    assert law.band == pytest.approx(np.quantile(drawn, [0.025, 0.975], axis=0))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_jacobian_is_that_of_its_curve(name):
    kind, rng = ESTIMATORS[name], np.random.default_rng(2)
    params = np.array([0.1, 0.3, 0.05])[: len(kind.parameters)]
    params *= rng.uniform(0.5, 1.5, len(params))
    for i, step in enumerate(1e-6 * np.eye(len(params))):
        up, down = (kind.curve(params + s, X, X.mean()) for s in (step, -step))
        slope = (up - down) / 2e-6
        assert kind.jacobian(params, X, X.mean())[:, i] == pytest.approx(slope, rel=1e-5, abs=1e-8)


def test_the_weight_of_a_binomial_count_is_its_fisher_information():
    params, total = np.array([0.15, 1.2]), 3000.0
    eta = params[1] - params[0] * X
    miss, up, down = (-np.expm1(-np.exp(eta + step)) for step in (0, 1e-6, -1e-6))
    information = total * ((up - down) / 2e-6) ** 2 / (miss * (1 - miss))
    assert ESTIMATORS["binomial"].weights(params, X, total) == pytest.approx(information, rel=1e-6)


def test_a_planted_floor_comes_back_alone_and_among_many_in_little_memory():
    x, rng = np.log(2000 * 3.0 ** np.arange(10)), np.random.default_rng(0)
    solve = ESTIMATORS["irreducible"].solve
    exact = 0.3 + 5 * np.exp(-0.312346 * x)
    lacking = np.where(np.arange(10) == 2, np.nan, exact)
    params = solve(np.stack([exact, 2 * np.exp(-0.1 * x), lacking]), x)
    assert params[0] == pytest.approx([0.312346, np.log(5), 0.3], rel=1e-4)
    assert params[1, 0] == pytest.approx(0.1, rel=2e-3) and np.isnan(params[2]).all()
    noisy = exact * np.exp(0.02 * rng.normal(size=(10_000, 10)))
    tracemalloc.start()
    params = solve(noisy, x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * noisy.size * len(EXPONENTS) / 2
    for i in (0, 617, 9_999):
        np.testing.assert_array_equal(params[i], solve(noisy[i], x))


def trained_on_own_text():
    """A loss whose repeats each meet the text in their own way, as models do."""
    loss = planted_loss(-0.1 * X, training_sd=0.02, source_sd=0.3)
    own = np.random.default_rng(6).normal(1, 0.2, (60, 18))[loss.source]
    return replace(loss, repeats=replace(loss.repeats, sums=loss.repeats.sums * own))


def test_the_texts_part_in_the_scatter_of_trainings_is_the_jackknifes():
    loss = trained_on_own_text()
    variance, text, df = loss.training_variance
    again, U = loss.repeats, 60
    left_out = []  # log losses without one source
    for source in range(U):
        kept = again.source != source
        left_out.append(np.log(again.sums[kept].sum(0) / again.totals[kept].sum()))
    spread = variances = 0.0
    for size in np.unique(again.S):
        of_size = np.array(left_out)[:, again.S == size]
        away = of_size - of_size.mean(axis=1, keepdims=True)
        spread += (U - 1) * away.var(axis=0).sum()
        variances += again.y[again.S == size].var(ddof=1)
    assert df == 12 and text == pytest.approx(spread / df, rel=1e-9)
    assert variance == pytest.approx(variances / 6, rel=1e-9)


def test_the_lack_of_fit_is_hotellings_and_with_trainings_the_texts_noise_counts_once():
    loss, spare, n = trained_on_own_text(), 4, 60
    law, drawn = rbp.fit(loss, n_bootstrap=400), loss.resampled(400, 42).y
    jacobian, residuals = np.column_stack([-X, X**0]), law.y - law.fitted
    covariance = np.cov(drawn, rowvar=False)
    q = generalised_squares(jacobian, residuals, covariance)
    hotelling = stats.f.sf(q * (n - spare) / (spare * (n - 1)), spare, n - spare)
    assert law.p["sources"] == pytest.approx(hotelling, rel=1e-9)
    # what sources make of the residuals, and the part of it that is in the trainings' scatter
    variance, shared, df = loss.training_variance
    noise = np.trace((np.eye(6) - jacobian @ np.linalg.pinv(jacobian)) @ covariance) / spare
    assert law.noise_variance == pytest.approx(noise) and 0.2 * noise < shared < noise
    both = covariance * (noise - shared) / noise + variance * np.eye(6)
    q = generalised_squares(jacobian, residuals, both) / spare
    p = exceeding(q, spare, noise - shared, n - 1, variance, df, own_seeds(loss, df))
    assert law.p["trainings"] == pytest.approx(p, rel=1e-9)


def test_squares_against_a_covariance_are_those_of_generalised_least_squares():
    sm = pytest.importorskip("statsmodels.api")
    rng = np.random.default_rng(4)
    draws = rng.normal(size=(50, 6)) @ rng.normal(size=(6, 6))
    residuals, covariance, jacobian = rng.normal(size=6), np.cov(draws.T), np.column_stack([-X, X**0])
    whitened = sm.GLS(residuals, jacobian, sigma=covariance).fit().wresid
    assert generalised_squares(jacobian, residuals, covariance) == pytest.approx(whitened @ whitened, rel=1e-7)


def test_trainings_are_held_against_an_f_distribution_or_their_own_by_simulation():
    for f, count, df in ((1.5, 3, 6), (4.0, 1, 12), (0.7, 5, 9)):
        assert exceeding(f, count, 0.0, 50, 2.0, df) == pytest.approx(stats.f.sf(f, count, df), rel=1e-12)
    # one of three trainings a size in contrast, the scatter estimated from all three
    trained = np.random.default_rng(3).normal(size=(400_000, 6, 3))
    contrast = trained[:, :, 0] @ (np.array([1, 1, 1, -1, -1, -1]) / np.sqrt(6))
    scatter = trained.var(axis=2, ddof=1).mean(axis=1)
    share = np.mean(contrast**2 > 2 * scatter)
    assert exceeding(2.0, 1, 0.0, 50, 1.0, 12, 3) == pytest.approx(share, rel=0.05)
    assert np.isnan(exceeding(1.0, 4, 0.0, 10, 0.0, 6))


def test_curved_data_fail_the_lack_of_fit_test(loss):
    x, rng = np.log(loss.S / loss.S[0]), np.random.default_rng(1)
    share = np.exp(-np.exp(-0.1 * x + 0.01 * (x - x.mean()) ** 2))
    curved = replace(loss, sums=rng.binomial(loss.totals[:, None], share))
    assert rbp.fit(curved, n_bootstrap=1000).p["sources"] < 1e-6
    low, high = rbp.fit(curved, "quadratic", n_bootstrap=1000).intervals["text"]["curvature"]
    assert low < 0.01 < high


def test_lack_of_fit_has_its_size():
    losses = [planted_curve(documents=120, tokens=200, ks=(1,), seed=s).loss(1) for s in range(60)]
    p = np.array([rbp.fit(loss, n_bootstrap=400).p["sources"] for loss in losses])
    assert np.mean(p < 0.05) < 0.17  # 5% expected; 17% is four standard errors of 60 runs above
    assert np.mean(p < 0.5) > 0.25


def hits(loss, of):
    """The loss with other hits: of(totals (D, 1), sums (D, M))."""
    return replace(loss, sums=of(loss.totals[:, None] + 0 * loss.sums, loss.sums.copy()))


def one_miss_holder(totals, sums):
    """One document holds every miss, so that all models move together."""
    totals[0] -= 10 * np.arange(9, 2, -1)
    return totals


DOUBTS = {
    "saturated": lambda totals, sums: totals,
    "no hits": lambda totals, sums: 0 * sums,
    "wrong sign": lambda totals, sums: sums[:, ::-1],
    "equal losses": lambda totals, sums: sums[:, :1] + 0 * sums,
    "few hits": lambda totals, sums: np.arange(len(sums))[:, None] < 30 + np.arange(7),
    "few misses": lambda totals, sums: totals - (np.arange(len(sums))[:, None] < 99 - np.arange(7)),
}


@pytest.mark.parametrize("status", DOUBTS)
def test_doubt_is_said_beside_the_fit(loss, status):
    for estimator in ("least_squares", "binomial"):
        assert status in rbp.fit(hits(loss, DOUBTS[status]), estimator, n_bootstrap=50).notes, estimator


def test_few_documents_or_sources_are_said_not_resampled(loss):
    few = replace(loss, sums=loss.sums[:8], totals=loss.totals[:8])
    shared = replace(loss, source=np.arange(300) % 12)
    for case, status in ((few, "too few documents"), (shared, "too few sources")):
        law = rbp.fit(case, n_bootstrap=200)
        assert law.status == status and law.band is None and np.isnan(law.p["sources"])
        assert np.isnan(law.intervals["text"]["alpha"]).all()
        assert np.isfinite(law.intervals["models"]["alpha"]).all()


def test_what_rounding_would_decide_is_not_tested(loss):
    law = rbp.fit(hits(loss, one_miss_holder), n_bootstrap=400)
    assert np.isnan(law.p["sources"]) and np.isfinite(law.alpha)
    assert "no interval of other text" in law.notes


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("S", [[1e6], [1e6, 1e7], [1e6, 1e6, 1e7, 1e7]])
def test_fewer_than_three_sizes_are_a_status_and_no_exponent(loss, S, estimator):
    few = replace(loss.keep(np.arange(len(S))), S=np.array(S))
    law = rbp.fit(few, estimator, n_bootstrap=50)
    assert law.status == "too few models"
    assert np.isnan([law.alpha, law.r2, *law.intervals["text"]["alpha"], *law.intervals["models"]["alpha"]]).all()


def test_a_model_without_a_value_is_left_out_and_shifts_nothing(loss):
    sums = loss.sums.copy()
    sums[:, 2] = loss.totals
    law = rbp.fit(replace(loss, sums=sums), n_bootstrap=0)
    assert law.used == (0, 1, 3, 4, 5, 6) and "m2" not in law.models and law.status == "saturated"
    assert law.y == pytest.approx(np.delete(loss.y, 2)) and law.S == pytest.approx(np.delete(loss.S, 2))


def test_maximum_likelihood_uses_a_model_without_a_miss():
    loss = planted_curve(documents=60, tokens=100, ks=(1,), top=0.1, alpha=0.5, seed=3).loss(1)
    loss.sums[:, -1] = loss.totals
    law, binomial = (rbp.fit(loss, kind, n_bootstrap=0) for kind in ("least_squares", "binomial"))
    assert len(law.used) == 6 and len(binomial.used) == 7 and binomial.alpha == pytest.approx(0.5, abs=0.1)


def test_a_model_twice_and_an_unknown_estimator_are_told(loss):
    with pytest.raises(rbp.InputError, match="twice"):
        rbp.fit(loss.keep([0, 1, 2, 2]))
    with pytest.raises(rbp.InputError, match="least_squares"):
        rbp.fit(loss, "least_square")
    with pytest.raises(rbp.InputError, match="one pair"):
        rbp.fit(loss, S=loss.S, hits=loss.sums, totals=loss.totals)
