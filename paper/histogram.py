"""The histogram of ranks: what every fit starts from, with one bin per rank or in wide bins."""

from dataclasses import dataclass

import numpy as np

from rbplib.families import InputError

DECADE = 0.1  # width in decades of the bins in which ranks are shown and misfits taken


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
            raise InputError("the rank histogram is empty: no scored token was counted.")
        if self.vocab_size < 2:
            raise InputError("a distribution of ranks needs a vocabulary of at least two tokens.")
        if (low := self.low.min()) < 1 or self.high.max() > self.vocab_size:
            raise InputError(f"ranks of {low} to {self.high.max()}, outside 1 to {self.vocab_size}, the vocabulary.")

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


def rank_histogram(ranks, vocab_size, tokens=None):
    """Histogram of ranks, integers (n,) in 1..V, each of one token or of some number (n,), one bin per distinct rank.

    Raises:
        InputError: no ranks, ranks that are not whole, or ranks outside the vocabulary.
    """
    ranks = np.asarray(ranks)
    if ranks.size and not np.issubdtype(ranks.dtype, np.integer):
        raise InputError("ranks must be whole numbers: use the 'greater+ties' or 'greater+1' definition.")
    counts = np.bincount(ranks - (least := ranks.min(initial=1)), tokens).astype(float)  # also of what is out of range
    seen = np.flatnonzero(counts)
    return RankHistogram(low=seen + least, high=seen + least, count=counts[seen], vocab_size=vocab_size)


def table_histogram(table):
    """Histogram of the ranks of a RankTable."""
    greater, ties, tokens = table.pairs
    return rank_histogram(greater + ties, int(table.record["vocab_size"]), tokens)


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
