"""Synthetic families with a known law, for tests and for the coverage page's small version."""

import numpy as np

from rbplib.laws.curve import Curve


def planted_curve(alpha=0.1, documents=300, models=7, tokens=256, ks=(1, 10, 100), clustering=0.3, seed=0, top=1.0):
    """A curve whose -log RBP_k is exactly loss_k (S / S_0)^-alpha in the mean, documents sharing their difficulty.

    Each document's miss probability is the law's times a gamma factor of mean 1 and sd `clustering`, the same factor
    for all models: what real text does. `top` scales the loss, down for few misses.
    """
    rng = np.random.default_rng(seed)
    S, ks = np.geomspace(2e4, 2e7, models), np.array(ks)
    totals = rng.integers(tokens // 2, tokens, documents)
    hard = rng.gamma(1 / clustering**2, clustering**2, (documents, 1)) if clustering else np.ones((documents, 1))
    hits = np.empty((documents, models, len(ks)), dtype=np.int64)
    for column, k in enumerate(ks):
        miss = -np.expm1(-top * k**-0.25 * (S / S[0]) ** -alpha)  # (M,)
        hits[:, :, column] = totals[:, None] - rng.binomial(totals[:, None], np.minimum(miss * hard, 1))
    nll = 3.0 * (S / S[0]) ** -0.06 * totals[:, None] * hard * rng.normal(1, 0.02, (documents, models))
    names = tuple(f"m{i}" for i in range(models))
    return Curve("planted", "synthetic", "paper", names, S, 4096, ks, hits, totals, nll)
