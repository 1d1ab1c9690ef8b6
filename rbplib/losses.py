"""What a law is fitted to: a `Loss`, a ratio of sums over documents, one per model.

-log RBP_k, cross-entropy, the entropy of the ranks, -log p_{N,k}, published accuracies and simulated families are all
this one record, so that one fit and one bootstrap serve them. The paper's appendix calls the entropy of the rank
distribution cross-entropy. They are different numbers, CE = H(R) - I(R; X) + E KL, and `family_losses` measures both
(label eq-ce-identity, book/derivations/entropy).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from rbplib.bootstrap import MIN_DOCUMENTS, percentile_interval, sum_by_source, sum_chunks
from rbplib.families import InputError
from rbplib.table import by_size

NAMES = ("cross-entropy", "rank entropy", "-log RBP_1")


def minus_log(share):
    """-log of a share of hits, in nats: 0 and infinity where the share is 1 and 0."""
    with np.errstate(divide="ignore"):
        loss = np.log(share)
    loss *= -1  # in place: this is the bootstrap's inner loop
    return loss


def mean(ratio):
    """Of nats: the mean is the loss."""
    return ratio


@dataclass(frozen=True)
class Values:
    """Losses on resampled sources, or with one source left out: loss float64 (B, ..., M), totals (B,)."""

    loss: np.ndarray
    totals: np.ndarray

    @property
    def y(self):
        return logarithm(self.loss)


@dataclass(frozen=True)
class Loss:
    """Losses `of(sums / totals)` of the models of one family on one corpus, smallest model first.

    sums: int64 or float64 (D, M), hits or nats of each document; a stack of losses has (D, ..., M).
    totals: int64 (D,), what the sums are out of: scored tokens or windows.
    S: float64 (M,), non-embedding parameters. of: `minus_log` of a share of hits, or `mean` nats.
    k: the rank that counted as a hit, None where nothing was counted. missing: models that were not measured.
    source: int64 (D,), documents of one number were drawn as one and are resampled as one; None: each on its own.
    repeats: the same Loss of models several of which have one size, from other seeds; None where there are none.
    """

    sums: np.ndarray
    totals: np.ndarray
    S: np.ndarray
    of: Callable = minus_log
    k: int | None = None
    name: str = ""
    family: str = ""
    corpus: str = ""
    protocol: str = "paper"
    definition: str = "greater+ties"
    models: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    source: np.ndarray | None = None
    repeats: "Loss | None" = None

    @property
    def total(self):
        return float(self.totals.sum())

    @cached_property
    def used(self):
        """Documents with something scored, bool (D,); the others cannot be drawn."""
        return self.totals > 0

    @property
    def n_documents(self):
        """Documents with something scored."""
        return int(self.used.sum())

    @cached_property
    def n_sources(self):
        """Sources with something scored: what a resample draws."""
        return self.n_documents if self.source is None else len(np.unique(self.source[self.used]))

    @cached_property
    def values(self):
        """Loss of each model in nats, float64 (..., M)."""
        return self.of(self.sums.sum(0) / self.totals.sum())

    @cached_property
    def y(self):
        """Logarithm of the loss, float64 (..., M): what is linear in log S under the law; NaN where it has no value."""
        return logarithm(self.values)

    @cached_property
    def equal(self):
        """Whether the models that have a value all have the same one: few counts can; it says nothing of size."""
        y = self.y[np.isfinite(self.y)]
        return len(y) > 1 and bool(np.ptp(y) < 1e-12)

    @property
    def misses(self):
        """What was counted and is no hit, int64 (..., M), or None for nats."""
        return None if self.of is mean else self.totals.sum() - self.sums.sum(0)

    def keep(self, models):
        """The same loss for some of its models, by index."""
        if np.array_equal(models, np.arange(len(self.S))):
            return self  # with what is known of it already
        names = tuple(self.models[i] for i in models)
        return replace(self, sums=self.sums[..., models], S=self.S[models], models=names)

    @property
    def one_a_size(self):
        """The same loss with models of one size as one, of their mean sums, named by the first; they become repeats."""
        sizes, first, which, times = np.unique(self.S, return_index=True, return_inverse=True, return_counts=True)
        if len(sizes) == len(self.S):
            return self
        sums, names = self.sums @ (np.eye(len(sizes)) / times)[which], tuple(self.models[i] for i in first)
        return replace(self, sums=sums, S=sizes, models=names, repeats=self.repeats or self)

    def over_documents(self):
        """The same loss with each document on its own, as if none had a source in common, and no repeats."""
        return replace(self, source=None, repeats=None)

    def training_noise(self):
        """(sd, degrees of freedom) of y between trainings of one size, the text's part taken off; or (NaN, 0)."""
        found, text, df = self.training_variance
        return float(np.sqrt(max(found - text, 0.0))) if df else np.nan, df

    @property
    def training_variance(self):
        """(variance of y between trainings of one size, the text's part in it by the jackknife, degrees of freedom)."""
        return (np.nan, np.nan, 0) if self.repeats is None else self.repeats.variance_of_a_size

    @cached_property
    def variance_of_a_size(self):
        """`training_variance` of the losses that have these as their repeats."""
        (sd, df), fine = spread_of_trainings(self.y, self.S), np.isfinite(self.y)
        if not df:
            return np.nan, np.nan, 0
        sizes, left = self.S[fine], self.jackknife().y[:, fine]  # (R,), (U, R)
        same = sizes[:, None] == sizes
        text = (len(left) - 1) * (left - left @ (same / same.sum(axis=0))).var(axis=0).sum() / df
        return sd**2, float(text) if np.isfinite(text) else 0.0, df  # one source holds all misses: nothing is taken off

    @cached_property
    def drawn(self):
        """(sums, totals) of the sources: what a resample draws whole. Shapes as the documents' own."""
        used, source = self.used, self.source
        source = None if source is None else source[used]
        return sum_by_source(self.sums[used], source), sum_by_source(self.totals[used], source)

    def chunks(self, n_resamples, seed):
        """Yield Values over resampled sources, the same ones for every model, block by block. seed: int."""
        sums, totals = self.drawn
        for block in sum_chunks(np.column_stack([totals, sums.reshape(len(sums), -1)]), n_resamples, seed):
            yield self._values(block[:, 1:].reshape(-1, *self.sums.shape[1:]), block[:, 0])

    def _values(self, sums, totals):
        return Values(self.of(sums / totals.reshape(-1, *[1] * (sums.ndim - 1))), totals)

    def resampled(self, n_resamples, seed, least=MIN_DOCUMENTS):
        """`chunks` as one Values, or None with fewer than `least` sources to draw from."""
        if n_resamples < 1 or self.n_sources < least:
            return None
        parts = list(self.chunks(n_resamples, seed))
        return Values(np.concatenate([p.loss for p in parts]), np.concatenate([p.totals for p in parts]))

    def jackknife(self):
        """Values with one source left out."""
        return self._values(*((a.sum(0) - a).astype(float) for a in self.drawn))


def spread_of_trainings(y, sizes):
    """(sd, degrees of freedom) of y (R,) between models of one size, pooled over sizes; (NaN, 0) if none is twice."""
    groups = [g for g in (y[(sizes == size) & np.isfinite(y)] for size in np.unique(sizes)) if len(g) > 1]
    spare = sum(len(g) - 1 for g in groups)
    squares = sum(((g - g.mean()) ** 2).sum() for g in groups)
    return (float(np.sqrt(squares / spare)), spare) if spare else (np.nan, 0)


def logarithm(loss):
    """log of a loss, NaN where it is 0 or infinite."""
    with np.errstate(divide="ignore", invalid="ignore"):
        y = np.log(loss)
    fine = np.isfinite(y)
    return y if fine.all() else np.where(fine, y, np.nan)


def check_models(loss, sizes=3):
    """InputError for a model given twice, or for fewer than so many sizes."""
    if (have := len(np.unique(loss.S))) < sizes:
        raise InputError(f"{loss.family} has {have} model size(s) on {loss.corpus}: a fit needs three.")
    if twice := [name for name in loss.models if loss.models.count(name) > 1]:
        raise InputError(f"{loss.family} holds the model {twice[0]!r} twice on {loss.corpus}: name it once.")


def measured_on(tables):
    """What the rank tables of one family on one corpus share, as a Loss and a Curve name it."""
    record = tables[0].record
    return {
        "family": str(record.get("family")),
        "corpus": str(record.get("corpus")),
        "protocol": str(record.get("protocol", "paper")),
        "models": tuple(str(t.record.get("model")) for t in tables),
        "S": np.array([float(t.record["nonembedding_params"]) for t in tables]),
        "source": tables[0].source,
    }


def family_losses(tables, repeats=None):
    """{name: Loss} of one family on one corpus: those of NAMES, and "E ln R", a floor under the cross-entropy.

    The entropy of a resample is taken to first order, -sum log p(R) over the resampled tokens with p from all tokens:
    its derivative is exact, so intervals are right to the order that a bootstrap gives.

    Args:
        tables: RankTables of one family and corpus, same tokens.
        repeats: RankTables from which each Loss takes its `repeats`, see `curve.repeated`.
    """
    tables, sums = by_size(tables), []
    for table in tables:
        entropy, log_rank = table.rank_sums()
        sums.append((table.nll, entropy, table.hits([1])[:, 0], log_rank))
    shared = {"totals": tables[0].totals, **measured_on(tables)}
    columns = dict(zip((*NAMES, "E ln R"), np.moveaxis(sums, 0, -1), strict=True))  # (D, M) each
    losses = {name: Loss(sums=column, of=mean, name=name, **shared) for name, column in columns.items()}
    hits = losses["-log RBP_1"].sums.astype(np.int64)
    losses["-log RBP_1"] = replace(losses["-log RBP_1"], sums=hits, of=minus_log, k=1)
    again = family_losses(repeats) if repeats else {}
    return {name: replace(loss, repeats=again.get(name)) for name, loss in losses.items()}


def gap(first, second, n_bootstrap=10_000, seed=42, level=0.95):
    """(first loss less the second, its interval): float64 (M,) and (2, M), both over the same resampled sources."""
    drawn = [loss.resampled(n_bootstrap, seed) for loss in (first, second)]
    ends = np.full((2, len(first.S)), np.nan)
    if drawn[0] is not None:
        ends = percentile_interval(drawn[0].loss - drawn[1].loss, level)
    return first.values - second.values, ends
