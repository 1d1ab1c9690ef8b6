"""Families with a planted law, drawn as text is found: sources, documents in them, and trainings that scatter.

On document d of source s training m misses the share p_dm of the tokens,

    log(-log(1 - p_dm)) = mu_m + a_sm + b_dm,   a_s ~ N(0, between),  b_d ~ N(0, within),

with mu_m such that the mean share is exactly that of the planted law, moved by the training's own scatter. On one
document the misses of the better training lie among those of the worse.
"""

from dataclasses import dataclass, replace

import numpy as np

from rbplib.bootstrap import sum_by_source
from rbplib.law import fit
from rbplib.losses import Loss, check_models

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(41)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


@dataclass(frozen=True)
class Design:
    """What the families of a simulation look like: C trainings, of which the first `models` are the family.

    totals, source: int64 (D,), scored tokens and source of each document. S: float64 (C,), sizes. alpha, loss: the law,
    loss = -log RBP_k of the first model. between, within: float64 (C, C), covariances of the effects of sources and of
    documents in a source. training_sd: of log(-log RBP_k) between trainings of one size.
    """

    totals: np.ndarray
    source: np.ndarray
    S: np.ndarray
    models: int
    alpha: float
    loss: float
    between: np.ndarray
    within: np.ndarray
    training_sd: float = 0.0
    among: bool = True  # whether the family's own models count among its repeats
    bend: float = 0.0  # sd of the models about a line, were there no noise, for they follow a quadratic in log S

    @classmethod
    def plain(cls, sources=120, documents=4, tokens=220, models=6, decades=2.5, between=(0.2, 0.02), **law):
        """A corpus made up: `documents` of each source (a number, or one for each), three trainings of each size.

        between: (sd that all trainings share, sd of each on its own) of the sources' effects; the documents': 0.4, 0.1.
        """
        source = np.repeat(np.arange(sources), documents)
        totals = np.random.default_rng(0).integers(tokens // 2, tokens * 3 // 2 + 1, len(source))
        S = np.tile(np.geomspace(2e3, 2e3 * 10**decades, models), 3)
        between, within = (shared**2 + own**2 * np.eye(len(S)) for shared, own in (between, (0.4, 0.1)))
        law = {"alpha": 0.06, "loss": 1.5, "training_sd": 0.015} | law
        return cls(totals, source, S, models, between=between, within=within, **law)

    @classmethod
    def of(cls, loss):
        """The design of a measured -log RBP_k: its documents, sources, sizes, fitted law and scatter between trainings.

        A family without repeats is one training a size, without scatter between trainings.

        Raises:
            InputError: fewer than three sizes with a value.
        """
        loss = loss.keep(np.flatnonzero(np.isfinite(loss.y)))
        check_models(loss)
        law, used, sums, S = fit(loss, n_bootstrap=0), loss.used, loss.sums, loss.S
        among = True
        if (more := loss.repeats) is not None:
            known = {column.tobytes() for column in sums.T}
            again = [i for i, c in enumerate(more.sums.T) if c.tobytes() not in known and np.isfinite(more.y[i])]
            among = len(again) < np.isfinite(more.y).sum()
            sums, S = np.hstack([sums, more.sums[:, again]]), np.concatenate([S, more.S[again]])
        totals = loss.totals[used]
        source = np.arange(len(totals))
        if loss.source is not None:
            source = np.unique(loss.source[used], return_inverse=True)[1]
        effects = components(totals[:, None] - sums[used], totals, source)
        first, scatter = float(np.exp(law.y_at(S[0]))), float(np.nan_to_num(loss.training_noise()[0]))
        return cls(totals, source, S, len(loss.S), law.alpha, first, *effects, scatter, among)

    @property
    def y(self):
        """The planted law, with its bend: float64 (C,)."""
        x = np.log(self.S / self.S[0])
        law, own = np.log(self.loss) - self.alpha * x, x[: self.models]
        if not self.bend:
            return law
        bow = x**2 - np.polyval(np.polyfit(own, own**2, 1), x)
        return law + self.bend * bow / np.sqrt((bow[: self.models] ** 2).sum() / (self.models - 2))

    @property
    def expected_misses(self):
        """Of the largest model, over the whole corpus."""
        return float(-np.expm1(-np.exp(self.y[: self.models].min())) * self.totals.sum())

    def draw(self, families, rng):
        """(misses int64 (F, D, C), y float64 (F, C)): drawn families, and what their trainings have on endless text."""
        D, C, sources = len(self.totals), len(self.S), self.source.max() + 1
        y = self.y + self.training_sd * rng.standard_normal((families, C))
        a = rng.standard_normal((families, sources, C)) @ _root(self.between)
        b = rng.standard_normal((families, D, C)) @ _root(self.within)
        eta = centre(y, np.diag(self.between + self.within))[:, None] + a[:, self.source] + b
        order = np.argsort(-eta, axis=-1)
        share = -np.expm1(-np.exp(np.take_along_axis(eta, order, axis=-1)))
        share[..., 1:] /= share[..., :-1].copy()
        chain, left = np.empty((families, D, C), np.int64), np.broadcast_to(self.totals, (families, D))
        for place in range(C):
            left = chain[..., place] = rng.binomial(left, share[..., place])
        misses = np.empty_like(chain)
        np.put_along_axis(misses, order, chain, axis=-1)
        return misses, y

    def losses(self, families, rng):
        """[(Loss with sources and repeats, y float64 (M,) of its models on endless text)] of drawn families."""
        misses, y = self.draw(families, rng)
        names = tuple(f"t{i}" for i in range(len(self.S)))
        every = Loss(np.empty((0, 0)), self.totals, self.S, k=1, family="drawn", models=names, source=self.source)
        found = []
        for missed, known in zip(misses, y, strict=True):
            again = replace(every, sums=self.totals[:, None] - missed)
            family = again.keep(np.arange(self.models))
            repeats = again.keep(np.arange(0 if self.among else self.models, len(self.S)))
            repeats = repeats if len(self.S) > self.models else None
            found.append((replace(family, repeats=repeats), known[: self.models]))
        return found


def measured_designs(curves, k):
    """{"like " + corpus: Design} of those of {corpus: Curve} in which three sizes have values at k that differ."""
    losses = {f"like {name}": curve.loss(k) for name, curve in curves.items() if k in curve.ks}
    fits = {n: not loss.equal and len(np.unique(loss.S[np.isfinite(loss.y)])) > 2 for n, loss in losses.items()}
    return {n: Design.of(loss) for n, loss in losses.items() if fits[n]}


def components(misses, totals, source):
    """(between, within): float64 (C, C) each, on the scale of log(-log(1 - p)), from misses int64 (D, C).

    With r = misses - share * tokens, the squares of the sources' sums of r less those of the documents hold `between`
    alone, and the documents' less those of nested tokens hold both; negative parts of an estimate are cut off.
    """
    T, share = totals.sum(), misses.sum(0) / totals.sum()
    rest = misses - totals[:, None] * share
    lengths, sums = sum_by_source(totals, source), sum_by_source(rest, source)
    documents, sources = (r.T @ r * len(r) / max(len(r) - 1, 1) for r in (rest, sums))
    tokens = T * (np.minimum.outer(share, share) - np.outer(share, share))
    spare = (lengths**2).sum() - (totals**2).sum()
    between = _positive((sources - documents) / spare) if spare else 0 * tokens
    within = _positive((documents - tokens) / max((totals**2).sum() - T, 1) - between)
    sd, y = np.sqrt(np.diag(between + within)), np.log(-np.log1p(-share))
    variance = np.full(len(share), 0.1)
    for _ in range(60):
        shares = _shares(centre(y, variance), variance)
        spread = np.sqrt(np.maximum(shares**2 @ WEIGHTS - (shares @ WEIGHTS) ** 2, 0))  # standard deviation
        variance *= np.maximum(sd, 1e-9) / np.maximum(spread, 1e-9)
    scale = np.sqrt(variance) / np.maximum(sd, 1e-9)
    return between * np.outer(scale, scale), within * np.outer(scale, scale)


def centre(y, variance):
    """mu at which shares of misses with log(-log(1 - p)) ~ N(mu, variance) have the mean 1 - exp(-exp(y)): as y."""
    mu = y
    for _ in range(60):
        last, mu = mu, mu + y - np.log(-np.log1p(-(_shares(mu, variance) @ WEIGHTS)))
        if np.array_equal(last, mu):
            break
    return mu


def _shares(mu, variance):
    return -np.expm1(-np.exp(mu[..., None] + np.sqrt(variance)[..., None] * NODES))


def _positive(matrix):
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.maximum(values, 0)) @ vectors.T


def _root(matrix):
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.sqrt(np.maximum(values, 0))).T
