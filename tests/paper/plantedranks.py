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


def planted_pmf(name, params):
    mass = np.exp(CANDIDATES[name].formula(np.arange(1.0, V + 1), *params))
    return mass / mass.sum()


def power_law_table(S, seed):
    """A rank table of a model of size S whose ranks follow a power law, as its logprobs say."""
    rng, p = np.random.default_rng(seed), np.arange(1.0, 401) ** -(1.2 + 0.1 * np.log(S / 1e4))
    p /= p.sum()
    rank = rng.choice(400, size=18_000, p=p)
    document, position = np.divmod(np.arange(18_000), 150)
    about = {"model": f"m{S:.0f}", "nonembedding_params": S, "vocab_size": 400}
    return rank_table(rank + 1, document, position + 1, logprob=np.log(p)[rank], **about)


TABLES = [power_law_table(S, seed) for seed, S in enumerate((1e4, 1e5, 1e6))]
