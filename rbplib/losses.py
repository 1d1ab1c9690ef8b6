"""What a law is fitted to: a `Loss`, a ratio of sums over documents, one per model.

-log RBP_k, cross-entropy, -log p_N of N hits in a row, published accuracies and simulated families
are all this one record, so that one fit and one bootstrap serve them. Integer sums of each document
come first and the ratio last, so that shards and resamples add up exactly.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from rbplib.bootstrap import MIN_DOCUMENTS, MIN_RESAMPLES, resampled_sums, sum_by_source
from rbplib.families import InputError, complain, telling
from rbplib.noise import size_numbers
from rbplib.table import Ladder


def minus_log(share):
    """-log of a share of hits, in nats: 0 and infinity where the share is 1 and 0."""
    with np.errstate(divide="ignore"):
        return -np.log(share)


def logarithm(loss):
    """log of a loss, NaN where it is 0 or infinite."""
    with np.errstate(divide="ignore", invalid="ignore"):
        y = np.log(loss)
    return np.where(np.isfinite(y), y, np.nan)


@dataclass(frozen=True)
class Values:
    """Losses float64 (B, M) on resampled sources."""

    loss: np.ndarray

    @property
    def y(self):
        return logarithm(self.loss)


@dataclass(frozen=True)
class Loss:
    """Losses of the models of one family on one corpus, smallest model first: -log RBP_k (paper
    Eq. 5), cross-entropy, or what else is a ratio of sums over documents.

    >>> loss = Loss(sums=[[5, 6], [4, 7]], totals=[10, 10], S=[1e6, 1e7], k=1)
    >>> loss.share.tolist(), loss.values.round(3).tolist(), loss.misses.tolist()
    ([0.45, 0.65], [0.799, 0.431], [11, 7])

    Lists and frames are taken, and one number as the total of every document.
    Raises InputError: shapes that do not fit together, hits below 0 or above their total, a size
    that is not above 0, or infinite.

    Attributes:
        sums: int64 or float64 (D, M), hits or nats of each document.
        totals: int64 (D,), what the sums are out of: scored tokens, or windows.
        S: float64 (M,), non-embedding parameters. D: the same, tokens of training text, if known.
        hits: whether sums count hits; the loss is then -log of their share, else their mean.
        k: the rank that counted as a hit, None where nothing was counted.
        source: int64 (D,); documents of one number were drawn as one. None: each on its own.
        labels: (D,) names of the sources of a table of numbers, each with one document.
        repeats: the same loss of models several of which have one size, from other seeds.
        se: float64 (M,), standard errors in nats, independent, of losses without documents.
        precision: of the weights, as "float32"; empty where it is not known.
        digest: SHA-256 of the text, where known: losses of two families are paired by it.
    """

    sums: np.ndarray = None
    totals: np.ndarray = None
    S: np.ndarray = None
    hits: bool = True
    k: int | None = None
    name: str = ""
    family: str = ""
    corpus: str = ""
    definition: str = "greater+ties"
    models: tuple[str, ...] = ()
    source: np.ndarray | None = None
    labels: tuple[str, ...] | None = None
    repeats: "Loss | None" = None
    se: np.ndarray | None = None
    D: np.ndarray | None = None
    precision: str = ""
    digest: str | None = None

    def __post_init__(self):
        if self.sums is None or self.totals is None or self.S is None:
            raise InputError(
                "a Loss is made of sums (D, M), totals (D,) and sizes S (M,): give them."
            )
        # arrays that fit together
        with telling("sums (D, M), totals (D,), S and models (M,) of a Loss do not fit together"):
            sums, arrays = np.atleast_2d(self.sums), vars(self)
            D, M = sums.shape
            arrays |= {"sums": sums, "totals": np.broadcast_to(self.totals, D)}
            for name, length in {"S": M, "D": M, "se": M, "source": D}.items():
                if arrays[name] is not None:
                    arrays[name] = np.asarray(arrays[name]).reshape(length)
            names = np.reshape(self.models or range(1, M + 1), M)
            # sizes and hits that can be; means of hits are rounded
            counted = (sums >= 0) & (sums <= self.totals[:, None] + 1e-6)
            sized = (self.S > 0) & (self.S < np.inf)
            if self.D is not None:
                sized &= (self.D > 0) & (self.D < np.inf)
            wrong = names[~sized | self.hits & ~counted.all(0)]
        if wrong.size:
            raise InputError(
                f"model '{wrong[0]}' of {self.corpus or 'a Loss'} cannot be: "
                "a size, and D, is above 0 and finite, hits are from 0 to their total, "
                "and an accuracy is at most 1."
            )

    def __repr__(self):
        """A line: what it is of."""
        low, high = self.S.min(initial=np.inf), self.S.max(initial=0)
        return (
            f"{self.name or 'loss'} of {self.family or 'a family'} on {self.corpus or 'a text'}: "
            f"{len(self.S)} models, S {low:.4g} to {high:.4g}"
        )

    def nats(self, ratio):
        """The loss, from sums over totals."""
        return minus_log(ratio) if self.hits else ratio

    @property
    def total(self):
        """What the sums are out of in all: tokens, or windows."""
        return float(self.totals.sum())

    @cached_property
    def share(self):
        """Sums over totals of each model, of hits RBP_k itself: float64 (M,)."""
        return self.sums.sum(0) / self.totals.sum()

    @cached_property
    def values(self):
        """Loss of each model in nats, float64 (M,)."""
        return self.nats(self.share)

    @cached_property
    def y(self):
        """log of the loss, float64 (M,), linear in log S under the law; NaN without a value."""
        return logarithm(self.values)

    @cached_property
    def equal(self):
        """Whether all models with a value have the same one, which says nothing of size."""
        y = self.y[np.isfinite(self.y)]
        return len(y) > 1 and bool(np.ptp(y) < 1e-12)

    @cached_property
    def sizes(self):
        """Number of each model's size, int (M,); sizes within 5% are one, see
        `noise.size_numbers`."""
        return size_numbers(self.S)

    @property
    def n_sizes(self):
        """Sizes that differ by more than 5%: what a law is fitted to."""
        return int(self.sizes.max(initial=-1)) + 1

    @property
    def one_piece(self):
        """Whether the text is one total, of which no choice can be drawn."""
        return len(self.totals) == 1 and self.se is None

    @property
    def misses(self):
        """What was counted and is no hit, int64 (M,), or None for nats."""
        return self.totals.sum() - self.sums.sum(0) if self.hits else None

    @property
    def used(self):
        """Documents with something scored, bool (D,); the others cannot be drawn."""
        return self.totals > 0

    @property
    def units(self):
        """Number of each document's source, int64 (D,)."""
        return np.arange(len(self.totals)) if self.source is None else self.source

    @property
    def n_documents(self):
        """Documents with something scored."""
        return int(self.used.sum())

    @cached_property
    def by_source(self):
        """(sums (U, M), totals (U,)) of the sources that hold something scored."""
        used, source = self.used, self.units[self.used]
        return sum_by_source(self.sums[used], source), sum_by_source(self.totals[used], source)

    @property
    def n_sources(self):
        """Sources with something scored: what a resample draws."""
        return len(self.by_source[1])

    def keep(self, models):
        """The same loss for some of its models, by index."""
        if np.array_equal(models, np.arange(len(self.S))):
            return self  # with what is known of it already
        parts = {
            "sums": self.sums[:, models],
            "models": tuple(self.models[i] for i in models if self.models),
        }
        given = [name for name in ("S", "D", "se") if getattr(self, name) is not None]
        return replace(self, **parts, **{name: getattr(self, name)[models] for name in given})

    def split(self, largest=1):
        """(the Loss of the smaller models, that of so many largest ones)."""
        order = np.argsort(self.S, kind="stable")
        return self.keep(order[:-largest]), self.keep(order[-largest:])

    def defined(self):
        """The same loss for the models that have one, finite and above 0: a line needs its log."""
        return self.keep(np.flatnonzero(np.isfinite(self.y)))

    def along_tokens(self):
        """The same loss with tokens of training in place of sizes; None without three amounts."""
        if self.D is None or size_numbers(self.D).max(initial=-1) < 2:
            return None
        return replace(self, S=self.D)

    def over_documents(self):
        """The same loss as if no two documents had a source in common, without repeats."""
        return replace(self, source=None, repeats=None)

    def resampled(self, n_resamples, seed):
        """Its losses over resampled sources, or drawn by the standard errors: `loss`, and its log
        `y`, float64 (n_resamples, M). None with fewer than 20 sources, and no errors. seed: int."""
        if n_resamples > 0 and self.se is not None:
            shape = n_resamples, len(self.S)
            return Values(np.random.default_rng(seed).normal(self.values, self.se, shape))
        if n_resamples < 1 or self.n_sources < MIN_DOCUMENTS:
            return None
        sums, totals = self.by_source
        drawn = resampled_sums(np.column_stack([totals, sums]), n_resamples, seed)
        return Values(self.nats(drawn[:, 1:] / drawn[:, :1]))

    @cached_property
    def training_variance(self):
        """(variance of y between trainings of one size, the text's part in it, df), of `repeats`;
        (NaN, NaN, 0) where it is not known."""
        repeats = self.repeats and self.repeats.defined()
        df = len(repeats.S) - len(np.unique(repeats.S)) if repeats else 0
        if not df:
            return np.nan, np.nan, 0
        same = repeats.S[:, None] == repeats.S
        mean_of_size = same / same.sum(axis=0)
        variance = ((repeats.y - repeats.y @ mean_of_size) ** 2).sum() / df
        # The jackknife over sources tells what the choice of text makes of it.
        sums, totals = (part.sum(0) - part for part in repeats.by_source)
        with np.errstate(divide="ignore", invalid="ignore"):  # NaN where a source is the only one
            left_out = logarithm(repeats.nats(sums / totals[:, None]))  # (U, R)
        away = left_out - left_out @ mean_of_size
        text = (len(left_out) - 1) * away.var(axis=0).sum() / df
        # Where one source holds all misses, nothing is taken off.
        return float(variance), float(text) if np.isfinite(text) else 0.0, df

    def training_noise(self):
        """(sd of y between trainings of one size, the text's part taken off, df); or (NaN, 0)."""
        variance, text, df = self.training_variance
        return float(np.sqrt(np.maximum(variance - text, 0.0))), df


def check_models(loss, sizes=3):
    """InputError for fewer than so many sizes, or a model that is there twice."""
    there, text = loss.n_sizes, loss.corpus or "one text"
    if there < sizes:
        close = " that differ by more than 5%" if there < len(np.unique(loss.S)) else ""
        raise InputError(
            f"{loss.family or 'a Loss'} has {there} model size(s){close} on {text}: "
            "a fit needs three."
        )
    if len(set(loss.models)) < len(loss.models):
        name = next(name for name in loss.models if loss.models.count(name) > 1)
        raise InputError(f"the model {name!r} is there twice on {text}: name it once.")


def check_resamples(number, seed=0):
    """InputError for so few resamples that they have no ends of an interval, but for 0; for a seed
    that is no whole number."""

    def whole(value):
        return isinstance(value, (int, np.integer)) and value >= 0

    if not whole(number) or 0 < number < MIN_RESAMPLES or number > 1_000_000:
        rule = f"give {MIN_RESAMPLES} to 1000000, or 0."
        raise InputError(f"resamples cannot be {number!r}: {rule}")
    if not whole(seed):
        raise InputError(f"a seed cannot be {seed!r}: give a whole number from 0 up.")


def check_loss(loss, what):
    """InputError unless it is a Loss."""
    if not isinstance(loss, Loss):
        raise InputError(
            f"{what} takes a Loss, and got {type(loss).__name__}: make one by rbp_loss, "
            "cross_entropy or table_losses."
        )


def measured_on(tables):
    """What rank tables of one family on one corpus share, by the names of a Loss's fields."""
    families = dict.fromkeys(table.record["family"] for table in tables)
    return {
        "totals": tables[0].totals,
        "family": " and ".join(families),
        "corpus": tables[0].record["corpus"],
        "models": tuple(table.record["model"] for table in tables),
        "S": np.array([float(table.record["nonembedding_params"]) for table in tables]),
        "source": tables[0].source,
        "precision": precision_of(tables),
        "digest": tables[0].record.get("corpus_digest"),
    }


def precision_of(tables):
    """In words, the precision of the weights that tables are of; empty where none is known."""
    return " and ".join(filter(None, dict.fromkeys(precision(table.record) for table in tables)))


def precision(record):
    """That of the weights of one table: how a GGUF file packs them, or their dtype, or None."""
    packed = (record.get("quantisation") or {}).get("file_type")
    return record.get("weights_dtype") if packed in (None, "ALL_F32") else packed


def check_inside(name, value, most, what):
    """InputError unless a value is a whole number from 1 to the most."""
    if value not in range(1, most + 1):
        raise InputError(
            f"{name} = {value} is outside 1 to {most}, the {what}: choose a whole number inside."
        )


def paired(tables, ks=1, repeats=None):
    """Rank tables, or one, as a Ladder with those repeats, or, of a Ladder, its own.

    Raises InputError: none, other tokens, no token, or a k outside the vocabulary.
    """
    if isinstance(tables, dict):
        raise InputError("these are ladders of several texts: give one, as ladders[corpus].")
    if repeats is None:
        repeats = getattr(tables, "repeats", ())
    ladder = Ladder([tables] if hasattr(tables, "record") else tables, Ladder(repeats))
    if not ladder:
        raise InputError("no rank table was given: run `rbp measure` for the family first.")
    # of other (document, position, token) rows pairing would be false
    first = ladder[0]
    for table in ladder[1:]:
        if (table.text, table.documents) != (first.text, first.documents):
            raise InputError(
                "{model} and ".format(**table.record)
                + "{model} were not measured on the same tokens of {corpus}: measure them again "
                "with one tokenizer, window and sample.".format(**first.record)
            )
    mine, its = map(precision_of, (ladder, ladder.repeats))
    if mine and its and mine != its:
        complain(
            f"{first.record['family']} was measured in {mine}, its repeats in {its}: how trainings "
            "scatter may be another there, measure both in one precision."
        )
    for k in np.unique(ks):
        check_inside("k", k, ladder.vocab_size, "vocabulary size")
    if not len(first):
        corpus = first.record.get("corpus")
        raise InputError(f"no token of {corpus} was scored: its documents are empty or too short.")
    return ladder


def rbp_losses(tables, ks, definition="greater+ties", repeats=None):
    """{k: Loss}: -log RBP_k (paper Eq. 4) at several k: of the share of scored tokens whose rank is
    k or better, in nats.

    Args:
        tables: RankTables of the models of one family on one corpus, in any order.
        ks: int, each from 1 to the vocabulary size. definition: of a rank, see `RankTable.rank`.
        repeats: RankTables of models several of which have one size, from other seeds; by default
            those of a Ladder, () for none. Left out at a k that they cannot count.
    Returns:
        {k: Loss} of whole-number sums, in rising k.
    Raises:
        InputError: no table, other tokens, or a k outside the vocabulary.
    Cost: one pass over each table.

    >>> from rbplib import plain_table
    >>> tables = [plain_table(([[rank, 1, 0]], [[1, 1, 1]], [[-2, -1, 0]]), S, 9)
    ...           for rank, S in [(4, 1e6), (2, 1e7)]]
    >>> {k: loss.share.round(2).tolist() for k, loss in rbp_losses(tables, [1, 3]).items()}
    {1: [0.33, 0.33], 3: [0.67, 1.0]}
    """
    tables, ks = paired(tables, ks, repeats), np.unique(ks)
    # hits of each document (D, M, K)
    hits = np.stack([table.hits(ks, definition) for table in tables], axis=1)
    # what of it the repeats can count
    repeats = tables.repeats
    counted = ks[ks <= repeats.vocab_size] if repeats else ()
    if unknown := [k for k in counted if not repeats[0].knows(k, definition)]:
        names, family = ", ".join(map(str, unknown)), repeats[0].record["family"]
        complain(
            f"{family} is here as counts without k = {names}: no noise of trainings is known "
            f"there; to have it, {repeats[0].mend}."
        )
        counted = np.setdiff1d(counted, unknown)
    others = rbp_losses(repeats, counted, definition, ()) if len(counted) else {}
    shared = measured_on(tables) | {"definition": definition}
    losses = {}
    for i, k in enumerate(ks.tolist()):
        about = {"k": k, "name": f"-log RBP_{k}", "repeats": others.get(k)}
        losses[k] = Loss(sums=hits[..., i], **about, **shared)
    return losses


def rbp_loss(tables, k=1, definition="greater+ties", repeats=None):
    """-log RBP_k at one k (paper Eqs. 4 and 5), a Loss; arguments, errors and cost as of
    `rbp_losses`.

    >>> from rbplib import plain_table
    >>> table = plain_table(([[0, 3, 0, 1]], [[1, 1, 1, 1]], [[0, -3, 0, -1]]), 1e6, 9)
    >>> rbp_loss(table, k=1).values.round(4).tolist()      # -log of 2 in 4
    [0.6931]
    """
    if np.ndim(k):
        raise InputError("rbp_loss takes one k: give several to rbp_losses.")
    return rbp_losses(tables, [k], definition, repeats)[k]


def nats_loss(column, name, tables, repeats):
    """A Loss of sums of nats that rank tables keep of each document."""
    tables = paired(tables, repeats=repeats)
    repeats = tables.repeats and nats_loss(column, name, tables.repeats, ())
    return Loss(
        sums=np.stack([getattr(table, column) for table in tables], axis=1),
        hits=False,
        name=name,
        repeats=repeats or None,
        **measured_on(tables),
    )


def cross_entropy(tables, repeats=None):
    """Mean -log p of the scored tokens in nats, a Loss; arguments, errors and cost as of
    `rbp_losses`.

    >>> from rbplib import plain_table
    >>> cross_entropy(plain_table(([[0, 3]], [[1, 1]], [[-0.5, -2.5]]), 1e6, 9)).values.tolist()
    [1.5]
    """
    return nats_loss("nll", "cross-entropy", tables, repeats)


def rank_entropy(tables, repeats=None):
    """Entropy of the ranks in nats, Miller and Madow's correction in it, a Loss.

    The paper's appendix calls it cross-entropy (Eq. 17); they are different numbers,
    CE = H(R) - I(R; X) + E KL (label eq-ce-identity, book/derivations/entropy). Of a resample it is
    taken to first order, -sum log p(R) over the resampled tokens with p from all tokens: that
    derivative is exact, so intervals are right to the order that a bootstrap gives. Arguments,
    errors and cost as of `rbp_losses`.

    >>> from rbplib import plain_table
    >>> table = plain_table(([[0, 3, 0, 3]], [[1, 1, 1, 1]], [[0, -3, 0, -1]]), 1e6, 9)
    >>> rank_entropy(table).values.round(4).tolist()       # log 2, and 1 / 8 of correction
    [0.8181]
    """
    return nats_loss("entropy", "rank entropy", tables, repeats)


def run_loss(tables, k, N, repeats=None):
    """-log p_N (paper Eq. 7): windows of N scored tokens in a row that are all hits, over all.

    Windows never bridge a gap or a document. A Loss whose totals count windows. Arguments as of
    `rbp_losses`; repeats are left out where they cannot count k or N.

    Raises:
        InputError: as there; N below 1, or longer than every run of scored tokens.
    Cost: one pass over each table for each k, kept for the next N.

    >>> from rbplib import plain_table
    >>> loss = run_loss(plain_table(([[0, 0, 0, 3]], [[1] * 4], [[0] * 4]), 1e6, 9), k=1, N=2)
    >>> loss.share.round(3).tolist()                       # 2 of 3 windows
    [0.667]
    """
    tables = paired(tables, k, repeats)
    check_inside("N", N, tables[0].longest_run, "longest run of scored tokens")
    repeats = tables.repeats
    if repeats and (k > repeats.vocab_size or N > repeats[0].longest_run):
        repeats = ()
    # windows that are all hits, and all windows
    hits = [table.inside(table.runs(k), N) for table in tables]
    windows = tables[0].inside(tables[0].scored, N)
    return Loss(
        sums=np.transpose(hits),
        k=int(k),
        name=f"-log p_{{{N},{k}}}",
        repeats=run_loss(repeats, k, N, ()) if repeats else None,
        **measured_on(tables) | {"totals": windows},
    )
