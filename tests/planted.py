"""Synthetic families with a known law, for tests and for the coverage page's small version."""

from dataclasses import replace

import numpy as np

from rbplib import Loss

S = np.geomspace(1e4, 1e8, 7)


def about(n, family="planted"):
    """What a Loss says of n models."""
    models = tuple(f"m{i}" for i in range(n))
    return {"family": family, "corpus": "synthetic", "models": models}


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
    losses = {}
    for k in ks:
        miss = -np.expm1(-top * k**-0.25 * (S / S[0]) ** -0.1)
        misses = rng.binomial(totals[:, None], np.minimum(miss * hard, 1))
        hits = totals[:, None] - misses
        losses[k] = Loss(hits, totals, S, k=k, name=f"-log RBP_{k}", **about(models))
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

    Its `repeats` hold `repeated` further trainings of every size; None at 0.
    """
    rng = np.random.default_rng(0)
    sizes, source = np.geomspace(1e4, 1e6, len(y)), np.repeat(np.arange(60), 3)
    hard = rng.normal(1, source_sd, (60, len(y)))[source]

    def trained(y, S, hard):
        sums = 100 * hard * np.exp(y + rng.normal(0, 0.02, len(y)))
        return Loss(sums, np.full(len(source), 100), S, hits=False, source=source, **about(len(y)))

    loss = trained(y, sizes, hard)
    if not repeated:
        return loss
    many = np.tile(np.arange(len(y)), repeated)
    hard = np.repeat(hard.mean(axis=1, keepdims=True), len(many), axis=1)
    return replace(loss, repeats=trained(y[many], sizes[many], hard))


def exact(y, S=S, **more):
    """A Loss whose log is y, of one document."""
    named = {"name": "loss"} | about(len(y), "f") | {"corpus": "c"}
    return Loss(np.exp(y)[None], np.array([1]), S, hits=False, **named | more)


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
    names = tuple(f"{s:.0f} {d:.0f}" for s, d in zip(S, D, strict=True))
    named = about(0, "grid") | {"D": D, "models": names}
    return {
        1: Loss((np.exp(-nats) * 100_000).round(), totals, S, k=1, **named),
        10: Loss((np.exp(-nats / 3) * 100_000).round(), totals, S, k=10, **named),
        None: Loss(3 * nats * 100_000, totals, S, hits=False, **named),
    }
