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
WAYS = {
    "least_squares": "line, least squares",
    "binomial": "line, maximum likelihood",
}  # to fit, as pages call them
WAYS |= {"irreducible": "law with a floor", "quadratic": "quadratic in log S"}


def size_frame(curves, ks=(1,)):
    """One row per corpus and model: size, tokens scored, RBP_k per k, and cross-entropy."""
    parts = []
    for name, c in curves.items():
        frame = pd.DataFrame(
            {"corpus": corpus_title(name), "model": c.models, "S": c.S.astype(int)}
        )
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
    return {
        "alpha": law.alpha,
        **ends(law.ci_tokens, "other text: "),
        **ends(law.ci_trainings, "and trainings: "),
        **ends(law.ci_models, "other sizes: "),
        "R²": law.r2,
        "largest residual (%)": 100 * law.worst_residual,
        "explained by": law.explained_by,
    }


def line_words(laws, bound=None):
    """R² and exponents of lines in words, and how many reach an R² of `bound`; those without a fit count apart."""
    fitted = sorted((law for law in laws if np.isfinite(law.r2)), key=lambda law: law.r2)
    failed = Counter("; ".join(law.notes) for law in laws if not np.isfinite(law.r2))
    sentences = []
    if bound and fitted:
        reached = sum(law.r2 >= bound for law in fitted)
        sentences.append(f"{reached} of {len(fitted)} lines reach the paper's $R^2 \\ge {bound}$.")
    if fitted:
        r2, alpha = Values([law.r2 for law in fitted]), Values([law.alpha for law in fitted])
        lowest = (
            f" (lowest on {corpus_title(fitted[0].corpus)} at $k = {fitted[0].k}$)"
            if len(fitted) > 1
            else ""
        )
        sentences.append(f"$R^2$ is {r2.range}{lowest}, the exponent {alpha.range}.")
        if alpha.low < 0:
            sentences.append("A negative exponent says that larger models do worse.")
    # what is left out of a fit, and fits that failed
    without = sum(len(law.used) < len(law.loss.models) for law in fitted)
    if without:
        sentences.append(
            f"In {without} of {len(fitted)} fits some model has no hit, or no miss, and is left out."
        )
    if failed:
        why = ", ".join(f"{n} × *{status}*" for status, n in failed.items())
        sentences.append(
            f"No line could be fitted ({why}): it takes three sizes with hits, misses and unlike losses."
        )
    return " ".join(sentences)


def law_frame(laws):
    """One row per fitted law: exponent with its intervals, R², largest residual and what explains it, p, status.

    The interval over documents stands there where some law has documents that share a source; what trainings add,
    where it is known for some law.
    """
    laws = list(laws)
    rows = []
    for law in laws:
        rows.append(
            {
                "corpus": corpus_title(law.corpus),
                "k": law.k if law.k else "–",
                "alpha": law.alpha,
                **ends(law.over_documents.ci_tokens, "documents: "),
                **ends(law.ci_tokens, "other text: "),
                **ends(law.ci_trainings, "and trainings: "),
                **ends(law.ci_models, "other sizes: "),
                "R²": law.r2,
                "p, sources and trainings": law.trained_lack_of_fit_p,
                "p, sources": law.lack_of_fit_p,
                "p, documents": law.over_documents.lack_of_fit_p,
                "explained by": law.explained_by,
                "largest residual, %": 100 * law.worst_residual,
                "models": law.n_models,
                "sources": law.n_sources,
                "misses at the largest": law.misses,
                "status": law.status,
            }
        )
    frame = pd.DataFrame(rows)
    # columns that no law has something in
    if all(law.over_documents is law for law in laws):
        frame = frame.drop(columns=frame.filter(like="documents").columns)
    if not any(law.training_df for law in laws):
        frame = frame.drop(columns=frame.filter(like="trainings").columns)
    return frame


def explained_words(cases, tail=""):
    """Counts of `explained_by` over laws, local exponents or noise floors: which noise is enough, in how many.

    tail: what it is that is tested, as the end of the sentence's first clause.
    """
    cases = list(cases)
    count = Counter(case.explained_by for case in cases)
    tested = len(cases) - count[NOT_TESTED]
    if not tested:
        return f"None of the {len(cases)} cases could be tested{tail}."
    clauses = {
        "the choice of text (documents or sources) is enough in {}": count["documents"]
        + count["sources"],
        "the scatter between trainings is needed, and enough, in {}": count["trainings"],
        "text and trainings together are not enough in {}": count[EXPLAINED[3]],
        "the choice of text is not enough in {}, and training noise is not known there": count[
            EXPLAINED[4]
        ],
    }
    counts = "; ".join(clause.format(n) for clause, n in clauses.items() if n)
    left = f" ({len(cases) - tested} more could not be tested)" if tested < len(cases) else ""
    return f"Of {tested} cases tested at the 5% level{tail}{left}: {counts}."


def training_words(laws):
    """How far trainings of one size differ, measured on whose models; or that it is not known."""
    laws, sentences = list(laws), []
    known = [law for law in laws if law.training_df]
    for measured_on in dict.fromkeys(law.loss.repeats.family for law in known):
        same = [law for law in known if law.loss.repeats.family == measured_on]
        repeats, df = same[0].loss.repeats, same[0].training_df
        scatter = Values([100 * law.training_sd for law in same]).range
        borrowed = dict.fromkeys(
            law.family for law in same if not measured_on.startswith(law.family)
        )
        lent = (
            f"; taken over from there for {', '.join(borrowed)}, trained once" if borrowed else ""
        )
        sentences.append(
            f"Two trainings of one size scatter by {scatter}% of the loss beyond the choice of text (standard "
            f"deviation, {df} degrees of freedom; 0 where that choice is enough), measured on the "
            f"{len(repeats.models)} models of *{measured_on}*, {df} of them trained again{lent}."
        )
    # families without a second training
    families = {law.family for law in known}
    alone = dict.fromkeys(law.family for law in laws if law.family not in families)
    if alone:
        names = ", ".join(alone)
        sentences.append(
            f"No size of {names} has a known second training, so training noise is not known here."
        )
    return " ".join(sentences)


def bend_words(steps):
    """The last step from one size to the next against the mean of the others, over `noise.LocalExponents`: how much."""
    steps = [step for step in steps if np.isfinite(step.bend)]
    if not steps:
        return "There are too few sizes with a value to compare the last step with the others."
    last = np.median([step.alpha[-1] for step in steps])
    others = np.median([step.alpha[:-1].mean() for step in steps])
    smaller = sum(step.bend < 0 for step in steps)
    return (
        f"The exponent of the last step is {number(last, 2)} in the median, the mean of the steps before it "
        f"{number(others, 2)}; the last one is the smaller in {smaller} of {len(steps)} cases. "
        + explained_words(steps, " for this difference")
    )


def apart_words(laws, parameter):
    """In how many laws a parameter is told from zero, and on which side, by each of its intervals."""
    intervals = {}
    for law in laws:
        for name, interval in law.sides(parameter).items():
            if np.isfinite(interval).all():
                intervals.setdefault(name, []).append(interval)
    clauses = []
    for name, of_laws in intervals.items():
        low, high = np.array(of_laws).T
        clauses.append(
            f"over *{name}* above 0 in {sum(low > 0)} of {len(low)} cases, below in {sum(high < 0)}"
        )
    return f"The 95% interval lies {'; '.join(clauses)}." if clauses else "No case has an interval."


def worst_words(laws):
    """The effect size in words: how far the models leave their law at the worst, in percent of the loss."""
    away = Values([law.worst_residual for law in laws])
    if not away.found:
        return "No law could be fitted."
    middle = f", {away.middle:%} in the median" if away.low < away.high else ""
    return f"The model furthest from its line is off by {away.between('%')} of the loss{middle}."


def held_out_table(frame):
    """`forecasts.held_out_forecasts` of one family as a page shows it."""
    frame = frame.assign(
        corpus=frame["corpus"].map(corpus_title),
        S=frame["S"].astype(int),
        inside=np.where(frame["inside"], "yes", "no"),
        line_inside=np.where(frame["line_inside"], "yes", "no"),
    )
    # which of several left out
    among = np.where(frame["of"] > 1, ", of the largest " + frame["of"].astype(str), "")
    frame.insert(3, "held out", frame["model"] + among)
    names = {
        "models": "models fitted",
        "of": "left out",
        "horizon": "decades beyond",
        "low": "interval: low",
        "high": "interval: high",
        "line_error": "line: error",
        "line_inside": "line: inside",
    }
    return frame.drop(columns=["family", "loss"]).rename(columns=names)


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
        errors = pd.DataFrame(
            {name: [worst(loss, held_out, name) for loss in losses] for name in ESTIMATORS}
        )
        parts.append(compared(errors).assign(**{"held out": held_out}))
    return (
        pd.concat(parts, ignore_index=True)
        .query("groups > 0")
        .assign(form=lambda found: found["form"].map(WAYS))
    )


def tie_frame(tables):
    """One row per precision and model: how often the true token is tied, and how often its rank is another."""
    rows = []
    for precision, found in tables.items():
        for table, exact in zip(found, tables[EXACT], strict=True):
            tied, true = table.ties > 1, exact.rank()
            changed = table.rank() != true
            near, far = changed[true <= 10], changed[true > 100]
            row = {
                "precision": precision,
                "model": table.record["model"],
                "S": int(table.record["nonembedding_params"]),
                "tied": tied.mean(),
                "tied with the best": ((table.greater == 0) & tied).mean(),
                "ties, largest": int(table.ties.max()),
                "rank changed, first ten": near.mean() if len(near) else np.nan,
                "rank changed, beyond 100": far.mean() if len(far) else np.nan,
            }
            for definition in DEFINITIONS:
                different = table.rank(definition) != exact.rank(definition)
                row[f"rank changed, {definition}"] = different.mean()
            rows.append(row)
    return pd.DataFrame(rows)


def precision_curves(tables, ks):
    """{(precision, definition): Curve} of {precision: rank tables of one family and corpus, models in one order}."""
    return {(p, d): rbp_curve(found, ks, d) for p, found in tables.items() for d in DEFINITIONS}


def shift_frame(curves, k=1):
    """One row per precision, definition and model: RBP_k and how far it is from the exact one."""
    parts = []
    for (precision, definition), curve in curves.items():
        here, there = (c.rbp[:, c.index(k)] for c in (curve, curves[EXACT, definition]))
        columns = {
            "model": curve.models,
            "S": curve.S.astype(int),
            "RBP": here,
            "change": here - there,
        }
        parts.append(pd.DataFrame({"precision": precision, "definition": definition, **columns}))
    return pd.concat(parts, ignore_index=True)


def precision_frame(curves, k=1, n_bootstrap=10_000, seed=42):
    """One row per precision and definition: exponent, interval over sources, R^2, change against the exact one."""
    laws = {
        key: fit_law(curve, k, n_bootstrap=n_bootstrap, seed=seed) for key, curve in curves.items()
    }
    frame = pd.DataFrame(
        {
            "precision": precision,
            "definition": definition,
            "alpha": w.alpha,
            **ends(w.ci_tokens),
            "R²": w.r2,
        }
        for (precision, definition), w in laws.items()
    )
    frame["change of alpha"] = frame["alpha"] - [
        laws[EXACT, definition].alpha for definition in frame["definition"]
    ]
    frame["in widths of its interval"] = frame["change of alpha"].abs() / (
        frame["high"] - frame["low"]
    )
    return frame
