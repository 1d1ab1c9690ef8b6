"""The histogram of ranks: what every fit starts from, with one bin per rank or in wide bins."""

from dataclasses import dataclass

import numpy as np

from rbplib.settings import InputError

DECADE = 0.1  # width in decades of the bins in which ranks are shown and misfits taken


def check_inside(ranks, V):
    if ranks.min() < 1 or ranks.max() > V:
        raise InputError(f"ranks run from {ranks.min()} to {ranks.max()}, outside 1 to {V}, the vocabulary size.")


@dataclass(frozen=True)
class RankHistogram:
    """Counts of ranks in bins low..high (inclusive), int64 (B,) each; count float64 (B,); ranks run to vocab_size.

    Raises:
        InputError: no counts, fewer than two ranks, or ranks beyond V.
    """

    low: np.ndarray
    high: np.ndarray
    count: np.ndarray
    vocab_size: int

    def __post_init__(self):
        if self.total <= 0:
            raise InputError("the rank histogram is empty: no token was counted.")
        if self.vocab_size < 2:
            raise InputError("a distribution of ranks needs a vocabulary of at least two tokens.")
        check_inside(np.append(self.low, self.high), self.vocab_size)

    @property
    def total(self):
        return float(self.count.sum())

    @property
    def single(self):
        """Whether every bin is one rank."""
        return bool((self.low == self.high).all())

    def wide(self):
        """(low, high, share of tokens) in bins about a tenth of a decade wide; bins that came wide stay as they are."""
        share = self.count / self.total
        if not self.single:
            return self.low, self.high, share
        low = np.unique(np.round(10 ** np.arange(0, np.log10(self.vocab_size), DECADE)).astype(np.int64))
        high = np.append(low[1:] - 1, self.vocab_size)
        return low, high, np.bincount(np.searchsorted(high, self.low), share, minlength=len(low))


def rank_histogram(ranks, vocab_size):
    """Histogram of raw ranks, integers (n,) in 1..V, one bin per distinct rank.

    Raises:
        InputError: no ranks, ranks that are not whole, or ranks outside the vocabulary.
    """
    ranks = np.asarray(ranks)
    if ranks.size and not np.issubdtype(ranks.dtype, np.integer):
        raise InputError("ranks must be whole numbers: use the 'greater+ties' or 'greater+1' definition.")
    return weighted_histogram(ranks, np.ones(ranks.shape), vocab_size)


def table_histogram(table):
    """Histogram of the ranks of a RankTable."""
    greater, ties, tokens = table.pairs
    return weighted_histogram(greater + ties, tokens, int(table.record["vocab_size"]))


def weighted_histogram(ranks, tokens, vocab_size):
    """Histogram of ranks (n,), each that of some number of tokens (n,)."""
    if ranks.size == 0:
        raise InputError("there are no ranks to count: the table holds no scored token.")
    check_inside(ranks, vocab_size)
    return as_histogram(np.bincount(ranks, tokens, minlength=vocab_size + 1)[1:])


def as_histogram(counts):
    """A RankHistogram as it is, or one of counts (V,) with counts[k-1] tokens of rank k."""
    if isinstance(counts, RankHistogram):
        return counts
    counts = np.asarray(counts, dtype=float)
    if counts.ndim != 1:
        raise InputError(f"a rank histogram has one count per rank: got an array of shape {counts.shape}.")
    if (counts < 0).any() or not np.isfinite(counts).all():
        raise InputError("a rank histogram must hold counts of at least 0.")
    seen = np.flatnonzero(counts) + 1
    return RankHistogram(low=seen, high=seen, count=counts[seen - 1], vocab_size=len(counts))
