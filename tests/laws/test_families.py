"""All families together: families are the replicates, and planted effects come back where they
are."""

from dataclasses import replace

import numpy as np
import pytest

from paper.families import bend_weights, contrasts, pooled, slope_weights
from rbplib import Loss


def ladder(name, corpus, y, seed, repeats=0, sd=0.0):
    """(Loss at k = 100, Loss at k = 1) that are exp(y_k) (M, K), with further trainings scattered
    by sd."""
    rng, S = np.random.default_rng(seed), np.geomspace(2e4, 2e7, len(y))
    totals = np.full(40, 10**6)
    hard = np.random.default_rng(99).normal(1, 0.02, (40, 1))  # the same text for every family

    def losses(y, S):
        y = y + rng.normal(0, sd, (len(y), 1))
        about = {"family": name, "corpus": corpus, "models": [f"m{i}" for i in range(len(S))]}
        hits = [np.round(totals[:, None] * np.exp(-np.exp(y[:, i]) * hard)) for i in (1, 0)]
        return [Loss(hit.astype(np.int64), totals, S, **about) for hit in hits]

    alone, many = losses(y, S), np.tile(np.arange(len(y)), repeats)
    if not repeats:
        return alone
    repeated = losses(y[many], S[many])
    return [replace(one, repeats=other) for one, other in zip(alone, repeated, strict=True)]


def planted_y(bend=0.0, rise=0.0):
    """y (6, 2) at k = 1 and 100, the exponent of the last step smaller by `bend`."""
    x = np.log(np.geomspace(2e4, 2e7, 6))
    y = np.stack([-0.05 * (x - x[0]), -1 - (0.05 + rise) * (x - x[0])], axis=1)
    y[-1] += bend * (x[-1] - x[-2])
    return y


@pytest.mark.parametrize("bend", [0.0, 0.06])
def test_a_planted_bend_is_told_and_training_noise_is_not_taken_for_one(bend):
    rejected, y = [], planted_y(bend)
    for seed in range(40):
        pairs = [
            ladder(f, c, y, seed * 100 + i, 3, 0.01) for i, f in enumerate("abcde") for c in "xy"
        ]
        effect = pooled(contrasts([[first] for _, first in pairs], bend_weights, 50))
        rejected.append([effect.interval[1] < 0, effect.noise_p < 0.05])
    shares = np.mean(rejected, axis=0)
    assert (shares > 0.9).all() if bend else (shares < 0.14).all()  # 2.5% and 5% expected


def test_corpora_of_a_family_add_no_replicates():
    few = [ladder(f, "x", planted_y(rise=r), 1) for f, r in (("a", 0.02), ("b", 0.03))]
    many = [[replace(loss, corpus=name) for loss in pair] for pair in few for name in "wxyz"]
    first, second = (pooled(contrasts(pairs, slope_weights, 50)) for pairs in (few, many))
    assert first.interval == pytest.approx(second.interval) and first.groups == second.groups == 2
    assert first.estimate == pytest.approx(0.025, rel=0.02)
