"""Which distribution do ranks follow? Maximum likelihood on 1..V, and a contest on held-out text.

A candidate is one function: the log mass of rank k up to a constant. All are normalised by the same
sum over 1..V, so likelihoods are comparable. Those continuous in origin are cut into cells the same
way, rank k holding (k-1, k] ("ceiling"), except where the name says `rounded`: (k-1/2, k+1/2].
Derived in book/derivations/rank_laws.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy import optimize, special

from rbplib.bootstrap import resampled_sums

PAPER = "lognormal"  # the paper's own, Eq. 10, on the support 1..V
IN_MU_SIGMA = ("lognormal", "lognormal_rounded")  # whose (s, beta) are written as (mu, sigma)
DECADE = 0.1  # width in decades of the bins in which ranks are shown and misfits taken
RIDGE = 0.99  # correlation of two estimates above which they slide on a ridge
CONVERGED = 1e-15  # nats per token by which a step still changes the likelihood
TINY = 1e-300
FOLDS = 5  # of sources, each held out once
SAME = 0.1  # nats over all tokens below which two fitted laws are one

# sums over 1..V: ranks up to EXACT one by one, then blocks a factor BLOCK wide with NODES nodes
EXACT, NODES, BLOCK = 48, 8, np.sqrt(2.0)
# a Gauss-Legendre rule exact to rounding on the cell (1/2, 3/2]
CELL, WEIGHTS = np.array(np.polynomial.legendre.leggauss(12)) / 2


# --- the candidates


def zipf(k, s):
    return -s * np.log(k)


def zipf_cutoff(k, s, log_tau):
    return zipf(k, s) - k / np.exp(log_tau)


def zipf_mandelbrot_cutoff(k, s, q, log_tau):
    return zipf_cutoff(k + q, s, log_tau)


def log_quadratic(k, s, beta):
    t = np.log(k)
    return -s * t - beta * t**2


def lognormal_rounded(k, s, beta):
    """By Gauss-Legendre over the cell: stable also as beta goes to 0, a rounded Pareto."""
    terms = log_quadratic(k[:, None] + CELL, s, beta)
    top = terms.max(axis=1, keepdims=True)
    return top[:, 0] + np.log(np.exp(terms - top) @ WEIGHTS)


def pareto_rounded(k, s):
    return lognormal_rounded(k, s, 0.0)


def lognormal_ceiling(k, mu, log_sigma):
    """log[Phi(upper) - Phi(lower)] of the cell's edges, exact in both tails; lower may be -inf."""
    with np.errstate(divide="ignore"):
        upper, lower = (np.log([k, k - 1]) - mu) / np.exp(log_sigma)
    flip = lower > 0
    top = special.log_ndtr(np.where(flip, -lower, upper))
    rest = special.log_ndtr(np.where(flip, -upper, lower))
    return top + np.log(-np.expm1(np.minimum(rest - top, -TINY)))


class Candidate(NamedTuple):
    """A title, the log mass `formula(k, *parameters)`, where each parameter is looked for, starts."""

    title: str
    formula: Callable
    ranges: dict
    starts: list


S, CURVED = {"s": (0, 8)}, {"s": (-8, 20), "beta": (0, 4)}
CUTOFF = {"log_tau": np.log([3, 1e7])}  # a cutoff beyond 1e7 ranks is none at all
CUT, MANDELBROT = {"s": (-1, 8)} | CUTOFF, {"s": (-1, 12), "q": (-0.999, 500)} | CUTOFF
CEILING = {"mu": (-60, 12), "log_sigma": np.log([0.2, 30])}
BENT = [(1.3, 0.01), (1.0, 0.05)]
CANDIDATES = {
    "zipf": Candidate("Zipf", zipf, S, [(1.4,)]),
    "zipf_cutoff": Candidate("Zipf with cutoff", zipf_cutoff, CUT, [(1.2, 8.0), (0.8, 5.3)]),
    "zipf_mandelbrot_cutoff": Candidate(
        "Zipf-Mandelbrot with cutoff",
        zipf_mandelbrot_cutoff,
        MANDELBROT,
        [(1.2, -0.5, 8.5), (1.0, 0.5, 6.2)],
    ),
    "log_quadratic": Candidate(
        "lognormal density at k, either curvature",
        log_quadratic,
        CURVED | {"beta": (-2, 4)},
        [(1.4, 0.0), (1.0, 0.05)],
    ),
    "lognormal": Candidate("lognormal density at k (paper Eq. 10)", log_quadratic, CURVED, BENT),
    "lognormal_rounded": Candidate("lognormal, rounded", lognormal_rounded, CURVED, BENT),
    "pareto_rounded": Candidate("Pareto, rounded", pareto_rounded, S, [(1.4,)]),
    "lognormal_ceiling": Candidate(
        "lognormal, ceiling",
        lognormal_ceiling,
        CEILING,
        [(0.7, 1.25), (2.0, 0.7)],
    ),
}


# --- histograms of ranks


@dataclass(frozen=True)
class RankHistogram:
    """Counts of ranks in bins low..high (inclusive), int64 (B,) each; count float64 (B,)."""

    low: np.ndarray
    high: np.ndarray
    count: np.ndarray
    vocab_size: int

    @property
    def total(self):
        return float(self.count.sum())

    @property
    def single(self):
        """Whether every bin is one rank."""
        return bool((self.low == self.high).all())

    def wide(self):
        """(low, high, share of tokens) in bins a tenth of a decade wide; wide bins stay."""
        share = self.count / self.total
        if not self.single:
            return self.low, self.high, share
        edges = 10 ** np.arange(0, np.log10(self.vocab_size), DECADE)
        low = np.unique(np.round(edges).astype(np.int64))
        high = np.append(low[1:] - 1, self.vocab_size)
        return low, high, np.bincount(np.searchsorted(high, self.low), share, minlength=len(low))


def table_histogram(table):
    """Histogram of the ranks of a RankTable."""
    return as_histogram(np.bincount(table.rank() - 1, minlength=int(table.record["vocab_size"])))


def as_histogram(counts):
    """A RankHistogram as it is, or one of counts (V,) with counts[k-1] tokens of rank k."""
    if isinstance(counts, RankHistogram):
        return counts
    counts = np.asarray(counts, dtype=float)
    seen = np.flatnonzero(counts)
    return RankHistogram(seen + 1, seen + 1, counts[seen], len(counts))


# --- the likelihood, by short sums over pivots in place of V ranks


def project(counts, blocks):
    """Weights (P,) whose sum with g(pivots) is the sum of counts[k-1] g(k), counts (V,)."""
    return np.concatenate([counts[ranks] @ matrix for ranks, matrix in blocks])


@lru_cache(maxsize=8)
def pivots(V):
    """Where a smooth function of 1..V has to be known: (k float64 (P,), weights (P,), blocks).

    A block is a slice of the ranks with the matrix (ranks, its pivots) that interpolates there: in
    a block a smooth function of ln k is its own polynomial through NODES points. Error below 1e-9
    of the sum for every candidate (tested). Label eq-pivots. Cost: NODES numbers per rank, once per
    V.
    """
    last = min(V, EXACT)
    k, blocks = [np.arange(1.0, last + 1)], [(slice(last), np.eye(last))]
    chebyshev = np.cos(np.pi * (np.arange(NODES) + 0.5) / NODES)
    while last < V:
        # the next block, and its nodes in ln k
        first, last = last, min(V, int((last + 1) * BLOCK))
        last = V if V - last < 8 else last
        left, right = np.log(first + 1), np.log(last)
        x = (left + right) / 2 + max((right - left) / 2, 1e-3) * chebyshev

        # Lagrange's polynomials of the nodes at every rank of the block
        t = np.log(np.arange(first + 1.0, last + 1))[:, None]
        matrix = np.empty((last - first, NODES))
        for j in range(NODES):
            others = np.delete(x, j)
            matrix[:, j] = np.prod((t - others) / (x[j] - others), axis=1)
        blocks.append((slice(first, last), matrix))
        k.append(np.exp(x))
    return np.concatenate(k), project(np.ones(V), blocks), blocks


class Likelihood:
    """Negative log likelihood per token of a candidate on a RankHistogram, summed over the pivots.

    `share` of tokens is float64 (P,) at the pivots where ranks are single; else it is that of the
    bins, (B,), and `bins` (B, P) gives their mass from that at the pivots.
    """

    def __init__(self, histogram, candidate):
        V, self.formula, self.bins = histogram.vocab_size, candidate.formula, None
        self.k, self.weights, blocks = pivots(V)
        self.low, self.high = np.transpose(list(candidate.ranges.values())).astype(float)
        self.share = histogram.count / histogram.total
        if histogram.single:
            counts = np.zeros(V)
            counts[histogram.low - 1] = histogram.count
            self.share = project(counts, blocks) / histogram.total
            return
        ranks, rows = np.arange(1, V + 1), []
        for low, high in zip(histogram.low, histogram.high, strict=True):
            rows.append(project(((low <= ranks) & (ranks <= high)).astype(float), blocks))
        self.bins = np.stack(rows)

    def log_mass(self, params):
        """Normalised log mass at the pivots, and the probability that each stands for: (P,)."""
        log_mass = self.formula(self.k, *params)
        log_mass = log_mass - log_mass.max()
        weighted = self.weights * np.exp(log_mass)
        return log_mass - np.log(weighted.sum()), weighted / weighted.sum()

    def value(self, params):
        log_mass, _ = self.log_mass(params)
        if self.bins is not None:
            log_mass = np.log(np.maximum(self.bins @ np.exp(log_mass), TINY))
        return -self.share @ log_mass

    def slopes(self, params):
        """Of the log mass at the pivots, by central differences inside the bounds, centred: (P, p)."""
        columns = []
        for j, h in enumerate(1e-5 * np.maximum(1.0, np.abs(params))):
            up, down = params.copy(), params.copy()
            up[j], down[j] = min(params[j] + h, self.high[j]), max(params[j] - h, self.low[j])
            rise = self.formula(self.k, *up) - self.formula(self.k, *down)
            columns.append(rise / (up[j] - down[j]))
        slopes = np.stack(columns, axis=1)
        return slopes - self.log_mass(params)[1] @ slopes

    def gradient(self, params):
        slopes = self.slopes(params)
        if self.bins is not None:
            mass = np.exp(self.log_mass(params)[0])[:, None]
            slopes = (self.bins @ (mass * slopes)) / np.maximum(self.bins @ mass, TINY)
        return -(self.share @ slopes)

    def information(self, params):
        """Fisher's, of single ranks, per token: (p, p)."""
        slopes = self.slopes(params)
        return (slopes * self.log_mass(params)[1][:, None]).T @ slopes


# --- fits


@dataclass(frozen=True)
class RankDistribution:
    """One candidate fitted. Likelihoods in nats per token.

    What is called conventional is in the parameters that the literature uses: (mu, sigma) for the
    lognormals that are fitted in (s, beta), the fitted ones for all others.
    """

    name: str
    n_tokens: float
    values: np.ndarray  # float64 (p,)
    bound: np.ndarray  # bool (p,), whether a value stands at the edge of its range
    converged: bool
    nll: float  # -log likelihood per token
    kl: float  # of observed from fitted shares, nats per token, in bins of a tenth of a decade
    max_drbp: float  # max over k of |fitted RBP_k - observed RBP_k|
    information: np.ndarray  # float64 (p, p), Fisher's, per token
    pmf: np.ndarray  # float64 (V,)

    @property
    def title(self):
        return CANDIDATES[self.name].title

    @property
    def parameters(self):
        return dict(zip(CANDIDATES[self.name].ranges, map(float, self.values), strict=True))

    @property
    def aic(self):
        """Per token, 2 nll + 2 p / n."""
        return 2 * self.nll + 2 * len(self.values) / self.n_tokens

    @property
    def conventional(self):
        """{"mu", "sigma"} of a lognormal in (s, beta), infinite at beta = 0; empty for others."""
        if self.name not in IN_MU_SIGMA:
            return {}
        s, beta = self.values
        with np.errstate(divide="ignore"):
            return {"mu": float((1 - s) / (2 * beta)), "sigma": float(np.sqrt(0.5 / beta))}

    @property
    def correlation(self):
        """Largest |correlation| between two conventional estimates (label eq-jacobian); 1 where they
        are infinite.
        """
        J = np.eye(len(self.values))
        if self.conventional:
            mu, sigma = self.conventional.values()
            if not np.isfinite(mu + sigma):
                return 1.0
            J = np.array([[-1 / sigma**2, 2 * mu / sigma**3], [0.0, -1 / sigma**3]])
        covariance = np.linalg.pinv(J.T @ self.information @ J, rcond=1e-16)
        sd = np.sqrt(np.maximum(np.diag(covariance), TINY))
        apart = np.abs(covariance / np.outer(sd, sd)) - np.eye(len(sd))
        return float(min(1.0, apart.max()))

    @property
    def status(self):
        if not self.converged:
            return "not converged"
        if self.correlation > RIDGE or (self.conventional and self.bound.any()):
            return "ridge"  # the conventional parameters slide along it
        return "bound" if self.bound.any() else "ok"


def fit_rank_law(histogram, name, start=None):
    """Maximum-likelihood fit of one candidate distribution of ranks on the truncated support 1..V.

    Args:
        histogram: RankHistogram, or counts float or int (V,) with counts[k-1] tokens of rank k.
        name: of a candidate in CANDIDATES.
        start: optional parameter vector to start from, in place of the candidate's own.
    Returns:
        RankDistribution; what it reports is computed on all V ranks.
    Cost: a few hundred pivots per step; about 0.02 s at V = 50,257.

    >>> counts = 1e6 * np.arange(1, 101) ** -1.5
    >>> round(fit_rank_law(counts, "zipf").parameters["s"], 6)
    1.5
    """
    histogram, candidate = as_histogram(histogram), CANDIDATES[name]
    objective = Likelihood(histogram, candidate)
    bounds = optimize.Bounds(objective.low, objective.high)
    how = {"jac": objective.gradient, "method": "SLSQP", "bounds": bounds}
    how["options"] = {"ftol": CONVERGED, "maxiter": 500}
    ends = []
    for params in candidate.starts if start is None else [start]:
        params = np.clip(params, objective.low, objective.high)
        ends.append(optimize.minimize(objective.value, params, **how))
    best = min(ends, key=lambda search: search.fun)

    # the misfit of shares and of RBP at both ends of every bin
    k = np.arange(1.0, histogram.vocab_size + 1)
    log_pmf = special.log_softmax(candidate.formula(k, *best.x))
    cdf = np.concatenate([[0.0], np.exp(log_pmf).cumsum()])
    share, observed = histogram.count / histogram.total, histogram.count.cumsum() / histogram.total
    below, above = cdf[histogram.low - 1], cdf[histogram.high]
    log_cells = np.log(np.maximum(above - below, TINY))
    if histogram.single:
        log_cells = log_pmf[histogram.low - 1]
    misses = np.abs([above - observed, below - observed + share])

    # divergence in wide bins: single ranks would add their own noise to it
    low, high, wide = histogram.wide()
    fitted = np.maximum(cdf[high] - cdf[low - 1], TINY)
    edge = 1e-9 * np.maximum(1.0, np.abs(best.x))
    return RankDistribution(
        name=name,
        n_tokens=histogram.total,
        values=best.x,
        bound=(best.x <= objective.low + edge) | (best.x >= objective.high - edge),
        converged=best.success,
        nll=float(-share @ log_cells),
        kl=float(special.rel_entr(wide, fitted).sum()),
        max_drbp=float(misses.max()),
        information=objective.information(best.x),
        pmf=np.exp(log_pmf),
    )


# --- the contest


@dataclass(frozen=True)
class Contest:
    """Candidates against the best on held-out text, F of them, best first.

    `loss`: nats per token above the best, on sources that the fit did not see.
    """

    fits: tuple[RankDistribution, ...]  # to all tokens
    loss: np.ndarray
    drawn: np.ndarray  # float64 (B, F), `loss` of the same resampled sources

    @property
    def best(self):
        return self.fits[0]

    @property
    def interval(self):
        """Of `loss`, 95%, over sources: float64 (2, F)."""
        return np.quantile(self.drawn, [0.025, 0.975], axis=0)

    def place(self, name):
        """Where a candidate comes, 0 for the best."""
        return [fit.name for fit in self.fits].index(name)

    def fit(self, name):
        return self.fits[self.place(name)]

    def lead(self, first, second):
        """(nats per token by which the first leads, its 95% interval over paired sources)."""
        a, b = self.place(first), self.place(second)
        ends = np.quantile(self.drawn[:, b] - self.drawn[:, a], [0.025, 0.975])
        return float(self.loss[b] - self.loss[a]), ends


def table_contest(table, candidates=tuple(CANDIDATES), n_bootstrap=10_000, seed=42):
    """The Contest of candidates on a RankTable: each is scored on sources it was not fitted to.

    Sources, not tokens, are dealt into FOLDS folds: tokens of one source are alike, and a token's
    own source must not help to predict it. Where documents share no source, each is its own. The
    intervals come from resampled sources, the same for all candidates. None for fewer than FOLDS
    sources.
    """
    ranks, V = table.rank(), int(table.record["vocab_size"])
    names, source = np.unique(table.source[table.document], return_inverse=True)
    D = len(names)
    if D < FOLDS:
        return None
    fold = np.random.default_rng(seed).permutation(D) % FOLDS
    fits = [fit_rank_law(table_histogram(table), name) for name in candidates]

    # held-out log scores of every source, (D, F)
    scores = np.zeros((D, len(fits)))
    for i in range(FOLDS):
        test = fold[source] == i
        train = np.bincount(ranks[~test] - 1, minlength=V)
        for j, whole in enumerate(fits):
            fit = fit_rank_law(train, whole.name, start=whole.values)  # only a starting point
            with np.errstate(divide="ignore"):
                score = np.log(fit.pmf)[ranks[test] - 1]
            scores[:, j] += np.bincount(source[test], score, minlength=D)

    # best first, and what resampled sources make of the differences
    tokens = np.bincount(source)
    nll = -scores.sum(0) / tokens.sum()
    order = np.argsort(nll)
    scores, nll = scores[:, order], nll[order]
    sums = resampled_sums(np.column_stack([tokens, scores[:, :1] - scores]), n_bootstrap, seed)
    drawn = sums[:, 1:] / sums[:, :1]
    return Contest(tuple(fits[i] for i in order), nll - nll[0], drawn)


def contains(whole, part):
    """Whether one fit's candidate can imitate the other's fitted law to SAME nats over all tokens.

    It can where it has that law as a special case, inside, at an edge of its parameters or in the
    limit.
    """
    again = fit_rank_law(part.n_tokens * part.pmf, whole.name)
    return bool(part.n_tokens * (again.nll - special.entr(part.pmf).sum()) < SAME)
