"""Formulas behind the laws, each against plain sums, differences or SciPy's own distributions."""

import numpy as np
import pytest
from planted import planted_curve, planted_loss
from scipy import stats

from paper import runs
from paper.laws import fit, fit_law
from rbplib.table import COLUMNS, RankTable, rank_entropy

X = np.log(np.geomspace(1e4, 1e6, 6))


def test_how_far_a_model_lies_from_its_law_is_a_share_of_its_loss():
    law = fit_law(planted_curve(clustering=1.0, documents=40), 1, n_bootstrap=0)
    assert law.worst_residual == pytest.approx(max(abs(np.exp(law.y) / np.exp(law.fitted) - 1)), rel=1e-12)


def test_a_band_with_trainings_is_both_noises_at_right_angles():
    law = fit(planted_loss(-0.1 * X, training_sd=0.05), n_bootstrap=300)
    t = stats.t.ppf(0.975, law.training_df)
    for end, with_trainings in zip(law.band, law.training_band, strict=True):
        assert abs(with_trainings - law.y) == pytest.approx(np.hypot(end - law.y, t * law.training_sd), rel=1e-9)


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
    columns = (document, position, rank, rank - 1, np.ones(180, int), -np.ones(180, np.float32))
    table = RankTable(dict(zip(COLUMNS, columns, strict=True)), record)
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
