"""Three losses of one family side by side: cross-entropy, the entropy of its ranks, and -log RBP_1.

The paper's appendix calls the entropy of the rank distribution cross-entropy. They are different numbers,
CE = H(R) - I(R; X) + E KL, and this module measures both (label eq-ce-identity, book/derivations/entropy).
"""

from dataclasses import dataclass

import numpy as np

from rbplib.laws.bootstrap import line, percentile_interval, resampled_sums

NAMES = ("cross-entropy", "rank entropy", "-log RBP_1")


@dataclass(frozen=True)
class Losses:
    """Losses of every model, nats; resamples of documents are shared by the three. Last axis as in NAMES."""

    models: tuple[str, ...]
    S: np.ndarray  # float64 (M,)
    values: np.ndarray  # float64 (M, 3)
    resampled: np.ndarray  # float64 (B, M, 3)
    mean_log_rank: np.ndarray  # float64 (M,), E ln R: a floor under the cross-entropy
    entropy_correction: np.ndarray  # float64 (M,), what was added to the plug-in entropy (Miller and Madow)

    @property
    def gap(self):
        """Cross-entropy less rank entropy, float64 (M,): E KL - I(R; X)."""
        return self.values[:, 0] - self.values[:, 1]

    def gap_interval(self, level=0.95):
        """Interval of the gap, float64 (M, 2)."""
        return percentile_interval(self.resampled[:, :, 0] - self.resampled[:, :, 1], level).T


@dataclass(frozen=True)
class Exponents:
    """Least-squares exponents of the three losses and of their differences, over the same resamples."""

    alpha: np.ndarray  # float64 (3,)
    r2: np.ndarray  # float64 (3,)
    interval: np.ndarray  # float64 (2, 3)
    difference: np.ndarray  # float64 (2,), cross-entropy and rank entropy, each less that of -log RBP_1
    difference_interval: np.ndarray  # float64 (2, 2)


def rank_entropy(ranks):
    """(entropy of the ranks in nats with the Miller-Madow correction, the correction, log p of each token (n,))."""
    ranks = np.asarray(ranks)
    counts = np.bincount(ranks)
    seen = counts[counts > 0]
    share = seen / len(ranks)
    correction = (len(seen) - 1) / (2 * len(ranks))
    return -(share @ np.log(share)) + correction, correction, np.log(counts[ranks] / len(ranks))


def family_losses(tables, n_bootstrap=10_000, seed=42, definition="greater+ties"):
    """Losses of the models of one family on one corpus.

    The entropy of a resample is taken to first order, -sum log p(R) over the resampled tokens with p from all tokens:
    its derivative is exact, so intervals are right to the order that a bootstrap gives.

    Args:
        tables: RankTables of one family and corpus, same tokens.
        n_bootstrap: resamples of documents. seed: int.
    """
    tables = sorted(tables, key=lambda t: float(t.record["nonembedding_params"]))
    values, sums, mean_log, corrections = [], [], [], []
    _, document = np.unique(tables[0].document, return_inverse=True)
    for table in tables:
        rank = table.rank(definition)
        entropy, correction, log_p = rank_entropy(rank)
        columns = (-table.logprob.astype(float), correction - log_p, (rank == 1).astype(float))
        sums.append(np.stack([np.bincount(document, c) for c in columns], axis=1))  # (D, 3)
        values.append((columns[0].mean(), entropy, -np.log((rank == 1).mean())))
        mean_log.append(np.log(rank).mean())
        corrections.append(correction)
    size = np.bincount(document).astype(float)
    stacked = np.concatenate([size[:, None], np.stack(sums, axis=1).reshape(len(size), -1)], axis=1)
    drawn = resampled_sums(stacked, n_bootstrap, seed)
    means = (drawn[:, 1:] / drawn[:, :1]).reshape(len(drawn), len(tables), 3)
    with np.errstate(divide="ignore"):
        means[:, :, 2] = -np.log(means[:, :, 2])
    sizes = np.array([float(t.record["nonembedding_params"]) for t in tables])
    return Losses(tuple(str(t.record["model"]) for t in tables), sizes,
                  np.array(values), means, np.array(mean_log), np.array(corrections))  # fmt: skip


def loss_exponents(losses, level=0.95):
    """Exponents of the three losses by the paper's least squares, and how much they differ.

    The difference has an interval of its own: both exponents come from the same documents, so what they share cancels.
    """
    x = np.log(losses.S)
    slope, _, r2 = line(np.log(losses.values), x)
    slopes, _, _ = line(np.log(losses.resampled), x)
    gaps = slopes[:, 2:] - slopes[:, :2]
    return Exponents(
        -slope, r2, percentile_interval(-slopes, level), slope[2] - slope[:2], percentile_interval(gaps, level)
    )
