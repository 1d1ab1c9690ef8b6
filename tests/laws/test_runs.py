"""Runs of hits: windows as counted by hand, planted dependence measured back, independence told from dependence."""

from dataclasses import replace

import numpy as np
import pytest

from paper.runs import hit_dependence, longest_run, rise_width, run_gap, run_losses
from paper.show.law_tables import gap_frame
from rbplib.curve import rbp_curve
from rbplib.families import InputError
from rbplib.law import fit
from rbplib.stored import RankTable


def table(hits, model="m", size=1000, lengths=None):
    """A rank table with rank 1 where `hits` is true and 5 elsewhere; (D, n) hits, or flat with lengths."""
    hits = [np.asarray(h, bool) for h in hits]
    document = np.repeat(np.arange(len(hits)), [len(h) for h in hits]).astype(np.int32)
    position = np.concatenate([np.arange(1, len(h) + 1) for h in hits]).astype(np.int32)
    flat = np.concatenate(hits)
    record = {"family": "f", "model": model, "corpus": "c", "vocab_size": 10, "documents": len(hits),
              "nonembedding_params": size}  # fmt: skip
    ones = np.ones(len(flat), np.int32)
    return RankTable(document, position, ones, np.where(flat, 0, 4).astype(np.int32), ones, -ones.astype(float), record)


def markov(rng, documents, n, p, rho, icc=0.0):
    rates = rng.beta(p * (1 / icc - 1), (1 - p) * (1 / icc - 1), documents) if icc else np.full(documents, p)
    hits = np.empty((documents, n), bool)
    hits[:, 0] = rng.random(documents) < rates
    for i in range(1, n):
        hits[:, i] = rng.random(documents) < np.where(hits[:, i - 1], rates + rho * (1 - rates), rates * (1 - rho))
    return hits


def test_runs_are_those_counted_by_hand():
    tables = [table([[1, 1, 0, 1, 1, 1], [0, 1, 1]], f"m{i}", 10.0 ** (i + 3)) for i in range(3)]
    loss = run_losses(tables, 1, [2])[2]
    assert loss.sums[:, 0].tolist() == [3, 1] and loss.totals.tolist() == [5, 2]
    single = run_losses(tables, 1, [1])[1]
    assert np.array_equal(single.sums, rbp_curve(tables, [1]).loss(1).sums)
    assert longest_run(tables[0]) == 6 and longest_run(table([[1]])) == 1
    with pytest.raises(InputError, match="longer than any document"):
        run_losses(tables, 1, [7])[7]


def test_planted_dependence_is_measured_back():
    found = hit_dependence(table(markov(np.random.default_rng(0), 3000, 120, 0.6, 0.2, 0.05)), 1)
    assert found.p == pytest.approx(0.6, abs=0.01)
    assert found.plateau == pytest.approx(0.05, abs=0.012) and found.rho == pytest.approx(0.2, abs=0.012)
    assert found.icc == pytest.approx(0.05, abs=0.012)
    assert found.acf[1] == pytest.approx(0.05 + 0.95 * 0.04, abs=0.015)


def test_dependent_hits_explain_long_runs_and_independence_does_not():
    gap = run_gap(table(markov(np.random.default_rng(1), 3000, 120, 0.7, 0.2, 0.05)), 1, 20, n_bootstrap=500)
    assert gap.gap > 0.5 and gap.interval[0] > 0
    assert gap.dependent == pytest.approx(gap.measured, abs=0.15)


def test_independent_hits_pass():
    inside = 0
    for seed in range(20):
        gap = run_gap(table(np.random.default_rng(seed).random((200, 80)) < 0.8), 1, 8, n_bootstrap=300)
        inside += gap.interval[0] <= 0 <= gap.interval[1]
    assert inside >= 16


def test_a_law_of_runs_can_be_fitted_and_no_success_is_said():
    rng = np.random.default_rng(2)
    tables = [table(rng.random((60, 50)) < 1 - 0.3 * 2.0**-i, f"m{i}", 10.0 ** (4 + i)) for i in range(5)]
    law = fit(run_losses(tables, 1, [5])[5], n_bootstrap=200)
    assert law.alpha > 0 and law.n_models == 5
    never = [table(np.zeros((30, 50)), f"m{i}", 10.0 ** (4 + i)) for i in range(3)]
    assert "no hits" in fit(run_losses(never, 1, [5])[5], n_bootstrap=20).notes
    gap = run_gap(never[0], 1, 5)
    assert gap.measured == -np.inf and np.isnan(gap.interval).all()
    (row,) = gap_frame([gap]).to_dict("records")
    assert (row["log10 p_N measured"], row["gap to independence"]) == ("0 of 1,380", "cannot be told")
    often = run_gap(table(np.repeat([[True] * 4 + [False] * 4], 30, axis=0)), 1, 2, n_bootstrap=0)
    assert replace(often, gap=400.0).times == np.inf  # beyond any float
    assert often.times == pytest.approx((3 / 7) / 0.25) and often.places == 210


def test_two_models_and_equal_counts_are_no_fit():
    """Two points lie on every line, R² = 1, and equal counts on a flat one, alpha = 0 [0, 0]: neither says anything."""
    rng = np.random.default_rng(3)
    hits = [np.zeros((30, 50)), *(rng.random((30, 50)) < p for p in (0.6, 0.8))]
    law = fit(run_losses([table(h, f"m{i}", 10.0 ** (4 + i)) for i, h in enumerate(hits)], 1, [5])[5], n_bootstrap=50)
    assert law.n_models == 2 and law.status == "too few models" and np.isnan([law.alpha, law.r2]).all()
    law = fit(run_losses([table(hits[1], f"m{i}", 10.0 ** (4 + i)) for i in range(4)], 1, [5])[5], n_bootstrap=50)
    assert law.status == "equal losses" and "too few models" not in law.notes
    assert np.isnan([law.alpha, law.r2, *law.ci_tokens, *law.ci_models]).all()


def test_runs_carry_their_repeats_where_those_can_count_them():
    rng = np.random.default_rng(4)
    tables = [table(rng.random((40, 30)) < p, f"m{p}", size) for p, size in ((0.5, 1e4), (0.6, 1e5), (0.7, 1e6))]
    again = [table(rng.random((40, 30)) < p, f"r{p}", 1e5) for p in (0.5, 0.6, 0.7)]
    sd, df = run_losses(tables, 1, [3], repeats=again)[3].training_noise()
    assert df == 2 and 0.2 < sd < 0.8
    short = [table(rng.random((40, 2)) < 0.6, f"r{i}", 1e5) for i in range(3)]
    assert run_losses(tables, 1, [3], repeats=short)[3].repeats is None


def test_the_rise_is_as_wide_for_every_number_of_tokens():
    """10% to 90% takes log 21.9 / alpha e-folds of size, whatever N: a longer run moves the rise, nothing sharpens."""
    alpha, c, x = 0.06, 3.0, np.linspace(-200, 500, 2_000_001)
    for N in (1, 10, 100):
        p = np.exp(-N * c * np.exp(-alpha * x))
        low, high = np.interp([0.1, 0.9], p, x)
        assert high - low == pytest.approx(rise_width(alpha), rel=1e-5)
        assert np.gradient(p, x).max() == pytest.approx(alpha / np.e, rel=1e-5)  # the steepest, where p is 1/e
    assert rise_width(alpha) == pytest.approx(np.log(21.854) / 0.06, rel=1e-5)


def test_short_documents_and_certain_hits_do_not_crash():
    found = hit_dependence(table([[1], [1], [1]]), 1)
    assert np.isnan(found.rho) and np.isnan(found.icc)


def test_nearly_equal_documents_join_the_two_ways_of_integrating():
    from paper.runs import log_run_beta, log_run_both, log_run_markov

    for icc in (1e-2, 1.2e-3, 1.05e-3, 1e-4, 1e-6):
        assert log_run_both(0.416, 100, icc, 0.0) == pytest.approx(log_run_beta(0.416, 100, icc), rel=1e-8)
    assert log_run_both(0.6, 50, 1 / 900.5, 0.1) == pytest.approx(log_run_both(0.6, 50, 1 / 901.5, 0.1), rel=1e-3)
    assert log_run_both(0.6, 50, 1e-9, 0.1) == pytest.approx(log_run_markov(0.6, 50, 0.1), rel=1e-5)
