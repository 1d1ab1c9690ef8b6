"""Sums over ranks 1..V as short weighted sums.

Ranks up to EXACT are taken singly. Beyond them ranks fall into blocks, each a factor BLOCK wide, in which a smooth
function of ln k is its own interpolation polynomial through NODES points; sums over the ranks of a block then need its
values at those points only. Error below 1e-9 of the sum for every candidate (tested). Label eq-pivots.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

EXACT, NODES, BLOCK = 48, 8, np.sqrt(2.0)


@dataclass(frozen=True)
class Pivots:
    """Interpolation nodes on 1..V. Sum over ranks of g(k) is `weights @ g(nodes)`."""

    nodes: np.ndarray  # float64 (P,)
    weights: np.ndarray  # float64 (P,)
    blocks: tuple  # (first rank, last rank, first node, matrix (ranks, NODES)) beyond the single ranks
    single: int
    vocab_size: int

    def project(self, counts):
        """Weights (P,) so that the sum of counts[k-1] g(k), counts (V,), is weights @ g(nodes)."""
        out = np.zeros(len(self.nodes))
        out[: self.single] = counts[: self.single]
        for first, last, node, matrix in self.blocks:
            out[node : node + NODES] = counts[first - 1 : last] @ matrix
        return out

    def bins(self, low, high):
        """Matrix (B, P): the mass of bin b is row b @ mass(nodes)."""
        k = np.arange(1, self.vocab_size + 1)
        return np.stack([self.project(((a <= k) & (k <= b)).astype(float)) for a, b in zip(low, high, strict=True)])


@lru_cache(maxsize=8)
def pivots(V):
    """The Pivots of ranks 1..V. Cost: NODES numbers per rank, once per V."""
    single = min(V, EXACT)
    nodes, blocks, first = [np.arange(1.0, single + 1)], [], single + 1
    cheb = np.cos(np.pi * (np.arange(NODES) + 0.5) / NODES)
    while first <= V:
        last = min(V, int(first * BLOCK))
        if V - last < 8:
            last = V
        left, right = np.log(first), np.log(last)
        x = (left + right) / 2 + (right - left) / 2 * cheb if last > first else left + 1e-3 * cheb
        t = np.log(np.arange(first, last + 1.0))
        gaps = t[:, None] - x
        matrix = np.empty((len(t), NODES))
        for j in range(NODES):  # Lagrange basis; NODES is small enough for the plain product
            others = np.delete(np.arange(NODES), j)
            matrix[:, j] = np.prod(gaps[:, others] / (x[j] - x[others]), axis=1)
        blocks.append((first, last, single + NODES * len(blocks), matrix))
        nodes.append(np.exp(x))
        first = last + 1
    nodes = np.concatenate(nodes)
    bare = Pivots(nodes=nodes, weights=np.empty(0), blocks=tuple(blocks), single=single, vocab_size=V)
    return replace(bare, weights=bare.project(np.ones(V)))
