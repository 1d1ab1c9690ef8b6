"""Comparing distributions: held-out score by documents, paired document bootstrap, Vuong's test by document.

All have the same support and are scored in nats per token. Derived in book/derivations/rank_laws.
"""

from dataclasses import dataclass

import numpy as np

from rbplib.distributions.candidates import CANDIDATES
from rbplib.distributions.fit import fit_rank_law
from rbplib.distributions.histogram import rank_histogram
from rbplib.laws.bootstrap import resampled_sums
from rbplib.settings import InputError


@dataclass(frozen=True)
class HeldOut:
    """Held-out log score of candidates, summed per document, and their fits to all tokens."""

    fits: dict  # {candidate: RankDistribution}
    scores: np.ndarray  # float64 (D, F), nats
    tokens: np.ndarray  # int64 (D,)

    @property
    def nll(self):
        """Held-out negative log score, nats per token, float64 (F,)."""
        return -self.scores.sum(0) / self.tokens.sum()


def cross_validate(ranks, documents, vocab_size, candidates=tuple(CANDIDATES), folds=5, seed=42):
    """Score every candidate on documents it was not fitted to.

    Documents, not tokens, are dealt into folds: tokens of one document are alike, and a token's own document must not
    help to predict it.

    Args:
        ranks: int (n,). documents: int (n,), the document of each token.
        vocab_size: V. candidates: names. folds: at least 2. seed: int.
    Returns:
        HeldOut, over the documents that hold a token.
    Raises:
        InputError: fewer documents than folds.
    """
    names, document = np.unique(documents, return_inverse=True)
    if len(names) < folds or folds < 2:
        raise InputError(
            f"{len(names)} documents cannot be dealt into {folds} folds: use fewer folds or more documents."
        )
    ranks, D = np.asarray(ranks), len(names)
    whole = rank_histogram(ranks, vocab_size)
    fold = np.random.default_rng(seed).permutation(D) % folds
    scores = np.zeros((D, len(candidates)))
    fits = {name: fit_rank_law(whole, name) for name in candidates}
    for held in range(folds):
        test = fold[document] == held
        train = rank_histogram(ranks[~test], vocab_size)
        for j, name in enumerate(candidates):
            fit = fit_rank_law(train, name, start=fits[name].values)  # only a starting point
            scores[:, j] += np.bincount(document[test], fit.log_score(ranks[test]), minlength=D)
    return HeldOut(fits=fits, scores=scores, tokens=np.bincount(document, minlength=D))


@dataclass(frozen=True)
class Contest:
    """Candidates against the best of them. `loss` nats per token above the best, with a paired document interval."""

    candidates: tuple[str, ...]  # best first
    nll: np.ndarray  # held out, nats per token
    loss: np.ndarray
    interval: np.ndarray  # float64 (2, F)

    @property
    def best(self):
        return self.candidates[0]

    def place(self, candidate):
        """Where a candidate comes, 0 for the best."""
        return self.candidates.index(candidate)


def contest(held_out, n_bootstrap=10_000, seed=42, level=0.95):
    """Held-out differences to the best candidate, with intervals from resampled documents, the same for all."""
    order = np.argsort(held_out.nll)
    scores, nll = held_out.scores[:, order], held_out.nll[order]
    sums = resampled_sums(np.column_stack([held_out.tokens.astype(float), scores[:, :1] - scores]), n_bootstrap, seed)
    ends = np.quantile(sums[:, 1:] / sums[:, :1], [(1 - level) / 2, (1 + level) / 2], axis=0)
    names = tuple(held_out.fits)
    return Contest(candidates=tuple(names[i] for i in order), nll=nll, loss=nll - nll[0], interval=ends)


def table_contest(table, candidates=tuple(CANDIDATES), folds=5, n_bootstrap=10_000, seed=42):
    """(Contest, {candidate: RankDistribution}) on one RankTable: held-out comparison, and fits to all its tokens."""
    held = cross_validate(table.rank(), table.document, int(table.record["vocab_size"]), candidates, folds, seed)
    return contest(held, n_bootstrap, seed), held.fits


@dataclass(frozen=True)
class Vuong:
    """Vuong's test of two non-nested distributions on the tokens they were fitted to; z > 0 favours the first."""

    mean: float  # log likelihood ratio, nats per token, less the difference of parameter counts over n
    z: float  # variance from the spread of document sums
    z_iid: float  # variance as if tokens were independent
    deff: float  # ratio of the two variances


def vuong(first, second, ranks, documents):
    """Vuong's statistic of two RankDistributions, with the variance clustered by document (label eq-vuong).

    Args:
        first, second: RankDistribution on the same vocabulary.
        ranks, documents: int (n,), the tokens both were fitted to.
    """
    ratio = first.log_score(ranks) - second.log_score(ranks)
    _, document = np.unique(documents, return_inverse=True)
    size = np.bincount(document)
    gap, D = np.bincount(document, ratio) - size * ratio.mean(), len(size)
    clustered, iid = (gap**2).sum() * D / max(D - 1, 1), len(ratio) * ratio.var()
    total = ratio.sum() - (len(first.values) - len(second.values))
    with np.errstate(divide="ignore", invalid="ignore"):
        z, z_iid = (float(total / np.sqrt(variance)) for variance in (clustered, iid))
        return Vuong(mean=total / len(ratio), z=z, z_iid=z_iid, deff=float(clustered / iid))
