"""Results that others published, read from `published/`, whose README.md explains the columns, and
the laws on them.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pandas as pd
from scipy.special import fdtri, stdtrit

from paper.laws import Law, fit
from paper.steps import size_spread, slope_weights, y_se
from rbplib.families import InputError, held, load_family, nearest
from rbplib.losses import Loss, minus_log

SCORED = {"LAMBADA": 5153, "HumanEval": 164}  # passages and problems that a share is out of
QUANTITIES = {  # what a law can be fitted to: (benchmark, column); shares of answers, and nats
    "-log acc": ("LAMBADA", "acc"),
    "log ppl": ("LAMBADA", "log_ppl"),
    "cross-entropy": ("LAMBADA", "cross_entropy"),
    "-log pass@1": ("HumanEval", "pass_1"),
    "-log pass@10": ("HumanEval", "pass_10"),
    "-log pass@100": ("HumanEval", "pass_100"),
}
NATS = ("log_ppl", "cross_entropy")
OPEN_LM = "mlfoundations/scaling (MIT)"  # the source of `open_lm`
FIXED, GROWS = "one amount", "grows with size"  # of training text
OTHER, UNKNOWN = "otherwise", "not in the source"


# --- the tables


def read(name):
    """The table `published/NAME.csv`, rows in file order: data frame."""
    return pd.read_csv(held("published") / f"{name}.csv", float_precision="round_trip")


def open_lm(quantity, least=0.02):
    """One quantity of the open_lm models by name: data frame corpus, S, D, multiple, loss.

    multiple: of 20 tokens a parameter. quantity: a column of the table, loss_... (nats per token)
    or acc_... (-log of a share, nats). Shares below `least` and of 1 are left out. InputError:
    another quantity.
    """
    rows = read("openlm_scaling").set_index("name")
    known = [column for column in rows if column.startswith(("loss_", "acc_"))]
    if quantity not in known:
        raise InputError(f"open_lm has no {quantity!r}: {nearest(quantity, known)}")
    rows["loss"] = rows[quantity]
    if quantity.startswith("acc_"):
        share = rows[quantity].where(rows[quantity].between(least, 1, inclusive="left"))
        rows["loss"] = -np.log(share)
    names = {
        "training_data": "corpus",
        "nonembedding_params": "S",
        "tokens": "D",
        "tokens_per_20_params": "multiple",
    }
    return rows.rename(columns=names)[[*names.values(), "loss"]].dropna()


def open_lm_family(corpus, multiple):
    """The name as a family of the open_lm models of one text and multiple."""
    return f"open_lm {corpus[:3].strip('_')}, x{multiple:g}"


def open_lm_losses(quantity):
    """[Loss] of one quantity of `open_lm` by size, for each text and multiple."""
    rows, text = open_lm(quantity).sort_values("S", kind="stable"), quantity.partition("_")[2]
    losses = []
    for place, part in rows.groupby(["corpus", "multiple"]):
        losses.append(nats(part["S"], part["loss"], part.index, open_lm_family(*place), text))
    return losses


def nats(S, loss, models, family, corpus):
    """A Loss known by its values alone, in nats, float (M,)."""
    return Loss(
        sums=np.array([loss], float),
        totals=np.ones(1, int),
        S=np.array(S, float),
        hits=False,
        name="loss",
        family=family,
        corpus=corpus,
        models=tuple(models),
    )


@lru_cache(maxsize=2)
def _results(folder):
    """All results by size, one row per model, step and number of shots, from a folder's tables."""
    whole = read("lambada").assign(digits=np.inf)

    # with examples in front it is a family of its own; a loss has none, and is printed again
    by_size = read("lambada_by_size")
    shots = by_size["shots"].map({0: ""}).fillna(", " + by_size["shots"].astype(str) + " shots")
    by_size["family"] += shots
    by_size["cross_entropy"] = by_size["loss"].where(by_size["shots"] == 0)

    grid = open_lm("acc_lambada_openai").rename(columns={"D": "tokens"}).reset_index()
    grid["family"] = list(map(open_lm_family, grid["corpus"], grid["multiple"]))
    grid["acc"] = np.exp(-grid["loss"])
    grid = grid.assign(model=grid["name"], digits=8, source=OPEN_LM)
    coded = read("humaneval_by_size").rename(columns={"params": "S"}).assign(benchmark="HumanEval")

    tables = [table.rename(columns={"nonembedding_params": "S"}) for table in (whole, by_size)]
    rows = pd.concat([*tables, grid, coded])
    usual = {"benchmark": "LAMBADA", "architecture": "transformer", "params_basis": "configuration"}
    rows = rows.fillna(usual)
    rows["log_ppl"], rows["loss"] = np.log(rows["ppl"]), minus_log(rows["acc"].to_numpy())
    with np.errstate(divide="ignore", invalid="ignore"):
        rows["y_se"] = y_se(1 - rows["acc"].to_numpy(), SCORED["LAMBADA"] - 1)
    return rows.sort_values("S", kind="stable", ignore_index=True)


def families(quantity="-log acc"):
    """Families of which three finished models or more have this quantity, in alphabetical order."""
    benchmark, column = QUANTITIES[quantity]
    rows = _results(held("published"))
    rows = rows[(rows["benchmark"] == benchmark) & rows[column].notna()]
    counts = rows.groupby("family")["S"].nunique()
    return list(counts.index[counts >= 3])


def lambada_points():
    """Last words of LAMBADA by finished models and checkpoints whose perplexity is known.

    Data frame: family, architecture, step, x (log of log perplexity), y (log of -log accuracy; those
    with none or all right are left out), y_se (standard error of y from so many passages).
    """
    rows = _results(held("published"))
    known = rows["acc"].between(0, 1, inclusive="neither") & (rows["ppl"] > 1)
    rows = rows[known].assign(x=np.log(rows["log_ppl"]), y=np.log(rows["loss"]))
    return rows[["family", "architecture", "step", "x", "y", "y_se"]].reset_index(drop=True)


def lambada_steps(family):
    """Training steps at which a family was evaluated, ascending; empty: finished models alone."""
    return sorted({int(step) for step in _of(family)["step"].dropna()})


def lambada(family, step=None):
    """LAMBADA results of a family, smallest model first; `step=None`: the finished models.

    Returns:
        data frame: model, S, tokens (seen in training, NaN where not stated), acc (share of
        passages with the last word right), log_ppl (nats of that word), cross_entropy (nats per
        token of the text in `loss_text`), digits, source, loss (-log acc, infinite where none was
        right), y_se (standard error of its logarithm from so many passages).
    Raises:
        InputError: an unknown family.
    """
    rows, steps = _of(family), lambada_steps(family)
    if steps:
        rows = rows[rows["step"] == (steps[-1] if step is None else step)]
    return rows.reset_index(drop=True)


def _of(family, benchmark="LAMBADA"):
    rows = _results(held("published"))
    rows = rows[rows["benchmark"] == benchmark]
    known = sorted(set(rows["family"]))
    if family not in known:
        hint = nearest(family, known)
        raise InputError(f"no published {benchmark} results of {family!r}: {hint}")
    return rows[rows["family"] == family]


def published_loss(family, quantity, step):
    """(Loss, rows as of `lambada`) of one of QUANTITIES of a family by size.

    InputError: an unknown family.
    """
    benchmark, column = QUANTITIES[quantity]
    rows = lambada(family, step) if benchmark == "LAMBADA" else _of(family, benchmark)
    rows, total = rows[rows[column].notna()], SCORED[benchmark]
    loss = Loss(
        sums=rows[column].to_numpy(float)[None] * total,
        totals=np.array([total]),
        S=rows["S"].to_numpy(float),
        hits=column not in NATS,
        k=None if column in NATS else 1,
        name=quantity,
        family=family,
        corpus=benchmark,
        models=tuple(rows["model"]),
    )
    return loss, rows


def gpt2_counts():
    """The authors' counts of GPT-2's four sizes on the paper's Wikipedia, smallest model first.

    Returns:
        data frame: model, S (of the family file `gpt2`), k, N (tokens in a row), hits (windows of N
        tokens that all rank k or better), windows, cross_entropy (nats per token of the model),
        loss (-log of the share of hits, nats), times (that share over RBP_k^N, 1 under Eq. 6).
    """
    names = {"windows_all_hit": "hits", "mean_ce_nats": "cross_entropy"}
    rows = read("gpt2_wikipedia_counts").rename(columns=names)
    family = load_family(held("families", "gpt2.yml"))
    sizes = {model.name: float(model.nonembedding_params) for model in family.models}
    rows["S"] = rows["model"].map(sizes)
    rows = rows.sort_values(["S", "k", "N"], ignore_index=True)
    share = rows["hits"] / rows["windows"]
    # N = 1 comes first of every model and k
    single = share.groupby([rows["S"], rows["k"]]).transform("first")
    return rows.assign(loss=minus_log(share), times=share / single ** rows["N"])


def gpt2_histogram():
    """(low, high, mass) of the digitised GPT-2 rank histogram: int64, int64, float64 (43,)."""
    rows = read("gpt2_rank_histogram")
    return tuple(rows[name].to_numpy() for name in ("rank_low", "rank_high", "mass"))


def size_paths(family):
    """{model: (tokens, loss, se of its logarithm)} along training, steps with none right left
    out.
    """
    paths = {}
    for model, rows in _of(family).query("0 < acc < 1").groupby("model", sort=False):
        paths[model] = tuple(rows[["tokens", "loss", "y_se"]].to_numpy().T)
    return paths


@dataclass(frozen=True)
class ReferencePoints:
    """Published points: S and loss (nats), float64 (M,), and whose they are."""

    S: np.ndarray
    loss: np.ndarray
    label: str


def reference_points(family, corpus, k=1):
    """Published points of a family on a corpus: ReferencePoints, or None where there are none.

    A family file names them, `published: {CORPUS: TABLE}`.

    Args:
        family: a Family, a name or a YAML path. corpus: its name. k: rank that counts as a success.
    Raises:
        InputError: the family file names a table that is not carried.
    """
    family = load_family(family)
    table = family.published.get(corpus)
    if table not in (None, "gpt2_wikipedia_counts"):
        message = f"family {family.name!r} names the published table {table!r}"
        raise InputError(f"{message}, which is not carried here.")
    counts = gpt2_counts().query("N == 1 and k == @k")
    if table is None or counts.empty:  # the authors counted at five k
        return None
    return ReferencePoints(*counts[["S", "loss"]].to_numpy().T, "authors' counts")


# --- laws on these results


@dataclass(frozen=True)
class PublishedLaw:
    """The law on one quantity of one family, and what the number of answers and digits makes of
    it.
    """

    law: Law
    quantity: str
    rows: pd.DataFrame  # of the models used, see `lambada`
    step: int | None = None

    @property
    def moves(self):
        """Change of alpha for a change of each model's share of right answers, float64 (M,)."""
        return -slope_weights(self.law.S) * np.exp(np.exp(self.law.y) - self.law.y)

    @property
    def sampling_se(self):
        """The largest standard error of alpha from the choice of passages; NaN for nats.

        A share tells how often a model was right, not where two were right together. Passages are
        hard or easy for all models alike, so two of them have at least as many right answers in
        common as independent ones, and at most all of the weaker one's; each pair is at its worse
        end.
        """
        share = np.exp(-np.exp(self.law.y))
        shared = np.minimum.outer(share, share) - np.outer(share, share)
        answers = self.law.scored_tokens - 1 if self.law.loss.hits else np.nan
        parts = np.outer(self.moves, self.moves) * shared / answers
        together = parts - np.diag(np.diag(parts))
        return float(np.sqrt(np.trace(parts) + together.clip(0).sum()))

    @property
    def text(self):
        """How much text the models of growing size saw: FIXED, GROWS, OTHER or UNKNOWN."""
        tokens = np.log(self.rows["tokens"].to_numpy(float))
        if np.isnan(tokens).any():
            return UNKNOWN
        if np.ptp(tokens) < 0.5:  # within a factor of 1.65 they are the same
            return FIXED
        return GROWS if (np.diff(tokens) > 0).all() else OTHER

    @property
    def record(self):
        """The fit as a row of a table, and as programs read it."""
        of, sources = [self.law.corpus], list(self.rows["source"].unique())
        if self.quantity == "cross-entropy":
            of = self.rows["loss_text"].unique()
        if len(sources) > 3:
            sources = [sources[0], f"and {len(sources) - 1} like it"]
        return {
            "family": self.law.family,
            "quantity": self.quantity,
            "of": ", ".join(of),
            "n": self.law.n_models,
            "S": [float(self.law.S.min()), float(self.law.S.max())],
            "S is": "; ".join(self.rows["params_basis"].unique()),
            "text": self.text,
            "alpha": self.law.alpha,
            "interval": self.law.ci_models,
            "r2": self.law.r2,
            "source": "; ".join(sources),
        }


def published_law(family, quantity="-log acc", step=None):
    """The law on a `published_loss`. InputError: as there, or fewer than three finite losses."""
    loss, rows = published_loss(family, quantity, step)
    law = fit(loss, n_bootstrap=0)
    if law.n_models < 3:
        message = f"{family} at step {step} leaves fewer than three models"
        raise InputError(f"{message} with a finite loss.")
    return PublishedLaw(law, quantity, rows.iloc[list(law.used)], step)


def published_laws():
    """Every law by size that the tables hold: list of PublishedLaw, families in alphabetical
    order.
    """
    names = {quantity: families(quantity) for quantity in QUANTITIES}
    laws = []
    for family in sorted(set().union(*names.values())):
        laws += [published_law(family, q) for q in QUANTITIES if family in names[q]]
    return laws


def training_laws(family):
    """The law at every published step of a family at which every model has a finite loss."""
    laws = []
    for step in lambada_steps(family):
        if lambada(family, step)["acc"].between(0, 1, inclusive="neither").all():
            laws.append(published_law(family, step=step))
    return laws


def exponent_ratio(first, second):
    """(exponent of the second law over that of the first, its 95% interval), by Fieller's theorem.

    The interval holds each ratio r at which the residuals of y_2 - r y_1, whose two parts move
    together, allow a slope of 0 (Student t on M - 2); NaN ends: other models, or the first exponent
    may be 0.
    """
    ratio = second.alpha / first.alpha
    if first.models != second.models or first.spare < 2:
        return ratio, (np.nan, np.nan)
    residuals, spare = np.array([law.y - law.fitted for law in (first, second)]), first.spare
    t = stdtrit(spare, 0.975)
    half = t**2 * residuals @ residuals.T / spare / size_spread(first.S)

    # the ends are the roots of a r^2 - 2 b r + c
    a = first.alpha**2 - half[0, 0]
    b = first.alpha * second.alpha - half[0, 1]
    c = second.alpha**2 - half[1, 1]
    if not a > 0:  # NaN where a law has no residuals
        return ratio, (np.nan, np.nan)
    return ratio, tuple(np.sort(np.roots([a, -2 * b, c]).real))


@dataclass(frozen=True)
class Ancova:
    """Analysis of covariance of families' losses; see `ancova`."""

    each: pd.DataFrame  # family, alpha, se with a slope of its own; level under one slope
    common: float  # the one exponent
    interval: tuple[float, float]  # of it
    slopes: tuple[float, float]  # (F, p): one each, against one for all
    levels: tuple[float, float]
    spread: tuple[float, ...]  # sd of the exponents beyond their noise, low end, high end

    @property
    def best(self):
        return self.each["family"][self.each["level"].idxmin()]

    @property
    def worst(self):
        return self.each["family"][self.each["level"].idxmax()]

    @property
    def times(self):
        """How many times the parameters of the best family the worst one needs for its loss."""
        return float(np.exp(np.ptp(self.each["level"]) / self.common))

    @property
    def bars(self):
        """[(family, or "common"; exponent, half of its 95% interval)]."""
        rows = [(row.family, row.alpha, 1.96 * row.se) for row in self.each.itertuples()]
        return [*rows, ("common", self.common, np.ptp(self.interval) / 2)]


def ancova(losses):
    """Analysis of covariance, log loss ~ log S * family: have families one exponent, and one level?

    losses: Loss of each family, two or more. Levels are log losses less the mean of the families
    under one slope; the spread is the F test turned round.
    Returns:
        Ancova.
    """
    from statsmodels.formula.api import ols

    parts = []
    for loss in losses:
        parts.append(pd.DataFrame({"family": loss.family, "x": np.log(loss.S), "y": loss.y}))
    rows = pd.concat(parts)
    rows["x"] -= rows["x"].mean()

    # a slope and a level each; one slope; one of both
    own = ols("y ~ 0 + family + family:x", rows).fit()
    common, one = ols("y ~ 0 + family + x", rows).fit(), ols("y ~ x", rows).fit()
    f, slopes_p, k = own.compare_f_test(common)
    g, levels_p, _ = common.compare_f_test(one)

    levels = common.params.drop("x")
    each = pd.DataFrame({"family": sorted(loss.family for loss in losses)})
    each["alpha"] = -own.params.filter(like=":x").to_numpy()
    each["se"] = own.bse.filter(like=":x").to_numpy()
    each["level"] = (levels - levels.mean()).to_numpy()
    ends = np.array([1.0, *fdtri(k, own.df_resid, [0.975, 0.025])])
    low, high = common.conf_int(0.05).loc["x"]
    return Ancova(
        each=each,
        common=-common.params["x"],
        interval=(-high, -low),
        slopes=(f, slopes_p),
        levels=(g, levels_p),
        spread=tuple(np.sqrt(np.mean(each["se"] ** 2) * np.maximum(f / ends - 1, 0))),
    )


def shared_sizes(losses):
    """The same losses for models of sizes that every family reaches, give or take a quarter."""
    low = max(loss.S.min() for loss in losses) / 1.25
    high = min(loss.S.max() for loss in losses) * 1.25
    return [loss.keep(np.flatnonzero((loss.S > low) & (loss.S < high))) for loss in losses]
