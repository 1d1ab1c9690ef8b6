"""Success of many tokens in a row: the formulas against simulation, and the numbers the derivation pages quote."""

import numpy as np
import pytest

from paper import published, runs


def close(found, stated, rtol=0.0, atol=0.0):
    assert np.allclose(np.asarray(found, float), stated, rtol=rtol, atol=atol), (found, stated)


def simulated_runs(p, N, icc, rho, n, seed):
    """Share of runs of N hits, drawn one step at a time."""
    rng = np.random.default_rng(seed)
    rate = rng.beta(*runs.beta_parameters(p, icc), size=n) if icc else np.full(n, p)
    hit = rng.random(n) < rate
    alive = hit.copy()
    for _ in range(N - 1):
        chance = rate + rho * (hit - rate)  # stationary chain with lag-1 autocorrelation rho
        hit = rng.random(n) < chance
        alive &= hit
    return alive.mean()


@pytest.mark.parametrize("icc, rho", [(0.0, 0.2), (0.05, 0.0), (0.05, 0.2), (0.2, 0.1)])
def test_run_success_against_simulation(icc, rho):
    n = 400_000
    got = np.exp(runs.log_run_both(0.8, 10, icc, rho))
    seen = simulated_runs(0.8, 10, icc, rho, n, seed=7)
    assert abs(got - seen) < 4 * np.sqrt(got * (1 - got) / n)


def test_run_success_special_cases_agree():
    assert np.isclose(runs.log_run_markov(0.6, 50, 0.0), runs.log_run_independent(0.6, 50))
    assert np.isclose(runs.log_run_both(0.6, 51, 0.02, 0.0), runs.log_run_beta(0.6, 51, 0.02), rtol=1e-12)
    assert runs.log_run_both(0.6, 5, 0, 0.3) == runs.log_run_markov(0.6, 5, 0.3)
    # Jensen: differing documents never lower p_N
    assert runs.log_run_beta(0.6, 20, 0.05) > runs.log_run_independent(0.6, 20)
    # a power law in N with exponent b
    a, b = runs.beta_parameters(0.7, 0.3)
    N = np.array([1e5, 1e6])
    assert np.isclose(np.diff(runs.log_run_beta(0.7, N, 0.3))[0] / np.log(10), -b, rtol=1e-3)
    with pytest.raises(ValueError, match="icc"):
        runs.log_run_beta(0.5, 10, 0.0)


RUNS = {  # p: orders of magnitude by which p_100 exceeds RBP^100, Markov then Beta
    0.416: ((1.2, 2.9, 5.7, 10.6), (5.0, 9.9, 15.1, 20.7, 27.5)),
    0.473: ((1.0, 2.3, 4.5, 8.7), (4.0, 8.1, 12.4, 17.3, 23.2)),
    0.6: ((0.6, 1.4, 2.8, 5.4), (2.4, 5.1, 7.9, 11.2, 15.4)),
    0.8: ((0.2, 0.5, 1.1, 2.1), (0.9, 2.0, 3.2, 4.6, 6.5)),
    0.9: ((0.1, 0.2, 0.5, 0.9), (0.4, 0.9, 1.4, 2.1, 3.0)),
    0.99: ((0.01, 0.02, 0.04, 0.09), (0.04, 0.08, 0.13, 0.20, 0.28)),
}


@pytest.mark.parametrize("p", RUNS)
def test_orders_of_magnitude(p):
    markov, beta = RUNS[p]
    alone, ten = runs.log_run_independent(p, 100), np.log(10)
    close([(runs.log_run_markov(p, 100, r) - alone) / ten for r in (0.02, 0.05, 0.1, 0.2)], markov, atol=0.056)
    close([(runs.log_run_beta(p, 100, i) - alone) / ten for i in (0.002, 0.005, 0.01, 0.02, 0.05)], beta, atol=0.056)


def test_emergence_numbers():
    close([np.exp(runs.log_run_both(0.416, 100, 0.02, 0.1)), 0.416**100], (5.3e-17, 8.1e-39), rtol=0.02)
    close(np.exp(runs.log_run_beta(0.416, 10, 0.02)) / 0.416**10, 2.9, atol=0.05)
    S, loss, _ = published.gpt2_reference("neg_log_rbp")
    rates = []
    for rho, decades, alpha in ((0.1, 0, 0), (0.1, 4, 0.2), (0.3, 4, 0.2)):
        sizes = np.geomspace(1, 10**decades, 9) if decades else S
        p = np.exp(-loss[0] * sizes**-alpha) if decades else np.exp(-loss)
        rates.append(np.polyfit(np.log(sizes), np.log(-runs.log_run_markov(p, 100, rho)), 1)[0])
    close(rates, (-0.0524, -0.195, -0.186), atol=6e-4)
    close(100 * loss[[0, -1]], (87.7, 74.8), atol=0.06)  # against the 27.6 where the authors' plot clips
