"""What pages take from the ranks of one model on one corpus: counts without the order of tokens.

A rank table counts them (`Counting`); an imported file has them (`Counts`). Both answer the same questions with equal
numbers, so curves, laws, runs and distributions are made from either.
"""

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rbplib.settings import InputError, check_choice

DEFINITIONS = ("greater+ties", "greater+1", "random")
LONGEST = 60  # tokens between two hits whose dependence is looked at


def rank_of(greater, ties, definition="greater+ties"):
    """Rank from the candidates scored above and equal: int64, or float64 for "random", see RankTable.rank."""
    check_choice(definition, DEFINITIONS, "rank definition")
    greater, ties = np.asarray(greater, np.int64), np.asarray(ties, np.int64)
    if definition == "random":
        return greater + (ties + 1) / 2
    return greater + (ties if definition == "greater+ties" else 1)


def distinct(*columns):
    """The distinct rows of some integer columns, sorted, and how often each is there: int64 (columns + 1, R)."""
    order = np.lexsort(columns[::-1])
    rows = np.stack([np.asarray(c, np.int64)[order] for c in columns])
    first = np.flatnonzero(np.any(rows[:, 1:] != rows[:, :-1], axis=0)) + 1
    starts = np.concatenate([[0], first]) if rows.shape[1] else first
    return np.vstack([rows[:, starts], np.diff(np.append(starts, rows.shape[1]))])


def rank_entropy(ranks):
    """(entropy of the ranks in nats with the Miller-Madow correction, the correction, log p of each token (n,))."""
    ranks = np.asarray(ranks)
    counts = np.bincount(ranks)
    seen = counts[counts > 0]
    share = seen / len(ranks)
    correction = (len(seen) - 1) / (2 * len(ranks))
    return -(share @ np.log(share)) + correction, correction, np.log(counts[ranks] / len(ranks))


class OfDocuments:
    """What the record of a measurement says of its documents."""

    @property
    def source(self):
        """Number of the source of each document of the sample, int64 (documents,): documents of one number were drawn
        as one. Every document is its own where the record names none."""
        if units := self.record.get("units"):
            return np.unique(np.asarray(units[: self.documents]), return_inverse=True)[1]
        return np.arange(self.documents)

    @property
    def documents(self):
        """Number of documents in the sample, also those without a scored token."""
        return int(self.record["documents"])


class Counting(OfDocuments):
    """Counts of a rank table; D documents. All are exact, and none depends on the order of the rows within a document
    but `runs`, `scored` and `lagged`, which need their positions."""

    imported = False

    @cached_property
    def documents(self):
        return int(self.record.get("documents", self.document.max(initial=-1) + 1))

    @cached_property
    def text(self):
        """SHA-256 of which tokens were scored: equal for models on the same tokens."""
        columns = (self.document, self.position, self.token)
        return hashlib.sha256(b"".join(np.asarray(c, "<i4").tobytes() for c in columns)).hexdigest()

    @cached_property
    def totals(self):
        """Scored tokens of each document, int64 (D,)."""
        return np.bincount(self.document, minlength=self.documents)

    def hits(self, ks, definition="greater+ties"):
        """Tokens of each document with rank <= k, int64 (D, K). Cost: one sort-free histogram over (document, k)."""
        column = np.searchsorted(ks, self.rank(definition), side="left")  # first k with rank <= k
        shape = self.documents, len(ks) + 1
        flat = np.bincount(self.document.astype(np.int64) * shape[1] + column, minlength=shape[0] * shape[1])
        return flat.reshape(shape)[:, :-1].cumsum(1)

    @cached_property
    def nll(self):
        """Summed -logprob of each document in nats, float64 (D,)."""
        return np.bincount(self.document, -self.logprob.astype(float), minlength=self.documents)

    def rank_sums(self, definition="greater+ties"):
        """Sums over each document, float64 (2, D): of -log p(R) with p from all tokens and the entropy's correction for
        their number, and of ln R."""
        rank = self.rank(definition)
        _, correction, log_p = rank_entropy(rank)
        return np.stack([np.bincount(self.document, x, self.documents) for x in (correction - log_p, np.log(rank))])

    @cached_property
    def pairs(self):
        """Distinct (greater, ties) of the whole corpus and their tokens, int64 (3, R)."""
        return distinct(self.greater, self.ties)

    @cached_property
    def by_source(self):
        """Distinct (source, rank) by the paper's definition and their tokens, int64 (3, R)."""
        return distinct(self.source[self.document], self.rank())

    @cached_property
    def _joined(self):
        """Whether a row continues the one before: the same document, the next position."""
        joined = (np.diff(self.document) == 0) & (np.diff(self.position) == 1)
        return np.concatenate([[False], joined])[: len(self)]

    def _runs_of(self, hits):
        starts = hits.copy()
        starts[1:] &= ~(hits[:-1] & self._joined[1:])
        return distinct(self.document[starts], np.bincount(starts.cumsum()[hits] - 1, minlength=int(starts.sum())))

    @cached_property
    def scored(self):
        """Distinct (document, length) of the runs of scored tokens without a gap, and their number, int64 (3, R)."""
        return self._runs_of(np.ones(len(self), bool))

    def runs(self, k, definition="greater+ties"):
        """The same of the longest runs of hits: whole, neither end next to another hit."""
        return self._runs_of(self.rank(definition) <= k)

    def lagged(self, k, definition="greater+ties"):
        """Pairs of tokens of one run at lag 1, 2, ..., int64 (L, 4): pairs, hits at the later, at the earlier, at both.

        The lags end at half the median run, at most LONGEST. Cost: one pass over the table per lag.
        """
        hits, run = self.rank(definition) <= k, np.cumsum(~self._joined)
        middle = np.median(np.repeat(*self.scored[1:])) if len(self) else 0
        found = []
        for lag in range(1, max(2, min(LONGEST, int(middle) // 2)) + 1):
            same = run[lag:] == run[:-lag]
            late, early = hits[lag:][same], hits[:-lag][same]
            found.append([same.sum(), late.sum(), early.sum(), (late & early).sum()])
        return np.array(found, np.int64)


@dataclass(frozen=True)
class Counts(OfDocuments):
    """The counts of one model on one corpus as a file holds them; each method as that of `Counting`.

    arrays: ks (K,); cells (K + 1, D), tokens of each document between neighbouring ks; sums float64 (3, D), nll and
    rank_sums; pairs (3, R); by_source (3, R), empty where only the largest model has it; scored (3, R); runs (4, R) and
    lagged (6, R), each with its k first (and, of lagged, the lag). All but sums are integers.
    """

    record: dict
    arrays: dict
    imported = True

    def __len__(self):
        return int(self.totals.sum())

    @property
    def text(self):
        return self.record["text"]

    @cached_property
    def totals(self):
        return self.arrays["cells"].sum(0, dtype=np.int64)

    @property
    def nll(self):
        return self.arrays["sums"][0]

    def rank_sums(self, definition="greater+ties"):
        self._paper(definition)
        return self.arrays["sums"][1:]

    @property
    def pairs(self):
        return self.arrays["pairs"].astype(np.int64)

    @property
    def scored(self):
        return self.arrays["scored"].astype(np.int64)

    @property
    def by_source(self):
        if not self.arrays["by_source"].shape[1]:
            raise InputError(f"{self._name} holds the ranks of each source for the largest model alone.")
        return self.arrays["by_source"].astype(np.int64)

    def hits(self, ks, definition="greater+ties"):
        self._paper(definition)
        where = [self._counted(k, "cells", self.arrays["ks"]) for k in ks]
        return self.arrays["cells"].cumsum(0, dtype=np.int64)[where].T

    def runs(self, k, definition="greater+ties"):
        self._paper(definition)
        return self._of(k, "runs")[1:]

    def lagged(self, k, definition="greater+ties"):
        self._paper(definition)
        return self._of(k, "lagged")[2:].T

    @property
    def _name(self):
        return f"what was imported of {self.record['model']} on {self.record['corpus']}"

    def _paper(self, definition):
        if check_choice(definition, DEFINITIONS, "rank definition") != DEFINITIONS[0]:
            raise InputError(f"{self._name} counts documents by the paper's rank, {DEFINITIONS[0]}, alone.")

    def _counted(self, k, what, ks):
        where = np.flatnonzero(ks == k)
        if not len(where):
            known = ", ".join(map(str, ks if len(ks) < 20 else [*ks[:3], "...", *ks[-3:]]))
            raise InputError(f"{self._name} has no {what} at k = {k}, only at {known}: export it again with --k {k}.")
        return int(where[0])

    def _of(self, k, what):
        rows = self.arrays[what].astype(np.int64)
        self._counted(k, what, np.unique(rows[0]))
        return rows[:, rows[0] == k]
