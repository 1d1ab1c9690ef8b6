"""Tables of curves, laws and predictions for pages: records in, a data frame out."""

import numpy as np
import pandas as pd

from paper.forecasts import extrapolate
from paper.show.plain import corpus_title as corpus_title
from paper.show.prose import interval, number
from paper.tokens import compared
from rbplib.estimators import ESTIMATORS
from rbplib.families import InputError
from rbplib.losses import run_loss

WAYS = {
    "least_squares": "line, least squares",
    "binomial": "line, maximum likelihood",
}  # to fit, as pages call them
WAYS |= {"irreducible": "law with a floor", "quadratic": "quadratic in log S"}

PERCENT = ("rmse", "spread", "behind", "low", "high")  # of `tokens.compared`, shown in percent


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


def law_frame(laws):
    """One row per fitted law: `law_columns`, p of each test, what it rests on, status.

    What documents and trainings add stands there where some law knows it.
    """
    rows = []
    for law in laws:
        documents = law.over_documents
        rows.append(
            {
                "corpus": corpus_title(law.corpus),
                "k": law.k if law.k else "–",
                **law_columns(law),
                **ends(documents.ci_tokens, "documents: "),
                "p, sources and trainings": law.trained_lack_of_fit_p,
                "p, sources": law.lack_of_fit_p,
                "p, documents": documents.lack_of_fit_p,
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


def ways_frame(laws):
    """`law_frame` of laws fitted in several ways, with the way and the floor of the law that has one."""
    frame = law_frame(laws).drop(columns=["k", "misses at the largest"])
    frame.insert(1, "way", [WAYS[law.estimator] for law in laws])
    frame.insert(3, "floor E", [law.parameters.get("floor", np.nan) for law in laws])
    return frame


def counted_runs(tables, N, k=1):
    """The Loss of N hits in a row, or in a sentence why they cannot be counted."""
    try:
        return run_loss(tables, k, N)
    except InputError as error:
        return str(error)


def forecast_frame(quantities):
    """A row per corpus: of each quantity its forecast at the last size asked for, with its interval.

    quantities: {name: ({corpus: Forecast, or why there is none}, times)}; times as of `Forecast.told`.
    """
    unknown, rows = (np.nan, (np.nan, np.nan)), []
    first, _ = next(iter(quantities.values()))
    for corpus in first:
        row = {"corpus": corpus_title(corpus)}
        for name, (forecasts, times) in quantities.items():
            forecast = forecasts[corpus]
            value, around = unknown if isinstance(forecast, str) else forecast.told(-1, times)
            row |= {name: value, **ends(around, f"{name}: ")}
        rows.append(row)
    return pd.DataFrame(rows)


def with_intervals(frame, missing="too few to tell"):
    """{X: safe HTML} of a frame with columns X, X: low and X: high: each value beside its interval."""
    shown = {}
    for name in frame:
        if f"{name}: low" in frame:
            numbers = frame[[name, f"{name}: low", f"{name}: high"]].to_numpy(float)
            shown[name] = [
                f"{number(x)} <span>{interval(around)}</span>" if np.isfinite(x) else missing
                for x, *around in numbers
            ]
    return shown


def held_out_table(frame):
    """`forecasts.held_out_forecasts` of one family as a page shows it; empty as it is."""
    if not len(frame):
        return frame
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


def compare_estimators(losses):
    """Errors of the estimators on models left out, percent, best first, for one and for two left out.

    Rows of `tokens.compared`: a case is a Loss, its error the largest of |predicted / observed loss - 1|.
    """
    parts = []
    for held_out in (1, 2):
        errors = {}
        for name in ESTIMATORS:
            errors[name] = [worst_error(loss, held_out, name) for loss in losses]
        parts.append(compared(pd.DataFrame(errors)).assign(**{"left out": held_out}))
    frame = pd.concat(parts, ignore_index=True).query("groups > 0")
    frame.insert(0, "law", frame.pop("form").map(WAYS))
    frame.insert(0, "left out", frame.pop("left out"))
    frame[list(PERCENT)] *= 100
    frame.loc[frame["behind"] == 0, ["low", "high"]] = np.nan  # the best beside itself
    names = {"groups": "cases", "rmse": "error (%)", "verdict": "against the best"}
    return frame.rename(columns=names | {"behind": "behind the best (points)"})


def worst_error(loss, held_out, estimator):
    """The largest |predicted / observed - 1| of the largest models, left out; NaN where too few are left to fit."""
    if len(loss.models) < max(3, len(ESTIMATORS[estimator].parameters)) + held_out:
        return np.nan
    errors = np.abs(extrapolate(loss, held_out, estimator).error)
    return np.nanmax(errors) if np.isfinite(errors).any() else np.nan
