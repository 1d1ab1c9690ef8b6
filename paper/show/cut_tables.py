"""Published grids of sizes and tokens, and cuts along size."""

import numpy as np
import pandas as pd

from paper import published
from paper import tokens as joint

TEXTS = {"c4_original": "C4", "rpj": "RedPajama", "rw_original": "RefinedWeb"}  # of training
MULTIPLE, TOKENS = "one multiple", "one $D$"  # kinds of cuts
AXES = {MULTIPLE: "multiple of 20 tokens a parameter", TOKENS: "training tokens $D$"}
SHOWN = {"additive": "--", "kaplan": "-"}  # forms that may explain a fall, and their lines


def open_lm(losses, tasks, **cut):
    """Rows of `published.open_lm` of validation losses and tasks, a model once for each: name,
    of (which), corpus, ...

    cut: of `published.open_lm`. Training texts go by the names that pages use; what stands in
    `loss` is nats, or -log of a share.
    """
    columns = {name: f"loss_{name}" for name in losses}
    columns |= {name: f"acc_{name}" for name in tasks}
    parts = {of: published.open_lm(column, **cut) for of, column in columns.items()}
    rows = pd.concat(parts, names=["of", "name"])
    return rows.reset_index().replace({"corpus": TEXTS})


def points(rows):
    """(S, D, loss) of a frame, float64 (n,) each."""
    return tuple(rows[["S", "D", "loss"]].to_numpy(float).T)


# ---- cuts along size


def bend(S, loss):
    """The exponent along size and its fall over a decade, from a quadratic in log S.

    models, alpha, fall, se of fall (by the scatter around the quadratic). S, loss: float (n,),
    n > 3.
    """
    x = np.log10(np.asarray(S, float))
    y = np.log10(np.asarray(loss, float))
    curve, noise = np.polyfit(x, y, 2, cov=True)
    error = noise.round(9)[0, 0] ** 0.5
    return {
        "models": len(x),
        "alpha": -np.polyfit(x, y, 1)[0],
        "fall": 2 * curve.round(9)[0],
        "se of fall": 2 * error,
    }


def cuts(parts, laws):
    """Every cut of four sizes or more: loss, corpus, tokens (its kind), at, `bend`,
    and the fall that each form gives.

    parts: {(loss, corpus): rows of `open_lm`}. laws: {(loss, corpus): {form: JointLaw}}.
    """
    records = []
    for (of, corpus), rows in parts.items():
        sides = [(MULTIPLE, at, *points(part)) for at, part in rows.groupby("multiple")]
        # losses at one number of tokens lie between two budgets
        for D in np.unique(rows["D"]):
            S, loss = joint.at_tokens(*points(rows), D)
            same = np.full(len(S), D)
            sides.append((TOKENS, D, S, same, loss))
        for kind, at, S, D, loss in sides:
            if len(S) < 4:
                continue
            record = {"loss": of, "corpus": corpus, "tokens": kind, "at": at}
            record |= bend(S, loss) | dict.fromkeys(SHOWN, np.nan)
            for form in SHOWN.keys() & laws[of, corpus].keys():
                given = laws[of, corpus][form].predict(S, D)
                record[form] = bend(S, given)["fall"]
            records.append(record)
    return pd.DataFrame(records)
