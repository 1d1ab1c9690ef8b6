"""Results that others published, from the tables of `published/`, and the laws on them.

The tables go through the door that a user's go through (`rbplib.doors.table_losses`), and
`rbp fit published/lambada_by_size.csv` takes them as they lie;
published/README.md explains columns.
"""

import re
from contextlib import redirect_stderr
from dataclasses import dataclass, replace
from functools import lru_cache
from io import StringIO

import numpy as np
import pandas as pd

from paper.steps import y_se
from rbplib.doors import table_losses
from rbplib.families import SUMS, check_choice, file_digest, held, intact, load_family, write_text
from rbplib.law import Law, fit
from rbplib.losses import minus_log

QUANTITIES = {  # what a law is fitted to: its table and column, and what it is of
    "-log acc": ("lambada_by_size", "accuracy", "LAMBADA"),
    "log ppl": ("lambada_by_size", "log_ppl", "LAMBADA"),
    "cross-entropy": ("lambada_by_size", "text_loss", "LAMBADA"),
    "-log pass@k": ("humaneval_by_size", "accuracy", "HumanEval"),
    "along training": ("lambada_along_training", "accuracy", "LAMBADA"),
    "open_lm": ("openlm_scaling", "loss", "openlm"),
}
FIXED, GROWS = "one amount", "grows with size"  # of training text
OTHER, UNKNOWN = "otherwise", "not printed"
KEPT = ["published/**/*.csv", "published/ranks/*.json", "published/ranks/*.yml", "models/*.json"]
KEPT += ["models/nano-*/*/*.*", "models/tokenizer/*", "families/*.json", "families/configs/*.json"]


def read(name):
    """The table `published/NAME.csv`, rows in file order: data frame."""
    path = intact(held("published") / f"{name}.csv")
    return pd.read_csv(path, float_precision="round_trip")


def keep():
    """Write the digests of the repository's data, by which `rbplib.families.intact` knows it, as
    `sha256sum -c` takes them in a checkout: `python -m paper.published`."""
    here = held("published").parent
    files = sorted({path for kind in KEPT for path in here.glob(kind)})
    lines = [f"{file_digest(path)}  {path.relative_to(here).as_posix()}\n" for path in files]
    write_text(here / SUMS, "".join(lines))


def losses_of(rows):
    """[Loss] of a data frame as `table_losses` takes it, of families with three sizes or more."""
    sizes = rows.groupby("family")["S"].transform("nunique")
    with redirect_stderr(StringIO()):  # it tells of columns and errors that are not there
        return table_losses(rows[sizes > 2])


# --- open_lm: models of three texts, at several tokens a parameter


def open_lm(quantity, least=0.02):
    """One quantity of the open_lm models by name: data frame corpus, S, D, multiple, loss.

    multiple: of 20 tokens a parameter. quantity: a column of the table, loss... (nats per token)
    or acc_... (-log of a share, nats). Shares of 0, below `least` and of 1 are left out.
    InputError: another quantity.
    """
    rows = read("openlm_scaling").set_index("model")
    columns = [name for name in rows if name.startswith(("loss", "acc_"))]
    values = rows[check_choice(quantity, columns, "quantity of open_lm")]
    if quantity.startswith("acc_"):
        values = minus_log(values.where((values > 0) & (values >= least) & (values < 1)))
    names = {"family": "corpus", "tokens_per_20_params": "multiple"}
    rows = rows.rename(columns=names)[["corpus", "S", "D", "multiple"]]
    return rows.assign(loss=values).dropna()


def open_lm_rows(quantity):
    """Rows of `open_lm` as a table of numbers: a family is one text and multiple."""
    rows = open_lm(quantity).reset_index()
    short = rows["corpus"].str[:3].str.strip("_")
    rows["family"] = "open_lm " + short + ", x" + rows["multiple"].map("{:g}".format)
    rows = rows.rename(columns={"D": "training_tokens"})
    return rows.assign(architecture="transformer", params_basis="configuration")


# --- laws by size


@lru_cache(maxsize=20)
def results(quantity, folder):
    """Rows of one of QUANTITIES by size, from a folder's tables: data frame, losses in `loss`."""
    table, column, _ = QUANTITIES[quantity]
    rows = open_lm_rows(column) if quantity == "open_lm" else read(table)
    # open_lm's grid answered LAMBADA too
    if quantity == "-log acc":
        grid = open_lm_rows("acc_lambada_openai")
        grid = grid.assign(questions=5153, accuracy=np.exp(-grid.pop("loss")))
        rows = pd.concat([rows, grid])
    if column == "log_ppl":
        rows["log_ppl"] = np.log(rows["ppl"])
    # a loss as it is, in place of answers
    if column != "accuracy":
        rows["loss"] = rows[column]
        rows = rows.drop(columns=["accuracy", "questions"], errors="ignore")
    return rows.dropna(subset=column).sort_values(["family", "S"], kind="stable")


def losses(quantity="-log acc"):
    """{family: (Loss, its rows of the table)} of one of QUANTITIES, in alphabetical order."""
    rows, (_, _, corpus) = results(quantity, held("published")), QUANTITIES[quantity]
    pairs = {}
    for loss in losses_of(rows):
        loss = replace(loss, name=quantity, corpus=corpus)
        pairs[loss.family] = loss, rows[rows["family"] == loss.family]
    return dict(sorted(pairs.items()))


@dataclass(frozen=True)
class PublishedLaw:
    """The law on one quantity of one family, with the rows of the models used."""

    law: Law
    rows: pd.DataFrame

    @property
    def text(self):
        """How much text the models of growing size saw: FIXED, GROWS, OTHER or UNKNOWN."""
        tokens = np.log(self.rows.get("training_tokens", np.nan))
        if np.isnan(tokens).any():
            return UNKNOWN
        if np.ptp(tokens) < 0.5:  # within a factor of 1.65 they are the same
            return FIXED
        return GROWS if (np.diff(tokens) > 0).all() else OTHER

    @property
    def bars(self):
        """(S, loss, half-widths below and above) as `Axes.errorbar` takes them: 95% of so many
        questions."""
        half = 1.96 * y_se(1 - self.rows["accuracy"], self.rows["questions"] - 1)
        loss = np.exp(self.law.y)
        return self.law.S, loss, np.abs(loss * np.exp(np.outer((-1, 1), half)) - loss)

    @property
    def record(self):
        """The fit as a row of a table."""
        low, high = self.law.ci_models
        numbers = {"exponent": self.law.alpha, "low": low, "high": high, "R²": self.law.r2}
        about = {"family": self.law.family, "models": self.law.n_models} | numbers
        return about | {"S is": "; ".join(self.rows["params_basis"].unique())}


def laws(quantity="-log acc", families=None):
    """{family: PublishedLaw} of one of QUANTITIES, of families that leave three finite losses.

    families: names of those to take, in their order; all where None. InputError: an unknown one.
    """
    ladders = losses(quantity)
    fitted = {}
    for family in ladders if families is None else families:
        loss, rows = ladders[check_choice(family, list(ladders), "published family")]
        law = fit(loss, n_bootstrap=0)
        if law.n_models > 2:
            fitted[family] = PublishedLaw(law, rows.iloc[list(law.used)])
    return fitted


def every_loss():
    """Published ladders by size that forecasts are tried on, the authors' GPT-2 too:
    list of Loss."""
    ladders = []
    for quantity in [name for name in QUANTITIES if name != "along training"]:
        for loss, _ in losses(quantity).values():
            # at more tries they are the same models
            ladders.append(replace(loss, family=re.sub(r", \d+ tries", "", loss.family)))
    counts = gpt2_counts().query("k == 1 and N == 1")
    return [*ladders, *losses_of(counts[["family", "model", "S", "loss"]])]


def lambada_answers():
    """Last words of LAMBADA by finished models and checkpoints, some right and some wrong.

    Data frame: the columns of the tables; whose (the family), loss (-log accuracy), y_se (standard
    error of its logarithm from so many passages).
    """
    rows = pd.concat([read("lambada_by_size"), read("lambada_along_training")])
    rows = rows[rows["accuracy"].between(0, 1, inclusive="neither")]
    whose = rows["family"].str.partition(", step")[0]
    noise = y_se(1 - rows["accuracy"], rows["questions"] - 1)
    return rows.assign(whose=whose, loss=minus_log(rows["accuracy"]), y_se=noise)


# --- the authors' counts of GPT-2


def gpt2_counts():
    """The authors' counts of GPT-2's four sizes on the paper's Wikipedia, smallest model first.

    Returns:
        data frame: family, model, S, k, N (tokens in a row), hits (windows of N tokens that all
        rank k or better), windows, cross_entropy (nats per token of the model), loss (-log of the
        share of hits, nats), times (that share over RBP_k^N, 1 under Eq. 6).
    """
    names = {"tokens": "windows", "mean_ce_nats": "cross_entropy"}
    rows = read("gpt2_wikipedia_counts").rename(columns=names)
    rows = rows.sort_values(["S", "k", "N"], ignore_index=True)
    share = rows["hits"] / rows["windows"]
    # N = 1 comes first of every model and k
    single = share.groupby([rows["S"], rows["k"]]).transform("first")
    return rows.assign(loss=minus_log(share), times=share / single ** rows["N"])


def reference_points(family, corpus):
    """The authors' points at k = 1, data frame S, loss; none where the family's file names none.

    A file names them, `published: {CORPUS: TABLE}`. InputError: a table that is not carried.
    """
    counts = gpt2_counts().query("N == 1 and k == 1")
    table = load_family(family).published.get(corpus)
    if table is None:
        return counts[:0]
    check_choice(table, ["gpt2_wikipedia_counts"], "published table")
    return counts


def draw_points(ax, family, corpora):
    """`reference_points` of these texts as open marks."""
    for corpus in corpora:
        points = reference_points(family, corpus)
        if len(points):
            ax.plot(points.S, points.loss, "o", mfc="white", label="authors' counts")


if __name__ == "__main__":
    keep()
