"""Results that others published, read from `published/`; the columns are explained in published/README.md."""

import csv
from dataclasses import dataclass

import numpy as np

from rbplib.settings import InputError, nearest, root


@dataclass(frozen=True)
class Accuracies:
    """LAMBADA results of one family at one training step, smallest model first; arrays float64 (M,)."""

    family: str
    step: int | None  # None: the finished models
    models: tuple[str, ...]
    S: np.ndarray  # non-embedding parameters
    tokens: np.ndarray  # text seen in training, NaN where not stated
    acc: np.ndarray  # share of passages with the last word right
    acc_stderr: np.ndarray
    ppl: np.ndarray  # perplexity of the last word
    ppl_stderr: np.ndarray

    @property
    def loss(self):
        """-log acc, nats; infinite where no passage was right."""
        with np.errstate(divide="ignore"):
            return -np.log(self.acc)

    @property
    def log_loss_se(self):
        """Standard error of log(-log acc), by the delta method."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.acc_stderr / (self.acc * self.loss)


def read(name):
    """Rows of `published/NAME.csv` as dictionaries of text, in file order."""
    folder = root() / "published"
    path = folder / f"{name}.csv"
    if not path.is_file():
        known = sorted(p.stem for p in folder.glob("*.csv"))
        raise InputError(
            f"there is no published table {name!r}: {nearest(name, known) if known else 'the folder is missing.'}"
        )
    with open(path, newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def lambada_steps(family):
    """Training steps at which a family was evaluated, ascending; empty where only finished models were."""
    return sorted({int(r["step"]) for r in _lambada(family) if r["step"]})


def lambada(family, step=None):
    """LAMBADA accuracies of a family; `step=None` gives the finished models (the last step where there are several).

    Raises:
        InputError: an unknown family, or a step that was not evaluated.
    """
    rows, steps = _lambada(family), lambada_steps(family)
    if steps:
        step = steps[-1] if step is None else step
        rows = [r for r in rows if int(r["step"]) == step]
    if not rows or (step is not None and not steps):
        raise InputError(f"{family} was not evaluated at step {step}: choose one of {steps or 'none but the last'}.")
    rows.sort(key=lambda r: int(r["nonembedding_params"]))

    def column(name):
        return np.array([float(r[name]) if r[name] else np.nan for r in rows])

    return Accuracies(
        family, step, tuple(r["model"] for r in rows), column("nonembedding_params"), column("tokens"),
        column("acc"), column("acc_stderr"), column("ppl"), column("ppl_stderr"),
    )  # fmt: skip


def _lambada(family):
    rows = read("lambada")
    families = sorted({r["family"] for r in rows})
    if family not in families:
        raise InputError(f"no published LAMBADA results of {family!r}: {nearest(family, families)}")
    return [r for r in rows if r["family"] == family]


def gpt2_reference(quantity):
    """(k or S, value, uncertainty) of one quantity of the authors' GPT-2 figures, float64 (n,) each.

    The first array is S for `neg_log_rbp` and k for the rest; NaN where the table has none.
    """
    rows = read("gpt2_wikipedia_reference")
    quantities = sorted({r["quantity"] for r in rows})
    if quantity not in quantities:
        raise InputError(f"no such quantity in the GPT-2 figures, {quantity!r}: {nearest(quantity, quantities)}")
    key = "nonembedding_params" if quantity == "neg_log_rbp" else "k"
    rows = [r for r in rows if r["quantity"] == quantity]
    return tuple(np.array([float(r[c]) if r[c] else np.nan for r in rows]) for c in (key, "value", "uncertainty"))


def gpt2_histogram():
    """(low, high, mass) of the digitised GPT-2 rank histogram: int64 (43,), int64 (43,), float64 (43,)."""
    rows = read("gpt2_rank_histogram")
    low, high = (np.array([int(r[c]) for r in rows]) for c in ("rank_low", "rank_high"))
    return low, high, np.array([float(r["mass"]) for r in rows])
