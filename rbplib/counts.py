"""What pages take from the ranks of one model on one corpus: counts without the order of tokens.

A rank table counts them (`Counting`); an imported file has them (`Counts`). Both answer the same questions with equal
numbers, so curves, laws, runs and distributions are made from either. D documents; the paper's rank is "greater+ties".
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rbplib.families import InputError, check_choice

DEFINITIONS = ("greater+ties", "greater+1", "random")
LONGEST = 60  # tokens between two hits whose dependence is looked at


def rank_of(greater, ties, definition="greater+ties"):
    """Rank from the candidates scored above and equal: int64, or float64 for "random", see RankTable.rank."""
    check_choice(definition, DEFINITIONS, "rank definition")
    greater, ties = np.asarray(greater, np.int64), np.asarray(ties, np.int64)
    if definition == "random":
        return greater + (ties + 1) / 2
    return greater + (ties if definition == "greater+ties" else 1)


def distinct(*columns, number=None):
    """The distinct rows of some integer columns (n,), sorted, and how often each is there: int64 (columns + 1, R).

    number: how often each row is meant, int (n,); once by default.
    """
    shape = [int(c.max(initial=0)) + 1 for c in columns]
    rows, place = np.unique(np.ravel_multi_index(columns, shape), return_inverse=True)
    return np.vstack([*np.unravel_index(rows, shape), np.bincount(place, number)]).astype(np.int64)


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
    """Counts of a rank table, added up over its `parts`: tables in memory, each of whole documents, in order."""

    def _distinct(self, columns):
        """`distinct` of what columns(part) gives, over all parts."""
        *rows, number = np.hstack([distinct(*columns(part)) for part in self.parts("greater", "ties")])
        return distinct(*rows, number=number)

    @cached_property
    def totals(self):
        """Scored tokens of each document, int64 (D,)."""
        found = np.zeros(self.documents, np.int64)
        for part in self.parts():
            np.add.at(found, part.document, 1)
        return found

    def hits(self, ks, definition="greater+ties"):
        """Tokens of each document with rank <= k, int64 (D, K). Cost: one sort-free histogram over (document, k)."""
        found = np.zeros((self.documents, len(ks) + 1), np.int64)
        for part in self.parts("greater", "ties"):
            column = np.searchsorted(ks, part.rank(definition), side="left")  # first k with rank <= k
            np.add.at(found.reshape(-1), part.document.astype(np.int64) * found.shape[1] + column, 1)
        return found[:, :-1].cumsum(1)

    @cached_property
    def nll(self):
        """Summed -logprob of each document in nats, float64 (D,)."""
        found = np.zeros(self.documents)
        for part in self.parts("logprob"):
            np.add.at(found, part.document, -part.logprob.astype(float))
        return found

    def rank_sums(self):
        """Sums over each document, float64 (2, D): of -log p(R), p from all tokens, with the correction of the entropy
        for their number, and of ln R."""
        greater, ties, tokens = self.pairs
        _, correction, log_p = rank_entropy(ranks := rank_of(greater, ties), tokens)
        of_rank, found = np.zeros(ranks.max(initial=0) + 1), np.zeros((2, self.documents))
        of_rank[ranks] = correction - log_p
        for part in self.parts("greater", "ties"):
            np.add.at(found[0], part.document, of_rank[rank := part.rank()])
            np.add.at(found[1], part.document, np.log(rank))
        return found

    @cached_property
    def pairs(self):
        """Distinct (greater, ties) of the whole corpus and their tokens, int64 (3, R)."""
        return self._distinct(lambda part: (part.greater, part.ties))

    @cached_property
    def by_source(self):
        """Distinct (source, rank) and their tokens, int64 (3, R)."""
        source = self.source
        return self._distinct(lambda part: (source[part.document], part.rank()))

    @cached_property
    def scored(self):
        """Distinct (document, length) of the runs of scored tokens without a gap, and their number, int64 (3, R)."""
        return np.hstack([part.runs_of(np.ones(len(part), bool)) for part in self.parts("position")])

    def runs(self, k):
        """The same of the runs of hits, each as long as it is."""
        return np.hstack([part.runs_of(part.rank() <= k) for part in self.parts("position", "greater", "ties")])

    def lagged(self, k):
        """Pairs of tokens of a run at lag 1, 2, ..., int64 (4, L): all, with a hit at the later, the earlier, at both.

        The lags end at half the median run, at most LONGEST. Cost: one pass over the table per lag.
        """
        middle = np.median(np.repeat(*self.scored[1:]))
        found = np.zeros((max(2, min(LONGEST, int(middle) // 2)), 4), np.int64)
        for part in self.parts("position", "greater", "ties"):
            hits, run = part.rank() <= k, np.cumsum(~part.joined)
            for lag, counts in enumerate(found, start=1):
                same = run[lag:] == run[:-lag]
                late, early = hits[lag:][same], hits[:-lag][same]
                counts += [same.sum(), late.sum(), early.sum(), (late & early).sum()]
        return found.T


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

    def rank_sums(self):
        return self.sums[1:]

    def hits(self, ks, definition="greater+ties"):
        if check_choice(definition, DEFINITIONS, "rank definition") != DEFINITIONS[0]:
            raise InputError(f"{self._said}, documents are counted by the paper's rank alone, {DEFINITIONS[0]!r}.")
        return self.cells.cumsum(axis=0)[self._kept(ks, self.ks)].T

    def runs(self, k):
        self._kept([k], self.lags[0], "runs of hits")
        return self.hit_runs[1:, self.hit_runs[0] == k]

    def lagged(self, k):
        return self.lags[2:, self._kept([k], self.lags[0], "runs of hits")]

    @property
    def _said(self):
        return f"Of {self.record['family']} on {self.record['corpus']}, which is imported"

    def _kept(self, ks, known, what="hits"):
        """Where those ks are among the known, int64; refused where they are not."""
        if lacking := sorted(set(map(int, ks)) - set(known.tolist())):
            raise InputError(f"{self._said}, {what} at k = {lacking[0]} are not known: export with --k {lacking[0]}.")
        return np.flatnonzero(np.isin(known, ks))
