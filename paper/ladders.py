"""Laws on the ladders of `laws.published`: one family with the noise of its benchmark, and families side by side."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pandas as pd
from scipy.special import chdtrc, fdtri, stdtrit

from paper.published import QUANTITIES, families, lambada, lambada_steps, open_lm_losses, published_loss, read
from paper.steps import size_spread, slope_weights
from rbplib.families import InputError, nearest
from rbplib.law import Law, fit
from rbplib.losses import minus_log

FIXED, GROWS, OTHER, UNKNOWN = "one amount", "grows with size", "otherwise", "not in the source"  # of training text


@dataclass(frozen=True)
class PublishedLaw:
    """The law on one published quantity of one family, beside what the number of answers and of digits makes of it."""

    law: Law
    quantity: str
    rows: pd.DataFrame  # of the models used, see `published.lambada`
    step: int | None = None

    @property
    def moves(self):
        """Change of alpha for a change of each model's share of right answers, float64 (M,)."""
        return -slope_weights(self.law.S) * np.exp(np.exp(self.law.y) - self.law.y)

    @property
    def sampling(self):
        """{how right answers fall together: standard error of alpha from the choice of passages}; NaN for nats.

        A share tells how often a model was right, not where two were right together. Passages are hard or easy for all
        models alike, so two of them have at least as many right answers in common as independent ones, and at most all
        of the weaker one's ("nested"). "at most": what no such mixture can exceed, each pair at its worse end.
        """
        share = np.exp(-np.exp(self.law.y))
        shared = np.minimum.outer(share, share) - np.outer(share, share)
        answers = self.law.scored_tokens - 1 if self.law.loss.of is minus_log else np.nan
        parts = np.outer(self.moves, self.moves) * shared / answers
        together = parts - np.diag(np.diag(parts))
        sums = {"independent": 0, "nested": together.sum(), "at most": together.clip(0).sum()}
        return {name: float(np.sqrt(np.trace(parts) + more)) for name, more in sums.items()}

    @property
    def rounding(self):
        """The most that rounding to the printed digits can move alpha; NaN where they are not stated, and for nats."""
        off = 0.5 * 10.0 ** -self.rows["digits"].to_numpy(float)
        return float(np.abs(self.moves) @ off) if self.quantity == "-log acc" else np.nan

    @property
    def lack_of_fit_p(self):
        """Residuals of -log acc against the errors of independent answers, chi-squared on M - 2."""
        squares = (self.law.y - self.law.fitted) ** 2
        return float(chdtrc(self.law.n_models - 2, squares.sum() / np.mean(self.rows["y_se"] ** 2)))

    @property
    def text(self):
        """How much text the models of growing size were trained on: FIXED, GROWS, OTHER or UNKNOWN."""
        tokens = np.log(self.rows["tokens"].to_numpy(float))
        one, more = np.ptp(tokens) < 0.5, (np.diff(tokens) > 0).all()  # within a factor of 1.65 they are the same
        return UNKNOWN if np.isnan(tokens).any() else FIXED if one else GROWS if more else OTHER

    @property
    def record(self):
        """The fit as a row of a table, and as programs read it."""
        texts = self.rows["loss_text"].unique() if self.quantity == "cross-entropy" else [self.law.corpus]
        sources = self.rows["source"].unique()
        return {
            "family": self.law.family,
            "quantity": self.quantity,
            "of": ", ".join(texts),
            "n": self.law.n_models,
            "S": [float(self.law.S.min()), float(self.law.S.max())],
            "S is": "; ".join(self.rows["params_basis"].unique()),
            "text": self.text,
            "alpha": self.law.alpha,
            "interval": self.law.ci_models,
            "r2": self.law.r2,
            "se of answers": self.sampling["independent"],
            "source": "; ".join(sources if len(sources) < 4 else [sources[0], f"and {len(sources) - 1} like it"]),
        }


def published_law(family, quantity="-log acc", step=None):
    """The law on a `published_loss`. InputError: as there, or fewer than three models have a finite loss."""
    loss, rows = published_loss(family, quantity, step)
    law = fit(loss, n_bootstrap=0)
    if law.n_models < 3:
        raise InputError(f"{family} at step {step} leaves fewer than three models with a finite loss.")
    return PublishedLaw(law, quantity, rows.iloc[list(law.used)], step)


def published_laws(family=None):
    """Every law by size that the tables hold, of one family or of all: list of PublishedLaw."""
    names = {quantity: families(quantity) for quantity in QUANTITIES}
    known = sorted(set().union(*names.values()))
    family = next((name for name in known if family and name.lower() == family.lower()), family)
    if family not in (None, *known):
        raise InputError(f"no published results of {family!r} by size: {nearest(family, known)}")
    return [published_law(name, q) for name in known for q in QUANTITIES if name in names[q] and family in (None, name)]


def open_lm_laws(family=None):
    """The law by size of every loss and other task of open_lm: list of PublishedLaw; family: as of `published_laws`."""
    quantities = [c for c in read("openlm_scaling") if c.startswith(("loss_", "acc_")) and c != "acc_lambada_openai"]
    return [
        PublishedLaw(fit(loss, n_bootstrap=0), "-log acc" if quantity.startswith("acc_") else "cross-entropy", rows)
        for quantity in quantities
        for loss, rows in open_lm_losses(quantity)
        if len(loss.S) > 2 and not loss.equal and (family or loss.family).lower() == loss.family.lower()
    ]


def training_laws(family):
    """The law at every published step of a family at which every model has a finite loss."""
    whole = [s for s in lambada_steps(family) if lambada(family, s)["acc"].between(0, 1, inclusive="neither").all()]
    return [published_law(family, step=step) for step in whole]


def exponent_ratio(first, second, level=0.95):
    """(exponent of the second law over that of the first, its interval) on the same models, by Fieller's theorem.

    The interval holds each ratio r at which the residuals of y_2 - r y_1, whose two parts move together, allow a slope
    of 0 (Student t on M - 2); NaN ends: other models, or the first exponent may be 0.
    """
    ratio, nothing = second.alpha / first.alpha, (np.nan, np.nan)
    if first.models != second.models or first.n_models < 4:
        return ratio, nothing
    y, spare = np.array([first.y - first.fitted, second.y - second.fitted]), first.n_models - 2
    half = stdtrit(spare, (1 + level) / 2) ** 2 * y @ y.T / spare / size_spread(first.S)
    a, b, c = np.outer(*[(first.alpha, second.alpha)] * 2)[[0, 0, 1], [0, 1, 1]] - half[[0, 0, 1], [0, 1, 1]]
    return ratio, tuple(np.sort(np.roots([a, -2 * b, c]).real)) if a > 0 else nothing


def ancova(losses, level=0.95):
    """Analysis of covariance, log loss ~ log S * family: have families one exponent, and one level?

    Args:
        losses: Loss of each family, two or more.
    Returns:
        namespace: each (data frame: family, alpha and its se with a slope of its own; level, log loss less the mean of
        the families under one slope), common (that one exponent) and its interval,
        residual_sd around lines of their own, slopes and levels ((F, p): one each, against one for all), spread (sd of
        the exponents beyond their noise, low end, high end: the F test turned round).
    """
    from statsmodels.formula.api import ols

    parts = [pd.DataFrame({"family": loss.family, "x": np.log(loss.S), "y": loss.y}) for loss in losses]
    rows = pd.concat(parts).assign(x=lambda rows: rows["x"] - rows["x"].mean())
    own, common, one = (ols(f"y ~ {of}", rows).fit() for of in ("0 + family + family:x", "0 + family + x", "x"))
    (f, slopes_p, k), (g, levels_p, _) = own.compare_f_test(common), common.compare_f_test(one)
    levels, each = common.params.drop("x"), pd.DataFrame({"family": sorted(loss.family for loss in losses)})
    each["alpha"], each["se"] = -own.params.filter(like=":x").to_numpy(), own.bse.filter(like=":x").to_numpy()
    each["level"], noise = (levels - levels.mean()).to_numpy(), np.mean(each["se"] ** 2)
    ends = [1.0, *fdtri(k, own.df_resid, [(1 + level) / 2, (1 - level) / 2])]
    return SimpleNamespace(
        each=each,
        common=-common.params["x"],
        interval=tuple(-common.conf_int(1 - level).loc["x"][::-1]),
        residual_sd=np.sqrt(own.mse_resid),
        slopes=(f, slopes_p),
        levels=(g, levels_p),
        spread=tuple(np.sqrt(noise * max(f / end - 1, 0)) for end in ends),
    )


def shared_sizes(losses, slack=1.25):
    """The same losses for models of sizes that every family reaches, give or take a factor."""
    low, high = max(loss.S.min() for loss in losses) / slack, min(loss.S.max() for loss in losses) * slack
    return [loss.keep(np.flatnonzero((loss.S > low) & (loss.S < high))) for loss in losses]
