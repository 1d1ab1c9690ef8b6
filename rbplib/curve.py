"""Rank tables to curves: integer hits per document first, ratios last.

RBP_k = Pr(R <= k) (paper Eq. 4) is a ratio of sums over documents, so shards and bootstrap resamples add up exactly.
"""

from dataclasses import dataclass, replace

import numpy as np

from rbplib.families import InputError, load_family
from rbplib.losses import Loss, mean, measured_on
from rbplib.table import asked, by_size, family_tables, measured, tables_here

KS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


@dataclass(frozen=True)
class Curve:
    """Counts of one family on one corpus, every model on the same tokens.

    models (M,), S float64 (M,) ascending; ks int64 (K,); hits int64 (D, M, K): tokens of a document with rank <= k;
    totals int64 (D,): scored tokens; nll float64 (D, M): summed -logprob in nats; source int64 (D,): documents of one
    number were drawn as one. `missing` names the family's models that had no table. `repeats`: Curve of models trained
    again with other seeds, see `with_repeats`.
    """

    family: str
    corpus: str
    protocol: str
    models: tuple[str, ...]
    S: np.ndarray
    vocab_size: int
    ks: np.ndarray
    hits: np.ndarray
    totals: np.ndarray
    nll: np.ndarray
    source: np.ndarray | None = None
    definition: str = "greater+ties"
    missing: tuple[str, ...] = ()
    repeats: "Curve | None" = None

    @property
    def scored_tokens(self):
        return int(self.totals.sum())

    @property
    def rbp(self):
        """RBP_k, float64 (M, K)."""
        return self.hits.sum(0) / self.totals.sum()

    @property
    def misses(self):
        """Tokens ranked above k, int64 (M, K)."""
        return self.totals.sum() - self.hits.sum(0)

    @property
    def cross_entropy(self):
        """Mean negative log-probability, nats per token, float64 (M,)."""
        return self.nll.sum(0) / self.totals.sum()

    def index(self, k):
        """Column of `k` in the arrays."""
        where = np.flatnonzero(self.ks == k)
        if not len(where):
            raise InputError(f"k = {k} was not counted for {self.family} on {self.corpus}: add it to ks.")
        return int(where[0])

    def keep(self, models):
        """The same curve for some of its models, by name or index."""
        where = [self.models.index(m) if isinstance(m, str) else m for m in models]
        return replace(
            self,
            models=tuple(self.models[i] for i in where),
            S=self.S[where],
            hits=self.hits[:, where],
            nll=self.nll[:, where],
        )

    def loss(self, k):
        """-log RBP_k of every model, as what a law is fitted to."""
        return self._loss(sums=self.hits[:, :, self.index(k)], k=int(k), name=f"-log RBP_{k}")

    def cross_entropy_loss(self):
        """Cross-entropy of every model, as what a law is fitted to."""
        return self._loss(sums=self.nll, of=mean, name="cross-entropy")

    def _loss(self, **own):
        names = ("totals", "S", "source", "family", "corpus", "protocol", "definition", "models", "missing")
        again = None
        if self.repeats is not None:
            again = self.repeats.loss(own["k"]) if "k" in own else self.repeats.cross_entropy_loss()
        return Loss(**own, **{name: getattr(self, name) for name in names}, repeats=again)


def k_grid(vocab_size, per_decade=8):
    """Whole numbers from 1 to V, about evenly spaced in log k; 1, 10, 50, 100 and 1000 are always among them."""
    grid = np.geomspace(1, vocab_size, 1 + round(per_decade * np.log10(vocab_size)))
    return sorted({int(k) for k in grid.round()} | {k for k in (1, 10, 50, 100, 1000) if k <= vocab_size})


def check_ks(ks, vocab_size, where=""):
    """ks as a sorted int64 array; each from 1 to the vocabulary size."""
    ks = np.unique(np.atleast_1d(np.asarray(ks)))
    if ks.size == 0 or not np.issubdtype(ks.dtype, np.number) or not np.all(ks == np.floor(ks)):
        raise InputError("k must be a whole number, or a list of them.")
    for k in ks:
        if k < 1 or k > vocab_size:
            raise InputError(f"k = {k:g} is outside 1 to {vocab_size}, the vocabulary size{where}: choose k inside it.")
    return ks.astype(np.int64)


def same_tokens(tables):
    """Refuse tables that do not hold the same (document, position, token) rows: pairing would be false."""
    first = tables[0]
    for t in tables[1:]:
        if (t.text, t.documents) != (first.text, first.documents):
            raise InputError(
                f"{t.record.get('model')} and {first.record.get('model')} were not measured on the same tokens of "
                f"{first.record.get('corpus')}: measure them again with one tokenizer, window and sample."
            )


def rbp_curve(tables, ks, definition="greater+ties", missing=()):
    """Curve of one family on one corpus from its rank tables.

    Args:
        tables: RankTables of the models of one family on one corpus, any order.
        ks: values of k, each in [1, V].
        definition: of the rank, see ranks.table.RankTable.rank; the paper's is "greater+ties".
    Raises:
        InputError: no table, a k outside the vocabulary, different tokens, or a model given twice.
    """
    tables = by_size([tables] if hasattr(tables, "record") else tables)
    if not tables:
        raise InputError("no rank table was given: run `rbp measure` for the family first.")
    shared, vocab = measured_on(tables), min(int(t.record["vocab_size"]) for t in tables)
    if twice := sorted({n for n in shared["models"] if shared["models"].count(n) > 1}):
        raise InputError(f"the model {twice[0]!r} was given twice: give each model's table once.")
    ks = check_ks(ks, vocab, f" of {shared['family']}")
    same_tokens(tables)
    if len(tables[0]) == 0:
        raise InputError(f"no token of {shared['corpus']} was scored: its documents are empty or too short.")
    hits = np.empty((tables[0].documents, len(tables), len(ks)), np.int64)
    for m, table in enumerate(tables):
        hits[:, m] = table.hits(ks, definition)
    return Curve(
        vocab_size=vocab,
        ks=ks,
        hits=hits,
        totals=tables[0].totals.astype(np.int64),
        nll=np.stack([t.nll for t in tables], axis=1),
        definition=definition,
        missing=tuple(missing),
        **shared,
    )


def rbp_curves(tables, ks=KS):
    """{corpus: Curve} from {corpus: rank tables} of one family (`ranks.table.measured`).

    Args:
        ks: each in [1, V]; empty: a grid over the whole vocabulary, see k_grid.
    """
    return {
        corpus: rbp_curve(found, list(ks) or k_grid(min(int(t.record["vocab_size"]) for t in found)))
        for corpus, found in tables.items()
    }


def repeated(family, corpora=None, protocol="paper"):
    """{corpus: rank tables of the models that tell how trainings of one size differ}; arguments as of `measured`.

    Empty where the family's file names no `repeats`.
    """
    family, _, corpora = asked(family, None, corpora, protocol)
    return measured(load_family(family.repeats), corpora, protocol) if family.repeats else {}


def with_repeats(curves, family, corpora=None, protocol="paper"):
    """The same curves with those of the models beside that tell how trainings of one size differ.

    Args:
        curves: {corpus: Curve} of a family on corpora. family, corpora, protocol: as given to `measured`.
    Returns:
        {corpus: Curve}; as it was where the family's file names no `repeats`, or they cannot count those k.
    """
    again = repeated(family, corpora, protocol)
    return {name: beside(curve, again.get(name)) for name, curve in curves.items()}


def beside(curve, tables):
    """A curve with the rank tables of its repeats counted; as it was without any, or where they cannot count its k."""
    if not tables or curve.ks.max() > int(tables[0].record["vocab_size"]):
        return curve
    return replace(curve, repeats=rbp_curve(tables, curve.ks, curve.definition))


def family_curve(family, corpus, ks, protocol="paper", results=None, partial=False):
    """Read a family's rank tables on one corpus, and its repeats' where there are any, and count. See rbp_curve."""
    tables, missing = family_tables(family, corpus, protocol, results, partial)
    return own_repeats(rbp_curve(tables, ks, missing=missing), family, corpus, protocol, results)


def own_repeats(curve, family, corpus, protocol="paper", results=None):
    """A curve with the repeats that its family's file names beside it, where they were measured."""
    repeats = load_family(family).repeats
    again = tables_here(*asked(repeats, None, [corpus], protocol), protocol, results)[0] if repeats else []
    return beside(curve, again)


def sequence_success(table, k, N):
    """Runs of N consecutive scored tokens that are all hits (paper Eq. 7): windows never bridge a gap or a document.

    Args:
        table: RankTable. k: int in [1, V]. N: int or list of ints, each at least 1.
    Returns:
        (successes, windows): int64 (D, len(N)) each, or (D,) for one N; p_{N,k} is the ratio of their sums.
    Raises:
        InputError: N below 1, or longer than every run of scored tokens.
    Cost: one pass over the table, then one over its runs per N.
    """
    check_ks([k], int(table.record["vocab_size"]))
    lengths = np.atleast_1d(np.asarray(N))
    if not np.issubdtype(lengths.dtype, np.integer) or (lengths < 1).any():
        raise InputError(f"N must be a whole number of at least 1, got {N}.")
    if lengths.max(initial=1) > (longest := longest_run(table)):
        raise InputError(f"N = {lengths.max()} is longer than any document's run of scored tokens ({longest}).")
    success, windows = (
        np.stack([table.inside(runs, length) for length in lengths], axis=1) for runs in (table.runs(k), table.scored)
    )
    return (success, windows) if np.ndim(N) else (success[:, 0], windows[:, 0])


def longest_run(table):
    """Most scored tokens in a row without a gap in positions: the largest N that can be counted."""
    return int(table.scored[1].max(initial=0))
