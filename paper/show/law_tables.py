"""Tables on laws for pages: data frames with one row per fit, from the records of `laws`."""

from itertools import chain, product

import numpy as np
import pandas as pd

from paper.evidence import direction
from paper.families import contrasts, loss_at, pooled
from paper.forecasts import extrapolate
from paper.laws import fit
from paper.show.tables import corpus_title, ends, law_columns
from paper.steps import fewer_sources, step_weights
from rbplib.bootstrap import MIN_DOCUMENTS

BEYOND = "k beyond vocabulary"
SHARES = (0.25, 0.5, 1.0)  # of the sources


def exponent_table(curves, ks, n_bootstrap=10_000, seed=42, progress=iter):
    """The table of exponents: one row per family, corpus and k, and one for the cross-entropy (k empty).

    Families of fewer than three models, and k above a vocabulary, have rows with a status and no exponent.

    Args:
        curves: list of Curve, each counting those of `ks` that its vocabulary allows.
        progress: wraps the list of curves, tqdm for a bar.
    """
    rows = []
    for curve in progress(curves):
        start = {"family": curve.family, "corpus": curve.corpus}
        losses = chain(
            map(curve.loss, (k for k in ks if k <= curve.vocab_size)), [curve.cross_entropy_loss()]
        )
        rows += [
            {**start, **_row(loss, fit(loss, n_bootstrap=n_bootstrap, seed=seed), curve)}
            for loss in losses
        ]
        rows += [{**start, "k": float(k), "status": BEYOND} for k in ks if k > curve.vocab_size]
    return pd.DataFrame(rows)


def _row(loss, law, curve):
    held = extrapolate(loss) if len(loss.models) > 3 else None
    told = held and np.isfinite(held.interval).all()
    return {
        "k": float(law.k) if law.k else np.nan,
        "k / |V|": law.k / curve.vocab_size if law.k else np.nan,
        **law_columns(law),
        "noise p": law.noise_p,
        "sd around the line": law.residual_sd,
        "sd: sources": law.noise_sd,
        "sd: trainings": law.training_sd,
        "held-out error": float(held.error[0]) if held else np.nan,
        "held-out interval": ("holds" if held.inside[0] else "misses") if told else "–",
        "tokens scored": law.scored_tokens,
        "documents": law.n_documents,
        "sources": law.n_sources,
        "misses at the largest": float(law.misses) if law.misses is not None else np.nan,
        "models": law.n_models,
        "left out": ", ".join(law.left_out),
        "status": law.status,
    }


def bend_frame(bends):
    """`families.bends_by_k` as a table: a row per loss and corpus, and of all corpora, with what to call it.

    The last step is flatter or steeper where both the spread of families and noise say so.
    """
    rows = []
    for k, found in bends.items():
        for corpus in (None, *dict.fromkeys(c.corpus for c in found)):
            effect = pooled([c for c in found if corpus in (None, c.corpus)])
            sign = direction(effect.interval, effect.noise_p)
            rows.append(
                {
                    "loss": f"k = {k}" if k else "cross-entropy",
                    "corpus": corpus_title(corpus) if corpus else "mean of all",
                    "families": effect.groups,
                    "bend": effect.estimate,
                    **ends(effect.interval),
                    "p": effect.p,
                    "sd: sources": effect.sources_sd,
                    "sd: trainings": effect.trainings_sd,
                    "p of noise": effect.noise_p,
                    "last step": {-1: "flatter", 1: "steeper"}.get(np.sign(sign), "undecided"),
                }
            )
    return pd.DataFrame(rows)


def step_frame(curves, k=None, n_bootstrap=10_000, seed=42):
    """Local exponents of each family, means over its corpora; half-width: 1.96 sd of sources and trainings."""
    rows = []
    for family in dict.fromkeys(c.family for c in curves):
        counted = [c for c in curves if c.family == family and (k is None or k in c.ks)]
        sizes = np.unique(counted[0].S) if counted else np.empty(0)
        for i, S in enumerate(np.sqrt(sizes[1:] * sizes[:-1])):
            weights = lambda S, i=i: step_weights(S)[i]  # noqa: E731
            step = pooled(contrasts(counted, weights, loss_at(k), n_bootstrap, seed))
            noise = np.hypot(*np.nan_to_num([step.sources_sd, step.trainings_sd]))
            rows.append((family, S, step.estimate, 1.96 * noise))
    return pd.DataFrame(rows, columns=["family", "S", "exponent", "half-width"])


def without_ends(loss):
    """The law of all sizes and with an end of the ladder left out: what spoils a line shows here.

    A bad line that mends without the largest size speaks of training cut short, one that mends without the smallest of
    a head too narrow for the vocabulary (softmax bottleneck), one that mends with neither of scatter or of a bend. The
    last columns are the exponents between the smallest two and the largest two of the sizes used; cuts that leave fewer
    than three are left out.
    """
    cuts = {
        "all": slice(None),
        "without the smallest": slice(1, None),
        "without the largest": slice(-1),
        "without both": slice(1, -1),
    }
    rows = []
    for name, cut in cuts.items():
        chosen = range(len(loss.models))[cut]
        if len(chosen) > 2:
            law = fit(loss.keep(list(chosen)), n_bootstrap=0)
            slopes = -np.diff(law.y) / np.diff(np.log(law.S))
            rows.append((name, law.alpha, law.r2, law.residual_sd, slopes[0], slopes[-1]))
    columns = ["sizes", "alpha", "R²", "residual sd", "smallest two", "largest two"]
    return pd.DataFrame(rows, columns=columns)


def noise_frame(floors):
    """One row per corpus and k from {corpus: [steps.NoiseFloor]}."""
    rows = []
    for corpus, f in ((corpus, f) for corpus, of_ks in floors.items() for f in of_ks):
        rows.append(
            {
                "corpus": corpus_title(corpus),
                "k": f.k,
                "misses": int(f.misses[-1]),
                "sd": f.sd[-1],
                "design effect": f.deff[-1],
                "R²": f.r2,
                "R² under the law: 5%": f.r2_band[0],
                "median": f.r2_band[1],
                "as bad by sources alone": f.worse,
                "by sources and trainings": f.trained_worse,
                "R² as low, by": f.explained_by,
                "misses, smallest model": int(f.misses[0]),
            }
        )
    return pd.DataFrame(rows, columns=None if rows else ["corpus", "k", "R² as low, by"])


def share_frame(curves, ks, n_bootstrap=10_000, seed=42):
    """Scatter of the models around the line on shares of the sources, for the corpora that can be split so far."""
    whole = [c for c in curves if round(min(SHARES) * c.loss(ks[0]).n_sources) >= MIN_DOCUMENTS]
    rows = []
    for share, curve in product(SHARES, whole):
        part = fewer_sources(curve, share, seed)
        for k in ks:
            law = fit(part.loss(k), n_bootstrap=n_bootstrap, seed=seed)
            place = (share, corpus_title(law.corpus), k)
            rows.append((*place, law.residual_sd, law.noise_sd, law.excess_sd, law.r2))
    columns = ["share of sources", "corpus", "k", "scatter", "noise", "beyond noise", "R²"]
    return pd.DataFrame(rows, columns=columns)  # the columns of no corpus that is large enough


def form_frame(found):
    """Errors of the largest model's loss, of each PublishedLaw, predicted without it and without the largest two.

    By a line, from three models or more, and with a floor, from four; NaN for fewer."""
    rows = []
    for p in found:
        loss, floor = p.law.loss, fit(p.law.loss, "irreducible", n_bootstrap=0).parameters["floor"]
        rows.append(
            {"family": p.law.family, "text": p.text, "models": p.law.n_models, "floor": floor}
        )
        for out, (name, kind, least) in product(
            (1, 2), (("line", "least_squares", 3), ("floor", "irreducible", 4))
        ):
            enough = len(loss.models) - out >= least
            rows[-1][f"{name}, {out} out"] = (
                extrapolate(loss, out, kind).error[-1] if enough else np.nan
            )
    return pd.DataFrame(rows)
