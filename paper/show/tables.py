"""Tables of curves, laws and predictions for pages: records in, a data frame out."""

import pandas as pd

from paper.show.plain import corpus_title as corpus_title

WAYS = {  # to fit, as pages call them
    "least_squares": "line, least squares",
    "binomial": "line, maximum likelihood",
    "irreducible": "law with a floor",
    "quadratic": "quadratic in log S",
}


def ends(interval, of=""):
    """Both ends of an interval as columns."""
    return {f"{of}low": interval[0], f"{of}high": interval[1]}


def law_frame(laws):
    """One row per fitted law: exponent, 95% intervals, R², how far it is off, what explains that,
    p of each test, what it rests on, status.

    What trainings add stands there where some law knows it.
    """
    rows = []
    for law in laws:
        row = {"corpus": corpus_title(law.corpus), "k": law.k or "–", "alpha": law.alpha}
        # three intervals
        row |= ends(law.ci_tokens, "other text: ")
        row |= ends(law.ci_trainings, "and trainings: ")
        row |= ends(law.ci_models, "other sizes: ")
        # how well it fits, and what explains the rest
        row |= {"R²": law.r2, "largest residual (%)": 100 * law.worst_residual}
        row |= {"explained by": law.explained_by}
        row |= {"p, sources and trainings": law.p["trainings"], "p, sources": law.p["sources"]}
        row |= {"models": law.n_models, "sources": law.n_sources}
        rows.append(row | {"misses at the largest": law.misses, "status": law.status})
    frame = pd.DataFrame(rows)
    if any(law.training_df for law in laws):
        return frame
    return frame.drop(columns=frame.filter(like="trainings").columns)
