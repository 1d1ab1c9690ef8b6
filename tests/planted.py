"""Synthetic families with a known law, for tests and for the coverage page's small version."""

from dataclasses import replace

import numpy as np

from rbplib import Loss


def planted_losses(
    documents=300, models=7, tokens=256, ks=(1, 10, 100), clustering=0.3, seed=0, top=1.0
):
    """{k: Loss} whose -log RBP_k is exactly loss_k (S / S_0)^-0.1 in the mean, documents sharing
    their difficulty.

    Each document's miss probability is the law's times a gamma factor of mean 1 and sd
    `clustering`, the same factor for all models: what real text does. `top` scales the loss, down
    for few misses.
    """
    rng = np.random.default_rng(seed)
    S = np.geomspace(2e4, 2e7, models)
    totals = rng.integers(tokens // 2, tokens, documents)
    hard = rng.gamma(1 / clustering**2, clustering**2, (documents, 1))
    about = {"family": "planted", "corpus": "synthetic", "models": [f"m{i}" for i in range(models)]}
    losses = {}
    for k in ks:
        miss = np.minimum(-np.expm1(-top * k**-0.25 * (S / S[0]) ** -0.1) * hard, 1)
        hits = totals[:, None] - rng.binomial(totals[:, None], miss)
        losses[k] = Loss(hits, totals, S, k=k, name=f"-log RBP_{k}", **about)
    return losses


def seeded_loss(rng, seeds, sizes=6, between=0.02, within=0.02, S=(1e6, 1e9), level=1.0):
    """Nats whose log is level - 0.1 log S, and a draw for each size and each of its seeds, on a
    text in one piece; seeds: a number, or one a size."""
    S = np.repeat(np.geomspace(*S, sizes), seeds)
    y = level - 0.1 * np.log(S) + np.repeat(rng.normal(0, between, sizes), seeds)
    y += rng.normal(0, within, len(S))
    loss = Loss(sums=np.exp(y)[None], totals=[1], S=S, hits=False)
    return replace(loss, repeats=loss)


def planted_loss(y, source_sd, repeated=3):
    """A Loss whose log is y (M,) plus one draw of training noise a model and one of text a source.

    Its `repeats` hold `again` further trainings of every size; None at 0.
    """
    rng = np.random.default_rng(0)
    S, source = np.geomspace(1e4, 1e6, len(y)), np.repeat(np.arange(60), 3)
    hard = rng.normal(1, source_sd, (60, len(y)))[source]

    def trained(y, S, hard):
        loss = np.exp(y + rng.normal(0, 0.02, len(y)))
        names, totals = tuple(f"m{i}" for i in range(len(y))), np.full(len(source), 100)
        named = {"family": "planted", "corpus": "synthetic", "models": names, "source": source}
        return Loss(sums=100 * hard * loss, totals=totals, S=S, hits=False, **named)

    loss = trained(y, S, hard)
    if not repeated:
        return loss
    many = np.tile(np.arange(len(y)), repeated)
    return replace(
        loss,
        repeats=trained(y[many], S[many], np.repeat(hard.mean(axis=1)[:, None], len(many), axis=1)),
    )


S = np.geomspace(1e4, 1e8, 7)


def exact(y, S=S, **more):
    """A Loss whose log is y, of one document."""
    known = {"name": "loss", "family": "f", "corpus": "c"}
    known["models"] = tuple(f"m{i}" for i in range(len(y)))
    return Loss(np.exp(y)[None], np.array([1]), S, hits=False, **known | more)


def straight(rng):
    return exact(1 - 0.1 * np.log(S) + rng.normal(0, 0.02, len(S)))


def bent(rng):
    """A floor of half the smallest model's loss."""
    return exact(np.log(0.5 + 0.5 * (S / S[0]) ** -0.25) + rng.normal(0, 0.005, len(S)))


def broken(rng):
    """Half the exponent in the last two steps, as ladders that are trained too short at their
    top."""
    steps = -np.repeat([0.1, 0.05], [4, 2]) * np.diff(np.log(S))
    return exact(np.append(0, np.cumsum(steps)) + rng.normal(0, 0.01, len(S)))


def planted_grid(sizes=6, budgets=5):
    """{k: Loss} of a grid whose losses are exactly 2 S^-0.2 + 20 D^-0.3 in the mean over sources,
    at k = 1, 10 and in cross-entropy, k = None."""
    rng = np.random.default_rng(0)
    S = np.repeat(np.geomspace(2e3, 6e5, sizes), budgets)
    D = np.tile(np.geomspace(1e6, 1.6e7, budgets), sizes)
    totals, hard = np.full(80, 100_000), np.exp(rng.normal(0, 0.1, (80, 1)))
    nats = (2 * S**-0.2 + 20 * D**-0.3) * hard / hard.mean()
    sums = {1: np.exp(-nats), 10: np.exp(-nats / 3), None: 3 * nats}
    names = tuple(f"{s:.0f} {d:.0f}" for s, d in zip(S, D, strict=True))
    losses = {}
    for k, share in sums.items():
        counts = share * totals[:, None]
        about = {"k": k, "hits": bool(k), "family": "grid", "corpus": "synthetic", "models": names}
        losses[k] = Loss(counts.round() if k else counts, totals, S, D=D, **about)
    return losses
