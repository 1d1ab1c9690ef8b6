"""N hits in a row: measured windows, the law of the paper (Eqs. 6-8), and what dependence between
hits does to it.
"""

from dataclasses import dataclass

import numpy as np

from rbplib.bootstrap import MIN_DOCUMENTS, percentile_interval, resampled_sums, sum_by_source

LONGEST = 60  # tokens between two hits whose dependence is looked at


def lagged(table, k):
    """Pairs of tokens of a run of a rank table at lag 1, 2, ..., int64 (4, L).

    All, with a hit at the later, at the earlier, at both. The lags end at half the median run,
    at most LONGEST.
    Cost: one pass over the table a lag.
    """
    _, length, number = table.scored
    median = int(np.median(np.repeat(length, number)))
    hits, run = table.rank() <= k, np.cumsum(~table.joined)
    counts = []
    # pairs of one run
    for lag in range(1, max(2, min(LONGEST, median // 2)) + 1):
        same = run[lag:] == run[:-lag]
        late, early = hits[lag:][same], hits[:-lag][same]
        counts.append([len(late), late.sum(), early.sum(), (late & early).sum()])
    return np.array(counts).T


def rise_width(alpha):
    """How far ln S has to go for p_N = exp(-N c S^-alpha) to rise from 10% to 90%:
    the same for every N. alpha: above 0, any shape.

    Label eq-rise-width.

    >>> round(float(rise_width(0.06) / np.log(10)), 1)      # decades of model size
    22.3
    """
    return np.log(np.log(0.1) / np.log(0.9)) / np.asarray(alpha)


@dataclass(frozen=True)
class Dependence:
    """How hits of one model at one k hang together."""

    k: int
    p: float  # share of hits
    lags: np.ndarray  # int64 (L,)
    acf: np.ndarray  # float64 (L,), autocorrelation of hits within documents, about the corpus mean
    plateau: float  # mean autocorrelation at the long lags: what documents, not neighbours, share
    rho: float  # what is left between neighbours once the plateau is taken out

    def log_run(self, N):
        """log p_N with Beta documents and Markov hits, from p, plateau and rho alone: nothing is
        fitted to p_N.
        """
        return float(log_run_both(self.p, N, max(self.plateau, 0.0), max(self.rho, 0.0)))


def hit_dependence(table, k):
    """Autocorrelation of the hits of one model.

    Args:
        table: RankTable. k: int. Lags are up to half the median run, at most 60 tokens; their
            upper half makes the plateau.
    Returns:
        Dependence, of paper Eq. 6's two ways to fail; NaN where every token is a hit, or none.
    Cost: one pass over the table per lag.

    >>> from rbplib import plain_table
    >>> greater = [[0, 0, 1, 1] * 30, [0, 0, 0, 1] * 30]
    >>> shape = np.ones((2, 120))
    >>> hits = hit_dependence(plain_table((greater, shape, -shape), 1e6, 9), k=1)
    >>> round(hits.p, 3), hits.acf[:2].round(2).tolist()
    (0.625, [-0.06, -0.6])
    """
    p = table.hits([k]).sum() / table.totals.sum()
    pairs, late, early, both = lagged(table, k)

    # autocorrelation about the corpus mean, at lags that some document has
    acf, plateau = np.full(len(pairs), np.nan), np.nan
    if 0 < p < 1:
        there = pairs > 0
        products = (both - p * (late + early))[there] / pairs[there] + p**2
        acf[there] = products / (p * (1 - p))
    if np.isfinite(acf).any():
        plateau = float(np.nanmean(acf[len(acf) // 2 :]))
    rho = float((acf[0] - plateau) / (1 - plateau))
    return Dependence(k, float(p), np.arange(1, len(acf) + 1), acf, plateau, rho)


def run_gap(table, k, N, dependence, n_bootstrap=10_000, seed=42):
    """Test of independence (paper Eq. 6) for one model: is p_N what RBP_k to the N would give?

    Args:
        dependence: `hit_dependence` of the table at k.
    Returns:
        {column: value}. measured, independent, dependent: log10 p_N, -inf without a success; the
        last two as RBP_k and as `dependence` have it. gap: measured less independent; interval: of
        the gap, 95%, both sides from the same resampled sources: independence is rejected where it
        leaves out 0. times: 10 to the gap. successes, places: counts, of N tokens in a row.
    """
    # hits, scored tokens, successes and windows of every source
    used = table.totals > 0
    counts = [table.inside(runs, n) for n in (1, N) for runs in (table.runs(k), table.scored)]
    columns = sum_by_source(np.stack(counts, axis=1)[used], table.source[used])

    def logs(hits, tokens, successes, places):
        return np.log10(successes / places), N * np.log10(hits / tokens)

    # log10 p_N, what independence and dependence say, and the gap of resampled sources
    hits, tokens, successes, places = columns.sum(axis=0)
    interval, dependent = (np.nan, np.nan), np.nan
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        measured, independent = map(float, logs(hits, tokens, successes, places))
        if len(columns) >= MIN_DOCUMENTS and n_bootstrap and successes and hits < tokens:
            drawn, alone = logs(*resampled_sums(columns, n_bootstrap, seed).T)
            interval = tuple(percentile_interval(drawn - alone).tolist())
        if np.isfinite(dependence.rho):
            dependent = dependence.log_run(N) / np.log(10)
        gap = measured - independent
        times = float(np.power(10.0, gap))
    row = {"k": k, "N": N, "successes": int(successes), "places": int(places)}
    row |= {"measured": measured, "independent": independent, "dependent": dependent}
    return row | {"gap": gap, "times": times, "interval": interval}


def log_run_markov(p, N, rho):
    """log p_N for stationary two-state Markov hits with lag-1
    autocorrelation rho (label eq-markov).

    P(hit | hit) = p + rho (1 - p), so p_N = p [p + rho (1 - p)]^(N-1).
    """
    p = np.asarray(p, float)
    return np.log(p) + (np.asarray(N) - 1) * np.log(p + rho * (1 - p))


def log_run_beta(p, N, icc):
    """log p_N when each document has its own hit rate, drawn from a Beta law: B(a+N, b)/B(a, b).

    Its mean is p, its intraclass correlation icc = 1/(a+b+1), strictly between 0 and 1 (label
    eq-beta-run).
    """
    from scipy import special

    a, b = p * (1 / icc - 1), (1 - p) * (1 / icc - 1)
    return special.betaln(a + N, b) - special.betaln(a, b)


def log_run_both(p, N, icc, rho):
    """log p_N for Beta documents with Markov hits inside each,
    E[p_d (p_d + rho (1 - p_d))^(N-1)] (label eq-both).

    As p + rho (1 - p) = rho + (1 - rho) p, each of the N - 1 later hits repeats the one before it
    with probability rho and is drawn anew otherwise: a binomial mixture of `log_run_beta` over how
    many are drawn, exact for any icc. Scalars p, N, icc, rho in [0, 1];
    icc = 0 gives the Markov form.
    """
    from scipy import special

    if icc == 0:
        return log_run_markov(p, N, rho)
    anew = np.arange(N)
    # the binomial law of how many are drawn anew
    weights = -special.betaln(anew + 1, N - anew) - np.log(N)
    weights += special.xlogy(anew, 1 - rho) + special.xlogy(N - 1 - anew, rho)
    return special.logsumexp(weights + log_run_beta(p, anew + 1, icc))
