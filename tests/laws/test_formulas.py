"""Formulas behind the laws, each against plain sums, differences or SciPy's own distributions."""

from dataclasses import replace

import numpy as np
import pytest
from planted import planted_curve, planted_loss
from scipy import stats

from paper import runs
from rbplib.bootstrap import sum_by_source
from rbplib.counts import rank_entropy
from rbplib.estimators import ESTIMATORS
from rbplib.law import fit, fit_law
from rbplib.noise import exceeding, generalised_squares, own_seeds
from rbplib.stored import RankTable

X = np.log(np.geomspace(1e4, 1e6, 6))


def test_sources_in_any_order_are_added_up():
    rng = np.random.default_rng(1)
    source, values = rng.permutation(np.repeat(np.arange(9), 7)), rng.integers(0, 50, (63, 2))
    assert (sum_by_source(values, source) == [values[source == s].sum(0) for s in range(9)]).all()


def trained_on_own_text():
    """A loss whose repeats each meet the text in their own way, as models do."""
    loss = planted_loss(-0.1 * X, training_sd=0.02, source_sd=0.3)
    own = np.random.default_rng(6).normal(1, 0.2, (60, 18))[loss.source]
    return replace(loss, repeats=replace(loss.repeats, sums=loss.repeats.sums * own))


def test_the_texts_part_in_the_scatter_of_trainings_is_the_jackknifes():
    loss = trained_on_own_text()
    variance, text, df = loss.training_variance
    again, U = loss.repeats, 60
    y = []  # log losses without one source
    for source in range(U):
        kept = again.source != source
        y.append(np.log(again.sums[kept].sum(0) / again.totals[kept].sum()))
    spread = 0.0
    for size in np.unique(again.S):
        own = np.array(y)[:, again.S == size]
        away = own - own.mean(axis=1, keepdims=True)
        spread += sum((U - 1) / U * ((a - a.mean()) ** 2).sum() for a in away.T)
    assert df == 12 and text == pytest.approx(spread / df, rel=1e-9)
    whole = [np.log(again.values)[again.S == size] for size in np.unique(again.S)]
    assert variance == pytest.approx(np.mean([y.var(ddof=1) for y in whole]), rel=1e-9)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_jacobian_is_that_of_its_curve(name):
    kind, rng = ESTIMATORS[name], np.random.default_rng(2)
    params = np.array([0.1, 0.3, 0.05])[: len(kind.parameters)] * rng.uniform(0.5, 1.5, len(kind.parameters))
    for i in range(len(params)):
        step = 1e-6 * np.eye(len(params))[i]
        up, down = (kind.curve(params + s, X, X.mean()) for s in (step, -step))
        assert kind.jacobian(params, X, X.mean())[:, i] == pytest.approx((up - down) / 2e-6, rel=1e-5, abs=1e-8)


def test_the_weight_of_a_binomial_count_is_its_fisher_information():
    params, total, step = np.array([0.15, 1.2]), 3000.0, 1e-6

    def miss(eta):
        return -np.expm1(-np.exp(eta))

    eta = params[1] - params[0] * X
    slope = (miss(eta + step) - miss(eta - step)) / (2 * step)
    found = ESTIMATORS["binomial"].weights(params, X, total)
    assert found == pytest.approx(total * slope**2 / (miss(eta) * (1 - miss(eta))), rel=1e-6)


def test_how_far_a_model_lies_from_its_law_is_a_share_of_its_loss():
    law = fit_law(planted_curve(clustering=1.0, documents=40), 1, n_bootstrap=0)
    assert law.worst_residual == pytest.approx(max(abs(np.exp(law.y) / np.exp(law.fitted) - 1)), rel=1e-12)


def test_a_band_with_trainings_is_both_noises_at_right_angles():
    law = fit(planted_loss(-0.1 * X, training_sd=0.05), n_bootstrap=300)
    t = stats.t.ppf(0.975, law.training_df)
    for end, with_trainings in zip(law.token_band, law.training_band, strict=True):
        assert abs(with_trainings - law.y) == pytest.approx(np.hypot(end - law.y, t * law.training_sd), rel=1e-9)


def test_p_of_the_lack_of_fit_is_hotellings():
    law, spare, d = fit_law(planted_curve(documents=80), 1, n_bootstrap=300), 5, 80
    q = law.lack_of_fit * (d - spare) / (spare * (d - 1))
    assert law.lack_of_fit_p == pytest.approx(stats.f.sf(q, spare, d - spare), rel=1e-9)


def test_trainings_of_others_are_held_against_an_f_distribution():
    for f, count, df in ((1.5, 3, 6), (4.0, 1, 12), (0.7, 5, 9)):
        assert exceeding(f, count, 0.0, 50, 2.0, df) == pytest.approx(stats.f.sf(f, count, df), rel=1e-12)


def test_trainings_of_their_own_are_held_against_simulation():
    """One of three trainings a size in contrast, the scatter estimated from all three."""
    rng, n, sizes, seeds, f = np.random.default_rng(3), 400_000, 6, 3, 2.0
    trained = rng.normal(size=(n, sizes, seeds))
    contrast = trained[:, :, 0] @ (np.array([1, 1, 1, -1, -1, -1]) / np.sqrt(sizes))
    scatter = trained.var(axis=2, ddof=1).mean(axis=1)
    found = exceeding(f, 1, 0.0, 50, 1.0, sizes * (seeds - 1), seeds)
    assert found == pytest.approx(np.mean(contrast**2 > f * scatter), rel=0.05)


def test_squares_against_a_covariance_are_those_of_generalised_least_squares():
    sm = pytest.importorskip("statsmodels.api")
    rng = np.random.default_rng(4)
    draws = rng.normal(size=(50, 6)) @ rng.normal(size=(6, 6))
    residuals, covariance, jacobian = rng.normal(size=6), np.cov(draws, rowvar=False), np.column_stack([-X, X**0])
    reference = sm.GLS(residuals, jacobian, sigma=covariance).fit()
    assert generalised_squares(jacobian, residuals, covariance) == pytest.approx((reference.wresid**2).sum(), rel=1e-7)


def test_the_texts_noise_counts_once_beside_trainings():
    """Trainings are measured on the same text: what it makes of their scatter is taken off the text's own noise."""
    loss = trained_on_own_text()
    law, drawn, jacobian = fit(loss, n_bootstrap=400), loss.resampled(400, 42), np.column_stack([-X, X**0])
    (variance, shared, df), spare = loss.training_variance, 4
    covariance, projector = np.cov(drawn.y, rowvar=False), np.eye(6) - jacobian @ np.linalg.pinv(jacobian)
    noise = np.trace(projector @ covariance) / spare
    assert 0.2 * noise < shared < noise
    both = covariance * (noise - shared) / noise + variance * np.eye(6)
    q = generalised_squares(jacobian, law.y - law.fitted, both) / spare
    p = exceeding(q, spare, noise - shared, 59, variance, df, own_seeds(loss, df))
    assert law.trained_lack_of_fit_p == pytest.approx(p, rel=1e-9)


def test_intraclass_correlation_is_that_of_an_analysis_of_variance():
    rng = np.random.default_rng(5)
    hits = [rng.random(n) < p for n, p in zip(rng.integers(5, 60, 30), rng.beta(2, 3, 30), strict=True)]
    n, N, every = np.array([len(h) for h in hits]), sum(map(len, hits)), np.concatenate(hits)
    between = sum(len(h) * (h.mean() - every.mean()) ** 2 for h in hits) / 29
    within = sum(((h - h.mean()) ** 2).sum() for h in hits) / (N - 30)
    assert between / within == pytest.approx(stats.f_oneway(*[h.astype(float) for h in hits]).statistic, rel=1e-9)
    size = (N - (n**2).sum() / N) / 29
    found = runs._icc(np.array([h.sum() for h in hits]), n)
    assert found == pytest.approx((between - within) / (between + (size - 1) * within), rel=1e-9)


def test_pairs_at_a_lag_are_counted_inside_runs_to_half_their_median_length():
    rng = np.random.default_rng(7)
    document = np.repeat(np.arange(9), 20)
    position = np.tile(np.r_[1:9, 12:24], 9)  # a gap: runs of 8 and of 12
    rank = rng.integers(1, 4, 180)
    record = {"documents": 9, "vocab_size": 9, "model": "m", "nonembedding_params": 1}
    table = RankTable(document, position, rank, rank - 1, np.ones(180, int), -np.ones(180, np.float32), record)
    found = table.lagged(1)
    assert found.shape == (4, 5)
    for lag, counts in enumerate(found.T, start=1):
        pairs = [
            (i, j)
            for i in range(180)
            for j in range(i + 1, 180)
            if document[i] == document[j]
            and position[j] - position[i] == lag
            and (position[i] < 9) == (position[j] < 9)
        ]
        hit = rank == 1
        late, early = (np.array([hit[p[end]] for p in pairs]) for end in (1, 0))
        assert list(counts) == [len(pairs), late.sum(), early.sum(), (late & early).sum()]


def test_the_entropy_of_ranks_is_corrected_by_the_number_of_ranks_seen():
    entropy, correction, _ = rank_entropy(np.array([1, 1, 1, 2, 7, 7]))
    assert correction == pytest.approx((3 - 1) / (2 * 6), rel=1e-12)
    assert entropy == pytest.approx(stats.entropy([3, 1, 2]) + correction, rel=1e-12)
