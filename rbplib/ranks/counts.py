"""What pages take from the ranks of one model on one corpus: counts without the order of tokens.

A rank table counts them (`Counting`); an imported file has them (`Counts`). Both answer the same questions with equal
numbers, so curves, laws, runs and distributions are made from either. D documents; the paper's rank is "greater+ties".
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
    """The distinct rows of some integer columns (n,), sorted, and how often each is there: int64 (columns + 1, R)."""
    rows = np.stack([np.asarray(c, np.int64) for c in columns])[:, np.lexsort(columns[::-1])]
    starts = np.flatnonzero(np.append(np.ones(len(rows.T[:1]), bool), (rows[:, 1:] != rows[:, :-1]).any(axis=0)))
    return np.vstack([rows[:, starts], np.diff(np.append(starts, rows.shape[1]))])


def rank_entropy(ranks, tokens=None):
    """(entropy of ranks (n,) in nats with the Miller-Madow correction, the correction, log p of each (n,)).

    tokens: how many have each rank, int (n,); one each by default.
    """
    counts = np.bincount(ranks, tokens)
    seen, n = counts[counts > 0], counts.sum()
    correction = (len(seen) - 1) / (2 * n)
    return -(seen / n @ np.log(seen / n)) + correction, correction, np.log(counts[ranks] / n)


class Documents:
    """What counts of either kind say of the documents."""

    @property
    def documents(self):
        """Number of documents in the sample, also those without a scored token."""
        return int(self.record["documents"]) if "documents" in self.record else self.document.max(initial=-1) + 1

    @property
    def source(self):
        """Number of the source of each document of the sample, int64 (D,): documents of one number were drawn as one.
        Every document is its own where the record names none."""
        if units := self.record.get("units"):
            return np.unique(np.asarray(units[: self.documents]), return_inverse=True)[1]
        return np.arange(self.documents)

    def inside(self, runs, N):
        """Windows of N tokens inside runs, int64 (D,). runs: (document, length, number), int (3, R)."""
        document, length, number = runs
        return np.bincount(document, number * np.maximum(length - N + 1, 0), self.documents).astype(np.int64)


class Counting(Documents):
    """Counts of a rank table."""

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
        return np.bincount(self.document, -self.logprob.astype(float), self.documents)

    def rank_sums(self, definition="greater+ties"):
        """Sums over each document, float64 (2, D): of -log p(R), p from all tokens, with the correction of the entropy
        for their number, and of ln R."""
        _, correction, log_p = rank_entropy(rank := self.rank(definition))
        return np.stack([np.bincount(self.document, x, self.documents) for x in (correction - log_p, np.log(rank))])

    @cached_property
    def pairs(self):
        """Distinct (greater, ties) of the whole corpus and their tokens, int64 (3, R)."""
        return distinct(self.greater, self.ties)

    @cached_property
    def by_source(self):
        """Distinct (source, rank) and their tokens, int64 (3, R)."""
        return distinct(self.source[self.document], self.rank())

    @cached_property
    def _joined(self):
        """Whether a row continues the one before: the same document, the next position; bool (n,)."""
        joined = (np.diff(self.document) == 0) & (np.diff(self.position) == 1)
        return np.append(np.zeros(len(self) - len(joined), bool), joined)

    def _runs_of(self, hits):
        starts = hits & ~(np.append(False, hits[:-1])[: len(self)] & self._joined)
        return distinct(self.document[starts], np.bincount(starts.cumsum()[hits] - 1, minlength=starts.sum()))

    @cached_property
    def scored(self):
        """Distinct (document, length) of the runs of scored tokens without a gap, and their number, int64 (3, R)."""
        return self._runs_of(np.ones(len(self), bool))

    def runs(self, k, definition="greater+ties"):
        """The same of the runs of hits, each as long as it is."""
        return self._runs_of(self.rank(definition) <= k)

    def lagged(self, k, definition="greater+ties"):
        """Pairs of tokens of a run at lag 1, 2, ..., int64 (4, L): all, with a hit at the later, the earlier, at both.

        The lags end at half the median run, at most LONGEST. Cost: one pass over the table per lag.
        """
        hits, run = self.rank(definition) <= k, np.cumsum(~self._joined)
        middle, found = np.median(np.repeat(*self.scored[1:])), []
        for lag in range(1, max(2, min(LONGEST, int(middle) // 2)) + 1):
            same = run[lag:] == run[:-lag]
            late, early = hits[lag:][same], hits[:-lag][same]
            found.append([same.sum(), late.sum(), early.sum(), (late & early).sum()])
        return np.array(found, np.int64).T


@dataclass(frozen=True)
class Counts(Documents):
    """The counts of one model on one corpus from a file, int64 all but the float64 `sums`; as `Counting` gives them.

    ks (K,); cells (K + 1, D): tokens of each document with ranks between neighbouring ks; sums (3, D): nll and
    rank_sums; pairs and scored (3, R); sourced (3, R): `by_source`, empty but for the largest model; hit_runs (4, R):
    `runs` under their k; lags (6, R): `lagged` under k and lag.
    """

    record: dict
    ks: np.ndarray
    cells: np.ndarray
    sums: np.ndarray
    pairs: np.ndarray
    scored: np.ndarray
    sourced: np.ndarray
    hit_runs: np.ndarray
    lags: np.ndarray

    def __len__(self):
        return int(self.cells.sum())

    text = property(lambda self: self.record["text"])
    totals = property(lambda self: self.cells.sum(axis=0))
    nll = property(lambda self: self.sums[0])

    @property
    def by_source(self):
        if not self.sourced.size:
            raise InputError(f"{self._said}, ranks by source are known of the largest model alone.")
        return self.sourced

    def rank_sums(self, definition="greater+ties"):
        self._kept([], self.ks, definition)
        return self.sums[1:]

    def hits(self, ks, definition="greater+ties"):
        return self.cells.cumsum(axis=0)[self._kept(ks, self.ks, definition)].T

    def runs(self, k, definition="greater+ties"):
        self._kept([k], self.lags[0], definition, "runs of hits")
        return self.hit_runs[1:, self.hit_runs[0] == k]

    def lagged(self, k, definition="greater+ties"):
        return self.lags[2:, self._kept([k], self.lags[0], definition, "runs of hits")]

    @property
    def _said(self):
        return f"Of {self.record['family']} on {self.record['corpus']}, which is imported"

    def _kept(self, ks, known, definition, what="hits"):
        """Where those ks are among the known, int64; refused where they are not."""
        if check_choice(definition, DEFINITIONS, "rank definition") != DEFINITIONS[0]:
            raise InputError(f"{self._said}, documents are counted by the paper's rank alone, {DEFINITIONS[0]!r}.")
        if lacking := sorted(set(map(int, ks)) - set(known.tolist())):
            raise InputError(f"{self._said}, {what} at k = {lacking[0]} are not known: export with --k {lacking[0]}.")
        return np.flatnonzero(np.isin(known, ks))
