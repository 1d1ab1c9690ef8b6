"""Laws: planted exponents come back, doubt is said, and other people's code agrees."""

import subprocess
import sys
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from planted import planted_curve

from paper.families import exponent_difference
from rbplib.estimators import ESTIMATORS, EXPONENTS
from rbplib.families import InputError
from rbplib.law import fit, fit_law, fit_laws
from rbplib.losses import mean


@pytest.fixture(scope="module")
def curve():
    return planted_curve(alpha=0.1, documents=300, tokens=400)


@pytest.mark.parametrize("estimator", ["least_squares", "binomial", "quadratic"])
def test_planted_exponent_comes_back(curve, estimator):
    law = fit_law(curve, 10, estimator, n_bootstrap=1000)
    assert law.alpha == pytest.approx(0.1, abs=0.004)
    assert law.ci_tokens[0] < law.alpha < law.ci_tokens[1]
    assert law.ci_models[0] < 0.1 < law.ci_models[1]
    assert law.status == "ok" and law.r2 > 0.99 and law.n_models == 7
    assert law.lack_of_fit_p > 0.001


def test_least_squares_is_numpy_polyfit(curve):
    law = fit_law(curve, 1, n_bootstrap=0)
    y = np.log(-np.log(curve.hits[:, :, 0].sum(0) / curve.totals.sum()))
    slope, intercept = np.polyfit(np.log(curve.S), y, 1)
    assert law.alpha == pytest.approx(-slope, rel=1e-10)
    assert law.log_c == pytest.approx(intercept, rel=1e-10)
    assert law.r2 == pytest.approx(np.corrcoef(np.log(curve.S), y)[0, 1] ** 2, rel=1e-10)


def test_model_interval_is_that_of_statsmodels(curve):
    sm = pytest.importorskip("statsmodels.api")
    law = fit_law(curve, 1, n_bootstrap=0)
    reference = sm.OLS(law.y, sm.add_constant(np.log(law.S))).fit()
    assert law.ci_models == pytest.approx(tuple(sorted(-reference.conf_int()[1])), rel=1e-8)
    quadratic = fit_law(curve, 1, "quadratic", n_bootstrap=0)
    z = np.log(law.S) - np.log(law.S).mean()
    reference = sm.OLS(law.y, np.column_stack([np.ones(7), z, z**2])).fit()
    assert quadratic.parameters["alpha"] == pytest.approx(-reference.params[1], rel=1e-8)  # at the mean of log S
    assert quadratic.parameters["curvature"] == pytest.approx(reference.params[2], rel=1e-8)
    assert quadratic.model_intervals["curvature"] == pytest.approx(tuple(reference.conf_int()[2]), rel=1e-8)


def test_binomial_is_the_glm_of_statsmodels(curve):
    sm = pytest.importorskip("statsmodels.api")
    law = fit_law(curve, 100, "binomial", n_bootstrap=0)
    misses = curve.misses[:, 2]
    family = sm.families.Binomial(link=sm.families.links.CLogLog())
    counts = np.column_stack([misses, curve.totals.sum() - misses])
    glm = sm.GLM(counts, sm.add_constant(np.log(curve.S)), family=family).fit(tol=1e-12)
    assert law.alpha == pytest.approx(-glm.params[1], rel=1e-7)
    assert law.log_c == pytest.approx(glm.params[0], rel=1e-7)


def test_binomial_keeps_a_model_without_misses():
    curve = planted_curve(documents=60, tokens=100, ks=(4096,), top=0.1, alpha=0.5, seed=3)
    curve.hits[:, -1, 0] = curve.totals
    binomial, line = fit_law(curve, 4096, "binomial", n_bootstrap=200), fit_law(curve, 4096, n_bootstrap=200)
    assert binomial.n_models == 7 and np.isfinite(binomial.alpha)
    assert line.n_models == 6 and line.left_out == ("m6",) and line.status == "saturated"


def test_floor_comes_back_and_its_absence_is_a_bound():
    S = np.geomspace(1e5, 1e9, 9)
    floor = ESTIMATORS["irreducible"]
    found = floor.solve(0.3 + 40 * S**-0.4, np.log(S))
    assert found == pytest.approx([0.4, np.log(40), 0.3], rel=1e-3)
    many = floor.solve(np.stack([0.3 + 40 * S**-0.4, 2 * S**-0.1]), np.log(S))
    assert many[0] == pytest.approx(found, rel=1e-6)
    assert many[1, 0] == pytest.approx(0.1, rel=2e-3)
    law = fit_law(planted_curve(alpha=0.3, documents=400, tokens=400, top=2.0, seed=5), 1, "irreducible", 0)
    assert law.parameters["floor"] >= 0


def test_curved_data_fail_the_lack_of_fit_test():
    curve = planted_curve(documents=400, tokens=400, clustering=0.1)
    x = np.log(curve.S / curve.S[0])
    rng = np.random.default_rng(1)
    miss = -np.expm1(-np.exp(-0.1 * x + 0.01 * (x - x.mean()) ** 2))
    curve.hits[:, :, 0] = curve.totals[:, None] - rng.binomial(curve.totals[:, None], miss)
    law = fit_law(curve, 1, n_bootstrap=1000)
    assert law.lack_of_fit_p < 1e-6 and law.excess_sd > 2 * law.noise_sd
    low, high = fit_law(curve, 1, "quadratic", n_bootstrap=1000).token_intervals["curvature"]
    assert low < 0.01 < high


def test_documents_that_vary_in_fewer_ways_than_there_are_models_cannot_test_the_fit():
    """One document holds every miss, so that all models move together: rounding alone would decide the test."""
    curve = planted_curve(documents=40, models=5)
    misses = np.zeros_like(curve.hits[:, :, 0])
    misses[0] = [50, 40, 33, 27, 22]
    law = fit(replace(curve.loss(1), sums=curve.totals[:, None] - misses), n_bootstrap=400)
    assert np.isnan(law.lack_of_fit) and np.isnan(law.lack_of_fit_p) and np.isfinite(law.alpha)


def test_lack_of_fit_has_its_size():
    p = [fit_law(planted_curve(documents=120, tokens=200, seed=s), 1, n_bootstrap=400).lack_of_fit_p for s in range(60)]
    assert np.mean(np.array(p) < 0.05) < 0.17  # 5% expected; 17% is four standard errors of 60 runs above
    assert np.mean(np.array(p) < 0.5) > 0.25


def test_cross_entropy_law(curve):
    law = fit(curve.cross_entropy_loss(), n_bootstrap=500)
    assert law.k is None and law.misses is None and law.alpha == pytest.approx(0.06, abs=0.003)
    assert np.exp(law.y) == pytest.approx(curve.cross_entropy)


def test_shared_resamples_change_nothing(curve):
    together = fit_laws(curve, [1, 100], ("least_squares", "binomial"), n_bootstrap=300, seed=7)
    alone = fit_law(curve, 100, "binomial", n_bootstrap=300, seed=7)
    assert together[3].ci_tokens == pytest.approx(alone.ci_tokens, rel=1e-12)
    assert [(law.k, law.estimator) for law in together][1] == (1, "binomial")


def test_every_kind_of_loss_goes_through_the_one_fit(curve):
    """Hits, nats and a published share: the same numbers whatever the loss is called."""
    hits = curve.loss(10)
    nats = replace(hits, sums=-np.log(hits.sums.sum(0) / hits.total) * hits.totals[:, None], of=mean, k=None)
    one, other = fit(hits, n_bootstrap=0), fit(nats, n_bootstrap=0)
    assert (one.alpha, one.log_c, *one.ci_models) == pytest.approx((other.alpha, other.log_c, *other.ci_models))
    assert other.misses is None and one.misses == curve.misses[-1, 1]


def test_difference_of_exponents_is_that_of_the_fits_on_the_same_resamples(curve):
    first, second = curve.loss(1), curve.cross_entropy_loss()
    gap, (low, high) = exponent_difference(first, second, n_bootstrap=400, seed=3)
    assert gap == pytest.approx(fit(second, n_bootstrap=0).alpha - fit(first, n_bootstrap=0).alpha, rel=1e-9)
    slopes = [[np.polyfit(np.log(curve.S), y, 1)[0] for y in loss.resampled(400, 3).y] for loss in (first, second)]
    assert (low, high) == pytest.approx(tuple(np.quantile(np.subtract(*slopes), [0.025, 0.975])), rel=1e-8)


@pytest.mark.parametrize("models", [["m0"], ["m0", "m1"]])
@pytest.mark.parametrize("estimator", ["least_squares", "binomial", "irreducible", "quadratic"])
def test_too_few_models_are_a_status_and_no_exponent(curve, models, estimator):
    law = fit_law(curve.keep(models), 1, estimator, n_bootstrap=50)
    assert law.status == "too few models" and np.isnan([law.alpha, law.r2, *law.ci_tokens, *law.ci_models]).all()


def test_a_model_twice_is_refused(curve):
    with pytest.raises(InputError, match="twice"):
        fit_law(curve.keep(["m0", "m1", "m2", "m2"]), 1)


def test_equal_sizes_are_points_of_their_own(curve):
    law = fit_law(replace(curve, S=np.concatenate([curve.S[:6], curve.S[5:6]])), 1, n_bootstrap=0)
    assert law.n_models == 7 and np.isfinite(law.alpha)
    two = fit_law(replace(curve, S=np.array([1e5, 1e6] * 3 + [1e6])), 1, n_bootstrap=50)
    assert two.status == "too few models" and np.isnan(two.alpha)


def test_a_missing_model_shifts_nothing(curve):
    gap = replace(curve.keep(["m0", "m1", "m3", "m4", "m5", "m6"]), missing=("m2",))
    law, whole = fit_law(gap, 1, n_bootstrap=0), fit_law(curve, 1, n_bootstrap=0)
    assert law.left_out == ("m2",) and "m2" not in law.models
    assert law.S == pytest.approx(np.delete(whole.S, 2)) and law.y == pytest.approx(np.delete(whole.y, 2))


def test_k_not_counted_and_unknown_estimator_are_told(curve):
    with pytest.raises(InputError, match="k = 7"):
        fit_law(curve, 7)
    with pytest.raises(InputError, match="least_squares"):
        fit_law(curve, 1, "least_square")


def test_everything_hit_is_a_result_not_a_crash(curve):
    full = replace(curve, hits=np.broadcast_to(curve.totals[:, None, None], curve.hits.shape).copy())
    for name in ("least_squares", "binomial", "irreducible", "quadratic"):
        law = fit_law(full, 1, name, n_bootstrap=50)
        assert not law.ok and law.misses == 0
    empty = replace(curve, hits=np.zeros_like(curve.hits))
    assert "no hits" in fit_law(empty, 1, n_bootstrap=50).notes


def test_doubt_is_said_beside_the_fit(curve):
    worse = replace(curve, hits=curve.hits[:, ::-1].copy())
    law = fit_law(worse, 1, n_bootstrap=100)
    assert law.status == "wrong sign" and law.alpha < 0
    few = fit_law(planted_curve(documents=30, tokens=60, top=0.2, ks=(4096,)), 4096, n_bootstrap=200)
    assert few.status == "few misses"


def test_too_few_documents_are_said_not_bootstrapped():
    law = fit_law(planted_curve(documents=8), 1, n_bootstrap=1000)
    assert law.status == "too few documents" and np.isnan(law.ci_tokens).all() and law.n_bootstrap == 0
    assert np.isfinite(law.ci_models).all()


def test_laws_are_light_to_import():
    heavy = "statsmodels torch pandas scipy.stats matplotlib"
    script = f"import sys, rbplib.law; print([m for m in {heavy.split()} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout.strip() == "[]"


def test_few_sources_leave_the_interval_over_documents():
    curve = planted_curve(documents=90, tokens=200)
    law = fit(replace(curve.loss(1), source=np.arange(90) % 12), n_bootstrap=300)
    assert law.status == "too few sources" and np.isnan(law.ci_tokens).all()
    low, high = law.over_documents.ci_tokens
    assert low < law.alpha < high


def test_the_law_with_a_floor_is_searched_a_few_resamples_at_a_time():
    """Each resample's fit is the same to the bit alone and among many, and many take little memory at once."""
    x, rng = np.log(2000 * 3.0 ** np.arange(10)), np.random.default_rng(0)
    loss = (0.3 + 5 * np.exp(-0.2 * x)) * np.exp(0.02 * rng.normal(size=(10_000, len(x))))
    solve = ESTIMATORS["irreducible"].solve
    tracemalloc.start()
    found = solve(loss, x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * len(loss) * len(x) * len(EXPONENTS) / 2  # less than half of all resamples on the whole grid
    for i in (0, 617, 9_999):
        np.testing.assert_array_equal(found[i], solve(loss[i], x))


def test_the_search_for_a_floor_narrows_to_it_and_takes_no_lacking_loss():
    x = np.log(np.geomspace(1e3, 1e7, 8))
    loss = 0.3 + 2 * np.exp(-0.312346 * x)
    found = ESTIMATORS["irreducible"].solve(np.stack([loss, np.where(np.arange(8) == 2, np.nan, loss)]), x)
    assert found[0] == pytest.approx([0.312346, np.log(2), 0.3], rel=1e-4) and np.isnan(found[1]).all()
