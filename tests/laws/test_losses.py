"""Cross-entropy, rank entropy and -log RBP_1 of planted tables, and the page tables made from them."""

import numpy as np

from rbplib.laws import losses as entropies
from rbplib.pages import rank_tables
from rbplib.ranks.table import RankTable


def planted_tables(sizes=(1e4, 1e5, 1e6), documents=120, tokens=150, V=40, alpha=0.1, seed=0):
    """Models whose logprob is the log of a known rank law: the same profile at every position, so CE = H(R)."""
    rng = np.random.default_rng(seed)
    document, position = np.repeat(np.arange(documents), tokens), np.tile(np.arange(1, tokens + 1), documents)
    tables = []
    for S in sizes:
        s = 1.2 + alpha * np.log(S / sizes[0])
        p = np.arange(1.0, V + 1) ** -s
        p /= p.sum()
        rank = rng.choice(V, size=len(document), p=p)
        record = {"model": f"m{S:.0f}", "nonembedding_params": S, "vocab_size": V, "documents": documents}
        tables.append(RankTable(document, position, rank, rank, np.ones_like(rank), np.log(p)[rank], record))
    return tables


def test_calibrated_common_profile_makes_both_entropies_equal():
    """With one position-independent, calibrated profile the cross-entropy is the rank entropy."""
    losses = entropies.family_losses(planted_tables(), n_bootstrap=500)
    ends = losses.gap_interval()
    assert np.abs(losses.gap).max() < 5e-3
    assert np.all((ends[:, 0] - 2e-3 < 0) & (ends[:, 1] + 2e-3 > 0))
    assert np.all(losses.values[:, 0] > losses.mean_log_rank)  # CE >= E ln R, always


def test_first_order_entropy_interval_matches_a_full_resample():
    tables = planted_tables()
    losses = entropies.family_losses(tables, n_bootstrap=800)
    rng, rank = np.random.default_rng(1), tables[0].rank()
    by_document = rank.reshape(120, 150)
    full = [entropies.rank_entropy(by_document[rng.integers(0, 120, 120)].ravel())[0] for _ in range(400)]
    assert np.isclose(losses.resampled[:, 0, 1].std(), np.std(full), rtol=0.15)
    assert np.isclose(losses.resampled[:, 0, 1].mean(), losses.values[0, 1], atol=2e-3)


def test_entropy_correction_removes_most_of_the_bias():
    rng = np.random.default_rng(2)
    p = np.full(50, 0.02)
    found = np.array([entropies.rank_entropy(rng.choice(50, 400, p=p) + 1)[:2] for _ in range(300)])
    plug_in = found[:, 0] - found[:, 1]
    assert abs(found[:, 0].mean() - np.log(50)) < 0.3 * abs(plug_in.mean() - np.log(50))


def test_exponents_and_their_difference():
    losses = entropies.family_losses(planted_tables(), n_bootstrap=400)
    e = entropies.loss_exponents(losses)
    direct = -np.polyfit(np.log(losses.S), np.log(losses.values), 1)[0]
    assert np.allclose(e.alpha, direct)
    assert np.allclose(e.difference, direct[:2] - direct[2])
    assert np.all(e.interval[0] < e.alpha) and np.all(e.alpha < e.interval[1])
    assert np.all(e.difference_interval[0] < e.difference) and np.all(e.difference < e.difference_interval[1])
    frame = rank_tables.exponent_frame(e)
    assert len(frame) == 3 and len(rank_tables.loss_frame(losses)) == 3
