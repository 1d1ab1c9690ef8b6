"""The bootstrap equals a plain loop, SciPy's bootstrap and the known answer, and says when it cannot be done."""

from dataclasses import replace

import numpy as np
import pytest
from planted import planted_curve

from rbplib import bootstrap
from rbplib.bootstrap import line, paired_bootstrap, resampled_sums, sum_chunks, weight_chunks
from rbplib.law import fit_law
from rbplib.losses import logarithm, minus_log


@pytest.fixture(scope="module")
def curve():
    return planted_curve(documents=60, models=5, ks=(1, 10))


def weights_of(*size):
    return np.concatenate(list(weight_chunks(*size)))


def plain_fit(x, y):
    """Slope and R^2 the long way round."""
    slope, intercept = np.polyfit(x, y, 1)
    return slope, 1 - ((y - slope * x - intercept) ** 2).sum() / ((y - y.mean()) ** 2).sum()


def test_equals_a_loop_over_resamples(curve):
    result = paired_bootstrap(curve.hits, curve.totals, curve.S, n_resamples=40, seed=3)
    drawn = curve.loss(1).resampled(40, 3), curve.loss(10).resampled(40, 3)
    rng, x = np.random.default_rng(3), np.log(curve.S)
    for resample in range(40):
        chosen = rng.integers(0, 60, 60)
        for column in range(2):
            rbp = curve.hits[chosen, :, column].sum(axis=0) / curve.totals[chosen].sum()
            slope, r2 = plain_fit(x, np.log(-np.log(rbp)))
            assert result.slopes[resample, column] == pytest.approx(slope, rel=1e-10)
            assert result.r2[resample, column] == pytest.approx(r2, rel=1e-9)
            assert np.exp(-drawn[column].loss[resample]) == pytest.approx(rbp, rel=1e-12)
            assert drawn[column].y[resample] == pytest.approx(np.log(-np.log(rbp)), rel=1e-12)
    slope, r2 = plain_fit(x, np.log(-np.log(curve.rbp[:, 0])))
    assert (result.slope[0], result.point_r2[0]) == pytest.approx((slope, r2))


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_equals_scipy_with_the_same_seed(curve, method):
    from scipy.stats import bootstrap as reference

    x = np.log(curve.S)

    def along_last(documents, axis=-1):
        flat = documents.reshape(-1, documents.shape[-1])
        hits, totals = curve.hits[flat, :, 0].sum(axis=1), curve.totals[flat].sum(axis=1)
        return line(logarithm(minus_log(hits / totals[:, None])), x)[0].reshape(documents.shape[:-1])

    theirs = reference((np.arange(60),), along_last, n_resamples=999, method=method,
                       rng=np.random.default_rng(5)).confidence_interval  # fmt: skip
    ours = paired_bootstrap(curve.hits, curve.totals, curve.S, n_resamples=999, seed=5, method=method).slope_interval
    assert ours[:, 0] == pytest.approx([theirs.low, theirs.high], rel=1e-12)


def test_block_size_changes_nothing(monkeypatch):
    whole = weights_of(37, 100, 1)
    monkeypatch.setattr(bootstrap, "CELLS_PER_CHUNK", 37 * 7)
    assert np.array_equal(weights_of(37, 100, 1), whole)
    assert (whole.sum(axis=1) == 37).all() and whole.min() == 0
    assert whole.mean() == pytest.approx(1) and whole.var() == pytest.approx(1 - 1 / 37, rel=0.1)


def test_float32_is_used_only_where_it_is_exact():
    small, large = np.full((50, 2), 300_000), np.full((50, 2), 400_001)
    for values in (small, large):
        sums = resampled_sums(values, 30, 2)
        assert np.array_equal(sums, weights_of(50, 30, 2).astype(np.float64) @ values)
    reals = np.random.default_rng(0).normal(size=(50, 2))
    assert resampled_sums(reals, 30, 2) == pytest.approx(weights_of(50, 30, 2).astype(float) @ reals, rel=1e-12)
    assert next(sum_chunks(small, 1, 0)).dtype == np.float64


def test_planted_slope_is_inside_and_bands_are_narrow(curve):
    result = paired_bootstrap(curve.hits, curve.totals, curve.S, n_resamples=2000)
    assert result.slope == pytest.approx([-0.1, -0.1], abs=0.01)
    assert (result.slope_interval[0] < -0.09).all() and (result.slope_interval[1] > -0.11).all()
    assert np.isfinite(result.slopes).all()


def test_rbp_of_one_or_zero_is_a_status(curve):
    hits = curve.hits.copy()
    hits[:, 4, 0] = curve.totals
    hits[:, 0, 1] = 0
    with np.errstate(all="raise"):
        result = paired_bootstrap(hits, curve.totals, curve.S, n_resamples=100)
    both = replace(curve, hits=hits)
    assert [fit_law(both, k, n_bootstrap=100).status for k in (1, 10)] == ["saturated", "no hits"]
    assert np.isnan(result.slope_interval).all() and np.isnan(result.slopes).all()


def test_few_misses_lose_resamples_openly(curve):
    hits = np.broadcast_to(curve.totals[:, None, None], curve.hits.shape).copy()
    hits[:8, :, 0] -= np.arange(6, 1, -1)
    hits[:1, :, 1] -= np.arange(6, 1, -1)
    result = paired_bootstrap(hits, curve.totals, curve.S, n_resamples=2000)
    both = replace(curve, hits=hits)
    assert [fit_law(both, k, n_bootstrap=100).status for k in (1, 10)] == ["few misses", "few misses"]
    undefined = np.isnan(result.slopes).sum(axis=0)
    assert 0 < undefined[0] < 20 and np.isfinite(result.slope_interval[:, 0]).all()
    assert undefined[1] > 600 and np.isnan(result.slope_interval[:, 1]).all()


def test_flat_losses_have_a_slope_of_zero_and_no_r2():
    slope, _, r2 = line(np.zeros((2, 1, 4)) + 0.3, np.arange(4.0))
    assert slope == pytest.approx(0) and np.isnan(r2).all()


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda h, t, S: (h[:19], t[:19], S), "19 documents are too few"),
        (lambda h, t, S: (h[:, :2], t, S[:2]), "three different"),
        (lambda h, t, S: (h, t, S[:-1]), "do not fit together"),
        (lambda h, t, S: (h + t.max() + 1, t, S), "more hits than scored tokens"),
    ],
)
def test_bad_input_is_told(curve, change, message):
    with pytest.raises(ValueError, match=message):
        paired_bootstrap(*change(curve.hits, curve.totals, curve.S), n_resamples=10)


def test_unknown_method_is_told(curve):
    with pytest.raises(ValueError, match="percentile"):
        paired_bootstrap(curve.hits, curve.totals, curve.S, n_resamples=10, method="studentised")


def test_ten_thousand_resamples_fit_the_memory_and_the_second():
    """The stated size: 1,000 documents, 7 models, 100 values of k. The time bound is loose, the machine is shared."""
    import time
    import tracemalloc

    big = planted_curve(documents=1000, ks=tuple(range(1, 101)))
    start = time.perf_counter()
    paired_bootstrap(big.hits, big.totals, big.S)
    seconds = time.perf_counter() - start
    tracemalloc.start()
    paired_bootstrap(big.hits, big.totals, big.S)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2e9 and seconds < 5
