"""What pages show and claims judge of a grid of sizes and tokens: bends, forms, exponents, and all models together."""

import textwrap
from types import SimpleNamespace

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt

from paper import tokens as joint
from paper.curves import repeated
from paper.evidence import FORECAST, forecast_rows
from paper.forecasts import tried
from paper.published import exponent_ratio
from paper.show import figures, style
from paper.show.claims import beyond, cases
from paper.show.numbers import Values, number
from paper.show.tables import corpus_title, ends
from paper.tables_here import measured_families
from paper.tokens import BOTH, grid_ends, held_out_joint, last_steps
from rbplib.bootstrap import percentile_interval
from rbplib.families import load_family

CROSS_ENTROPY = "cross-entropy"
GRID = tuple(
    f"nano-pythia-{n}m" for n in (1, 2, 4, 8, 16)
)  # families that are here as counts, see published/ranks
SIDES = [
    "corpus",
    "loss",
    "law in",
    "at",
    "models",
    "exponent",
    "low",
    "high",
    "R²",
    "worst residual (%)",
]
KINDS = ("docs", "code", "descriptions")  # corpora that they were counted on


def loss_name(k):
    """A loss in a table: its k, or that it is cross-entropy."""
    return CROSS_ENTROPY if k is None else f"k = {k}"


# ---- figures


def draw_grid(grids, fits, k):
    """-log RBP_k against size and against tokens, a row of two panels per corpus: a Figure.

    fits: {(corpus, k): JointLaw}, drawn as lines, where there is one.
    """
    fig, axes = plt.subplots(
        len(grids), 2, figsize=(style.WIDTH, 0.9 + 2.7 * len(grids)), sharey="row", squeeze=False
    )
    for (corpus, grid), row in zip(grids.items(), axes, strict=True):
        law, y = fits.get((corpus, k)), grid.loss(k).values
        draw_side(row[0], grid.curve.S, grid.D, y, law and law.predict)
        draw_side(
            row[1], grid.D, grid.curve.S, y, law and (lambda D, S, law=law: law.predict(S, D))
        )
        for ax, x in zip(row, ("size $S$", "training tokens $D$"), strict=True):
            figures.law_axes(ax, "").set(title=corpus_title(corpus), xlabel=x)
        row[0].set_ylabel(rf"$-\log\,\mathrm{{RBP}}_{{{k}}}$ (nats)")

    # what a mark stands for, once for each column
    for ax, title, side in zip(axes[0], ("tokens", "size"), ("left", "right"), strict=True):
        place = {"loc": f"outside lower {side}", "ncols": 3, "fontsize": 8}
        fig.legend(*ax.get_legend_handles_labels(), title=title, **place)
    axes[0][0].legend().set_visible(False)
    return fig


def draw_side(ax, x, groups, y, predict=None):
    """Points (n,) against x, a mark per value of `groups` (n,), and predict(x, value) as lines."""
    values = np.unique(groups)
    for value, look in zip(values, style.series(len(values)), strict=True):
        where = groups == value
        ax.plot(x[where], y[where], label=number(value, 2), **look, linestyle="none")
        if predict is not None:
            fine = np.geomspace(x[where].min(), x[where].max(), 50)
            ax.plot(fine, predict(fine, value), color=look["color"], linewidth=1)
    return ax


def draw_by_tokens(ax, cases):
    """The ratio of each case with its band against tokens of training, and the line at 1."""
    for case, look in zip(cases, style.series(len(cases)), strict=True):
        ax.plot(case.D, case.ratio, label=corpus_title(case.corpus), **look)
        ax.vlines(case.D, *case.band, color=look["color"], linewidth=1)
    ax.axhline(1, color="black", linewidth=0.8)
    ax.set_xscale("log")
    return ax


def draw_forms(forms, losses):
    """Error held out of each form by loss, a panel per way of leaving out: a Figure."""
    kinds = list(forms["left"].unique())
    size = (style.WIDTH, 2.9)
    fig, axes = plt.subplots(1, max(1, len(kinds)), figsize=size, sharey=True, squeeze=False)
    looks = style.corpus_styles(joint.FORMS)
    for kind, ax in zip(kinds, axes[0], strict=False):
        part = forms[forms["left"] == kind]
        for i, (name, form) in enumerate(joint.FORMS.items()):
            medians = part[part["form"] == name].groupby("loss", sort=False)["rmse"].median()
            y = 100 * medians.reindex(map(loss_name, losses))
            # side by side, so that no mark hides another
            x = np.arange(len(y)) + 0.14 * (i - (len(joint.FORMS) - 1) / 2)
            look = looks[name] | {"linestyle": "none", "markersize": 3.5}
            ax.plot(x, y, label=form.title, **look)
        ax.set(title=textwrap.fill(kind, 12), yscale="log", xlabel="$k$")
        ax.set_xticks(range(len(losses)), ["CE" if k is None else str(k) for k in losses])
    axes[0][0].set_ylabel("error held out (%)")
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


def additive_frame(grids, fits, n_bootstrap, seed):
    """A row per fitted sum: both exponents with their intervals, R² and scatter."""
    rows = []
    for (corpus, k), law in fits.items():
        noisy = joint.noisy_losses(grids[corpus].loss(k), n_bootstrap, seed)
        draws = np.full((1, 4), np.nan) if noisy is None else law.resampled(noisy)
        around = dict(zip(law.parameters, percentile_interval(draws).T, strict=True))
        row = {"corpus": corpus_title(corpus), "loss": loss_name(k)}
        for name in "ab":
            row |= {name: law.parameters[name], **ends(around[name], f"{name}: ")}
        rows.append(row | {"R²": law.r2, "scatter (%)": 100 * law.residual_sd})
    return pd.DataFrame(rows)


def scatter(grids, losses):
    """What the closest form leaves of each loss, and how far trainings of one size scatter, as shares."""
    rows = []
    for grid in grids.values():
        for k in losses:
            points = (grid.curve.S, grid.D, grid.loss(k).values)
            laws = joint.fits(*points).values()
            least = min((law.residual_sd for law in laws), default=np.nan)
            rows.append({"forms": least, "trainings": grid.loss(k).training_noise()[0]})
    return pd.DataFrame(rows)


def compute_frame(fits, compute):
    """A row per fitted sum: the size and the tokens that it holds for best at compute C = 6 S D."""
    rows = []
    for (corpus, k), law in fits.items():
        a, b = law.parameters["a"], law.parameters["b"]
        ((S, D),) = joint.best_sizes(law, [float(compute)])
        row = {"corpus": corpus_title(corpus), "loss": loss_name(k)}
        row |= {"size grows as compute to the": b / (a + b), "best size (thousands)": S / 1e3}
        rows.append(row | {"tokens (millions)": D / 1e6, "tokens a parameter": D / S})
    columns = ["corpus", "loss", "tokens (millions)", "tokens a parameter"]
    return pd.DataFrame(rows, columns=None if rows else columns)


def side_frame(grids, losses, n_bootstrap=10_000, seed=42):
    """The law along each side of the whole part of grids {corpus: Grid}, a row per corpus, loss, side and place."""
    rows = []
    for corpus, grid in grids.items():
        for k in losses:
            sides = {
                "size": grid.whole.along_size(k, n_bootstrap=n_bootstrap, seed=seed),
                "tokens": grid.whole.along_tokens(k, n_bootstrap=n_bootstrap, seed=seed),
            }
            for side, laws in sides.items():
                for at, law in laws.items():
                    place = (corpus_title(corpus), loss_name(k), side, at, law.n_models)
                    rows.append(
                        (*place, law.alpha, *law.ci_models, law.r2, 100 * law.worst_residual)
                    )
    return pd.DataFrame(rows, columns=SIDES)


def bend_cases(grids, losses, n_bootstrap=10_000, seed=42):
    """The last step over those before it, at the least and the most tokens of each grid and loss.

    Fields: corpus, k, D (B,), ratio (B,), band (2, B), first, last, change (last less first), interval (of the change).
    """
    cases = []
    for corpus, grid in grids.items():
        for k in losses:
            D, ratio, draws = last_steps(grid, k, n_bootstrap, seed)
            cases.append(
                SimpleNamespace(
                    corpus=corpus,
                    k=k,
                    D=D,
                    ratio=ratio,
                    band=percentile_interval(draws),
                    first=ratio[0],
                    last=ratio[-1],
                    change=ratio[-1] - ratio[0],
                    interval=tuple(percentile_interval(draws[:, -1] - draws[:, 0])),
                )
            )
    return cases


def bend_frame(cases):
    """A row per case of `bend_cases`: the ratio at both ends, and the change with its interval."""
    rows = []
    for case in cases:
        row = {"loss": loss_name(case.k), "corpus": corpus_title(case.corpus)}
        row |= {"at the fewest": case.first, "at the most": case.last, "change": case.change}
        rows.append(row | ends(case.interval))
    return pd.DataFrame(rows, columns=None if rows else ["low", "high"])


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


def exponent_rows(grids, losses, **drawn):
    """Rows for claims of the laws in size at each number of tokens, three frames; drawn: as of `fit`.

    The exponents at the fewest and the most tokens, first and last, with their quotient; R² and the worst
    residual of every law; the exponents at the most tokens with their intervals.
    """
    growths, lines, most = [], [], []
    for corpus, grid in grids.items():
        for k in losses:
            by_tokens = grid.whole.along_size(k, **drawn)
            place = {"corpus": corpus, "k": k or 0}
            for law in by_tokens.values():
                fit = {"r2": law.r2, "worst_residual": law.worst_residual}
                lines.append(place | fit)
            if len(by_tokens) < 2:
                continue
            # the fewest tokens beside the most
            first, *_, last = by_tokens.values()
            growth = {"first": first.alpha, "last": last.alpha, "growth": last.alpha / first.alpha}
            growth |= {"first_around": first.ci_models, "last_around": last.ci_models}
            growths.append(place | growth | {"tokens_times": max(by_tokens) / min(by_tokens)})
            end = {"alpha": last.alpha, "ci_tokens": last.ci_tokens}
            end |= {"ci_trainings": last.ci_trainings}
            most.append(place | end)
    ends = ["corpus", "k", "first", "last", "growth", "first_around", "last_around", "tokens_times"]
    top = ["corpus", "k", "alpha", "ci_tokens", "ci_trainings"]
    fits = ["corpus", "k", "r2", "worst_residual"]
    return cases(growths, ends), cases(lines, fits), cases(most, top)


def ratio_cases(grids, k):
    """Exponent in size at k over cross-entropy's: corpus, D, ratio and its band (2, B), first, last."""
    cases = []
    for corpus, grid in grids.items():
        # at each number of tokens with both laws
        laws = grid.whole.along_size(k, n_bootstrap=0)
        entropy = grid.whole.along_size(None, n_bootstrap=0)
        ratios = {D: exponent_ratio(entropy[D], law) for D, law in laws.items() if D in entropy}
        if len(ratios) < 2:
            continue
        ratio = np.array([ratio for ratio, _ in ratios.values()])
        band = np.array([interval for _, interval in ratios.values()]).T
        first, last = float(ratio[0]), float(ratio[-1])
        cases.append(
            SimpleNamespace(
                corpus=corpus,
                D=list(ratios),
                ratio=ratio,
                band=band,
                first=first,
                last=last,
                first_around=tuple(band[:, 0]),
                last_around=tuple(band[:, -1]),
            )
        )
    return cases


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


def bend_rows(bends):
    """Rows for claims of `bend_cases`."""
    rows = cases(map(vars, bends), ["corpus", "k", "first", "last", "change", "interval"])
    return rows.assign(beyond_noise=beyond(rows["interval"]))


def ratio_rows(ratios):
    """Rows for claims of `ratio_cases`: how far the interval at the most tokens lies from 1, too."""
    columns = ["corpus", "first", "last", "first_around", "last_around"]
    rows = cases(map(vars, ratios), columns)
    away = rows["last_around"].map(lambda around: tuple(np.subtract(around, 1)))
    return rows.assign(beyond_one=beyond(away))


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


def models_behind(tables, families=(), corpora=(), protocol="paper"):
    """Every model once: data frame of its part ("ladder", "repeat" or "grid"), size and training, from records.

    Args:
        tables: {(family, corpus): rank tables}, of `measured_families`. families, corpora, protocol: as given to it.
    """
    # the families of the ladders, of what repeats them, and of the grid
    given = {family.name: family for family in map(load_family, families)}
    ladders = [
        given.get(name) or load_family(name) for name in dict.fromkeys(name for name, _ in tables)
    ]
    repeats = {}
    for family in ladders:
        if family.repeats:
            for corpus, repeated_tables in repeated(family, corpora, protocol).items():
                repeats[family.repeats, corpus] = repeated_tables
    others = map(load_family, dict.fromkeys([*(name for name, _ in repeats), *GRID]))
    tokens = {}
    for family in [*ladders, *others]:
        for model in family.models:
            tokens[family.name, model.name] = model.tokens
    # a record of every rank table
    parts = {"ladder": tables, "repeat": repeats, "grid": measured_families(GRID, KINDS)}
    records = []
    for part, tables_of in parts.items():
        for some in tables_of.values():
            records += [(part, table.record) for table in some]
    # one training may have two names: it counts with its ladder
    alike = {record["columns_sha256"] for part, record in records if part == "ladder"}
    once_more = set()
    for part, record in records:
        if part != "ladder" and record["columns_sha256"] in alike:
            once_more.add((record["family"], record["model"]))
    models = {}
    for part, record in records:
        model = (record["family"], record["model"])
        if part == "ladder" or model not in once_more:
            models.setdefault((part, *model), record)
    rows = []
    for (part, family, model), record in models.items():
        S, whole = record["nonembedding_params"], record.get("total_params") or np.nan
        seen = tokens.get((family, model)) or np.nan
        outside = (record.get("params_by_experts") or {"all": S})["all"]
        rows.append(
            {
                "part": part,
                "family": family,
                "model": model,
                "id": record.get("model_id"),
                "S": S,
                "embeddings (%)": 100 * (1 - outside / whole),
                "vocabulary": record["vocab_size"],
                "window": record["window"],
                "tokens seen": seen,
                "tokens per parameter": seen / S,
            }
        )
    return pd.DataFrame(rows)
