"""Results that others published, read from `published/` and fitted; the columns are explained in published/README.md.

Nothing here was measured by this project.
"""

import csv
from dataclasses import dataclass

import numpy as np

from rbplib.laws.law import Law, fit
from rbplib.laws.losses import Loss
from rbplib.laws.noise import size_spread
from rbplib.settings import InputError, load_family, nearest, root

PASSAGES = 5153  # of LAMBADA; the reported errors are those of a share of so many


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
    def y_se(self):
        """Standard error of y = log(-log acc), by the delta method."""
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

    arrays = ("tokens", "acc", "acc_stderr", "ppl", "ppl_stderr")
    return Accuracies(
        family=family,
        step=step,
        models=tuple(r["model"] for r in rows),
        S=column("nonembedding_params"),
        **{name: column(name) for name in arrays},
    )


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


def published_law(found, level=0.95):
    """Fit the law to `Accuracies`; models without a right or a wrong passage are left out.

    Raises:
        InputError: fewer than three models are left.
    """
    use = (found.acc > 0) & (found.acc < 1)
    if use.sum() < 3:
        raise InputError(f"{found.family} at step {found.step} leaves fewer than three models with a finite loss.")
    loss = Loss(
        sums=(found.acc * PASSAGES)[None],
        totals=np.array([PASSAGES]),
        S=found.S,
        k=1,
        name="-log acc",
        family=found.family,
        corpus="LAMBADA",
        models=found.models,
    )
    return PublishedLaw(fit(loss, n_bootstrap=0, level=level), found.step, found.y_se[use])


def training_laws(family):
    """The law at every published step of a family at which every model has a finite loss."""
    every = [lambada(family, step) for step in lambada_steps(family)]
    return [published_law(found) for found in every if ((found.acc > 0) & (found.acc < 1)).all()]


def size_paths(family):
    """{model: (tokens, loss, standard error of its logarithm)} along training, steps with none right left out."""
    steps = [lambada(family, s) for s in lambada_steps(family) if s]
    paths = {}
    for i, model in enumerate(steps[-1].models):
        rows = [(a.tokens[i], a.loss[i], a.y_se[i]) for a in steps if 0 < a.acc[i] < 1]
        paths[model] = tuple(np.array(rows).T)
    return paths


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
