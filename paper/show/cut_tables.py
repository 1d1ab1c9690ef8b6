"""Published grids of sizes and tokens: cuts along size, families of both kinds of text, and tasks."""

from itertools import combinations

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from scipy.special import stdtrit

from paper import published
from paper import tokens as joint
from paper.show import figures, style
from paper.show.claims import cases
from paper.steps import y_se

TEXTS = {"c4_original": "C4", "rpj": "RedPajama", "rw_original": "RefinedWeb"}  # of training
MULTIPLE, TOKENS = "one multiple", "one number"  # kinds of cuts
AXES = {MULTIPLE: "multiple of 20 tokens a parameter", TOKENS: "training tokens $D$"}
NAMES = {name: form.title for name, form in joint.FORMS.items()}
SHOWN = {"additive": "--", "kaplan": "-"}  # forms that may explain a fall, and their lines
QUESTIONS = {  # of tasks, see published/README.md
    "lambada_openai": 5153,
    "coqa": 7983,
    "bigbench_qa_wikidata": 20321,
}
PAIR = ["tasks", "slope", "around", "scatter", "noise of answers"]


def open_lm(losses, tasks):
    """Rows of `published.open_lm` of validation losses and tasks, a model once for each: name, of (which), corpus, ...

    Training texts go by the names that pages use; what stands in `loss` is nats, or -log of a share.
    """
    columns = {**{name: f"loss_{name}" for name in losses}, **{n: f"acc_{n}" for n in tasks}}
    parts = {of: published.open_lm(column) for of, column in columns.items()}
    return pd.concat(parts, names=["of", "name"]).reset_index().replace({"corpus": TEXTS})


def points(rows):
    """(S, D, loss) of a frame, float64 (n,) each."""
    return tuple(rows[["S", "D", "loss"]].to_numpy(float).T)


# ---- cuts along size


def bend(S, loss):
    """The exponent along size and its fall over a decade, from a quadratic in log S.

    models, alpha, fall, se of fall (by the scatter around the quadratic). S, loss: float (n,), n > 3.
    """
    x, y = np.log10(np.asarray(S, float)), np.log10(np.asarray(loss, float))
    curve, noise = (part.round(9) for part in np.polyfit(x, y, 2, cov=True))
    fit = {"models": len(x), "alpha": -np.polyfit(x, y, 1)[0], "fall": 2 * curve[0]}
    return fit | {"se of fall": 2 * noise[0, 0] ** 0.5}


def cuts(parts, laws):
    """Every cut of four sizes or more: loss, corpus, tokens (its kind), at, `bend`, and the fall that each form gives.

    parts: {(loss, corpus): rows of `open_lm`}. laws: {(loss, corpus): {form: JointLaw}}.
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
            record = {"loss": loss, "corpus": text, "tokens": kind, "at": at, **bend(S, values)}
            for form in SHOWN:
                law = laws[loss, text].get(form)
                record[form] = bend(S, law.predict(S, D))["fall"] if law else np.nan
            records.append(record)
    return pd.DataFrame(records)


def gaps(cuts):
    """The mean fall at one number of tokens less that at one multiple, by loss and text: measured, and of each form."""
    columns = ["fall", *SHOWN]
    each = cuts.groupby(["loss", "corpus", "tokens"])[columns].mean().unstack("tokens")
    each = each.reindex(columns=pd.MultiIndex.from_product([columns, AXES]))
    return each.xs(TOKENS, axis=1, level=1) - each.xs(MULTIPLE, axis=1, level=1)


def draw_cuts(cuts, losses, looks):
    """The fall of each cut at each multiple (left) and number of tokens (right), a row per loss: a Figure.

    Measured ones are points, what forms give for them lines.
    """
    size = (style.WIDTH, 2.7 * len(losses))
    options = {"sharex": "col", "sharey": "row", "squeeze": False, "figsize": size}
    fig, axes = plt.subplots(len(losses), 2, **options)
    for loss, row in zip(losses, axes, strict=True):
        for ax, (kind, words) in zip(row, AXES.items(), strict=True):
            part = cuts[(cuts["loss"] == loss) & (cuts["tokens"] == kind)].sort_values("at")
            for text, look in looks.items():
                here = part[part["corpus"] == text]
                ax.plot(here["at"], here["fall"], label=text, **look | {"linestyle": "none"})
                for form, dashes in SHOWN.items():
                    drawn = {"color": look["color"], "linestyle": dashes, "linewidth": 1}
                    ax.plot(here["at"], here[form], **drawn)
            for form, dashes in SHOWN.items():
                figures.name_once(ax, NAMES[form], linestyle=dashes, linewidth=1)
            ax.axhline(0, color="black", linewidth=0.8)
            ax.set(xscale="log", title=loss, ylabel="fall a decade", xlabel=words)
            ax.label_outer()
    return fig


# ---- families


def families_by_size(cuts, task="lambada_openai"):
    """The fall of families on LAMBADA whose models saw one amount of text, or more the larger they are.

    family, tokens, the columns of `bend`, around (two standard errors), and beyond: the fall where 0 is not in that,
    else 0. Of open_lm means over its cuts, the standard error too, as cuts share models.
    """
    rows = []
    for family in published.families():
        law = published.published_law(family)
        told = law.text in (published.FIXED, published.GROWS) and law.law.n_models > 3
        if told and not family.startswith("open_lm ") and not (law.rows["shots"] > 0).any():
            fall = bend(law.law.S, np.exp(law.law.y))
            rows.append({"family": family, "tokens": law.text, **fall})
    kinds = {TOKENS: published.FIXED, MULTIPLE: published.GROWS}
    for (text, kind), part in cuts[cuts["loss"] == task].groupby(["corpus", "tokens"]):
        fall = part[["models", "alpha", "fall", "se of fall"]].mean().to_dict()
        rows.append({"family": f"open_lm {text}", "tokens": kinds[kind], **fall})
    frame = pd.DataFrame(rows).sort_values(["tokens", "family"], ignore_index=True)
    half = 2 * frame["se of fall"]
    around = list(zip(frame["fall"] - half, frame["fall"] + half, strict=True))
    beyond = frame["fall"].where(frame["fall"].abs() > half, 0 * half)
    return frame.assign(around=around, beyond=beyond)


# ---- tasks


def pairs_of(grid, tasks):
    """{(task, other task): frame corpus, first, second} of the losses of ten models or more in common."""
    wide = grid.pivot(index=["name", "corpus"], columns="of", values="loss").reset_index("corpus")
    pairs = {}
    for pair in combinations(tasks, 2):
        both = wide[["corpus", *pair]].dropna().set_axis(["corpus", "first", "second"], axis=1)
        if len(both) > 9:
            pairs[pair] = both
    return pairs


def task_rows(pairs):
    """Rows of PAIR for claims: the slope of one log loss on another, the ratio of the two spreads, and around it 95%.

    scatter: of the second around that line. noise of answers: what the choice of questions leaves of it.
    """
    rows = []
    for (first, second), both in pairs.items():
        x, y = np.log(both["first"]), np.log(both["second"])
        r, spare = np.corrcoef(x, y)[0, 1], len(x) - 2
        slope = np.sign(r) * y.std() / x.std()
        half = stdtrit(spare, 0.975) * np.sqrt((1 - r**2) / spare)
        around = tuple(slope * (np.sqrt(1 + half**2) + sign * half) for sign in (-1, 1))
        # noise of both, from their shares of wrong answers
        noise = []
        for name, task in (("first", first), ("second", second)):
            noise.append(y_se(-np.expm1(-both[name]), QUESTIONS.get(task, np.nan)))
        noise = np.sqrt(np.mean(noise[1] ** 2 + slope**2 * noise[0] ** 2))
        case = (f"{second} on {first}", slope, around, (y - slope * x).std(ddof=2), noise)
        rows.append(dict(zip(PAIR, case, strict=True)))
    return cases(rows, PAIR)


def draw_pairs(pairs, looks):
    """One task against another, a panel per pair, with the line of one ratio: a Figure."""
    fig, axes = figures.panels(len(pairs), 3.0)
    for ax, ((first, second), both) in zip(axes, pairs.items(), strict=False):
        for text, part in both.groupby("corpus"):
            figures.draw_points(ax, part["first"], part["second"], label=text, **looks[text])
        x = np.array([both["first"].min(), both["first"].max()])
        ratio = np.exp(np.mean(np.log(both["second"] / both["first"])))
        ax.plot(x, x * ratio, color="black", linewidth=1, label="one $N$ each")
        ax.set(xscale="log", yscale="log", xlabel=f"$-\\log$ acc, {first}")
        ax.set_ylabel(f"$-\\log$ acc, {second}")
    return fig


# ---- other rows for claims


def explained_rows(gaps, form):
    """What part of the measured difference in fall between both kinds of cuts a form gives, by loss and text."""
    known = gaps.dropna()
    return cases([{"given": part} for part in known[form] / known["fall"]], ["given"])


def error_rows(contests):
    """Errors held out of each case and way of leaving out: the sum's over the product's, Kaplan's over the sum's."""
    error = contests.pivot(index=["loss", "corpus", "left"], columns="form", values="rmse")
    error = error.reindex(columns=["product", "additive", "kaplan"]).dropna()
    ratios = {"sum_over_product": error["additive"] / error["product"]}
    ratios["kaplan_over_sum"] = error["kaplan"] / error["additive"]
    return cases(pd.DataFrame(ratios).to_dict("records"), list(ratios))
