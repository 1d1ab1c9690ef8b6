"""What claims and open questions are judged by: records of one family on one corpus each, from rank tables alone."""

from types import SimpleNamespace

import numpy as np
import pandas as pd

from rbplib.distributions import gpt2, lognormal
from rbplib.distributions.candidates import PAPER
from rbplib.distributions.contest import table_contest
from rbplib.distributions.lognormal_fit import predicted_ratios
from rbplib.laws import published
from rbplib.laws.bootstrap import line
from rbplib.laws.curve import rbp_curve
from rbplib.laws.law import exponent_difference, fit_laws
from rbplib.laws.losses import family_losses
from rbplib.laws.noise import noise_floor
from rbplib.laws.runs import hit_dependence, longest_run, run_gap
from rbplib.pages import appendix
from rbplib.pages.law_tables import loss_exponents
from rbplib.pages.rank_tables import lognormal_frame

PAPER_V, PAPER_FAR = 50_257, (20_000, 30_000)  # the paper's vocabulary and its large k
RUN_K, RUNS = 10, (1, 5, 10, 50, 100)  # k and lengths of the runs of hits
KINDS = ("laws", "far", "rises", "runs", "pairs", "contests", "ladders")  # as book/claims.yml names them


def large_k(vocab_size, k):
    """The paper's k as the same share of another vocabulary, at least 1."""
    return max(1, round(k * vocab_size / PAPER_V))


def gather(tables, n_bootstrap=2000, seed=42, progress=iter):
    """Fit everything once: list of `case`, family by family; families of fewer than three models are left out.

    Args:
        tables: {(family, corpus): rank tables}, see `ranks.table.measured_families`.
        progress: wraps the list of cases, tqdm for a bar.
    """
    return [case(found, n_bootstrap, seed) for found in progress([t for t in tables.values() if len(t) >= 3])]


def case(tables, n_bootstrap, seed):
    """One family on one corpus: its curve, a list for each of KINDS, and what the tables of open questions add.

    dependence: of the hits of the largest model at RUN_K. predicted: the smallest and largest ratio of exponents that
    the fitted lognormals predict. ridge: models whose lognormal lies on the ridge.
    """
    V, largest = int(tables[0].record["vocab_size"]), tables[-1]
    drawn = {"n_bootstrap": n_bootstrap, "seed": seed}
    far = sorted({large_k(V, k) for k in PAPER_FAR})
    curve = rbp_curve(tables, sorted({k for k in (1, 10, 50, 100) if k <= V} | set(far)))
    laws, losses = fit_laws(curve, **drawn), family_losses(tables)
    lognormals = lognormal_frame(tables)
    dependence = hit_dependence(largest, min(RUN_K, V))
    rise = [exponent_difference(curve.loss(1), curve.loss(100), **drawn)] if V >= 100 else []
    gap = losses["cross-entropy"].values - losses["rank entropy"].values
    return SimpleNamespace(
        place={"family": curve.family, "corpus": curve.corpus},
        curve=curve,
        laws=laws,
        far=[far_case(law, noise_floor(law.loss, **drawn)) for law in laws if law.k in far],
        rises=[risen(*found) for found in rise],
        runs=[run_gap(largest, dependence.k, N, dependence, **drawn) for N in RUNS if N <= longest_run(largest)],
        pairs=[exponent_pair(loss_exponents(losses, **drawn), gap)],
        contests=[contested(*table_contest(largest, **drawn))],
        ladders=[ladder(lognormals)],
        dependence=dependence,
        predicted=predicted_ratios(tables),
        ridge=int((lognormals["status"] == "ridge").sum()),
    )


def by_kind(found):
    """{kind: cases} of a list of `case`."""
    return {kind: [one for c in found for one in getattr(c, kind)] for kind in KINDS}


def far_case(law, floor=None):
    """A law at large k beside its noise floor, where the documents allow one."""
    return SimpleNamespace(
        law=law,
        floor=floor,
        k=law.k,
        r2=law.r2,
        alpha=law.alpha,
        high=law.ci_tokens[1],
        lack_of_fit_p=law.lack_of_fit_p,
        worse=floor.worse if floor else np.nan,
    )


def risen(change, interval):
    """A difference of exponents with its interval, as the claims judge it."""
    return SimpleNamespace(change=change, interval=interval)


def exponent_pair(frame, gap):
    """Exponents of cross-entropy, rank entropy and -log RBP_1 side by side.

    Args:
        frame: from `law_tables.loss_exponents`. gap: cross-entropy less rank entropy of every model, nats.
    """
    alpha = tuple(frame["alpha"])
    ends = tuple(frame.loc[0, ["difference: low", "difference: high"]])  # of the first exponent less the last
    return SimpleNamespace(
        alpha=alpha, ratio=alpha[0] / alpha[2], interval=ends, gap=gap, largest_gap=np.abs(gap).max()
    )


def contested(result, fits):
    """The paper's lognormal in the contest of laws on one rank table."""
    place = result.place(PAPER)
    return SimpleNamespace(
        result=result,
        place=place + 1,
        laws=len(fits),
        behind=result.loss[place],
        zipf_lead=result.loss[result.place("zipf")] - result.loss[place],
        misfit=fits[PAPER].max_drbp,
        titles=[fits[name].title for name in result.candidates],
        best=fits[result.best].title,
    )


def ladder(frame):
    """How straight mu/sigma runs along size and its logarithm over the models off the ridge, from a lognormal_frame."""
    fine = frame[np.isfinite(frame["mu/sigma"]) & (frame["status"] == "ok")]
    sizes = (fine["S"], np.log(fine["S"])) if len(fine) > 2 else ()
    size_r2, log_size_r2 = [np.corrcoef(x, fine["mu/sigma"])[0, 1] ** 2 for x in sizes] or (np.nan, np.nan)
    return SimpleNamespace(size_r2=size_r2, log_size_r2=log_size_r2, log_size_lead=log_size_r2 - size_r2)


def published_numbers():
    """{kind: cases} of what the authors and others published; nothing of it was measured here."""
    S, loss, _ = published.gpt2_reference("neg_log_rbp")
    slope, _, r2 = line(np.log(loss), np.log(S))
    names = {"p": "lack_of_fit_p", "slope in standard errors": "standard_errors"}
    _, _, rounded, _, cut = gpt2.ratio_parts().ratios  # both sides rounded; on one support as well
    along = published.training_laws("pythia")
    first, last = next(p for p in along if p.law.r2 > 0.9), along[-1]
    exact = appendix.approximation_frame().iloc[0]
    local = lognormal.local_exponents(*lognormal.natural(*gpt2.PRINTED))
    kinds = {
        "refit": {"slope": slope, "r2": r2},
        "training": {"first_step": first.step, "first_exponent": first.law.alpha, "last_exponent": last.law.alpha},
        "appendix": {
            "error_20": 100 * (exact["Eqs. 16, 20"] / exact["-log p_1, exact"] - 1),
            "error_21": 100 * (exact["Eq. 21"] / exact["H, exact"] - 1),
            "local_ratio": float(local.neg_log_p1 / local.entropy),
        },
    }
    return {kind: [SimpleNamespace(**numbers)] for kind, numbers in kinds.items()} | {
        "figures": list(pd.DataFrame(gpt2.figure_lack_of_fit()).rename(columns=names).itertuples()),
        "ratios": [
            SimpleNamespace(lead_kept=ratio / gpt2.PRINTED_RATIO, rounded=rounded, cut=cut) for ratio in (rounded, cut)
        ],
    }
