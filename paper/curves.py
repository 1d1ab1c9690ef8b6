"""Rank tables to curves: what pages count at many k at once, and the losses that they compare.

RBP_k = Pr(R <= k) (paper Eq. 4) is a ratio of sums over documents, so shards and bootstrap
resamples add up exactly. The paper's appendix calls the entropy of the rank distribution
cross-entropy. They are different numbers, CE = H(R) - I(R; X) + E KL, and `family_losses` measures
both (label eq-ce-identity, book/derivations/entropy).
"""

from dataclasses import dataclass, replace

import numpy as np

from rbplib.bootstrap import percentile_interval
from rbplib.families import InputError, load_family
from rbplib.losses import (
    Loss,
    check_inside,
    cross_entropy,
    measured_on,
    paired,
    rbp_loss,
    vocabulary,
)
from rbplib.losses import rank_entropy as entropy
from rbplib.measuring import measured
from rbplib.table import asked

NAMES = ("cross-entropy", "rank entropy", "-log RBP_1")
SHARED = "totals S source family corpus definition models precision digest".split()  # with a Loss


@dataclass(frozen=True)
class Curve:
    """Counts of one family on one corpus, every model on the same tokens.

    models (M,), S float64 (M,) ascending; ks int64 (K,); hits int64 (D, M, K): tokens of a document
    with rank <= k; totals int64 (D,): scored tokens; nll float64 (D, M): summed -logprob in nats;
    source int64 (D,): documents of one number were drawn as one. `repeats`: Curve of models trained
    again with other seeds, see `with_repeats`.
    """

    family: str
    corpus: str
    models: tuple[str, ...]
    S: np.ndarray
    vocab_size: int
    ks: np.ndarray
    hits: np.ndarray
    totals: np.ndarray
    nll: np.ndarray
    source: np.ndarray | None = None
    definition: str = "greater+ties"
    repeats: "Curve | None" = None
    precision: str = ""
    digest: str | None = None

    @property
    def scored_tokens(self):
        return int(self.totals.sum())

    @property
    def rbp(self):
        """RBP_k, float64 (M, K)."""
        return self.hits.sum(0) / self.totals.sum()

    @property
    def cross_entropy(self):
        """Mean negative log-probability, nats per token, float64 (M,)."""
        return self.nll.sum(0) / self.totals.sum()

    def index(self, k):
        """Column of `k` in the arrays."""
        if k not in self.ks:
            place = f"{self.family} on {self.corpus}"
            raise InputError(f"k = {k} was not counted for {place}: add it to ks.")
        return int(np.searchsorted(self.ks, k))

    def loss(self, k):
        """-log RBP_k of every model, as what a law is fitted to."""
        again, sums = self.repeats and self.repeats.loss(k), self.hits[:, :, self.index(k)]
        return self._loss(sums=sums, k=int(k), name=f"-log RBP_{k}", repeats=again)

    def cross_entropy_loss(self):
        """Cross-entropy of every model, as what a law is fitted to."""
        again = self.repeats and self.repeats.cross_entropy_loss()
        return self._loss(sums=self.nll, hits=False, name="cross-entropy", repeats=again)

    def _loss(self, **about):
        return Loss(**about, **{name: getattr(self, name) for name in SHARED})


def rbp_curve(tables, ks, definition="greater+ties"):
    """Curve of one family on one corpus from its rank tables.

    Args:
        tables: RankTables of the models of one family on one corpus, any order.
        ks: values of k, each in [1, V].
        definition: of the rank, see `RankTable.rank`; the paper's is "greater+ties".
    Raises:
        InputError: no table, a k outside the vocabulary, or different tokens.
    """
    tables = paired(tables)
    vocab, ks = vocabulary(tables), np.unique(ks)
    for k in ks:
        check_inside("k", k, vocab, "vocabulary size")
    # hits of every document at every k
    return Curve(
        vocab_size=vocab,
        ks=ks.astype(np.int64),
        hits=np.stack([t.hits(ks, definition) for t in tables], 1),
        nll=np.stack([t.nll for t in tables], axis=1),
        definition=definition,
        **measured_on(tables),
    )


def rbp_curves(tables, ks):
    """{corpus: Curve} from {corpus: rank tables} of one family; ks: each in [1, V]."""
    return {corpus: rbp_curve(ranks, ks) for corpus, ranks in tables.items()}


def repeated(family, corpora=None, protocol="paper"):
    """{corpus: rank tables of the models that tell how trainings of one size differ};
    arguments as of `measured`.

    Empty where the family's file names no `repeats`.
    """
    family, _, corpora = asked(family, None, corpora, protocol)
    return measured(load_family(family.repeats), corpora, protocol) if family.repeats else {}


def with_repeats(curves, family, corpora=None, protocol="paper"):
    """The same curves with those of the models beside that tell how trainings of one size differ.

    Args:
        curves: {corpus: Curve} of a family on corpora. family, corpora, protocol:
            as given to `measured`.
    Returns:
        {corpus: Curve}; as it was where the family's file names no `repeats`,
        or they cannot count those k.
    """
    again = repeated(family, corpora, protocol)
    return {name: beside(curve, again.get(name)) for name, curve in curves.items()}


def beside(curve, tables):
    """A curve with the rank tables of its repeats counted; as it was without any,
    or where they cannot count its k."""
    if not tables or curve.ks.max() > int(tables[0].record["vocab_size"]):
        return curve
    return replace(curve, repeats=rbp_curve(tables, curve.ks, curve.definition))


def rank_entropy(ranks):
    """Entropy of ranks (n,) in nats with the Miller-Madow correction, that, and log p of each."""
    counts = np.bincount(ranks)
    p = counts[counts > 0] / len(ranks)
    correction = (len(p) - 1) / (2 * len(ranks))
    return correction - p @ np.log(p), correction, np.log(counts[ranks] / len(ranks))


def family_losses(tables, repeats=()):
    """{name: Loss} of one family on one corpus, those of NAMES.

    tables: RankTables of one family and corpus, same tokens. repeats: RankTables from which each
    Loss takes its `repeats`, see `repeated`.
    """
    losses = (of(tables, repeats=repeats or ()) for of in (cross_entropy, entropy, rbp_loss))
    return dict(zip(NAMES, losses, strict=True))


def gap(first, second, n_bootstrap=10_000, seed=42):
    """(first loss less the second, its interval): float64 (M,) and (2, M),
    both over the same resampled sources."""
    drawn = [loss.resampled(n_bootstrap, seed) for loss in (first, second)]
    ends = np.full((2, len(first.S)), np.nan)
    if drawn[0] is not None:
        ends = percentile_interval(drawn[0].loss - drawn[1].loss)
    return first.values - second.values, ends
