"""Comparing rank laws: held-out score by documents, paired document bootstrap, Vuong's test with clustered variance.

Every law has the same support and is scored in nats per token. Derived in book/derivations/rank_laws.
"""

from dataclasses import dataclass

import numpy as np

from rbplib.distributions.candidates import FAMILIES
from rbplib.distributions.fit import fit_rank_law, rank_histogram
from rbplib.laws.bootstrap import resampled_sums
from rbplib.settings import InputError


@dataclass(frozen=True)
class HeldOut:
    """Held-out log score of families, summed per document. `scores` float64 (D, F), nats; `tokens` int64 (D,)."""

    families: tuple[str, ...]
    scores: np.ndarray
    tokens: np.ndarray
    folds: int
    seed: int

    @property
    def nll(self):
        """Held-out negative log score, nats per token, float64 (F,)."""
        return -self.scores.sum(0) / self.tokens.sum()


def cross_validate(ranks, documents, vocab_size, families=tuple(FAMILIES), folds=5, seed=42):
    """Score every family on documents it was not fitted to.

    Documents, not tokens, are dealt into folds: tokens of one document are alike, and a token's own document must not
    help to predict it.

    Args:
        ranks: int (n,). documents: int (n,), the document of each token.
        vocab_size: V. families: names. folds: at least 2. seed: int.
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
    scores = np.zeros((D, len(families)))
    first = [fit_rank_law(whole, f).values for f in families]  # only a starting point
    for held in range(folds):
        test = fold[document] == held
        train = rank_histogram(ranks[~test], vocab_size)
        for j, family in enumerate(families):
            fit = fit_rank_law(train, family, start=first[j])
            scores[:, j] += np.bincount(document[test], fit.log_score(ranks[test]), minlength=D)
    return HeldOut(tuple(families), scores, np.bincount(document, minlength=D), folds, seed)


@dataclass(frozen=True)
class Contest:
    """Families against the best of them. `loss` nats per token above the best, with a paired document interval."""

    best: str
    families: tuple[str, ...]  # best first
    nll: np.ndarray  # held out, nats per token
    loss: np.ndarray
    interval: np.ndarray  # float64 (2, F)
    level: float


def contest(held_out, n_bootstrap=10_000, seed=42, level=0.95):
    """Held-out differences to the best family, with intervals from resampled documents, the same for every family."""
    order = np.argsort(held_out.nll)
    scores = held_out.scores[:, order]
    values = np.column_stack([held_out.tokens.astype(float), scores[:, :1] - scores])
    sums = resampled_sums(values, n_bootstrap, seed)
    loss = sums[:, 1:] / sums[:, :1]
    tails = [(1 - level) / 2, (1 + level) / 2]
    names = tuple(held_out.families[i] for i in order)
    nll = held_out.nll[order]
    return Contest(names[0], names, nll, nll - nll[0], np.quantile(loss, tails, axis=0), level)


@dataclass(frozen=True)
class Vuong:
    """Vuong's test of two non-nested laws on the tokens they were fitted to; z > 0 favours the first."""

    first: str
    second: str
    mean: float  # log likelihood ratio, nats per token, less the difference of parameter counts over n
    z: float  # variance from the spread of document sums
    z_iid: float  # variance as if tokens were independent
    deff: float  # ratio of the two variances


def vuong(first, second, ranks, documents):
    """Vuong's statistic of two fitted laws, with the variance clustered by document.

    Args:
        first, second: RankLaw on the same vocabulary.
        ranks, documents: int (n,), the tokens both were fitted to.
    """
    ratio = first.log_score(ranks) - second.log_score(ranks)
    n = len(ratio)
    _, document = np.unique(documents, return_inverse=True)
    size = np.bincount(document)
    gap = np.bincount(document, ratio) - size * ratio.mean()
    D = len(size)
    clustered, iid = (gap**2).sum() * D / max(D - 1, 1), n * ratio.var()
    total = ratio.sum() - (len(first.values) - len(second.values))
    with np.errstate(divide="ignore", invalid="ignore"):
        z, z_iid = total / np.sqrt(clustered), total / np.sqrt(iid)
    return Vuong(first.family, second.family, total / n, float(z), float(z_iid), float(clustered / iid))
