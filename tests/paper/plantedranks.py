"""Planted parameters for every candidate distribution of ranks, and what they give on 1..V."""

import numpy as np

from paper.distributions import CANDIDATES
from tests.ranktables import rank_table

V = 5000
PLANTED = {
    "zipf": (1.4,),
    "zipf_cutoff": (1.1, np.log(800)),
    "zipf_mandelbrot_cutoff": (1.2, -0.4, np.log(1500)),
    "log_quadratic": (1.5, -0.02),
    "lognormal": (0.9, 0.06),
    "lognormal_rounded": (0.9, 0.06),
    "pareto_rounded": (1.4,),
    "lognormal_ceiling": (0.8, np.log(2.2)),
}


def planted_pmf(name, params, size=V):
    mass = np.exp(CANDIDATES[name].formula(np.arange(1.0, size + 1), *params))
    return mass / mass.sum()


def power_law_table(S, exponent, V=400, documents=120, tokens=150, seed=0):
    """A rank table of a model of size S whose ranks follow R^-exponent."""
    rng, n = np.random.default_rng(seed), documents * tokens
    p = np.arange(1.0, V + 1) ** -exponent
    rank = rng.choice(V, size=n, p=p / p.sum())
    document, position = np.divmod(np.arange(n), tokens)
    about = {"model": f"m{S:.0f}", "nonembedding_params": S, "vocab_size": V}
    return rank_table(rank + 1, document, position + 1, token=rank, **about)


TABLES = [
    power_law_table(S, 1.2 + 0.1 * np.log(S / 1e4), seed=i) for i, S in enumerate((1e4, 1e5, 1e6))
]
