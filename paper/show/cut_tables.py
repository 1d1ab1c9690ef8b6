"""Published grids of sizes and tokens: cuts along size, families of both kinds, tasks and ratios of exponents."""

from collections import Counter
from itertools import combinations

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from scipy.special import stdtrit

from paper import published
from paper import tokens as joint
from paper.evidence import two_sided
from paper.show import figures, style
from paper.show.claims import cases
from paper.show.grid_tables import contest
from paper.show.numbers import Values, number, share
from paper.show.tables import ends
from paper.steps import y_se
from rbplib.bootstrap import line

TEXTS = {"c4_original": "C4", "rpj": "RedPajama", "rw_original": "RefinedWeb"}  # of training
MULTIPLE, TOKENS = "one multiple", "one number"  # kinds of cuts
AXES = {MULTIPLE: "multiple of 20 tokens a parameter", TOKENS: "training tokens $D$"}
NAMES = {name: form.title for name, form in joint.FORMS.items()}
SHOWN = {"product": ":", "additive": "--", "kaplan": "-"}  # forms and their lines
QUESTIONS = {  # of tasks, see published/README.md
    "lambada_openai": 5153,
    "coqa": 7983,
    "bigbench_qa_wikidata": 20321,
}
LEAST = 0.02  # share of right answers below which a model answers by chance


def open_lm(losses, tasks):
    """{loss or task: rows of `published.open_lm`}, training texts by the names that pages use."""
    grid = {}
    for kind, names in (("loss", losses), ("acc", tasks)):
        for name in names:
            grid[name] = published.open_lm(f"{kind}_{name}").replace({"corpus": TEXTS})
    return grid


def by_text(grid):
    """{(loss, training text): rows} of an `open_lm` grid."""
    parts = {}
    for loss, rows in grid.items():
        for text, part in rows.groupby("corpus"):
            parts[loss, text] = part
    return parts


def points(rows, size="S", tokens="D"):
    """(S, D, loss) of a frame, float64 (n,) each."""
    return tuple(rows[[size, tokens, "loss"]].to_numpy(float).T)


# ---- cuts along size


def bend(S, loss):
    """The line along size and the fall of its exponent over a decade, from a quadratic in log S.

    models, alpha, R², fall, se of fall (of the scatter around the quadratic). S, loss: (n,), n > 3.
    """
    x, y = np.log10(np.asarray(S, float)), np.log10(np.asarray(loss, float))
    curve, noise = (part.round(9) for part in np.polyfit(x, y, 2, cov=True))
    slope, _, r2 = line(y, x)
    fit = {"models": len(x), "alpha": -slope, "R²": r2, "fall": 2 * curve[0]}
    return fit | {"se of fall": 2 * noise[0, 0] ** 0.5}


def bends(S, D, loss, laws):
    """`bend` of measured losses, and the fall that each of {form: JointLaw} gives at the same points."""
    row = bend(S, loss)
    for form, law in laws.items():
        row[form] = bend(S, law.predict(S, D))["fall"]
    return row


def cuts(parts, laws):
    """Every cut of four sizes or more: loss, corpus, tokens (its kind), at, and the columns of `bends`.

    parts: of `by_text`. laws: {(loss, corpus): {form: JointLaw}}.
    """
    sides = []
    for place, rows in parts.items():
        for multiple, part in rows.groupby("multiple"):
            sides.append((place, MULTIPLE, multiple, *points(part)))
        # losses at one number of tokens lie between two budgets
        for D in np.unique(rows.D):
            S, loss = joint.at_tokens(rows.S, rows.D, rows.loss, D)
            sides.append((place, TOKENS, D, S, np.full(len(S), D), loss))
    records = []
    for (loss, text), kind, at, S, D, values in sides:
        if len(S) > 3:
            record = {"loss": loss, "corpus": text, "tokens": kind, "at": at}
            records.append(record | bends(S, D, values, laws[loss, text]))
    return pd.DataFrame(records).reindex(columns=[*records[0], *(SHOWN - records[0].keys())])


def gaps(cuts, columns, how):
    """Mean or median over the cuts at one number of tokens less that at one multiple, by loss and text."""
    each = cuts.groupby(["loss", "corpus", "tokens"])[columns].agg(how).unstack("tokens")
    each = each.reindex(columns=pd.MultiIndex.from_product([columns, AXES]))
    return each.xs(TOKENS, axis=1, level=1) - each.xs(MULTIPLE, axis=1, level=1)


def draw_cuts(cuts, losses, looks, column, label, forms=()):
    """A column of `cuts` at each multiple (left) and number of tokens (right), a row per loss: a Figure.

    forms: whose falls are drawn as lines, with the measured ones as points.
    """
    size = (style.WIDTH, 2.7 * len(losses))
    options = {"sharex": "col", "sharey": "row", "squeeze": False, "figsize": size}
    fig, axes = plt.subplots(len(losses), 2, **options)
    for loss, row in zip(losses, axes, strict=True):
        for ax, (kind, words) in zip(row, AXES.items(), strict=True):
            part = cuts[(cuts["loss"] == loss) & (cuts["tokens"] == kind)].sort_values("at")
            for text, look in looks.items():
                here = part[part["corpus"] == text]
                look = look | ({"linestyle": "none"} if forms else {})
                ax.plot(here["at"], here[column], label=text, **look)
                for form in forms:
                    drawn = {"color": look["color"], "linestyle": SHOWN[form], "linewidth": 1}
                    ax.plot(here["at"], here[form], **drawn)
            for form in forms:
                figures.name_once(ax, NAMES[form], linestyle=SHOWN[form], linewidth=1)
            if forms:
                ax.axhline(0, color="black", linewidth=0.8)
            ax.set(xscale="log", title=loss, ylabel=label, xlabel=words)
            ax.label_outer()
    return fig


def exponent_frame(cuts):
    """A row per loss: its exponents in both kinds of cuts, and whether they grow with the tokens of one number."""
    rows = []
    for loss, part in cuts.groupby("loss", sort=False):
        row = {"loss": loss}
        for kind in AXES:
            exponents = Values(part.loc[part["tokens"] == kind, "alpha"])
            row[f"exponent at {kind}"] = f"{exponents.range} ({exponents.found} cuts)"
        # rank correlation with the number of tokens, on each text
        grows = []
        for _, text in part[part["tokens"] == TOKENS].groupby("corpus"):
            if len(text) > 2:
                grows.append(text["at"].corr(text["alpha"], method="spearman"))
        row["grows with D"] = share(sum(r > 0 for r in grows), len(grows))
        rows.append(row | {"rank correlation": Values(grows).range})
    return pd.DataFrame(rows)


def fall_frame(cuts, gaps):
    """A row per loss: the mean fall in both kinds of cuts, its difference on each text, and what forms give for it."""
    rows = []
    for loss, part in cuts.groupby("loss", sort=False):
        row = {"loss": loss}
        for kind in AXES:
            falls = part.loc[part["tokens"] == kind, "fall"]
            row[kind] = f"{number(falls.mean(), 2)} ({share((falls > 0).sum(), len(falls))})"
        of_loss = gaps.loc[loss].dropna()
        row["difference"] = Values(of_loss["fall"]).range
        for form in reversed(SHOWN):
            row[NAMES[form]] = Values(of_loss[form]).range
        rows.append(row)
    return pd.DataFrame(rows)


# ---- joint forms


def law_frame(laws):
    """A row per law of {(loss, corpus): {form: JointLaw}}: its exponents, floor and scatter."""
    rows = []
    for (loss, text), forms in laws.items():
        for law in forms.values():
            row = {"loss": loss, "training text": text, "form": law.form.title}
            values = joint.shown(law)
            row |= {"models": len(law.loss), **values, "residual sd": law.residual_sd}
            floor = np.nan if values["E"] is None else values["E"] / law.loss.min()
            row |= {"E over the smallest loss": floor, "R²": law.r2}
            rows.append(row | {"at an end": "; ".join(law.notes)})
    return pd.DataFrame(rows)


def best_frame(contests):
    """A row per way of leaving out: the best forms, what is behind them, and how errors of two forms compare.

    contests: `grid_tables.contest` of every loss and training text.
    """
    rows = []
    for kind, part in contests.groupby("left", sort=False):
        row = {"left out": kind, "cases": len(part[["loss", "corpus"]].drop_duplicates())}
        for verdict in ("best", "behind"):
            titles = part.loc[part["verdict"] == verdict, "form"].map(NAMES)
            counts = Counter(titles).most_common()
            row[verdict] = "; ".join(f"{title} in {n}" for title, n in counts) or "–"
        errors = part.pivot(index=["loss", "corpus"], columns="form", values="rmse")
        errors = errors.reindex(columns=list(NAMES))
        for first, second in (("additive", "product"), ("kaplan", "additive")):
            ratio = (errors[first] / errors[second]).dropna()
            below = share((ratio < 1).sum(), len(ratio))
            heading = f"error of {NAMES[first]} over {NAMES[second]} (below 1)"
            row[heading] = f"{Values(ratio).range} ({below})"
        rows.append(row)
    return pd.DataFrame(rows)


def along_training(family, steps):
    """`grid_tables.contest` of sizes times steps of a published family, by two losses.

    Steps at which a size had fewer than LEAST right are left out.
    """
    path = pd.concat([published.lambada(family, step) for step in steps or [None]])
    path = path[path["acc"].between(LEAST, 1, inclusive="left") & (path["tokens"] > 0)]
    if not len(path):
        return pd.DataFrame(columns=["corpus", "loss", "left", "form", "rmse", "verdict"])
    groups = joint.groupings(path["S"], path["tokens"])
    groups = {kind: groups[kind] for kind in ("each size", "each budget", "the largest of either")}
    parts = []
    for name, column in (("-log acc", "loss"), ("log ppl", "log_ppl")):
        values = (path[side].to_numpy(float) for side in ("S", "tokens", column))
        parts.append(contest(tuple(values), groups, loss=name, corpus=family))
    return pd.concat(parts, ignore_index=True)


# ---- families


def families_by_size(cuts, task="lambada_openai"):
    """The fall of families on LAMBADA whose models saw one amount of text, or more the larger they are.

    family, tokens, the columns of `bend`, and beyond: the fall where it is beyond two standard errors,
    else 0. Of open_lm means over its cuts, the standard error too, as cuts share models.
    """
    rows = []
    for family in published.families():
        law = published.published_law(family)
        kind, alone = law.text in (published.FIXED, published.GROWS), law.law.n_models < 4
        if family.startswith("open_lm ") or alone or not kind or (law.rows["shots"] > 0).any():
            continue
        rows.append({"family": family, "tokens": law.text, **bend(law.law.S, np.exp(law.law.y))})
    kinds = {TOKENS: published.FIXED, MULTIPLE: published.GROWS}
    for (text, kind), part in cuts[cuts["loss"] == task].groupby(["corpus", "tokens"]):
        row = {"family": f"open_lm {text}", "tokens": kinds[kind], "models": part["models"].max()}
        rows.append(row | part[["alpha", "R²", "fall", "se of fall"]].mean().to_dict())
    frame = pd.DataFrame(rows).sort_values(["tokens", "family"], ignore_index=True)
    beyond = frame["fall"].abs() > 2 * frame["se of fall"]
    return frame.assign(beyond=frame["fall"].where(beyond, 0 * frame["se of fall"]))


def finished(families):
    """The finished models of published families on LAMBADA: family, S, D, loss (-log acc)."""
    parts = []
    for family in families:
        law = published.published_law(family)
        columns = {"S": law.law.S, "D": law.rows["tokens"].to_numpy(), "loss": np.exp(law.law.y)}
        parts.append(pd.DataFrame({"family": family, **columns}))
    return pd.concat(parts, ignore_index=True).dropna()


def pool_frame(laws, order, seed):
    """A row per form fitted to a pool: exponents, floor, scatter, error held out and its verdict.

    order: its contest. Exponents of the sum and of Kaplan's form have 95% intervals by resampling the
    scatter of the models around the law.
    """
    rows, errors = [], order.set_index("form")
    for form, law in laws.items():
        row = {"form": law.form.title, **joint.shown(law), "residual sd": law.residual_sd}
        if form in ("additive", "kaplan"):
            noise = np.random.default_rng(seed).standard_normal((400, len(law.loss)))
            drawn = law.resampled(law.predict(law.S, law.D) * np.exp(law.residual_sd * noise))
            around = np.nanquantile(drawn, [0.025, 0.975], axis=0).T
            around = dict(zip(law.parameters, around, strict=True))
            row |= {**ends(around["a"], "a: "), **ends(around["b"], "b: ")}
        if form in errors.index:
            row |= {
                "error held out": errors["rmse"][form],
                "against the best": errors["verdict"][form],
            }
        rows.append(row | {"at an end": "; ".join(law.notes)})
    return pd.DataFrame(rows)


def pool_bends(pooled, laws):
    """A row per family of a pool with four models or more: its `bends`."""
    rows = []
    for family, part in pooled.groupby("family", sort=False):
        if len(part) > 3:
            rows.append({"family": family, **bends(*points(part), laws)})
    return pd.DataFrame(rows)


def draw_pool(ax, pooled, laws):
    """-log accuracy of each family against size, and the laws of SHOWN fitted to all of them as lines."""
    for family, part in pooled.groupby("family", sort=False):
        look = style.family_style(family)
        figures.draw_points(ax, part["S"], part["loss"], label=family, hollow=True, **look)
        for form, drawn in SHOWN.items():
            if form in laws:
                fitted = laws[form].predict(part["S"], part["D"])
                label = f"{family}: {NAMES[form]}"
                ax.plot(part["S"], fitted, drawn, color=look["color"], label=label)
    return figures.law_axes(ax, r"$-\log\,\mathrm{acc}$ (nats per last word)")


def explained_rows(gaps, bends, tokens):
    """Rows for claims: what part of a difference in fall between the two kinds of ladder each form gives.

    gaps: of `gaps`. bends: of `pool_bends`. tokens: {family: kind of its training text}.
    """
    differences = gaps.dropna().to_dict("records")
    kinds = bends["family"].map(tokens) if len(bends) else bends
    fixed, grows = bends[kinds == published.FIXED], bends[kinds == published.GROWS]
    if len(fixed) and len(grows):
        columns = [name for name in ("fall", *SHOWN) if name in bends]
        differences.append((fixed[columns].mean() - grows[columns].mean()).to_dict())
    rows = []
    for form in ("additive", "kaplan"):
        for row in differences:
            if form in row:
                rows.append({"given": row[form] / row["fall"], "form": form})
    return cases(rows, ["given", "form"])


# ---- tasks, and accuracy beside cross-entropy


def pairs_of(grid, tasks):
    """{(task, other task): rows with the loss of both} of pairs with ten models or more in common."""
    pairs = {}
    for pair in combinations(tasks, 2):
        first, second = (grid[task] for task in pair)
        both = first.assign(other=second["loss"]).dropna()
        if len(both) > 9:
            pairs[pair] = both
    return pairs


def task_frame(pairs):
    """A row per pair of tasks: the slope of one log loss on the other, and what else tells of the second.

    The slope is the ratio of the two spreads (reduced major axis) with its 95% interval. noise of answers:
    the scatter that the choice of questions leaves. p: of size, tokens and text, given the first task.
    """
    from statsmodels.formula.api import ols

    rows = []
    for (first, second), both in pairs.items():
        x, y = np.log(both["loss"]), np.log(both["other"])
        r, spare = np.corrcoef(x, y)[0, 1], len(x) - 2
        slope = np.sign(r) * y.std() / x.std()
        half = stdtrit(spare, 0.975) * np.sqrt((1 - r**2) / spare)
        low, high = (slope * (np.sqrt(1 + half**2) + sign * half) for sign in (-1, 1))
        # noise of both, from their shares of wrong answers
        x_se, y_noise = (
            y_se(-np.expm1(-both[name]), QUESTIONS.get(task, np.nan))
            for name, task in (("loss", first), ("other", second))
        )
        alone = ols("np.log(other) ~ np.log(loss)", both).fit()
        more = ols("np.log(other) ~ np.log(loss) + np.log(S) + np.log(D) + C(corpus)", both).fit()
        rows.append(
            {
                "tasks": f"{second} on {first}",
                "models": len(x),
                "slope": slope,
                "low": low,
                "high": high,
                "R²": r**2,
                "smallest ratio": np.exp(y - x).min(),
                "largest ratio": np.exp(y - x).max(),
                "times": np.exp(np.ptp(y - x)),
                "scatter": (y - slope * x).std(ddof=2),
                "noise of answers": np.sqrt(np.mean(y_noise**2 + slope**2 * x_se**2)),
                "with S, D and text": np.sqrt(more.mse_resid),
                "p": more.compare_f_test(alone)[1],
            }
        )
    columns = ["tasks", "slope", "low", "high", "scatter", "noise of answers", "times"]
    return pd.DataFrame(rows, columns=None if rows else columns)


def draw_pairs(pairs, looks):
    """One task against another, a panel per pair, with the line of one ratio: a Figure."""
    fig, axes = figures.panels(len(pairs), 3.0)
    for ax, ((first, second), both) in zip(axes, pairs.items(), strict=False):
        for text, part in both.groupby("corpus"):
            figures.draw_points(ax, part["loss"], part["other"], label=text, **looks[text])
        x = np.array([both["loss"].min(), both["loss"].max()])
        ratio = np.exp(np.mean(np.log(both["other"] / both["loss"])))
        ax.plot(x, x * ratio, color="black", linewidth=1, label="one $N$ each")
        ax.set(xscale="log", yscale="log", xlabel=f"$-\\log$ acc, {first}")
        ax.set_ylabel(f"$-\\log$ acc, {second}")
    return fig


def task_ratios(cuts, loss, task):
    """{training text: frame at, ratio}: the exponent of a task over that of a loss, at each multiple."""
    whole = cuts[cuts["tokens"] == MULTIPLE]
    keys, suffixes = ["corpus", "at", "models"], ("", " of task")
    first, second = whole[whole["loss"] == loss], whole[whole["loss"] == task]
    both = first.merge(second, on=keys, suffixes=suffixes)
    both["ratio"] = both["alpha of task"] / both["alpha"]
    return dict(list(both.groupby("corpus")))


def trained_ratios(family, steps):
    """The exponent of -log acc over that of log ppl at steps of a published family: at (tokens), ratio, low, high."""
    rows = []
    for step in steps:
        if not published.lambada(family, step)["acc"].between(LEAST, 1, inclusive="left").all():
            continue
        acc, ppl = (published.published_law(family, of, step) for of in ("-log acc", "log ppl"))
        if acc.law.alpha > 0 and ppl.law.alpha > 0:
            ratio, around = published.exponent_ratio(ppl.law, acc.law)
            rows.append({"at": acc.rows["tokens"].iloc[0], "ratio": ratio, **ends(around)})
    return pd.DataFrame(rows, columns=["at", "ratio", "low", "high"], dtype=float)


def trend_frame(series):
    """A row per series of four ratios or more: its ends, and the rank correlation of tokens with closeness to 1."""
    rows = []
    for name, part in series.items():
        if len(part) < 4:
            continue
        ranks = pd.DataFrame({"at": part["at"], "closeness": -np.abs(np.log(part["ratio"]))}).rank()
        first, second = (ranks - ranks.mean()).to_numpy().T
        rho = np.corrcoef(first, second)[0, 1]
        ratio = part.sort_values("at")["ratio"]
        row = {"series": name, "fewest tokens": ratio.iloc[0], "most tokens": ratio.iloc[-1]}
        row |= {"points": len(part), "rank correlation": rho}
        row["p"] = two_sided(first, second, len(part) - 2)
        rows.append(row)
    columns = ["series", "fewest tokens", "most tokens", "points", "rank correlation", "p"]
    return pd.DataFrame(rows, columns=columns)


# ---- rows for claims


def fall_rows(falls):
    """Rows of `families_by_size` on one amount of text, and where it grows: with two standard errors around."""
    half = 2 * falls["se of fall"]
    around = list(zip(falls["fall"] - half, falls["fall"] + half, strict=True))
    columns = ["fall", "beyond", "tokens", "around"]
    rows = cases(falls.assign(around=around).to_dict("records"), columns)
    fixed = rows["tokens"] == published.FIXED
    return rows[fixed], rows[~fixed]


def error_rows(contests):
    """The errors held out of each case and way of leaving out, and their ratios."""
    error = contests.pivot(index=["loss", "corpus", "left"], columns="form", values="rmse")
    error = error.reindex(columns=list(SHOWN)).dropna()
    rows = cases(error.to_dict("records"), list(SHOWN))
    sums, products = rows["additive"], rows["product"]
    return rows.assign(sum_over_product=sums / products, kaplan_over_sum=rows["kaplan"] / sums)


def slope_rows(related):
    """Slopes of `task_frame` with their intervals, and the scatter around them."""
    around = list(zip(related["low"], related["high"], strict=True))
    return cases(related.assign(around=around).to_dict("records"), ["slope", "scatter", "around"])


def trend_rows(trends, level):
    """Rank correlations of `trend_frame`, and beyond: 0 in place of one whose p is not below a level."""
    known = trends["rank correlation"].where(trends["p"] < level, 0)
    rows = pd.DataFrame({"trend": trends["rank correlation"], "beyond": known})
    return cases(rows.to_dict("records"), ["trend", "beyond"])
