"""Results that others published, read from `published/`, whose README.md explains the columns; `ladders` fits them."""

from functools import lru_cache
from types import SimpleNamespace

import numpy as np
import pandas as pd

from paper.steps import y_se
from rbplib.families import InputError, held, load_family, nearest
from rbplib.losses import Loss, mean, minus_log

SCORED = {"LAMBADA": 5153, "HumanEval": 164}  # passages and problems: what a reported share is out of
QUANTITIES = {  # what a law can be fitted to: (benchmark, column); shares of right answers, and nats
    "-log acc": ("LAMBADA", "acc"),
    "log ppl": ("LAMBADA", "log_ppl"),
    "cross-entropy": ("LAMBADA", "cross_entropy"),
    **{f"-log pass@{k}": ("HumanEval", f"pass_{k}") for k in (1, 10, 100)},
}
NATS = ("log_ppl", "cross_entropy")
OPEN_LM = "mlfoundations/scaling (MIT)"  # the source of `open_lm`


def read(name):
    """The table `published/NAME.csv`, rows in file order: data frame."""
    folder = held("published")
    path = folder / f"{name}.csv"
    if not path.is_file():
        known = sorted(p.stem for p in folder.glob("*.csv"))
        hint = nearest(name, known) if known else "the folder is missing."
        raise InputError(f"there is no published table {name!r}: {hint}")
    return pd.read_csv(path, float_precision="round_trip")


def open_lm(quantity, least=0.02):
    """One quantity of the open_lm models: data frame corpus, S, D, multiple (of 20 tokens a parameter), loss; by name.

    quantity: a column of the table, loss_... (nats per token) or acc_... (-log of a share, nats). Shares below `least`
    and of 1 are left out. InputError: another quantity.
    """
    rows = read("openlm_scaling").set_index("name")
    if quantity not in (known := [c for c in rows if c.startswith(("loss_", "acc_"))]):
        raise InputError(f"open_lm has no {quantity!r}: {nearest(quantity, known)}")
    share = rows[quantity].where(rows[quantity].between(least, 1, inclusive="left"))
    rows["loss"] = rows[quantity] if quantity.startswith("loss_") else -np.log(share)
    names = {"training_data": "corpus", "nonembedding_params": "S", "tokens": "D", "tokens_per_20_params": "multiple"}
    return rows.rename(columns=names)[[*names.values(), "loss"]].dropna()


def open_lm_family(corpus, multiple):
    """The name as a family of the open_lm models of one text and multiple."""
    return f"open_lm {corpus[:3].strip('_')}, x{multiple:g}"


def open_lm_losses(quantity):
    """[(Loss, its rows as of `lambada`)] of one quantity of `open_lm` by size, for each text and multiple."""
    about = {"params_basis": "configuration", "source": OPEN_LM, "loss_text": quantity.partition("_")[2]}
    rows = open_lm(quantity).assign(**about).rename(columns={"D": "tokens"}).sort_values("S", kind="stable")
    return [
        (nats(part["S"], part["loss"], part.index, open_lm_family(*place), about["loss_text"]), part)
        for place, part in rows.groupby(["corpus", "multiple"])
    ]


def nats(S, loss, models, family, corpus):
    """A Loss known by its values alone, in nats, float (M,)."""
    known = {"family": family, "corpus": corpus, "models": tuple(models)}
    return Loss(np.array([loss], float), np.ones(1, int), np.array(S, float), mean, name="loss", **known)


@lru_cache(maxsize=2)
def _results(folder):
    """All results by size, one row per model, step and number of shots, from the tables in a folder."""
    whole, by_size, coded = (read(name) for name in ("lambada", "lambada_by_size", "humaneval_by_size"))
    shots = by_size["shots"].map({0: ""}).fillna(", " + by_size["shots"].astype(str) + " shots")
    once = by_size["loss"].where(by_size["shots"] == 0)  # it has no examples in front of it, and is printed again
    by_size = by_size.assign(family=by_size["family"] + shots, cross_entropy=once)
    grid = open_lm("acc_lambada_openai").rename(columns={"S": "nonembedding_params", "D": "tokens"}).reset_index()
    grid["family"] = list(map(open_lm_family, grid["corpus"], grid["multiple"]))
    grid = grid.assign(acc=np.exp(-grid["loss"]), model=grid["name"], digits=8, source=OPEN_LM)
    coded = coded.rename(columns={"params": "nonembedding_params"}).assign(benchmark="HumanEval")
    rows = pd.concat([whole.assign(digits=np.inf), by_size, grid, coded]).rename(columns={"nonembedding_params": "S"})
    rows = rows.fillna({"benchmark": "LAMBADA", "architecture": "transformer", "params_basis": "configuration"})
    rows = rows.assign(log_ppl=np.log(rows["ppl"]), loss=minus_log(rows["acc"].to_numpy()))
    with np.errstate(divide="ignore", invalid="ignore"):
        rows["y_se"] = y_se(1 - rows["acc"].to_numpy(), SCORED["LAMBADA"] - 1)
    return rows.sort_values("S", kind="stable", ignore_index=True)


def families(quantity="-log acc"):
    """Names of the families of which three finished models or more have this quantity, in alphabetical order."""
    benchmark, column = QUANTITIES[quantity]
    rows = _results(held("published"))
    counts = rows[(rows["benchmark"] == benchmark) & rows[column].notna()].groupby("family")["S"].nunique()
    return list(counts.index[counts >= 3])


def lambada_steps(family):
    """Training steps at which a family was evaluated, ascending; empty where only finished models were."""
    return sorted({int(step) for step in _of(family)["step"].dropna()})


def lambada(family, step=None):
    """LAMBADA results of a family, smallest model first; `step=None`: the finished models, or the last step.

    Returns:
        data frame: model, S, tokens (seen in training, NaN where not stated), acc (share of passages with the last word
        right), log_ppl (nats of that word), cross_entropy (nats per token of the text in `loss_text`), digits, source,
        loss (-log acc, infinite where none was right), y_se (standard error of its logarithm from so many passages).
    Raises:
        InputError: an unknown family, or a step that was not evaluated.
    """
    rows, steps = _of(family), lambada_steps(family)
    if step is not None and step not in steps:
        raise InputError(f"{family} was not evaluated at step {step}: choose one of {steps or 'none but the last'}.")
    if steps:
        rows = rows[rows["step"] == (steps[-1] if step is None else step)]
    return rows.reset_index(drop=True)


def _of(family, benchmark="LAMBADA"):
    rows = _results(held("published"))
    rows = rows[rows["benchmark"] == benchmark]
    if family not in (known := sorted(set(rows["family"]))):
        raise InputError(f"no published {benchmark} results of {family!r}: {nearest(family, known)}")
    return rows[rows["family"] == family]


def published_loss(family, quantity="-log acc", step=None):
    """(Loss, rows as of `lambada`) of one of QUANTITIES of a family by size. InputError: one of these is unknown."""
    if quantity not in QUANTITIES:
        raise InputError(f"no such published quantity, {quantity!r}: {nearest(quantity, QUANTITIES)}")
    benchmark, column = QUANTITIES[quantity]
    rows = lambada(family, step) if benchmark == "LAMBADA" else _of(family, benchmark)
    rows, total = rows[rows[column].notna()], SCORED[benchmark]
    return Loss(
        sums=rows[column].to_numpy(float)[None] * total,
        totals=np.array([total]),
        S=rows["S"].to_numpy(float),
        of=mean if column in NATS else minus_log,
        k=None if column in NATS else 1,
        name=quantity,
        family=family,
        corpus=benchmark,
        models=tuple(rows["model"]),
    ), rows


def gpt2_reference(quantity):
    """(k or S, value, uncertainty) of one quantity of the authors' GPT-2 figures, float64 (n,) each.

    The first array is S for `neg_log_rbp` and k for the rest; NaN where the table has none.
    """
    rows = read("gpt2_wikipedia_reference")
    quantities = sorted(set(rows["quantity"]))
    if quantity not in quantities:
        raise InputError(f"no such quantity in the GPT-2 figures, {quantity!r}: {nearest(quantity, quantities)}")
    key = "nonembedding_params" if quantity == "neg_log_rbp" else "k"
    return tuple(rows.loc[rows["quantity"] == quantity, [key, "value", "uncertainty"]].to_numpy(float).T)


def gpt2_histogram():
    """(low, high, mass) of the digitised GPT-2 rank histogram: int64 (43,), int64 (43,), float64 (43,)."""
    rows = read("gpt2_rank_histogram")
    return tuple(rows[name].to_numpy() for name in ("rank_low", "rank_high", "mass"))


def size_paths(family):
    """{model: (tokens, loss, standard error of its logarithm)} along training, steps with none right left out."""
    every = _of(family).query("0 < acc < 1")
    return {m: tuple(rows[["tokens", "loss", "y_se"]].to_numpy().T) for m, rows in every.groupby("model", sort=False)}


def reference_points(family, corpus, k=1):
    """Published points of a family on a corpus: namespace of S, loss and uncertainty (nats), float64 (M,), and a label.

    A family file names them, `published: {CORPUS: TABLE}`. None where there are none.

    Args:
        family: a settings.Family, a name or a YAML path. corpus: its name. k: rank that counts as a success.
    Raises:
        InputError: the family file names a table that is not carried.
    """
    family = load_family(family)
    table = family.published.get(corpus)
    if table not in (None, "gpt2_wikipedia_reference"):
        raise InputError(f"family {family.name!r} names the published table {table!r}, which is not carried here.")
    if table is None or k != 1:  # the authors show single models at k = 1 only
        return None
    S, loss, uncertainty = gpt2_reference("neg_log_rbp")
    return SimpleNamespace(S=S, loss=loss, uncertainty=uncertainty, label="authors' repository")
