"""Which distribution do ranks follow: maximum-likelihood fits on the truncated support 1..V from the rank histogram.

Every candidate is normalised over the same ranks 1..V, so likelihoods are comparable. A search works on the pivots in
place of V ranks; what is reported is computed on all V ranks. Derived in book/derivations/rank_laws.
"""

from dataclasses import dataclass

import numpy as np
from scipy import optimize, special

from paper.histogram import as_histogram
from paper.likelihood import TINY, Likelihood
from paper.rank_laws import CANDIDATES, IN_MU_SIGMA, Candidate
from rbplib.families import check_choice

RIDGE = 0.99  # correlation of two estimates above which they slide on a ridge
CONVERGED = 1e-15  # nats per token by which a step still changes the likelihood


@dataclass(frozen=True)
class RankDistribution:
    """One candidate fitted. Likelihoods in nats per token.

    What is called conventional is in the parameters that the literature uses: (mu, sigma) for the lognormals that are
    fitted in (s, beta), the fitted ones for all others.
    """

    candidate: Candidate
    n_tokens: float
    values: np.ndarray  # float64 (p,)
    bound: np.ndarray  # bool (p,), whether a value stands at the edge of its range
    converged: bool
    nll: float  # -log likelihood per token
    kl: float  # of the observed shares from the fitted ones, nats per token, in bins of a tenth of a decade
    max_drbp: float  # max over k of |fitted RBP_k - observed RBP_k|
    information: np.ndarray  # float64 (p, p), Fisher's, per token; cutoffs and scales enter by their logarithm
    pmf: np.ndarray  # float64 (V,)

    @property
    def name(self):
        return self.candidate.name

    @property
    def title(self):
        return self.candidate.title

    @property
    def parameters(self):
        return dict(zip(self.candidate.ranges, map(float, self.values), strict=True))

    @property
    def aic(self):
        """Per token, 2 nll + 2 p / n."""
        return 2 * self.nll + 2 * len(self.values) / self.n_tokens

    @property
    def conventional(self):
        """{"mu", "sigma"} of a lognormal fitted in (s, beta), infinite on the power-law edge; empty for the others."""
        if self.name not in IN_MU_SIGMA:
            return {}
        s, beta = self.values
        with np.errstate(divide="ignore"):
            return {"mu": float((1 - s) / (2 * beta)), "sigma": float(np.sqrt(0.5 / beta))}

    @property
    def conventional_information(self):
        """Fisher information in the conventional parameters (label eq-jacobian); NaN where they are infinite."""
        if not self.conventional:
            return self.information
        mu, sigma = self.conventional.values()
        if not np.isfinite(mu + sigma):
            return np.full_like(self.information, np.nan)
        J = np.array([[-1 / sigma**2, 2 * mu / sigma**3], [0.0, -1 / sigma**3]])
        return J.T @ self.information @ J

    @property
    def correlation(self):
        """Largest |correlation| between two conventional estimates; 1 where they are infinite."""
        if not np.isfinite(self.conventional_information).all():
            return 1.0
        covariance = np.linalg.pinv(self.conventional_information, rcond=1e-16)
        sd = np.sqrt(np.maximum(np.diag(covariance), TINY))
        return float(min(1.0, np.max(np.abs(covariance / np.outer(sd, sd)) - np.eye(len(sd)))))

    @property
    def ridge(self):
        """Whether the conventional parameters slide along a ridge."""
        return bool(self.correlation > RIDGE or (self.conventional and self.bound.any()))

    @property
    def status(self):
        doubts = {"not converged": not self.converged, "ridge": self.ridge, "bound": self.bound.any()}
        return next((name for name, holds in doubts.items() if holds), "ok")

    def rbp(self, k):
        """Fitted RBP_k."""
        return self.pmf.cumsum()[np.asarray(k) - 1]

    def log_score(self, ranks):
        """log p of each rank, float64 (n,), nats."""
        with np.errstate(divide="ignore"):
            return np.log(self.pmf)[np.asarray(ranks) - 1]


def condition(information):
    """Condition number of a Fisher information scaled to a unit diagonal, so that units do not matter."""
    if not np.isfinite(information).all():
        return float("inf")
    size = np.sqrt(np.maximum(np.diag(information), TINY))
    return float(np.linalg.cond(information / np.outer(size, size)))


def fit_rank_law(histogram, candidate="zipf_mandelbrot_cutoff", start=None):
    """Maximum-likelihood fit of one candidate distribution of ranks on the truncated support 1..V.

    Args:
        histogram: RankHistogram, or counts float or int (V,) with counts[k-1] tokens of rank k.
        candidate: a name in `candidates.CANDIDATES`.
        start: optional parameter vector to start from, in place of the candidate's own.
    Returns:
        RankDistribution.
    Raises:
        InputError: an unknown candidate, no counts, or ranks beyond V.
    Cost: a few hundred pivots per step; about 0.02 s at V = 50,257.

    >>> counts = 1e6 * np.arange(1, 101) ** -1.5
    >>> round(fit_rank_law(counts, "zipf").parameters["s"], 6)
    1.5
    """
    check_choice(candidate, tuple(CANDIDATES), "distribution of ranks")
    objective = Likelihood(histogram := as_histogram(histogram), CANDIDATES[candidate])
    starts = objective.candidate.starts if start is None else (start,)
    low, high, tight = objective.low, objective.high, {"ftol": CONVERGED, "maxiter": 500}
    how = {"jac": True, "method": "SLSQP", "bounds": optimize.Bounds(low, high), "options": tight}
    starts = (np.clip(objective.to_search(start), low, high) for start in starts)
    found = (optimize.minimize(lambda theta: objective.expand(theta)[:2], x, **how) for x in starts)
    best = min(found, key=lambda found: found.fun)
    return _record(histogram, objective, best.x, best.success)


def _record(histogram, objective, theta, converged):
    V, candidate, params = histogram.vocab_size, objective.candidate, objective.to_params(theta)
    log_pmf = special.log_softmax(candidate.log_mass(np.arange(1.0, V + 1), params))
    pmf = np.exp(log_pmf)
    cdf, share = np.concatenate([[0.0], pmf.cumsum()]), histogram.count / histogram.total
    below, above, observed = cdf[histogram.low - 1], cdf[histogram.high], share.cumsum()
    log_cells = log_pmf[histogram.low - 1] if histogram.single else np.log(np.maximum(above - below, TINY))
    low, high, wide = histogram.wide()  # single ranks would add their own noise to the divergence
    seen = wide > 0
    wide, fitted = wide[seen], np.maximum((cdf[high] - cdf[low - 1])[seen], TINY)
    edge = 1e-9 * np.maximum(1.0, np.abs(theta))
    return RankDistribution(
        candidate=candidate,
        n_tokens=histogram.total,
        values=params,
        bound=(theta <= objective.low + edge) | (theta >= objective.high - edge),
        converged=converged,
        nll=float(-share @ log_cells),
        kl=float(wide @ np.log(wide / fitted)),
        max_drbp=float(max(np.abs(above - observed).max(), np.abs(below - observed + share).max())),
        information=objective.expand(theta)[2],
        pmf=pmf,
    )
