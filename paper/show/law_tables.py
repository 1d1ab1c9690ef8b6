"""Tables on laws for pages: data frames with one row per fit, from the records of `laws`."""

from itertools import chain, product

import numpy as np
import pandas as pd

from paper.families import bend_weights, contrasts, pooled
from paper.forecasts import extrapolate
from paper.laws import fit, fit_laws
from paper.show.prose import number
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


def loss_at(k=None):
    """What gives of a curve the loss at one k, of the cross-entropy without one, as `families.contrasts` takes it."""
    return lambda curve: [curve.loss(k) if k else curve.cross_entropy_loss()]


def bend_frame(curves, ks, n_bootstrap=10_000, seed=42):
    """Last local exponent less the mean of the others, over families: a row per loss and corpus, and of all corpora."""
    rows = []
    for k in (*ks, None):
        counted = [c for c in curves if k is None or k in c.ks]
        found = contrasts(counted, bend_weights, loss_at(k), n_bootstrap, seed)
        for corpus in (None, *dict.fromkeys(c.corpus for c in found)):
            effect = pooled([c for c in found if corpus in (None, c.corpus)])
            where = {
                "loss": f"k = {k}" if k else "cross-entropy",
                "corpus": corpus or "mean of all",
            }
            rows.append(
                {
                    **where,
                    "families": effect.groups,
                    "bend": effect.estimate,
                    **ends(effect.interval),
                    "p": effect.p,
                    "sd: sources": effect.sources_sd,
                    "sd: trainings": effect.trainings_sd,
                    "p of noise": effect.noise_p,
                }
            )
    return pd.DataFrame(rows)


def step_frame(curves, k=None, n_bootstrap=10_000, seed=42):
    """Local exponents of each family, means over its corpora, each with what sources and trainings scatter it by."""
    rows = []
    for family in dict.fromkeys(c.family for c in curves):
        own = [c for c in curves if c.family == family and len(np.unique(c.S)) > 2]
        sizes = np.unique(own[0].S) if own else np.empty(0)
        for i, S in enumerate(np.sqrt(sizes[1:] * sizes[:-1])):
            step = pooled(
                contrasts(own, lambda S, i=i: step_weights(S)[i], loss_at(k), n_bootstrap, seed)
            )
            row = {"family": family, "S": S, "exponent": step.estimate}
            rows.append({**row, "sd: sources": step.sources_sd, "sd: trainings": step.trainings_sd})
    return pd.DataFrame(rows, columns=["family", "S", "exponent", "sd: sources", "sd: trainings"])


def without_ends(curve, k):
    """The law at one k for all sizes and with an end of the ladder left out: what spoils a line shows here.

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
        if len(chosen := list(range(len(curve.models)))[cut]) < 3:
            continue
        law = fit(curve.loss(k).keep(chosen), n_bootstrap=0)
        slopes = -np.diff(law.y) / np.diff(np.log(law.S))
        row = {
            "sizes": name,
            "models": law.n_models,
            "alpha": law.alpha,
            "R²": law.r2,
            "residual sd": law.residual_sd,
        }
        rows.append({**row, "smallest two": slopes[0], "largest two": slopes[-1]})
    return pd.DataFrame(rows)


def crossing_words(ks, r2, vocab_size, bound=0.9):
    """Where R² against k first falls to a bound, and where it stands above it again, as a sentence."""
    ks, r2 = np.asarray(ks)[np.isfinite(r2)], r2[np.isfinite(r2)]
    if not len(ks):
        return "no $R^2$ could be computed at any $k$."
    above = r2 > bound
    start = f"$R^2$ is {number(r2[0])} at $k = {ks[0]:,}$"
    if above.all():
        return f"{start} and above {bound} at every $k$ counted, to $k = {ks[-1]:,}$."
    if not above.any():
        return f"{start} and above {bound} at no $k$ counted."
    first, last = ks[np.argmin(above)], ks[np.flatnonzero(above)[-1]]
    again = f"; the largest $k$ at which it is above is {last:,}" if last > first else ""
    share = number(first / vocab_size, 2)
    return f"{start}; the first $k$ where it is not above {bound} is {first:,}, {share} of $|V|${again}."


def narrower_words(rises, laws, low, high):
    """How wide the interval of a difference of exponents is beside those of the two: {corpus: (rise, interval)}."""
    told = {n: np.ptp(ends) for n, (_, ends) in rises.items() if np.isfinite(ends).all()}
    if not told:
        needs = "two values of $k$, enough sources, three sizes, unlike losses, hits and misses of every model at both"
        return f"There is no interval of a difference here: it takes {needs}."
    wide = {(w.corpus, w.k): np.ptp(w.ci_tokens) for ws in laws.values() for w in ws}
    counts = [sum(width < wide[n, k] for n, width in told.items()) for k in (low, high)]
    return (
        f"The interval of the difference is narrower than that of the exponent at $k = {low:,}$ in {counts[0]} of "
        f"{len(told)} cases, and than that at $k = {high:,}$ in {counts[1]}."
    )


def noise_frame(floors, vocab_size):
    """One row per k of `noise.NoiseFloor`s."""
    return pd.DataFrame(
        {
            "k": f.k,
            "k / |V|": f.k / vocab_size,
            "misses, smallest model": int(f.misses[0]),
            "misses, largest model": int(f.misses[-1]),
            "sd, largest model": f.sd[-1],
            "1/√misses": 1 / np.sqrt(f.misses[-1]) if f.misses[-1] else np.nan,
            "design effect": f.deff[-1],
            "R²": f.r2,
            "R² under the law: 5%": f.r2_band[0],
            "median": f.r2_band[1],
            "as bad by sources alone": f.worse,
            "by sources and trainings": f.trained_worse,
            "R² as low, by": f.explained_by,
            "wrong sign by sources alone": f.wrong_sign,
            "scatter beyond noise": f.excess_sd,
        }
        for f in floors
    )


def share_frame(curves, ks, n_bootstrap=10_000, seed=42):
    """Scatter of the models around the line on shares of the sources, for the corpora that can be split so far."""
    whole = [c for c in curves if round(min(SHARES) * c.loss(ks[0]).n_sources) >= MIN_DOCUMENTS]
    columns = ["share of sources", "corpus", "k", "scatter", "noise", "beyond noise", "R²"]
    rows = [
        (share, w.corpus, w.k, w.residual_sd, w.noise_sd, w.excess_sd, w.r2)
        for share in SHARES
        for c in whole
        for w in fit_laws(fewer_sources(c, share, seed), ks, n_bootstrap=n_bootstrap, seed=seed)
    ]
    return pd.DataFrame(
        rows, columns=columns
    )  # the columns are there even where no corpus is large enough


def gap_frame(gaps, **place):
    """One row per `runs.RunGap`, after what `place` says of all: powers of ten; in words where there was no success."""
    return pd.DataFrame(
        {
            **place,
            **{"k": g.k, "N": g.N, "places": g.places, "all hits": g.successes},
            "log10 p_N measured": g.measured if g.successes else f"0 of {g.places:,}",
            "independent": g.independent,
            "dependent hits": g.dependent,
            "gap to independence": g.gap if g.successes else "cannot be told",
            **ends(g.interval, "gap: "),
        }
        for g in gaps
    )


def dependence_frame(found):
    """One row per corpus and k from {corpus: [runs.Dependence]}."""
    return pd.DataFrame(
        {
            "corpus": corpus_title(corpus),
            "k": d.k,
            "RBP_k": d.p,
            "autocorrelation, lag 1": d.acf[0],
            "plateau, long lags": d.plateau,
            "neighbours beyond it": d.rho,
            "intraclass correlation": d.icc,
        }
        for corpus, rows in found.items()
        for d in rows
    )


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
