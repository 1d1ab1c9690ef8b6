"""Tables of curves, laws and predictions for pages: records in, a data frame out."""

from collections import Counter

import numpy as np
import pandas as pd

from paper.curves import rbp_curve
from paper.forecasts import extrapolate
from paper.laws import fit_law
from paper.show.plain import corpus_title as corpus_title
from paper.show.prose import Values, number
from paper.tokens import compared
from rbplib.estimators import ESTIMATORS
from rbplib.noise import EXPLAINED, NOT_TESTED
from rbplib.table import DEFINITIONS

EXACT = "float32"  # the precision that the others are compared with
WAYS = {"least_squares": "line, least squares", "binomial": "line, maximum likelihood"}  # to fit, as pages call them
WAYS |= {"irreducible": "law with a floor", "quadratic": "quadratic in log S"}


def size_frame(curves, ks=(1,)):
    """One row per corpus and model: size, tokens scored, RBP_k per k, and cross-entropy."""
    parts = []
    for name, c in curves.items():
        frame = pd.DataFrame({"corpus": corpus_title(name), "model": c.models, "S": c.S.astype(int)})
        frame["tokens scored"] = c.scored_tokens
        frame[[f"RBP_{k}" for k in ks]] = c.rbp[:, [c.index(k) for k in ks]]
        parts.append(frame.assign(**{"cross-entropy (nats)": c.cross_entropy}))
    return pd.concat(parts, ignore_index=True)


def experts_words(record):
    """Which of a mixture's experts the S of a table counts; nothing for a model without."""
    if not record.get("params_by_experts"):
        return ""
    met = record.get("experts") == "active"
    return ", of its experts those that one token meets" if met else ", all experts counted"


def ends(interval, of=""):
    """Both ends of an interval as columns."""
    return {f"{of}low": interval[0], f"{of}high": interval[1]}


def law_columns(law):
    """What every table of laws says of one: exponent, 95% intervals, R², how far it is off, what is enough for that."""
    row = {"alpha": law.alpha, **ends(law.ci_tokens, "other text: "), **ends(law.ci_trainings, "and trainings: ")}
    row |= {**ends(law.ci_models, "other sizes: "), "R²": law.r2}
    return row | {"largest residual (%)": 100 * law.worst_residual, "explained by": law.explained_by}


def line_words(laws, bound=None):
    """R² and exponents of lines in words, and how many reach an R² of `bound`; those without a fit count apart."""
    fitted = sorted((w for w in laws if np.isfinite(w.r2)), key=lambda w: w.r2)
    left, said = Counter("; ".join(w.notes) for w in laws if not np.isfinite(w.r2)), []
    if bound and fitted:
        said += [f"{sum(w.r2 >= bound for w in fitted)} of {len(fitted)} lines reach the paper's $R^2 \\ge {bound}$."]
    if fitted:
        where = f" (lowest on {corpus_title(fitted[0].corpus)} at $k = {fitted[0].k}$)" if len(fitted) > 1 else ""
        r2, alpha = (Values([getattr(w, of) for w in fitted]) for of in ("r2", "alpha"))
        said += [f"$R^2$ is {r2.range}{where}, the exponent {alpha.range}."]
        said += ["A negative exponent says that larger models do worse."] if alpha.low < 0 else []
    if without := sum(len(w.used) < len(w.loss.models) for w in fitted):
        said += [f"In {without} of {len(fitted)} fits some model has no hit, or no miss, and is left out."]
    if left:
        why = ", ".join(f"{n} × *{status}*" for status, n in left.items())
        said += [f"No line could be fitted ({why}): it takes three sizes with hits, misses and unlike losses."]
    return " ".join(said)


def law_frame(laws):
    """One row per fitted law: exponent with its intervals, R², largest residual and what explains it, p, status.

    The interval over documents stands there where some law has documents that share a source; what trainings add,
    where it is known for some law.
    """
    laws = list(laws)
    shared, trained = any(w.over_documents is not w for w in laws), any(w.training_df for w in laws)
    rows = []
    for w in laws:
        row = {"corpus": corpus_title(w.corpus), "k": w.k if w.k else "–", "alpha": w.alpha}
        row |= (ends(w.over_documents.ci_tokens, "documents: ") if shared else {}) | ends(w.ci_tokens, "other text: ")
        row |= ends(w.ci_trainings, "and trainings: ") if trained else {}
        row |= {**ends(w.ci_models, "other sizes: "), "R²": w.r2}
        row |= {"p, sources and trainings": w.trained_lack_of_fit_p} if trained else {}
        row |= {"p, sources": w.lack_of_fit_p} | ({"p, documents": w.over_documents.lack_of_fit_p} if shared else {})
        row |= {"explained by": w.explained_by, "largest residual, %": 100 * w.worst_residual}
        row |= {"models": w.n_models, "sources": w.n_sources, "misses at the largest": w.misses, "status": w.status}
        rows.append(row)
    return pd.DataFrame(rows)


def explained_words(found, tail=""):
    """Counts of `explained_by` over laws, local exponents or noise floors in words: which noise is enough, in how many.

    tail: what it is that is tested, as the end of the sentence's first clause.
    """
    found = list(found)
    count = Counter(f.explained_by for f in found)
    tested = len(found) - count[NOT_TESTED]
    if not tested:
        return f"None of the {len(found)} cases could be tested{tail}."
    said = {
        "the choice of text (documents or sources) is enough in {}": count["documents"] + count["sources"],
        "the scatter between trainings is needed, and enough, in {}": count["trainings"],
        "text and trainings together are not enough in {}": count[EXPLAINED[3]],
        "the choice of text is not enough in {}, and training noise is not known there": count[EXPLAINED[4]],
    }
    parts = "; ".join(words.format(n) for words, n in said.items() if n)
    left = f" ({len(found) - tested} more could not be tested)" if tested < len(found) else ""
    return f"Of {tested} cases tested at the 5% level{tail}{left}: {parts}."


def training_words(laws):
    """How far trainings of one size differ, measured on whose models; or that it is not known."""
    laws, said = list(laws), []
    known = [w for w in laws if w.training_df]
    for by in dict.fromkeys(w.loss.repeats.family for w in known):
        own = [w for w in known if w.loss.repeats.family == by]
        lent = dict.fromkeys(w.family for w in own if not by.startswith(w.family))
        said.append(
            f"Two trainings of one size scatter by {Values([100 * w.training_sd for w in own]).range}% of the loss "
            f"beyond the choice of text (standard deviation, {own[0].training_df} degrees of freedom; 0 where that "
            f"choice is enough), measured on the {len(own[0].loss.repeats.models)} models of *{by}*, "
            f"{own[0].training_df} of them trained again"
            + (f"; taken over from there for {', '.join(lent)}, trained once." if lent else ".")
        )
    if alone := dict.fromkeys(w.family for w in laws if w.family not in {k.family for k in known}):
        said.append(f"No size of {', '.join(alone)} has a known second training, so training noise is not known here.")
    return " ".join(said)


def bend_words(steps):
    """The last step from one size to the next against the mean of the others, over `noise.LocalExponents`: how much."""
    told = [s for s in steps if np.isfinite(s.bend)]
    if not told:
        return "There are too few sizes with a value to compare the last step with the others."
    last, others = np.median([s.alpha[-1] for s in told]), np.median([s.alpha[:-1].mean() for s in told])
    return (
        f"The exponent of the last step is {number(last, 2)} in the median, the mean of the steps before it "
        f"{number(others, 2)}; the last one is the smaller in {sum(s.bend < 0 for s in told)} of {len(told)} cases. "
        + explained_words(told, " for this difference")
    )


def apart_words(laws, parameter):
    """In how many laws a parameter is told from zero, and on which side, by each of its intervals."""
    found = {}
    for law in laws:
        for name, (low, high) in law.sides(parameter).items():
            found.setdefault(name, []).extend([(low > 0) - int(high < 0)] if np.isfinite([low, high]).all() else [])
    told = {name: (f.count(1), f.count(-1), len(f)) for name, f in found.items() if f}
    said = "; ".join(f"over *{of}* above 0 in {up} of {n} cases, below in {low}" for of, (up, low, n) in told.items())
    return f"The 95% interval lies {said}." if said else "No case has an interval."


def worst_words(laws):
    """The effect size in words: how far the models leave their law at the worst, in percent of the loss."""
    away = Values([w.worst_residual for w in laws])
    if not away.found:
        return "No law could be fitted."
    middle = f", {away.middle:%} in the median" * (away.low < away.high)
    return f"The model furthest from its line is off by {away.between('%')} of the loss{middle}."


def held_out_table(frame):
    """`forecasts.held_out_forecasts` of one family as a page shows it."""
    names = {"models": "models fitted", "of": "left out", "horizon": "decades beyond", "low": "interval: low"}
    names |= {"high": "interval: high", "line_error": "line: error", "line_inside": "line: inside"}
    yes = {name: np.where(frame[name], "yes", "no") for name in ("inside", "line_inside")}
    shown = frame.assign(corpus=frame["corpus"].map(corpus_title), S=frame["S"].astype(int), **yes)
    shown.insert(3, "held out", [row.model + f", of the largest {row.of}" * (row.of > 1) for row in frame.itertuples()])
    return shown.drop(columns=["family", "loss"]).rename(columns=names)


def compare_estimators(curves, ks):
    """`tokens.compared` of the estimators' errors on held-out models, best first, for each number held out: data frame.

    The error of a prediction is |predicted / observed loss - 1|; of its models the worst is taken. A group is one curve
    at one k; those that some estimator cannot predict are left out. held out: how many models.
    """

    def worst(loss, held_out, name):
        if len(loss.models) < max(3, len(ESTIMATORS[name].parameters)) + held_out:
            return np.nan
        errors = np.abs(extrapolate(loss, held_out, name).error)
        return np.nanmax(errors) if np.isfinite(errors).any() else np.nan

    losses, parts = [c.loss(k) for c in curves for k in ks], []
    for held_out in (1, 2):
        errors = pd.DataFrame({name: [worst(loss, held_out, name) for loss in losses] for name in ESTIMATORS})
        parts.append(compared(errors).assign(**{"held out": held_out}))
    return pd.concat(parts, ignore_index=True).query("groups > 0").assign(form=lambda found: found["form"].map(WAYS))


def tie_frame(tables):
    """One row per precision and model: how often the true token is tied, and how often its rank is another."""
    rows = []
    for precision, found in tables.items():
        for table, exact in zip(found, tables[EXACT], strict=True):
            tied, rank, true = table.ties > 1, table.rank(), exact.rank()
            row = {"precision": precision, "model": table.record["model"]}
            row |= {"S": int(table.record["nonembedding_params"]), "tied": tied.mean()}
            row |= {"tied with the best": ((table.greater == 0) & tied).mean(), "ties, largest": int(table.ties.max())}
            for name, kept in (("first ten", true <= 10), ("beyond 100", true > 100)):
                row[f"rank changed, {name}"] = (rank != true)[kept].mean() if kept.any() else np.nan
            rows.append(row | {f"rank changed, {d}": (table.rank(d) != exact.rank(d)).mean() for d in DEFINITIONS})
    return pd.DataFrame(rows)


def precision_curves(tables, ks):
    """{(precision, definition): Curve} of {precision: rank tables of one family and corpus, models in one order}."""
    return {(p, d): rbp_curve(found, ks, d) for p, found in tables.items() for d in DEFINITIONS}


def shift_frame(curves, k=1):
    """One row per precision, definition and model: RBP_k and how far it is from the exact one."""
    parts = []
    for (precision, definition), curve in curves.items():
        here, there = (c.rbp[:, c.index(k)] for c in (curve, curves[EXACT, definition]))
        columns = {"model": curve.models, "S": curve.S.astype(int), "RBP": here, "change": here - there}
        parts.append(pd.DataFrame({"precision": precision, "definition": definition, **columns}))
    return pd.concat(parts, ignore_index=True)


def precision_frame(curves, k=1, n_bootstrap=10_000, seed=42):
    """One row per precision and definition: exponent, interval over sources, R^2, change against the exact one."""
    laws = {key: fit_law(curve, k, n_bootstrap=n_bootstrap, seed=seed) for key, curve in curves.items()}
    frame = pd.DataFrame(
        {"precision": precision, "definition": definition, "alpha": w.alpha, **ends(w.ci_tokens), "R²": w.r2}
        for (precision, definition), w in laws.items()
    )
    frame["change of alpha"] = frame["alpha"] - [laws[EXACT, definition].alpha for definition in frame["definition"]]
    frame["in widths of its interval"] = frame["change of alpha"].abs() / (frame["high"] - frame["low"])
    return frame
