"""Results that others published, read from `published/` and fitted; the columns are explained in published/README.md.

Nothing here was measured by this project.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from rbplib.laws.law import Law, fit
from rbplib.laws.losses import Loss
from rbplib.laws.noise import size_spread
from rbplib.settings import InputError, held, load_family, nearest

PASSAGES = 5153  # of LAMBADA; the reported errors are those of a share of so many


def read(name):
    """The table `published/NAME.csv`, rows in file order: data frame."""
    folder = held("published")
    path = folder / f"{name}.csv"
    if not path.is_file():
        known = sorted(p.stem for p in folder.glob("*.csv"))
        raise InputError(
            f"there is no published table {name!r}: {nearest(name, known) if known else 'the folder is missing.'}"
        )
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


def lambada_steps(family):
    """Training steps at which a family was evaluated, ascending; empty where only finished models were."""
    return sorted({int(step) for step in _lambada(family)["step"].dropna()})


def lambada(family, step=None):
    """LAMBADA results of a family, smallest model first; `step=None`: the finished models, or the last step.

    Returns:
        data frame: model, S (non-embedding parameters), tokens (text seen in training, NaN where not stated), acc
        (share of passages with the last word right) and ppl (perplexity of the last word) with their standard errors,
        loss (-log acc in nats, infinite where none was right), y_se (standard error of its logarithm, delta method).
    Raises:
        InputError: an unknown family, or a step that was not evaluated.
    """
    rows, steps = _lambada(family), lambada_steps(family)
    if step is not None and step not in steps:
        raise InputError(f"{family} was not evaluated at step {step}: choose one of {steps or 'none but the last'}.")
    if steps:
        rows = rows[rows["step"] == (steps[-1] if step is None else step)]
    rows = rows.sort_values("nonembedding_params", ignore_index=True).rename(columns={"nonembedding_params": "S"})
    with np.errstate(divide="ignore", invalid="ignore"):
        rows["loss"] = -np.log(rows["acc"])
        rows["y_se"] = rows["acc_stderr"] / (rows["acc"] * rows["loss"])
    return rows


def _lambada(family):
    rows = read("lambada")
    families = sorted(set(rows["family"]))
    if family not in families:
        raise InputError(f"no published LAMBADA results of {family!r}: {nearest(family, families)}")
    return rows[rows["family"] == family]


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


@dataclass(frozen=True)
class PublishedLaw:
    """The law on the accuracies of one family at one step, beside the errors that were reported with them."""

    law: Law
    step: int | None
    y_se: np.ndarray  # float64 (M,), of log(-log acc) of the models used

    @property
    def sampling_se(self):
        """Standard error of alpha from the reported errors, passages taken as drawn anew for each model."""
        x = np.log(self.law.S) - np.log(self.law.S).mean()
        return float(np.sqrt((x**2 * self.y_se**2).sum()) / size_spread(self.law.S))

    @property
    def lack_of_fit(self):
        """Residuals against the reported errors, chi-squared on M - 2 degrees of freedom."""
        return float((self.law.y - self.law.fitted) @ (self.law.y - self.law.fitted) / np.mean(self.y_se**2))

    @property
    def lack_of_fit_p(self):
        from scipy.special import chdtrc

        return float(chdtrc(self.law.n_models - 2, self.lack_of_fit))


def published_law(family, step=None):
    """Fit the law to `lambada`; models without a right or a wrong passage are left out.

    Raises:
        InputError: as `lambada`, or fewer than three models are left.
    """
    found = lambada(family, step)
    use = found["acc"].between(0, 1, inclusive="neither").to_numpy()
    if use.sum() < 3:
        raise InputError(f"{family} at step {step} leaves fewer than three models with a finite loss.")
    loss = Loss(
        sums=found["acc"].to_numpy()[None] * PASSAGES,
        totals=np.array([PASSAGES]),
        S=found["S"].to_numpy(float),
        k=1,
        name="-log acc",
        family=family,
        corpus="LAMBADA",
        models=tuple(found["model"]),
    )
    return PublishedLaw(fit(loss, n_bootstrap=0), step, found["y_se"].to_numpy()[use])


def training_laws(family):
    """The law at every published step of a family at which every model has a finite loss."""
    steps = lambada_steps(family)
    return [
        published_law(family, s) for s in steps if lambada(family, s)["acc"].between(0, 1, inclusive="neither").all()
    ]


def size_paths(family):
    """{model: (tokens, loss, standard error of its logarithm)} along training, steps with none right left out."""
    every = pd.concat([lambada(family, step) for step in lambada_steps(family) if step])
    every = every[every["acc"].between(0, 1, inclusive="neither")]
    return {
        model: tuple(rows[["tokens", "loss", "y_se"]].to_numpy().T)
        for model, rows in every.groupby("model", sort=False)
    }


@dataclass(frozen=True)
class Reference:
    """Published -log RBP_k of a family's models. S: float64 (M,). loss, uncertainty: float64 (M,), nats."""

    S: np.ndarray
    loss: np.ndarray
    uncertainty: np.ndarray
    label: str


def reference_points(family, corpus, k=1):
    """Published points of a family on a corpus, or None where there are none.

    A family file names them: `published: {CORPUS: TABLE}`.

    Args:
        family: a settings.Family, a name or a YAML path. corpus: its name. k: rank that counts as a success.
    Raises:
        InputError: the family file names a table that is not carried.
    """
    family = load_family(family)
    table = family.published.get(corpus)
    if table is None:
        return None
    if table != "gpt2_wikipedia_reference":
        raise InputError(f"family {family.name!r} names the published table {table!r}, which is not carried here.")
    if k != 1:
        return None  # the authors show single models at k = 1 only
    return Reference(*gpt2_reference("neg_log_rbp"), label="authors' repository")
