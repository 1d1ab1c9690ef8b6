"""The likelihood of a candidate on a rank histogram, by short weighted sums over pivots in place of V ranks.

Ranks up to EXACT are pivots themselves. Beyond them ranks fall into blocks, each a factor BLOCK wide, in which a smooth
function of ln k is its own interpolation polynomial through NODES points. Error below 1e-9 of the sum for every
candidate (tested). Label eq-pivots.
"""

from functools import lru_cache

import numpy as np

EXACT, NODES, BLOCK = 48, 8, np.sqrt(2.0)
TINY = 1e-300


def project(counts, blocks):
    """Weights (P,) at the pivots so that the sum of counts[k-1] g(k), counts (V,), is weights @ g(pivots)."""
    return np.concatenate([counts[ranks] @ matrix for ranks, matrix in blocks])


@lru_cache(maxsize=8)
def pivots(V):
    """Where a smooth function of 1..V has to be known: (k float64 (P,), their weights (P,) in a sum over 1..V, blocks).

    A block is a slice of the V ranks with the matrix (ranks, its pivots) that interpolates there. Cost: NODES numbers
    per rank, once per V.
    """
    first = min(V, EXACT)
    k, blocks = [np.arange(1.0, first + 1)], [(slice(first), np.eye(first))]
    cheb = np.cos(np.pi * (np.arange(NODES) + 0.5) / NODES)
    while first < V:
        last = min(V, int((first + 1) * BLOCK))
        last = V if V - last < 8 else last
        left, right = np.log(first + 1), np.log(last)
        x = (left + right) / 2 + max((right - left) / 2, 1e-3) * cheb
        t = np.log(np.arange(first + 1.0, last + 1))[:, None]
        lagrange = [np.prod((t - np.delete(x, j)) / (x[j] - np.delete(x, j)), axis=1) for j in range(NODES)]
        blocks.append((slice(first, last), np.ascontiguousarray(np.transpose(lagrange))))
        k.append(np.exp(x))
        first = last
    return np.concatenate(k), project(np.ones(V), blocks), blocks


class Likelihood:
    """Negative log likelihood per token of a candidate on a RankHistogram, summed over the pivots k (P,).

    theta (p,) are the parameters as they are searched for, between `low` and `high`: logarithms where `log` says so.
    `share` of tokens is float64 (P,) at the pivots where ranks are single; else it is that of the bins, (B,), and
    `bins` (B, P) gives the mass of each from that at the pivots.
    """

    def __init__(self, histogram, candidate):
        V, self.candidate, self.bins = histogram.vocab_size, candidate, None
        self.k, self.weights, blocks = pivots(V)
        if histogram.single:
            counts = np.zeros(V)
            counts[histogram.low - 1] = histogram.count
            self.share = project(counts, blocks) / histogram.total
        else:
            ranks, self.share = np.arange(1, V + 1), histogram.count / histogram.total
            ends = zip(histogram.low, histogram.high, strict=True)
            self.bins = np.stack([project(((a <= ranks) & (ranks <= b)).astype(float), blocks) for a, b in ends])
        low, high, self.log = map(np.array, zip(*candidate.ranges.values(), strict=True))
        self.low, self.high = self.to_search(low), self.to_search(high)

    def to_search(self, params):
        return np.log(params, where=self.log, out=np.array(params, float))

    def to_params(self, theta):
        return np.exp(theta, where=self.log, out=np.array(theta, float))

    def log_mass(self, theta):
        """Normalised log mass at the pivots, (P,), and the probability that each stands for, (P,)."""
        log_mass = self.candidate.log_mass(self.k, self.to_params(theta))
        log_mass = log_mass - log_mass.max()
        weighted = self.weights * np.exp(log_mass)
        total = weighted.sum()
        return log_mass - np.log(total), weighted / total

    def cells(self, log_mass):
        return np.maximum(self.bins @ np.exp(log_mass), TINY)

    def value(self, theta):
        log_mass, _ = self.log_mass(theta)
        return -self.share @ (log_mass if self.bins is None else np.log(self.cells(log_mass)))

    def expand(self, theta):
        """(value, gradient (p,), Fisher information of single ranks (p, p)) at theta; inside the bounds throughout."""
        columns = []
        for j, at in enumerate(theta):
            h = 1e-5 * max(1.0, abs(at))
            up, down = theta.copy(), theta.copy()
            up[j], down[j] = min(at + h, self.high[j]), max(at - h, self.low[j])
            ends = (self.candidate.log_mass(self.k, self.to_params(end)) for end in (up, down))
            columns.append(np.subtract(*ends) / (up[j] - down[j]))
        slopes = np.stack(columns, axis=1)
        log_mass, p = self.log_mass(theta)
        centred = slopes - p @ slopes
        information = (centred * p[:, None]).T @ centred
        if self.bins is None:
            return -self.share @ log_mass, -(self.share @ centred), information
        cells = self.cells(log_mass)
        slopes = (self.bins @ (np.exp(log_mass)[:, None] * centred)) / cells[:, None]
        return -self.share @ np.log(cells), -(self.share @ slopes), information
