"""Cross-entropy, rank entropy and -log RBP_1 of planted tables, and the page tables made from them."""

from dataclasses import replace

import numpy as np
import pytest

from paper.show.loss_tables import loss_exponents, loss_frame
from rbplib.counts import rank_entropy
from rbplib.losses import NAMES, family_losses, gap, mean
from rbplib.stored import RankTable


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
    losses = family_losses(planted_tables())
    found, ends = gap(losses["cross-entropy"], losses["rank entropy"], n_bootstrap=500)
    assert np.abs(found).max() < 5e-3
    assert np.all((ends[0] - 2e-3 < 0) & (ends[1] + 2e-3 > 0))
    assert np.all(losses["cross-entropy"].values > losses["E ln R"].values)  # always


def test_first_order_entropy_interval_matches_a_full_resample():
    tables = planted_tables()
    entropy = family_losses(tables)["rank entropy"]
    assert entropy.values == pytest.approx([rank_entropy(t.rank())[0] for t in tables], rel=1e-12)
    drawn = entropy.resampled(800, 42).loss[:, 0]
    rng, rank = np.random.default_rng(1), tables[0].rank()
    by_document = rank.reshape(120, 150)
    full = [rank_entropy(by_document[rng.integers(0, 120, 120)].ravel())[0] for _ in range(400)]
    assert np.isclose(drawn.std(), np.std(full), rtol=0.15)
    assert np.isclose(drawn.mean(), entropy.values[0], atol=2e-3)


def test_entropy_correction_removes_most_of_the_bias():
    rng = np.random.default_rng(2)
    p = np.full(50, 0.02)
    found = np.array([rank_entropy(rng.choice(50, 400, p=p) + 1)[:2] for _ in range(300)])
    plug_in = found[:, 0] - found[:, 1]
    assert abs(found[:, 0].mean() - np.log(50)) < 0.3 * abs(plug_in.mean() - np.log(50))


def test_exponents_and_their_difference():
    losses = family_losses(planted_tables())
    assert all(loss.repeats is None for loss in losses.values())
    frame = loss_exponents(losses, n_bootstrap=400)
    y = np.log([losses[name].values for name in NAMES])
    direct = -np.polyfit(np.log(losses["rank entropy"].S), y.T, 1)[0]
    assert list(frame["loss"]) == list(NAMES) and np.allclose(frame["alpha"], direct)
    gaps = frame["less that of -log RBP_1"]
    assert np.allclose(gaps[:2], direct[:2] - direct[2]) and np.isnan(gaps[2])
    assert np.all(frame["other text: low"] < frame["alpha"]) and np.all(frame["alpha"] < frame["other text: high"])
    assert np.allclose(frame["ratio"], direct[2] / direct) and frame["and trainings: low"].isna().all()
    assert np.all(frame["difference: low"][:2] < gaps[:2]) and np.all(gaps[:2] < frame["difference: high"][:2])
    assert len(loss_frame(losses, np.zeros((2, 3)))) == 3


def test_trainings_widen_the_intervals_of_exponents_and_of_their_difference():
    """What moves both losses alike in a training moves each exponent and not the difference."""
    same = [t for seed in range(3) for t in planted_tables(sizes=(3e4,), seed=seed)]
    losses = family_losses(planted_tables(), repeats=same)
    assert all(losses[name].repeats.name == name for name in losses)
    shift = np.array([0.9, 1.0, 1.1])
    moved = {
        n: replace(x, repeats=replace(x.repeats, sums=x.repeats.totals[:, None] * shift, of=mean))
        for n, x in losses.items()
    }
    frame = loss_exponents(moved, n_bootstrap=400)
    for of, wider in (("other text: ", "and trainings: "), ("difference: ", "difference, and trainings: ")):
        narrow, wide = (frame[f"{kind}high"] - frame[f"{kind}low"] for kind in (of, wider))
        assert np.all((wide > narrow)[:2])
        if of == "difference: ":
            assert np.all((wide < 1.1 * narrow)[:2])
        else:
            assert np.all((wide > 3 * narrow)[:2])
