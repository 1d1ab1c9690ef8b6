"""The law in size and training tokens together: grids of models, joint forms, cuts, and forecasts.

Points are models: S (non-embedding parameters), D (training tokens) and a loss in nats. A form
joins terms, each a coefficient times powers of S, of D, of both or of neither (a floor): the
paper's Eq. 5 is one term with S alone. Terms T are summed, (sum T^(1/g))^g with g = 1, or with g
the exponent of D (Kaplan et al. 2020, Eq. 1.5). All by least squares of the log of the loss.
"""

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd

from paper import published
from paper.evidence import FORECAST, forecast_rows
from rbplib.families import InputError, load_family
from rbplib.forecasting import beside
from rbplib.joint import FLOOR, SUM, Form, fit_form, joint_forecast, reason
from rbplib.losses import cross_entropy, rbp_loss
from rbplib.table import family_tables

BOTH = "beyond in both at once"  # size and tokens
TEXTS = {"c4_original": "C4", "rpj": "RedPajama", "rw_original": "RefinedWeb"}  # of open_lm
MULTIPLE, TOKENS = "one multiple", "one $D$"  # kinds of cuts
AXES = {MULTIPLE: "multiple of 20 tokens a parameter", TOKENS: "training tokens $D$"}
SHOWN = {"additive": "--", "kaplan": "-"}  # forms that may explain a fall, and their lines

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


def points(loss):
    """A Loss with D as a data frame: S, D, loss, and budget, the amount of text."""
    return pd.DataFrame({"S": loss.S, "D": loss.D, "loss": loss.values, "budget": loss.D})


def open_lm(losses, tasks, **cut):
    """Points of validation losses and tasks of the models of `published.open_lm`: data frame
    of (which), name, corpus (the training text), S, D, budget (multiple of 20 tokens a parameter),
    loss in nats or -log of a share. cut: of `published.open_lm`.
    """
    columns = {name: f"loss_{name}" for name in losses} | {name: f"acc_{name}" for name in tasks}
    parts = {name: published.open_lm(column, **cut) for name, column in columns.items()}
    rows = pd.concat(parts, names=["of", "name"]).reset_index()
    return rows.replace({"corpus": TEXTS}).rename(columns={"multiple": "budget"})


# --- forms compared on what they did not see


def contest(points):
    """How far forms miss models that were not fitted: data frame, a row per way to leave some out.

    points: data frame S, D, loss, budget. Columns: left (the way), the root mean square error of
    each form in logs, NaN where the rest cannot carry it, and better_beyond_the_spread: 1 where the
    sum beats the product by more than the groups spread, at 5%, -1 the other way round, 0 neither,
    NaN with fewer than three groups.
    """
    from scipy.stats import ttest_1samp

    large, long = (points[side] == points[side].max() for side in ("S", "budget"))
    ways = {
        "each size": [points["S"] == size for size in np.unique(points["S"])],
        "each budget": [points["budget"] == value for value in np.unique(points["budget"])],
        "the largest size": [large],
        "the largest budget": [long],
        "the largest of either": [large | long],
    }
    rows, once = [], cache(lambda out: missed(points, out))  # the largest size is one of all
    for left, groups in ways.items():
        errors = pd.DataFrame(np.nan, range(len(groups)), [*FORMS])
        for i, out in enumerate(groups):
            errors.loc[i] = pd.Series(once(tuple(out)), dtype=float)
        # is the sum better than the product by more than groups spread?
        lead, better = (errors["product"] - errors["additive"]).dropna(), np.nan
        if len(lead) > 2:
            better = np.sign(lead.mean()) * (ttest_1samp(lead, 0).pvalue < 0.05)
        complete = errors.dropna(axis=1, how="all").dropna()
        rmse = np.sqrt((complete**2).mean()).reindex(errors.columns)
        rows.append({"left": left, "better_beyond_the_spread": better} | rmse.to_dict())
    return pd.DataFrame(rows)


def missed(points, out):
    """{form: root mean square error in logs} of the points left out, bool (n,), of a fit to the
    rest."""
    S, D, loss = points[["S", "D", "loss"]].to_numpy(float).T
    out, errors = np.asarray(out), {}
    for form, law in fits(S[~out], D[~out], loss[~out]).items():
        errors[form] = np.sqrt(np.mean(np.log(loss[out] / law.predict(S[out], D[out])) ** 2))
    return errors


# --- cuts along size


def at_tokens(S, D, loss, tokens, most=2.5):
    """(S, loss) of each size after so many tokens, float64 each: between its own two nearest
    budgets, linear in logs.

    Left out is a size without both, or with a larger factor than `most` between them.
    """
    sizes, losses = [], []
    for size in np.unique(S):
        # budgets of this size, the least first
        models = np.flatnonzero(S == size)
        models = models[np.argsort(D[models])]
        budgets, values = D[models], loss[models]
        # its loss, between the two nearest
        below = budgets[budgets <= tokens]
        above = budgets[budgets >= tokens]
        if len(below) and len(above) and above[0] < most * below[-1]:
            y = np.interp(np.log(tokens), np.log(budgets), np.log(values))
            sizes.append(size)
            losses.append(np.exp(y))
    return np.array(sizes), np.array(losses)


def bend(S, loss):
    """The exponent along size and its fall over a decade, from a quadratic in log S.

    models, alpha, fall, se of fall (by the scatter around the quadratic). S, loss: float (n,),
    n > 3.
    """
    x, y = np.log10(S), np.log10(loss)
    curve, noise = np.polyfit(x, y, 2, cov=True)
    alpha = -np.polyfit(x, y, 1)[0]
    error = 2 * noise.round(9)[0, 0] ** 0.5
    return {"models": len(x), "alpha": alpha, "fall": 2 * curve.round(9)[0], "se of fall": error}


def cuts(parts, laws=None):
    """Every cut of four sizes or more: data frame loss, corpus, tokens (its kind), at, `bend`, and
    the fall that each form of SHOWN gives.

    parts: {(loss, corpus): points of `open_lm`}. laws: {(loss, corpus): {form: JointLaw}}.
    """
    records = []
    for key, rows in parts.items():
        S, D, loss = rows[["S", "D", "loss"]].to_numpy(float).T
        lines = []
        for at in np.unique(rows["budget"]):
            here = (rows["budget"] == at).to_numpy()
            lines.append((MULTIPLE, at, S[here], D[here], loss[here]))
        for at in np.unique(D):
            sizes, between = at_tokens(S, D, loss, at)
            lines.append((TOKENS, at, sizes, np.full(len(sizes), at), between))
        for kind, at, *line in lines:
            if len(line[0]) < 4:
                continue
            record = dict(zip(("loss", "corpus"), key, strict=True)) | {"tokens": kind, "at": at}
            record |= bend(line[0], line[2]) | dict.fromkeys(SHOWN, np.nan)
            for form in SHOWN.keys() & laws[key].keys() if laws else ():
                record[form] = bend(line[0], laws[key][form].predict(*line[:2]))["fall"]
            records.append(record)
    return pd.DataFrame(records)


# --- forecasts


def held_out_forecasts(loss, **about):
    """The ends of a grid left out, and forecast from the rest by `rbp.joint_forecast`.

    Left out are the largest size, the largest two, the models on the most text; and all these at
    once, of which those are forecast that lie beyond in both.

    Args: loss: Loss with D. about: further columns.
    Returns: data frame, a row per point: left, S, D, forecast, low, high, measured, error, inside;
        empty where the rest carries no forecast.
    """
    S, D, parts = loss.S, loss.D, [pd.DataFrame()]
    # what is left out of the fit, and what is forecast then
    largest, large, long = S == S.max(), S >= np.unique(S)[-2:][0], D == D.max()
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


def ahead_rows(ahead):
    """The one row of forecasts for claims, with what lies beyond both sizes and tokens counted
    apart."""
    rows = forecast_rows(ahead, FORECAST)
    if not len(rows):
        return rows
    both = ahead[ahead["left"] == BOTH]
    inside = f"{both['inside'].sum()} of {len(both)}"
    return rows.assign(both_held=inside, both_error=both["error"].abs().median())
