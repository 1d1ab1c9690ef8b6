"""Everything the findings and the open questions rest on, measured once: an entry per family and corpus."""

from dataclasses import dataclass

import numpy as np

from rbplib.distributions.contest import table_contest
from rbplib.distributions.lognormal_fit import predicted_ratios
from rbplib.laws.curve import Curve
from rbplib.laws.law import exponent_difference, fit_law, resampled_losses
from rbplib.laws.losses import Exponents, Losses, family_losses, loss_exponents
from rbplib.laws.noise import NoiseFloor, noise_floor
from rbplib.laws.runs import Dependence, RunGap, hit_dependence, run_gap
from rbplib.pages.prose import number
from rbplib.pages.rank_tables import lognormal_frame
from rbplib.pages.tables import every_curve, family_rank_tables
from rbplib.settings import InputError, family_names, load_family

PAPER_V, PAPER_FAR = 50_257, (20_000, 30_000)  # the paper's vocabulary and its large k
RUN_K, RUNS = 10, (1, 5, 10, 50, 100)  # k and lengths of the runs of hits


@dataclass(frozen=True)
class Case:
    """One family on one corpus."""

    curve: Curve
    laws: dict  # {k: Law}, the paper's fit
    rise: tuple | None  # (exponent at k = 100 less that at k = 1, its interval)
    losses: Losses
    exponents: Exponents
    contest: object  # contest.Contest of the largest model
    fits: dict  # {candidate: RankDistribution} of the largest model
    lognormals: object  # data frame, a row per model
    predicted: tuple[float, float]  # ratio of exponents that the fitted lognormals predict, smallest and largest
    dependence: Dependence  # of the hits of the largest model at RUN_K
    gaps: dict  # {N: RunGap}
    floors: tuple[NoiseFloor, ...]  # at the paper's large k, as shares of the vocabulary

    @property
    def far(self):
        """The ks that stand for the paper's 20,000 and 30,000."""
        return [k for k in large_ks(self.curve.vocab_size) if k in self.laws]

    @property
    def gap(self) -> RunGap | None:
        """Ten hits in a row."""
        return self.gaps.get(10)


def large_k(vocab_size, k):
    """The paper's k as the same share of another vocabulary, at least 1."""
    return max(1, round(k * vocab_size / PAPER_V))


def large_ks(vocab_size):
    return sorted({large_k(vocab_size, k) for k in PAPER_FAR})


def gather(families=(), corpora=(), protocol="paper", n_bootstrap=2000, seed=42, progress=iter):
    """Measure every case from rank tables; families of fewer than three models are left out.

    Args:
        families: names or YAML paths, empty for the embedded ones. corpora: names, empty for each family's own.
        progress: wraps the list of cases, tqdm for a bar.
    Returns:
        list of Case, family by family.
    """
    families = list(families) or [name for name in family_names() if load_family(name).embedded]
    pairs = [(f, c) for f in families for c in every_curve([f], corpora, (1,), protocol) if len(c.models) >= 3]
    return [_case(family, curve, protocol, n_bootstrap, seed) for family, curve in progress(pairs)]


def _case(family, curve, protocol, n_bootstrap, seed):
    V = curve.vocab_size
    ks = sorted({k for k in (1, 10, 50, 100) if k <= V} | set(large_ks(V)))
    (curve,) = every_curve([family], [curve.corpus], ks, protocol)
    tables = family_rank_tables(family, curve.corpus, protocol)
    shared = resampled_losses(curve, n_bootstrap, seed)
    laws = {k: fit_law(curve, k, n_bootstrap=n_bootstrap, seed=seed, resamples=shared) for k in ks}
    losses = family_losses(tables, n_bootstrap, seed)
    result, fits = table_contest(tables[-1], n_bootstrap=n_bootstrap, seed=seed)
    k = min(RUN_K, V)
    dependence = hit_dependence(tables[-1], k)
    return Case(
        curve, laws, exponent_difference(curve, 1, 100, n_bootstrap, seed) if V >= 100 else None, losses,
        loss_exponents(losses), result, fits, lognormal_frame(tables), predicted_ratios(tables), dependence,
        _gaps(tables[-1], k, dependence, n_bootstrap, seed),
        tuple(noise_floor(curve, k, n_bootstrap=n_bootstrap, seed=seed, resamples=shared) for k in large_ks(V)),
    )  # fmt: skip


def _gaps(table, k, dependence, n_bootstrap, seed):
    """Runs of every length that the documents allow."""
    found = {}
    for N in RUNS:
        try:
            found[N] = run_gap(table, k, N, dependence, n_bootstrap, seed)
        except InputError:  # no document holds so long a run
            break
    return found


def spread(values, digits=3):
    """Median and range of the values there are, for a sentence."""
    values = np.asarray([v for v in values if np.isfinite(v)], float)
    if not len(values):
        return "no value"
    middle, low, high = (number(float(f(values)), digits) for f in (np.median, np.min, np.max))
    return f"median {middle}, {low} to {high}"


def count(holds):
    """How many of how many."""
    holds = [bool(h) for h in holds]
    return f"{sum(holds)} of {len(holds)}"
