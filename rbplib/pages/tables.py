"""Tables of curves, laws and predictions for pages: records in, a data frame out."""

from itertools import product

import numpy as np
import pandas as pd

from rbplib.laws.curve import rbp_curve
from rbplib.laws.estimators import ESTIMATORS
from rbplib.laws.extrapolation import extrapolate
from rbplib.laws.law import fit_law
from rbplib.ranks.table import DEFINITIONS
from rbplib.settings import InputError, load_corpus

EXACT = "float32"  # the precision that the others are compared with


def corpus_title(name):
    """A corpus name as pages show it; a corpus given by its path is known by its name alone."""
    try:
        return load_corpus(name).title or name
    except InputError:
        return name


def size_frame(curves, ks=(1,)):
    """One row per corpus and model: size, tokens scored, RBP_k per k, and cross-entropy."""
    parts = []
    for name, c in curves.items():
        frame = pd.DataFrame({"corpus": corpus_title(name), "model": c.models, "S": c.S.astype(int)})
        frame["tokens scored"] = c.scored_tokens
        frame[[f"RBP_{k}" for k in ks]] = c.rbp[:, [c.index(k) for k in ks]]
        parts.append(frame.assign(**{"cross-entropy (nats)": c.cross_entropy}))
    return pd.concat(parts, ignore_index=True)


def ends(interval, of=""):
    """Both ends of an interval as columns."""
    return {f"{of}low": interval[0], f"{of}high": interval[1]}


def law_columns(law):
    """What every table of laws says of one: exponent, both 95% intervals, R²."""
    return {"alpha": law.alpha, **ends(law.ci_tokens, "tokens: "), **ends(law.ci_models, "models: "), "R²": law.r2}


def law_frame(laws):
    """One row per fitted law: `law_columns`, scatter, lack of fit, status."""
    return pd.DataFrame(
        {
            "corpus": corpus_title(w.corpus),
            "k": w.k if w.k else "–",
            **law_columns(w),
            "residual sd": w.residual_sd,
            "noise sd": w.noise_sd,
            "lack of fit p": w.lack_of_fit_p,
            "models": w.n_models,
            "misses at the largest": w.misses,
            "status": w.status,
        }
        for w in laws
    )


def extrapolation_frame(tests):
    """One row per held-out model: predicted and measured loss, the error, and whether the interval held."""
    return pd.DataFrame(
        {
            "corpus": corpus_title(t.law.corpus),
            "k": t.law.k or "–",
            "models fitted": t.law.n_models,
            "held out": model,
            "S": int(t.S[i]),
            "predicted": np.exp(t.predicted[i]),
            **ends(np.exp(t.interval[:, i]), "interval: "),
            "measured": np.exp(t.observed[i]),
            "error": t.error[i],
            "inside": "yes" if t.inside[i] else "no",
        }
        for t in tests
        for i, model in enumerate(t.models)
    )


def compare_estimators(curves, ks):
    """One row per estimator and number of held-out models: errors over all curves and ks, and how often intervals held.

    The error of a prediction is |predicted / observed loss - 1|; of its models the worst is taken.
    """
    rows = []
    for (name, estimator), held_out in product(ESTIMATORS.items(), (1, 2)):
        enough = max(3, len(estimator.parameters)) + held_out
        losses = [c.loss(k) for c in curves for k in ks if len(c.models) >= enough]
        found = [extrapolate(loss, held_out, name) for loss in losses]
        errors = np.array([np.nanmax(np.abs(f.error)) for f in found if np.isfinite(f.error).any()])
        given = [bool(i) for f in found for i, low in zip(f.inside, f.interval[0], strict=True) if np.isfinite(low)]
        if len(errors):
            row = {"law": name.replace("_", " "), "held out": held_out, "cases": len(errors)}
            row |= {"median error": float(np.median(errors)), "largest error": float(errors.max())}
            rows.append(row | {"intervals that held": f"{sum(given)} of {len(given)}"})
    return pd.DataFrame(rows)


# Ties and changed ranks between precisions: {precision: rank tables of one family on one corpus, models in one order}.


def tie_frame(tables):
    """One row per precision and model: how often the true token is tied, and how often its rank is another."""
    rows = []
    for precision, found in tables.items():
        for table, exact in zip(found, tables[EXACT], strict=True):
            tied, rank, true = table.ties > 1, table.rank(), exact.rank()
            row = {
                "precision": precision,
                "model": table.record["model"],
                "S": int(table.record["nonembedding_params"]),
                "tied": tied.mean(),
                "tied with the best": ((table.greater == 0) & tied).mean(),
                "ties, largest": int(table.ties.max()),
            }
            for name, kept in (("first ten", true <= 10), ("beyond 100", true > 100)):
                row[f"rank changed, {name}"] = (rank != true)[kept].mean() if kept.any() else np.nan
            rows.append(row | {f"rank changed, {d}": (table.rank(d) != exact.rank(d)).mean() for d in DEFINITIONS})
    return pd.DataFrame(rows)


def precision_curves(tables, ks):
    """{(precision, definition): Curve}."""
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
    """One row per precision and definition: exponent, token interval, R^2, change against the exact one."""
    laws = {key: fit_law(curve, k, n_bootstrap=n_bootstrap, seed=seed) for key, curve in curves.items()}
    frame = pd.DataFrame(
        {"precision": precision, "definition": definition, "alpha": w.alpha, **ends(w.ci_tokens), "R²": w.r2}
        for (precision, definition), w in laws.items()
    )
    frame["change of alpha"] = frame["alpha"] - [laws[EXACT, definition].alpha for definition in frame["definition"]]
    frame["in widths of its interval"] = frame["change of alpha"].abs() / (frame["high"] - frame["low"])
    return frame
