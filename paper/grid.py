"""Families of the same sizes trained on different amounts of text, as one grid: laws along each side, and over both."""

from dataclasses import dataclass, replace

import numpy as np

from paper.steps import step_weights
from rbplib.curve import Curve, own_repeats, rbp_curve, same_tokens
from rbplib.families import InputError, load_family
from rbplib.law import fit
from rbplib.losses import logarithm
from rbplib.table import family_tables


@dataclass(frozen=True)
class Grid:
    """Losses of models of several sizes and budgets on the same scored tokens.

    curve: Curve of all (M,) models, budget by budget, smallest first; it may hold a size many times.
    D: float64 (M,), tokens of text that each model saw in training.
    """

    curve: Curve
    D: np.ndarray

    @property
    def budgets(self):
        """Different numbers of tokens, float64, ascending."""
        return np.unique(self.D)

    @property
    def whole(self):
        """The part of the sizes that every budget holds, so that budgets are compared on the same ones: Grid."""
        sizes, times = np.unique(self.curve.S, return_counts=True)
        kept = np.flatnonzero(np.isin(self.curve.S, sizes[times >= len(self.budgets)]))
        return Grid(self.curve.keep(kept), self.D[kept])

    def loss(self, k=None):
        """-log RBP_k of all models as a Loss; of k = None the cross-entropy."""
        return self.curve.cross_entropy_loss() if k is None else self.curve.loss(k)

    def along_size(self, k=None, **drawn):
        """{tokens: Law in S} of every budget with three models or more. drawn: n_bootstrap, seed, as of `fit`."""
        loss, groups = self.loss(k), {d: np.flatnonzero(self.D == d) for d in self.budgets}
        return {d: fit(loss.keep(where), **drawn) for d, where in groups.items() if len(where) > 2}

    def along_tokens(self, k=None, **drawn):
        """{size: Law in D} of every size with three budgets or more; the law's S is the number of tokens."""
        loss, groups = self.loss(k), {s: np.flatnonzero(self.curve.S == s) for s in np.unique(self.curve.S)}
        found = {s: where[np.argsort(self.D[where])] for s, where in groups.items() if len(where) > 2}
        return {s: fit(replace(loss.keep(w), S=self.D[w], repeats=None), **drawn) for s, w in found.items()}


def grid(families, corpus, ks, protocol="paper", results=None, partial=False):
    """The Grid of families whose files say how many `tokens` each model saw.

    Args:
        families: names or YAML paths; one of them may name `repeats`, which tell of all how trainings differ.
        corpus: name or path. ks: ranks to count. results, partial: as in `family_tables`.
    Raises:
        InputError: a family does not say its tokens, has no table, or was measured on other tokens of text.
    """
    curves, tokens, every = [], [], []
    for family in map(load_family, families):
        said = {m.name: m.tokens for m in family.models}
        if silent := [name for name, n in said.items() if n is None]:
            raise InputError(f"{family.name} does not say how much text {silent[0]} saw: add 'tokens:' to its file.")
        tables, missing = family_tables(family, corpus, protocol, results, partial)
        same_tokens(every := [*every, *tables])
        curves.append(own_repeats(rbp_curve(tables, ks, missing=missing), family, corpus, protocol, results))
        tokens += [float(said[name]) for name in curves[-1].models]
    if not curves:
        raise InputError("no family was given: name at least two that saw different amounts of text.")
    order = np.argsort(tokens, kind="stable")
    parts = {"models": tuple(np.array([f"{c.family} {m}" for c in curves for m in c.models])[order].tolist())}
    parts |= {name: np.concatenate([getattr(c, name) for c in curves], axis=-1)[..., order] for name in ("S", "nll")}
    parts["hits"] = np.concatenate([c.hits for c in curves], axis=1)[:, order]
    again = next((c.repeats for c in curves if c.repeats is not None), None)
    return Grid(replace(curves[0], **parts, repeats=again), np.array(tokens)[order])


def noisy_losses(loss, n_bootstrap=1000, seed=42):
    """Losses (B, M) of all models on resampled sources, each model with the scatter of its training added.

    The scatter is that between seeds, where the loss has repeats; what the choice of text makes of it is taken off.
    None with too few sources to draw from.
    """
    drawn, (sd, df) = loss.resampled(n_bootstrap, seed), loss.training_noise()
    if drawn is None or not df:
        return None if drawn is None else drawn.loss
    rng = np.random.default_rng(seed)
    scale = sd * np.sqrt(df / rng.chisquare(df, len(drawn.loss)))
    return drawn.loss * np.exp(scale[:, None] * rng.normal(size=drawn.loss.shape))


def last_steps(grid, k=None, n_bootstrap=1000, seed=42):
    """The exponent of the last step in size over the mean of those before it, budget by budget; 1 where nothing bends.

    Under an additive law a step's exponent is a times the share of its size's term in the loss, so the ratio rises to 1
    with the tokens. The difference of the two, by contrast, is 0 both where text is all that matters and where none is.

    Returns:
        tokens float64 (B,), ratio float64 (B,), draws float64 (R, B) over sources and trainings; all budgets are
        resampled together. Only sizes that all budgets hold are used; NaN with fewer than three.
    """
    loss, S = grid.loss(k), grid.curve.S
    shared = np.unique(grid.whole.curve.S)
    last, before = np.full((2, len(grid.budgets), len(S)), np.nan if len(shared) < 3 else 0.0)
    for i, d in enumerate(grid.budgets if len(shared) > 2 else ()):
        where = np.flatnonzero((grid.D == d) & np.isin(S, shared))
        steps = step_weights(S[where])
        last[i, where], before[i, where] = steps[-1], steps[:-1].mean(axis=0)
    noisy = noisy_losses(loss, n_bootstrap, seed)
    draws = np.full((1, len(last)), np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        if noisy is not None:
            y = logarithm(noisy)
            draws = (y @ last.T) / (y @ before.T)
        return grid.budgets, (last @ loss.y) / (before @ loss.y), draws


def best_sizes(law, compute):
    """(S, D) of least predicted loss at compute C = 6 S D (n,) of a joint law: float64 (n, 2)."""
    C = np.asarray(compute, float)[:, None]
    S = np.sqrt(C / 6) * np.logspace(-3, 3, 2401)
    D = C / 6 / S
    best = law.predict(S, D).argmin(axis=1)[:, None]
    return np.hstack([np.take_along_axis(side, best, axis=1) for side in (S, D)])
