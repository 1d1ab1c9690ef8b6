"""What claims and open questions are judged by: records of one family on one corpus each, from rank tables alone."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pandas as pd

from rbplib.distributions import gpt2, lognormal
from rbplib.distributions.candidates import PAPER
from rbplib.distributions.contest import table_contest
from rbplib.distributions.lognormal_fit import predicted_ratios
from rbplib.laws import published
from rbplib.laws.bootstrap import line
from rbplib.laws.curve import Curve, rbp_curve
from rbplib.laws.law import Law, exponent_difference, fit_law
from rbplib.laws.losses import family_losses
from rbplib.laws.noise import NoiseFloor, noise_floor
from rbplib.laws.runs import Dependence, hit_dependence, run_gap
from rbplib.pages import appendix
from rbplib.pages.law_tables import loss_exponents
from rbplib.pages.rank_tables import lognormal_frame
from rbplib.settings import InputError

PAPER_V, PAPER_FAR = 50_257, (20_000, 30_000)  # the paper's vocabulary and its large k
RUN_K, RUNS = 10, (1, 5, 10, 50, 100)  # k and lengths of the runs of hits


@dataclass(frozen=True)
class Case:
    """One family on one corpus."""

    curve: Curve
    laws: dict[int, Law]  # by k, the paper's fit
    rise: tuple | None  # exponent at k = 100 less that at k = 1, and its interval
    pair: SimpleNamespace  # see `exponent_pair`
    contest: tuple  # (Contest, {candidate: RankDistribution}) of the largest model
    lognormals: object  # data frame, a row per model
    predicted: tuple[float, float]  # ratio of exponents that the fitted lognormals predict, smallest and largest
    dependence: Dependence  # of the hits of the largest model at RUN_K
    gaps: dict  # {N: RunGap}
    floors: dict[int, NoiseFloor]  # by k, at the paper's large k as shares of the vocabulary


def large_k(vocab_size, k):
    """The paper's k as the same share of another vocabulary, at least 1."""
    return max(1, round(k * vocab_size / PAPER_V))


def gather(tables, n_bootstrap=2000, seed=42, progress=iter):
    """Fit everything once; families of fewer than three models are left out.

    Args:
        tables: {(family, corpus): rank tables}, see `ranks.table.measured_families`.
        progress: wraps the list of cases, tqdm for a bar.
    Returns:
        list of Case, family by family.
    """
    return [case(found, n_bootstrap, seed) for found in progress([t for t in tables.values() if len(t) >= 3])]


def case(tables, n_bootstrap, seed):
    """Case of the rank tables of one family on one corpus, smallest model first."""
    V = int(tables[0].record["vocab_size"])
    far = sorted({large_k(V, k) for k in PAPER_FAR})
    curve = rbp_curve(tables, sorted({k for k in (1, 10, 50, 100) if k <= V} | set(far)))
    dependence, losses = hit_dependence(tables[-1], min(RUN_K, V)), family_losses(tables)
    return Case(
        curve=curve,
        laws={int(k): fit_law(curve, int(k), n_bootstrap=n_bootstrap, seed=seed) for k in curve.ks},
        rise=exponent_difference(curve.loss(1), curve.loss(100), n_bootstrap, seed) if V >= 100 else None,
        pair=exponent_pair(
            loss_exponents(losses, n_bootstrap, seed), losses["cross-entropy"].values - losses["rank entropy"].values
        ),
        contest=table_contest(tables[-1], n_bootstrap=n_bootstrap, seed=seed),
        lognormals=lognormal_frame(tables),
        predicted=predicted_ratios(tables),
        dependence=dependence,
        gaps=_gaps(tables[-1], dependence, n_bootstrap, seed),
        floors={k: noise_floor(curve.loss(k), n_bootstrap=n_bootstrap, seed=seed) for k in far},
    )


def _gaps(table, dependence, n_bootstrap, seed):
    """Runs of every length that the documents allow."""
    found = {}
    for N in RUNS:
        try:
            found[N] = run_gap(table, dependence.k, N, dependence, n_bootstrap, seed)
        except InputError:  # no document holds so long a run
            break
    return found


def by_kind(found):
    """{kind: cases} of a list of Case, as claims.yml names the kinds."""
    return {
        "laws": [law for c in found for law in c.laws.values()],
        "far": [far_case(c.laws[k], floor) for c in found for k, floor in c.floors.items()],
        "rises": [SimpleNamespace(change=c.rise[0], interval=c.rise[1]) for c in found if c.rise],
        "runs": [gap for c in found for gap in c.gaps.values()],
        "pairs": [c.pair for c in found],
        "contests": [contested(*c.contest) for c in found],
        "ladders": [ladder(c.lognormals) for c in found],
    }


def far_case(law, floor=None):
    """A law at large k beside its noise floor, where the documents allow one."""
    return SimpleNamespace(
        k=law.k,
        r2=law.r2,
        alpha=law.alpha,
        high=law.ci_tokens[1],
        lack_of_fit_p=law.lack_of_fit_p,
        worse=floor.worse if floor else np.nan,
    )


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
        place=place + 1,
        laws=len(fits),
        behind=result.loss[place],
        zipf_lead=result.loss[result.place("zipf")] - result.loss[place],
        misfit=fits[PAPER].max_drbp,
        best=fits[result.best].title,
    )


def ladder(frame):
    """How straight mu/sigma runs along size and its logarithm over the models off the ridge, from a lognormal_frame."""
    fine = frame[np.isfinite(frame["mu/sigma"]) & (frame["status"] == "ok")]
    sizes = (fine["S"], np.log(fine["S"])) if len(fine) > 2 else ()
    size_r2, log_size_r2 = [np.corrcoef(x, fine["mu/sigma"])[0, 1] ** 2 for x in sizes] or (np.nan, np.nan)
    return SimpleNamespace(size_r2=size_r2, log_size_r2=log_size_r2)


def published_numbers():
    """{kind: cases} of what the authors and others published; nothing of it was measured here."""
    S, loss, _ = published.gpt2_reference("neg_log_rbp")
    slope, _, r2 = line(np.log(loss), np.log(S))
    points = SimpleNamespace(slope=slope, r2=r2)
    names = {"p": "lack_of_fit_p", "slope in standard errors": "standard_errors"}
    rounded, cut = gpt2.ratio_parts().ratios[3:]
    alike = {"rounded": rounded, "cut": cut, "printed": gpt2.PRINTED_RATIO}
    along = published.training_laws("pythia")
    first, last = next(p for p in along if p.law.r2 > 0.9), along[-1]
    exact = appendix.approximation_frame().iloc[0]
    local = lognormal.local_exponents(*lognormal.natural(*gpt2.PRINTED))
    return {
        "refit": [points],
        "figures": list(pd.DataFrame(gpt2.figure_lack_of_fit()).rename(columns=names).itertuples()),
        "ratios": [SimpleNamespace(ratio=ratio, **alike) for ratio in (rounded, cut)],
        "training": [
            SimpleNamespace(first_step=first.step, first_exponent=first.law.alpha, last_exponent=last.law.alpha)
        ],
        "appendix": [
            SimpleNamespace(
                error_20=100 * (exact["Eqs. 16, 20"] / exact["-log p_1, exact"] - 1),
                error_21=100 * (exact["Eq. 21"] / exact["H, exact"] - 1),
                local_ratio=float(local.entropy / local.neg_log_p1),
            )
        ],
    }
