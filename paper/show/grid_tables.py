"""What pages show and claims judge of a grid of sizes and tokens: bends, forms, exponents, and all models together."""

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt

from paper import tokens as joint
from paper.evidence import FORECAST, forecast_rows
from paper.forecasts import tried
from paper.show import figures, style
from paper.show.claims import cases
from paper.show.numbers import Values, number
from paper.show.tables import corpus_title
from paper.tokens import BOTH, grid_ends, held_out_joint

CROSS_ENTROPY = "cross-entropy"
SIDES = ["corpus", "k", "side", "at"]
LAW = ["n_models", "alpha", "ci_models", "ci_tokens", "ci_trainings", "r2", "worst_residual"]


def loss_name(k):
    """A loss in a table: its k, or that it is cross-entropy."""
    return CROSS_ENTROPY if k is None else f"k = {k}"


# ---- figures


def draw_grid(grids, fits, k):
    """-log RBP_k against size and against tokens, a row of two panels per corpus: a Figure.

    fits: {(corpus, k): JointLaw}, drawn as lines, where there is one.
    """
    size = (style.WIDTH, 0.9 + 2.7 * len(grids))
    fig, axes = plt.subplots(len(grids), 2, figsize=size, sharey="row", squeeze=False)
    for (corpus, grid), row in zip(grids.items(), axes, strict=True):
        law, y, S, D = fits.get((corpus, k)), grid.loss(k).values, grid.curve.S, grid.D
        for ax, x, groups in zip(row, (S, D), (D, S), strict=True):
            # a mark for each value of the other side, and its line
            values = np.unique(groups)
            for value, look in zip(values, style.series(len(values)), strict=True):
                at = groups == value
                ax.plot(x[at], y[at], label=number(value, 2), **look, linestyle="none")
                if law:
                    ax.plot(x[at], law.predict(S[at], D[at]), color=look["color"], linewidth=1)
            figures.law_axes(ax, "").set_title(corpus_title(corpus))
        row[0].set_ylabel(rf"$-\log\,\mathrm{{RBP}}_{{{k}}}$ (nats)")
        row[1].set_xlabel("training tokens $D$")

    # what a mark stands for, once for each column
    for ax, title, side in zip(axes[0], ("tokens", "size"), ("left", "right"), strict=True):
        place = {"loc": f"outside lower {side}", "ncols": 3, "fontsize": 8}
        fig.legend(*ax.get_legend_handles_labels(), title=title, **place)
    axes[0][0].legend().set_visible(False)
    return fig


# ---- tables


def additive_laws(grids, losses):
    """{(corpus, k): JointLaw} of the sum, where the points can carry it."""
    fits = {}
    for corpus, grid in grids.items():
        for k in losses:
            points = (grid.curve.S, grid.D, grid.loss(k).values)
            for law in joint.fits(*points, ["additive"]).values():
                fits[corpus, k] = law
    return fits


def side_frame(grids, losses, **drawn):
    """The law along each side of the whole part of grids {corpus: Grid}: a row per corpus, k, side and place.

    k = 0: cross-entropy. drawn: n_bootstrap, seed, as of `fit`.
    """
    rows = []
    for corpus, grid in grids.items():
        for k in losses:
            sides = {"size": grid.whole.along_size, "tokens": grid.whole.along_tokens}
            for side, along in sides.items():
                for at, law in along(k, **drawn).items():
                    row = {"corpus": corpus, "k": k or 0, "side": side, "at": at}
                    rows.append(row | {name: getattr(law, name) for name in LAW})
    return pd.DataFrame(rows, columns=[*SIDES, *LAW])


def form_frame(grids, losses):
    """The joint forms compared on what was left out: `tokens.compared` with columns corpus, k and what was left out."""
    parts = []
    for corpus, grid in grids.items():
        for k in losses:
            values = grid.loss(k).values
            if not (np.isfinite(values) & (values > 0)).all():
                continue
            groups = joint.groupings(grid.curve.S, grid.D)
            place = {"corpus": corpus, "loss": loss_name(k), "k": k or 0}
            parts.append(contest((grid.curve.S, grid.D, values), groups, **place))
    columns = ["corpus", "loss", "left", "k", "form", "rmse", "better_beyond_the_spread"]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)


def contest(points, groups, **place):
    """`tokens.compared` of all forms for each way of leaving points out, and whether the sum beats the product.

    points: (S, D, loss), float64 (n,) each. groups: {kind: list of bool (n,)}. place: further columns.
    """
    parts = []
    for kind, left in groups.items():
        errors = joint.held_out(*points, left)
        ahead = leads(errors[["additive", "product"]])
        frame = joint.compared(errors).assign(**place, left=kind)
        parts.append(frame.assign(better_beyond_the_spread=ahead))
    return pd.concat(parts, ignore_index=True)


def leads(errors):
    """Of the two columns of `tokens.held_out` errors, is the first smaller by more than its spread over the groups?

    1, or -1 where it is the other one; 0: neither; NaN where one of them has none, or too few groups tell no spread.
    """
    best = joint.compared(errors)
    if len(best) < 2 or best["low"].isna().any():
        return np.nan
    return (best["verdict"][1] == "behind") * (
        1.0 if best["form"][0] == errors.columns[0] else -1.0
    )


def in_percent(forms):
    """`form_frame` with what a table shows: titles of texts and forms, errors in percent."""
    shown = forms.assign(
        corpus=forms["corpus"].map(corpus_title),
        form=[joint.FORMS[name].title for name in forms["form"]],
    )
    for column, heading in {
        "rmse": "error",
        "spread": "spread",
        "behind": "behind the best",
    }.items():
        shown[f"{heading} (%)"] = 100 * forms[column] if column in forms else np.nan
    shown["against the best"] = forms["verdict"] if "verdict" in forms else ""
    return shown.assign(**{"left out": forms["left"]})


def left_out_frame(compared, names):
    """Median error in percent, a row per form of `names` in that order, a column per way of leaving out."""
    errors = 100 * compared.pivot_table("rmse", "form", "left", "median", sort=False)
    return (
        errors.reindex([n for n in names if n in errors.index])
        .rename_axis(columns=None)
        .reset_index()
    )


def winners(forms):
    """[(what was left out, {form, rmse: Values} of the best there over texts and losses)]."""
    if not len(forms):
        return []
    best = forms[forms["verdict"] == "best"]
    parts = []
    for kind, part in best.groupby("left", sort=False):
        titles = [joint.FORMS[name].title for name in part["form"]]
        parts.append((kind, {"form": Values(titles), "rmse": Values(part["rmse"])}))
    return parts


def growth_rows(sides):
    """Rows for claims of `side_frame`: the exponents in size at the fewest and the most tokens, and their quotient."""
    rows = []
    for (corpus, k), laws in sides[sides["side"] == "size"].groupby(["corpus", "k"], sort=False):
        first, last = laws.iloc[0], laws.iloc[-1]
        if len(laws) > 1:
            row = {"corpus": corpus, "k": k, "first": first.alpha, "last": last.alpha}
            row |= {"growth": last.alpha / first.alpha, "tokens_times": last["at"] / first["at"]}
            row |= {"first_around": first.ci_models, "last_around": last.ci_models}
            rows.append(row | {name: last[name] for name in LAW})
    return cases(rows, None if rows else ["corpus", "k", "growth", *LAW])


def grid_forecasts(grids, losses):
    """`held_out_joint` of the largest models of grids {corpus: Grid}, of those on the most text, and of both."""
    parts = []
    for corpus, grid in grids.items():
        for k in losses:
            values = grid.loss(k).values
            if (np.isfinite(values) & (values > 0)).all():
                ends = grid_ends(grid.curve.S, grid.D)
                place = {"corpus": corpus, "loss": loss_name(k)}
                parts.append(held_out_joint((grid.curve.S, grid.D, values), ends, place))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def left_frame(ahead):
    """What forecasts of models left out come to, a row per way of leaving out."""
    rows = []
    for kind, part in ahead.groupby("left", sort=False) if len(ahead) else ():
        errors = 100 * part["error"].abs()
        row = {"left out": kind, "models": len(part), "inside 95%": int(part["inside"].sum())}
        row |= {"median error (%)": errors.median(), "worst (%)": errors.max()}
        rows.append(row | {"forecast too low (%)": 100 * (part["error"] < 0).mean()})
    return pd.DataFrame(rows, columns=None if rows else ["left out", "models"])


def form_rows(forms):
    """Rows for claims of `form_frame`: the error of the sum over that of the product, and whether it is better."""
    rows = []
    for (corpus, k, left), part in forms.groupby(["corpus", "k", "left"], sort=False):
        rmse = part.set_index("form")["rmse"].reindex(list(joint.FORMS))
        lead, better = rmse["additive"] / rmse["product"], part["better_beyond_the_spread"].iloc[0]
        row = {"corpus": corpus, "k": k, "left": left, "lead": lead}
        rows.append(row | {"better_beyond_the_spread": better})
    return cases(rows, ["corpus", "k", "left", "lead", "better_beyond_the_spread"])


def ahead_rows(ahead):
    """The one row for claims of `grid_forecasts`, with those beyond both sizes and tokens apart."""
    rows = forecast_rows(tried(ahead), FORECAST)
    if not len(rows):
        return rows
    both = ahead[ahead["left"] == BOTH]
    inside = f"{both['inside'].sum()} of {len(both)}"
    return rows.assign(both_held=inside, both_error=both["error"].abs().median())
