"""The bootstrap equals a plain loop and SciPy's, whatever its blocks; the line equals NumPy's."""

from dataclasses import replace

import numpy as np
import pytest
from planted import planted_curve

from rbplib import bootstrap
from rbplib.bootstrap import line, percentile_interval, resampled_counts, resampled_sums, sum_by_source


@pytest.fixture(scope="module")
def loss():
    return planted_curve(documents=60, models=5, ks=(1,)).loss(1)


def counts_of(*size):
    return np.concatenate(list(resampled_counts(*size)))


@pytest.mark.parametrize("by", ["documents", "sources"])
def test_equals_a_loop_over_resamples(loss, by):
    source = np.arange(60) if by == "documents" else np.random.default_rng(1).permutation(60) % 25
    drawn = replace(loss, source=source).resampled(40, 3)
    rng, n = np.random.default_rng(3), len(np.unique(source))
    for b in range(40):
        chosen = np.concatenate([np.flatnonzero(source == s) for s in rng.integers(0, n, n)])
        share = loss.sums[chosen].sum(axis=0) / loss.totals[chosen].sum()
        assert drawn.loss[b] == pytest.approx(-np.log(share), rel=1e-12)
        assert drawn.y[b] == pytest.approx(np.log(-np.log(share)), rel=1e-12)
        assert drawn.totals[b] == loss.totals[chosen].sum()


def test_equals_scipy_with_the_same_seed(loss):
    from scipy.stats import bootstrap as reference

    x = np.log(loss.S)

    def exponents(documents, axis=-1):
        flat = documents.reshape(-1, documents.shape[-1])
        share = loss.sums[flat].sum(axis=1) / loss.totals[flat].sum(axis=1)[:, None]
        return line(np.log(-np.log(share)), x)[0].reshape(documents.shape[:-1])

    rng = np.random.default_rng(5)
    theirs = reference((np.arange(60),), exponents, n_resamples=999, method="percentile", rng=rng).confidence_interval
    ours = percentile_interval(line(loss.resampled(999, 5).y, x)[0])
    assert ours == pytest.approx([theirs.low, theirs.high], rel=1e-12)


def test_block_size_changes_nothing(monkeypatch):
    whole = counts_of(37, 100, 1)
    monkeypatch.setattr(bootstrap, "BLOCK", 37 * 7)
    assert np.array_equal(counts_of(37, 100, 1), whole)
    assert (whole.sum(axis=1) == 37).all()
    assert whole.var() == pytest.approx(1 - 1 / 37, rel=0.1)


@pytest.mark.parametrize("kept", [0, 1 << 24])
@pytest.mark.parametrize("value", [300_000, 400_001, 0.1])
def test_sums_are_exact_where_float32_is_used_too(monkeypatch, kept, value):
    monkeypatch.setattr(bootstrap, "KEPT", kept)
    values = np.full((50, 2), value)
    sums = resampled_sums(values, 30, 2)
    assert sums.dtype == float
    assert sums == pytest.approx(counts_of(50, 30, 2).astype(float) @ values, rel=1e-14)


def test_sources_in_any_order_are_added_up():
    rng = np.random.default_rng(1)
    source, values = rng.permutation(np.repeat(np.arange(9), 7)), rng.integers(0, 50, (63, 2))
    assert (sum_by_source(values, source) == [values[source == s].sum(0) for s in range(9)]).all()


def test_an_interval_leaves_out_resamples_without_a_value_while_they_are_few():
    samples = np.random.default_rng(0).normal(size=(100, 3))
    samples[:5, 1], samples[:6, 2] = np.nan, np.inf
    ends = percentile_interval(samples, 0.9)
    for column, known in ((0, slice(0, None)), (1, slice(5, None))):
        assert ends[:, column] == pytest.approx(np.quantile(samples[known, column], [0.05, 0.95]))
    assert np.isnan(ends[:, 2]).all()


def test_the_line_is_numpys_for_every_row_and_flat_losses_have_no_r2():
    x, y = np.log(np.geomspace(1, 50, 4)), np.random.default_rng(3).normal(size=(6, 4))
    slope, intercept, r2 = line(y, x)
    assert np.array([slope, intercept]) == pytest.approx(np.polyfit(x, y.T, 1), rel=1e-9)
    assert r2 == pytest.approx([np.corrcoef(x, row)[0, 1] ** 2 for row in y], rel=1e-9)
    slope, _, r2 = line(np.full((2, 4), 0.3), x)
    assert slope == pytest.approx(0) and np.isnan(r2).all()
