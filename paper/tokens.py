"""The law in size and training tokens together: grids of models, joint forms, and forecasts.

Points are models: S (non-embedding parameters), D (training tokens) and a loss in nats. A form
joins terms, each a coefficient times powers of S, of D, of both or of neither (a floor): the
paper's Eq. 5 is one term with S alone. Terms T are summed, (sum T^(1/g))^g with g = 1, or with g
the exponent of D (Kaplan et al. 2020, Eq. 1.5). All by least squares of the log of the loss.
"""

from dataclasses import replace

import numpy as np
import pandas as pd

from paper.forecasts import beside
from rbplib.families import InputError, load_family
from rbplib.joint import FLOOR, SUM, Form, fit_form, joint_forecast, reason
from rbplib.losses import cross_entropy, rbp_loss
from rbplib.table import family_tables

BOTH = "beyond in both at once"  # size and tokens


# --- joint forms


FORMS = {
    "size": Form("size alone", ("Aa",)),  # A S^-a
    "size_floor": Form("size with a floor", ("Aa", "E")),  # E + A S^-a
    "product": Form("the product", ("Aab",)),  # A S^-a D^-b
    "additive": SUM,
    "kaplan": Form("Kaplan's form", ("Aa", "Bb"), "b"),  # ((A S^-a)^(1/b) + (B D^-b)^(1/b))^b
    "additive_floor": FLOOR,
}
TITLES = {name: form.title for name, form in FORMS.items()}


def fit(S, D, loss, form="additive"):
    """Least squares of log loss on one of FORMS: `rbplib.joint.fit_form`."""
    return fit_form(S, D, loss, FORMS[form])


def fits(S, D, loss, forms=FORMS):
    """{name: JointLaw} of those forms that the points, float64 (n,) each, can carry."""
    return {name: fit(S, D, loss, name) for name in forms if not reason(S, D, loss, FORMS[name])}


def at_tokens(S, D, loss, tokens, apart=2.5):
    """(S, loss) of each size after so many tokens, float64 each: between its own two nearest
    budgets, linear in logs.

    Left out is a size without both, or with a larger factor than `apart` between them.
    """
    S, D, loss = (np.asarray(values, float) for values in (S, D, loss))
    sizes, losses = [], []
    for size in np.unique(S):
        # budgets of this size, the least first
        models = np.flatnonzero(S == size)
        models = models[np.argsort(D[models])]
        budgets, values = D[models], loss[models]
        # its loss, between the two nearest
        below = budgets[budgets <= tokens]
        above = budgets[budgets >= tokens]
        if len(below) and len(above) and above[0] < apart * below[-1]:
            y = np.interp(np.log(tokens), np.log(budgets), np.log(values))
            sizes.append(size)
            losses.append(np.exp(y))
    return np.array(sizes), np.array(losses)


# --- forms compared on what they did not see


def groupings(size, budget):
    """{kind: list of bool (n,)} that can be left out; size, budget: values or labels (n,) by which
    to group.
    """
    size, budget = np.asarray(size), np.asarray(budget)
    large, long = size == size.max(), budget == budget.max()
    return {
        "each size": [size == value for value in np.unique(size)],
        "each budget": [budget == value for value in np.unique(budget)],
        "the largest size": [large],
        "the largest budget": [long],
        "the largest of either": [large | long],
    }


def held_out(S, D, loss, left, forms=FORMS):
    """Root mean square errors in log loss of points not fitted: data frame, a row per group, a
    column per form.

    left: list of bool (n,), True where left out, see `groupings`. NaN where the rest cannot carry a
    form.
    """
    S, D, loss = (np.asarray(values, float) for values in (S, D, loss))
    errors = pd.DataFrame(np.nan, index=range(len(left)), columns=list(forms))
    for row, out in enumerate(left):
        for form, law in fits(S[~out], D[~out], loss[~out], forms).items():
            missed = np.log(loss[out] / law.predict(S[out], D[out]))
            errors.loc[row, form] = np.sqrt(np.mean(missed**2))
    return errors


# --- grids of measured families


def grid(families, corpus, ks):
    """{k: Loss of all models with their D}, k = None the cross-entropy; sizes rise, and in one size
    D.

    Args: families: names or YAML paths of ladders whose files say how many `tokens` each model
        saw; one of them may name `repeats`, which tell of all how trainings differ. corpus: name
        or path. ks: ranks to count.
    Raises: InputError: a family does not say its tokens, has no table, or was measured on other
        tokens of text.
    """
    models, repeats = [], ()
    for family in map(load_family, families):
        # what each model saw, and its table
        tokens = {model.name: model.tokens for model in family.models}
        for name, number in tokens.items():
            if number is None:
                message = f"{family.name} does not say how much text {name} saw"
                raise InputError(f"{message}: add 'tokens:' to its file.")
        for table in family_tables(family, corpus)[0]:
            name, S = table.record["model"], table.record["nonembedding_params"]
            models.append((S, name, tokens[name], f"{family.name} {name}", table))
        if family.repeats:
            repeats, _ = family_tables(family.repeats, corpus)

    # one loss of all models
    _, _, D, names, tables = zip(*sorted(models, key=lambda model: model[:3]), strict=True)
    about = {"D": np.array(D, float), "models": names}
    losses = {k: rbp_loss(tables, k, repeats=repeats) for k in ks}
    losses[None] = cross_entropy(tables, repeats)
    return {k: replace(loss, **about) for k, loss in losses.items()}


def whole(loss):
    """The models of a Loss of those sizes that every amount of text has."""
    sizes, times = np.unique(loss.S, return_counts=True)
    sizes = sizes[times >= len(np.unique(loss.D))]
    return loss.keep(np.flatnonzero(np.isin(loss.S, sizes)))


# --- forecasts


def held_out_forecasts(loss, **about):
    """The ends of a grid left out, and forecast from the rest by
    `rbplib.joint.joint_forecast`.

    Left out are the largest size, the largest two, the models on the most text; and all these at
    once, of which those are forecast that lie beyond in both.

    Args: loss: Loss with D. about: further columns.
    Returns: data frame, a row per point: left, S, D, forecast, low, high, measured, error, inside;
        empty where the rest carries no forecast.
    """
    S, D, parts = loss.S, loss.D, [pd.DataFrame()]
    # what is left out of the fit, and what is forecast then
    two_largest = np.unique(S)[-2:]
    largest, large = S == S.max(), S >= two_largest[0]
    long = D == D.max()
    ends = {
        "the largest size": (largest, largest),
        "the largest two sizes": (large, large),
        "the most text": (long, long),
        BOTH: (large | long, large & long),
    }
    for left, (out, wanted) in ends.items():
        if out.all() or not wanted.any() or not np.isfinite(loss.y).all():
            continue
        try:
            rest = loss.keep(np.flatnonzero(~out))
            ahead = joint_forecast(rest, S[wanted], D[wanted])
        except InputError:
            continue
        columns = {"left": left, "S": S[wanted], "D": D[wanted]}
        columns |= beside(ahead, loss.values[wanted])
        parts.append(pd.DataFrame(about | columns))
    return pd.concat(parts[1:] or parts, ignore_index=True)
