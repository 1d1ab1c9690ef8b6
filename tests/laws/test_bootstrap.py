"""The bootstrap over sources equals SciPy's, whatever its blocks."""

from dataclasses import replace

import numpy as np
import pytest
from planted import planted_losses
from scipy import stats

import rbplib as rbp
from rbplib import bootstrap


def test_the_interval_over_text_is_scipys_with_the_same_seed():
    loss = planted_losses(documents=60, models=5, ks=(1,))[1]
    source = np.random.default_rng(1).permutation(60) % 25
    of_source = source == np.arange(25)[:, None]
    sums, totals = of_source @ loss.sums, of_source @ loss.totals

    def exponents(drawn, axis=-1):
        share = sums[drawn].sum(axis=-2) / totals[drawn].sum(axis=-1)[..., None]
        return -bootstrap.line(np.log(-np.log(share)), np.log(loss.S))[0]

    how = {"n_resamples": 999, "method": "percentile", "rng": np.random.default_rng(5)}
    scipys = stats.bootstrap((np.arange(25),), exponents, **how).confidence_interval
    law = rbp.fit(replace(loss, source=source), n_bootstrap=999, seed=5)
    assert law.ci_tokens == pytest.approx([*scipys], rel=1e-12)


@pytest.mark.parametrize("kept", [0, 1 << 24])
def test_sums_are_exact_whatever_the_blocks(monkeypatch, kept):
    drawn = np.random.default_rng(2).integers(50, size=(30, 50))
    monkeypatch.setattr(bootstrap, "BLOCK", 50 * 7)
    monkeypatch.setattr(bootstrap, "KEPT", kept)
    values = np.full((50, 2), 0.1)
    sums = bootstrap.resampled_sums(values, 30, 2)
    assert sums == pytest.approx(values[drawn].sum(axis=1), rel=1e-14)


def test_an_interval_leaves_out_resamples_without_a_value_while_they_are_few():
    samples = np.random.default_rng(0).normal(size=(100, 2))
    samples[:5, 0], samples[:6, 1] = np.nan, np.inf
    ends = bootstrap.percentile_interval(samples)
    assert ends[:, 0] == pytest.approx(np.quantile(samples[5:, 0], [0.025, 0.975]))
    assert np.isnan(ends[:, 1]).all()
