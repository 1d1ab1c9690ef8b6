"""Noise of published exponents, ratios of two, families side by side: planted truth, brute force, closed forms."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from paper import ladders, published
from rbplib.law import fit
from rbplib.losses import Loss, mean


def lines(levels, slopes, S, scatter=0.0, seed=0):
    """Losses of planted families, log loss = level - slope (log S less its mean) + noise."""
    x, rng = np.log(S) - np.log(S).mean(), np.random.default_rng(seed)
    y = [level - slope * x + scatter * rng.normal(size=len(S)) for level, slope in zip(levels, slopes, strict=True)]
    names = tuple(map(str, range(len(S))))
    return [
        Loss(sums=np.exp(v)[None], totals=np.ones(1, int), S=S, of=mean, family=f"f{i}", models=names)
        for i, v in enumerate(y)
    ]


SIZES = np.geomspace(1e7, 1e9, 5)


def slope(S, share):
    return -np.polyfit(np.log(S), np.log(-np.log(share)), 1)[0]


@pytest.mark.parametrize("together", ["independent", "nested"])
def test_the_choice_of_passages_moves_the_exponent_as_it_says(together):
    """Passages drawn anew, each model right by itself or all by one common difficulty, against the closed form."""
    found = ladders.published_law("opt")
    S, share, n = found.law.S, np.exp(-np.exp(found.law.y)), published.SCORED["LAMBADA"]
    rng = np.random.default_rng(1)
    drawn = []
    for _ in range(400):
        ease = rng.random((n, len(S) if together == "independent" else 1))
        drawn.append(slope(S, (ease < share).mean(axis=0)))
    assert np.std(drawn) == pytest.approx(found.sampling[together], rel=0.12)  # standard error of an sd: 3.5%


def test_nothing_between_goes_beyond_at_most():
    """Answers of models that share their difficulty in blocks, all of it or none, vary less than the bound."""
    for family in published.families():
        found = ladders.published_law(family)
        share = np.exp(-np.exp(found.law.y))
        least = np.minimum.outer(share, share) - np.outer(share, share)
        for blocks in ([0, 1], [0, 0, 1, 1, 2, 2, 3, 3], range(9), [0] * 9):
            same = np.equal.outer(*[np.resize(np.array(blocks), len(share))] * 2)
            covariance = np.where(same, least, 0) / (published.SCORED["LAMBADA"] - 1)
            sd = np.sqrt(found.moves @ covariance @ found.moves)
            assert sd <= found.sampling["at most"] * (1 + 1e-9)


def test_moves_are_the_derivative():
    found = ladders.published_law("bloom")
    share = np.exp(-np.exp(found.law.y))
    for i in range(len(share)):
        step = np.where(np.arange(len(share)) == i, 1e-6, 0)
        change = slope(found.law.S, share + step) - slope(found.law.S, share - step)
        assert found.moves[i] == pytest.approx(change / 2e-6, rel=1e-5)


def test_rounding_is_the_worst_of_all_roundings():
    found = ladders.published_law("mamba")  # three digits
    S, acc = found.law.S, found.rows["acc"].to_numpy()
    signs = 1 - 2 * (np.arange(2 ** len(S))[:, None] >> np.arange(len(S)) & 1)
    worst = max(abs(slope(S, acc + 0.0005 * s) - found.law.alpha) for s in signs)
    assert found.rounding == pytest.approx(worst, rel=0.01) and found.rounding > 0
    assert ladders.published_law("opt").rounding == 0  # printed whole
    assert np.isnan(ladders.published_law("opt", "log ppl").rounding)
    assert np.isnan(ladders.published_law("opt", "log ppl").sampling["at most"])


def test_text_along_size():
    told = {f: ladders.published_law(f).text for f in published.families()}
    assert told["cerebras-gpt"] == told["cerebras-gpt-mup"] == ladders.GROWS
    assert told["pythia"] == told["mamba"] == told["gpt-3"] == ladders.FIXED
    assert told["opt"] == told["h3-hybrid"] == told["gpt-neo"] == ladders.UNKNOWN
    found = ladders.published_law("mamba")
    rows = found.rows.assign(tokens=[1e9, 1e12, 1e9, 1e12, 1e9])
    assert replace(found, rows=rows).text == ladders.OTHER


def test_ratio_of_exponents_covers_a_planted_one():
    """Residuals of both losses move together, as those of accuracy and perplexity do."""
    S, held, x = np.geomspace(1e7, 1e10, 6), 0, np.log(np.geomspace(1e7, 1e10, 6))
    rng, names = np.random.default_rng(3), tuple("abcdef")
    for _ in range(300):
        shared, own = rng.normal(size=(2, 6)) * 0.03
        laws = [
            fit(Loss(sums=np.exp(y)[None], totals=np.ones(1, int), S=S, of=mean, models=names), n_bootstrap=0)
            for y in (-0.25 * x + shared, -0.2 * x + 0.8 * shared + 0.3 * own)
        ]
        ratio, (low, high) = ladders.exponent_ratio(*laws)
        assert low < ratio < high
        held += low < 0.8 < high
    assert 0.91 < held / 300 < 0.985  # 95% give or take 2.4 standard errors


def test_ratio_inverts_a_test_of_slope():
    """At the ends of the interval the slope of y2 - r y1 has p = 5%."""
    first, second = (ladders.published_law("rwkv-4", q).law for q in ("-log acc", "log ppl"))
    ratio, ends = ladders.exponent_ratio(first, second)
    assert ratio == pytest.approx(second.alpha / first.alpha)
    for r in ends:
        assert stats.linregress(np.log(first.S), second.y - r * first.y).pvalue == pytest.approx(0.05, abs=1e-6)
    other = ladders.published_law("mamba", "log ppl").law
    assert np.isnan(ladders.exponent_ratio(first, other)[1]).all()


def test_covariance_by_hand():
    """Sums of squares of three nested models, from numpy.linalg.lstsq alone."""
    losses = [published.published_loss(f)[0] for f in published.families() if f.startswith("slimpajama")]
    found = ladders.ancova(losses)
    x = np.log(np.concatenate([loss.S for loss in losses]))
    y = np.log(np.concatenate([loss.values for loss in losses]))
    who = np.repeat(np.eye(5), 4, axis=0)
    designs = (np.hstack([who, who * x[:, None]]), np.column_stack([who, x]), np.column_stack([np.ones(20), x]))
    solved = [np.linalg.lstsq(d, y, rcond=None) for d in designs]
    own, common, one = (s[1][0] for s in solved)
    assert found.each["alpha"].to_numpy() == pytest.approx(-solved[0][0][5:])
    assert list(found.each["family"]) == [loss.family for loss in losses]
    assert found.common == pytest.approx(-solved[1][0][-1])
    assert found.residual_sd == pytest.approx(np.sqrt(own / 10))
    f, g = (common - own) / 4 / (own / 10), (one - common) / 4 / (common / 14)
    assert found.slopes == pytest.approx((f, stats.f.sf(f, 4, 10)))
    assert found.levels == pytest.approx((g, stats.f.sf(g, 4, 14)))
    centred = solved[1][0][:5] + solved[1][0][5] * x.mean()
    assert found.each["level"].to_numpy() == pytest.approx(centred - centred.mean())


def test_covariance_finds_what_was_planted():
    alike = ladders.ancova(lines([0.0, 0.1, 0.3], [0.2] * 3, SIZES))
    assert alike.common == pytest.approx(0.2) and np.ptp(alike.each["level"]) == pytest.approx(0.3)
    p = [ladders.ancova(lines([0.0, 0.1, 0.3], [0.2] * 3, SIZES, 0.02, seed)).slopes[1] for seed in range(50)]
    assert stats.kstest(p, "uniform").pvalue > 0.01
    true = np.random.default_rng(9).normal(0.2, 0.03, (60, 3))
    ends = [ladders.ancova(lines([0.0, 0.1, 0.3], s, SIZES, 0.02, i)).spread[1:] for i, s in enumerate(true)]
    assert sum(low < 0.03 < high for low, high in ends) > 51  # of 60; 95% would be 57


def test_shared_sizes_are_those_that_all_reach():
    first, second = lines([0, 0], [0.1, 0.1], SIZES)
    part = ladders.shared_sizes([first, replace(second, S=second.S * 10)])
    assert part[0].S == pytest.approx(SIZES[2:] if SIZES[2] > 8e7 else SIZES[3:]) and len(part[1].S) == 3
    frame = pd.DataFrame({"S": np.concatenate([p.S for p in part])})
    assert frame["S"].between(8e7, 1.25e9).all()
