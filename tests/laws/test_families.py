"""All families together: families are the replicates, and planted effects come back where they
are."""

from dataclasses import replace

import numpy as np
import pytest

from paper.families import bend_weights, contrasts, pooled, slope_weights
from rbplib import Loss

S = np.geomspace(2e4, 2e7, 6)
X = np.log(S / S[0])


def ladder(rng, name, corpus, y, repeats=3, sd=0.01):
    """A Loss that is exp(y), with further trainings of each size, scattered by sd."""
    hard = np.random.default_rng(99).normal(1, 0.02, (40, 1))  # the same text for every family
    totals = np.full(40, 10**6)

    def trained(y, S):
        y = y + rng.normal(0, sd, len(y))
        hits = np.round(totals[:, None] * np.exp(-np.exp(y) * hard)).astype(np.int64)
        return Loss(hits, totals, S, family=name, corpus=corpus)

    return replace(trained(y, S), repeats=trained(np.tile(y, repeats), np.tile(S, repeats)))


@pytest.mark.parametrize("bend", [0.0, 0.06])
def test_a_planted_bend_is_found_and_training_noise_is_not_taken_for_one(bend):
    rejected, y = [], -1 - 0.05 * X + bend * (X[-1] - X[-2]) * (S == S[-1])
    for seed in range(40):
        rng = np.random.default_rng(seed)
        ladders = [[ladder(rng, f, c, y)] for f in "abcde" for c in "xy"]
        effect = pooled(contrasts(ladders, bend_weights, 50))
        rejected.append([effect.interval[1] < 0, effect.noise_p < 0.05])
    shares = np.mean(rejected, axis=0)
    assert (shares > 0.9).all() if bend else (shares < 0.14).all()  # 2.5% and 5% expected


def test_corpora_of_a_family_add_no_replicates():
    few, many, rng = [], [], np.random.default_rng(1)
    for name, rise in (("a", 0.02), ("b", 0.03)):
        pair = [ladder(rng, name, "x", y, sd=0.0) for y in (-1 - (0.05 + rise) * X, -0.05 * X)]
        few.append(pair)
        many += [[replace(loss, corpus=corpus) for loss in pair] for corpus in "wxyz"]
    first, second = (pooled(contrasts(pairs, slope_weights, 50)) for pairs in (few, many))
    assert first.interval == pytest.approx(second.interval) and first.groups == second.groups == 2
    assert first.estimate == pytest.approx(0.025, rel=0.02)
