"""The likelihood of a candidate on a rank histogram, summed over pivots in place of V ranks."""

from dataclasses import dataclass

import numpy as np

from rbplib.distributions.candidates import Candidate
from rbplib.distributions.pivots import Pivots, pivots

TINY = 1e-300


@dataclass(frozen=True)
class Likelihood:
    """Negative log likelihood per token on the pivots, in search coordinates theta: logarithms where `log` says so."""

    candidate: Candidate
    pivots: Pivots
    share: np.ndarray  # of tokens: float64 (P,) at the pivots where ranks are single, else (B,) in the bins
    bins: np.ndarray | None  # float64 (B, P), the mass of each bin from that at the pivots
    log: np.ndarray  # bool (p,)
    low: np.ndarray  # float64 (p,), bounds of theta
    high: np.ndarray

    def to_search(self, params):
        theta = np.array(params, float)
        theta[self.log] = np.log(theta[self.log])
        return theta

    def to_params(self, theta):
        params = np.array(theta, float)
        params[self.log] = np.exp(params[self.log])
        return params

    def log_mass(self, theta):
        """Normalised log mass at the pivots, (P,), and the probability that each stands for, (P,)."""
        log_mass = self.candidate.log_mass(self.pivots.nodes, self.to_params(theta))
        log_mass = log_mass - log_mass.max()
        weighted = self.pivots.weights * np.exp(log_mass)
        total = weighted.sum()
        return log_mass - np.log(total), weighted / total

    def cells(self, log_mass):
        return np.maximum(self.bins @ np.exp(log_mass), TINY)

    def value(self, theta):
        log_mass, _ = self.log_mass(theta)
        return -self.share @ (log_mass if self.bins is None else np.log(self.cells(log_mass)))

    def scores(self, theta):
        """(log mass (P,), its centred derivatives (P, p), Fisher information (p, p)); inside the bounds throughout."""
        columns, nodes = [], self.pivots.nodes
        for j, at in enumerate(theta):
            h = 1e-5 * max(1.0, abs(at))
            up, down = theta.copy(), theta.copy()
            up[j], down[j] = min(at + h, self.high[j]), max(at - h, self.low[j])
            rise = self.candidate.log_mass(nodes, self.to_params(up))
            rise = rise - self.candidate.log_mass(nodes, self.to_params(down))
            columns.append(rise / (up[j] - down[j]))
        slopes = np.stack(columns, axis=1)
        log_mass, p = self.log_mass(theta)
        centred = slopes - p @ slopes
        return log_mass, centred, (centred * p[:, None]).T @ centred

    def expand(self, theta):
        """(value, gradient (p,), Fisher information (p, p)) at theta."""
        log_mass, centred, information = self.scores(theta)
        if self.bins is None:
            return -self.share @ log_mass, -(self.share @ centred), information
        cells = self.cells(log_mass)
        slopes = (self.bins @ (np.exp(log_mass)[:, None] * centred)) / cells[:, None]
        return -self.share @ np.log(cells), -(self.share @ slopes), (slopes * cells[:, None]).T @ slopes


def likelihood(histogram, candidate):
    """The Likelihood of a candidate on a RankHistogram."""
    short, share, bins = pivots(histogram.vocab_size), histogram.count / histogram.total, None
    if histogram.single:
        counts = np.zeros(histogram.vocab_size)
        counts[histogram.low - 1] = histogram.count
        share = short.project(counts) / histogram.total
    else:
        bins = short.bins(histogram.low, histogram.high)
    low, high, log = map(np.array, zip(*candidate.ranges.values(), strict=True))
    low, high = (np.where(log, np.log(np.where(log, ends, 1.0)), ends) for ends in (low, high))
    return Likelihood(candidate=candidate, pivots=short, share=share, bins=bins, log=log, low=low, high=high)
