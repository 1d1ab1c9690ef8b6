"""Comparing distributions: held-out score by sources of text, paired bootstrap of them, Vuong's test by source.

All have the same support and are scored in nats per token. Derived in book/derivations/rank_laws.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import entr

from paper.histogram import rank_histogram, table_histogram
from paper.rank_fit import fit_rank_law
from paper.rank_laws import CANDIDATES
from rbplib.bootstrap import resampled_sums
from rbplib.families import InputError

FOLDS = 5
SAME = 0.1  # nats over all tokens below which two fitted laws are one
NESTED = ("neither", "the first", "the second", "both: one law")


def scored_sources(table):
    """Number of sources of a RankTable that hold a scored token."""
    return len(np.unique(table.by_source[0]))


def cross_validate(table, candidates=tuple(CANDIDATES), seed=42):
    """Score every candidate on sources of a RankTable that it was not fitted to.

    Sources, not tokens, are dealt into FOLDS folds: tokens of one source are alike, and a token's own source must not
    help to predict it. Where documents have no source in common, each is its own.

    Returns:
        fits: {candidate: RankDistribution} on all tokens.
        scores: float64 (D, F), held-out log scores, nats, summed over each of the D sources that hold a token.
        tokens: int64 (D,).
    Raises:
        InputError: fewer sources than folds.
    """
    (source, ranks, tokens), V = table.by_source, int(table.record["vocab_size"])
    names, source = np.unique(source, return_inverse=True)
    if (D := len(names)) < FOLDS:
        raise InputError(f"documents of {D} source(s) cannot be dealt into {FOLDS} folds: use more text.")
    fold = np.random.default_rng(seed).permutation(D) % FOLDS
    scores = np.zeros((D, len(candidates)))
    whole = table_histogram(table)
    fits = {name: fit_rank_law(whole, name) for name in candidates}
    for held in range(FOLDS):
        test = fold[source] == held
        train = rank_histogram(ranks[~test], V, tokens[~test])
        for j, name in enumerate(candidates):
            fit = fit_rank_law(train, name, start=fits[name].values)  # only a starting point
            scores[:, j] += np.bincount(source[test], tokens[test] * fit.log_score(ranks[test]), minlength=D)
    return fits, scores, np.bincount(source, tokens).astype(np.int64)


@dataclass(frozen=True)
class Contest:
    """Candidates against the best of them. `loss`: nats per token above the best, its interval over paired sources."""

    candidates: tuple[str, ...]  # best first
    nll: np.ndarray  # held out, nats per token
    loss: np.ndarray
    interval: np.ndarray  # float64 (2, F)
    drawn: np.ndarray  # float64 (B, F), `loss` of the same resampled sources

    @property
    def best(self):
        return self.candidates[0]

    def place(self, candidate):
        """Where a candidate comes, 0 for the best."""
        return self.candidates.index(candidate)

    def lead(self, first, second):
        """95% interval of the nats per token by which the first is ahead of the second, over paired sources."""
        return np.quantile(self.drawn[:, self.place(second)] - self.drawn[:, self.place(first)], [0.025, 0.975])


def table_contest(table, candidates=tuple(CANDIDATES), n_bootstrap=10_000, seed=42):
    """(Contest, {candidate: RankDistribution}): held-out differences on one RankTable, and fits to all its tokens.

    The 95% intervals come from resampled sources, the same for all candidates.
    """
    fits, scores, tokens = cross_validate(table, candidates, seed)
    nll = -scores.sum(0) / tokens.sum()
    order = np.argsort(nll)
    scores, nll = scores[:, order], nll[order]
    sums = resampled_sums(np.column_stack([tokens.astype(float), scores[:, :1] - scores]), n_bootstrap, seed)
    drawn = sums[:, 1:] / sums[:, :1]
    ends = np.quantile(drawn, [0.025, 0.975], axis=0)
    names = tuple(candidates[i] for i in order)
    return Contest(candidates=names, nll=nll, loss=nll - nll[0], interval=ends, drawn=drawn), fits


@dataclass(frozen=True)
class Vuong:
    """Vuong's test of two distributions on the tokens they were fitted to; z > 0 favours the first; NaN if nested."""

    mean: float  # log likelihood ratio, nats per token, less the difference of parameter counts over n
    z: float  # variance from the spread of the sources' sums
    z_iid: float  # variance as if tokens were independent
    deff: float  # ratio of the two variances
    nested: str  # one of NESTED: which candidate contains the fitted law of the other


def contains(whole, part):
    """Whether one fit's candidate can imitate the other's fitted law to SAME nats over all tokens.

    It can where it has that law as a special case, inside, at an edge of its parameters or in the limit.
    """
    again = fit_rank_law(part.n_tokens * part.pmf, whole.name)
    return bool(part.n_tokens * (again.nll - entr(part.pmf).sum()) < SAME)


def vuong(first, second, table):
    """Vuong's statistic of two RankDistributions, with the variance clustered by source (label eq-vuong).

    It is for laws of which neither contains the other. Where one does, the likelihood ratio has no normal distribution
    (its variance vanishes where the two are one law), and there is no z: held-out scores compare those.

    table: the RankTable that both were fitted to.
    """
    nested = NESTED[2 * contains(second, first) + contains(first, second)]
    source, ranks, tokens = table.by_source
    ratio, n = first.log_score(ranks) - second.log_score(ranks), tokens.sum()
    mean, source = tokens @ ratio / n, np.unique(source, return_inverse=True)[1]
    gap = np.bincount(source, tokens * (ratio - mean))
    clustered, iid = (gap**2).sum() * len(gap) / max(len(gap) - 1, 1), tokens @ (ratio - mean) ** 2
    total = n * mean - (len(first.values) - len(second.values))
    with np.errstate(divide="ignore", invalid="ignore"):
        told = [float(x) for x in (total / np.sqrt(clustered), total / np.sqrt(iid), clustered / iid)]
    return Vuong(total / n, *(told if nested == NESTED[0] else [np.nan] * 3), nested)
