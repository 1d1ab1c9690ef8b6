"""Held-out comparison by documents and Vuong's test with clustered variance."""

import numpy as np
import pytest

from paper.contest import contains, cross_validate, table_contest, vuong
from paper.histogram import table_histogram
from paper.rank_fit import fit_rank_law
from rbplib.families import InputError
from rbplib.stored import RankTable

V = 5000


def rank_table(rank, document, V):
    one = np.ones_like(rank)
    return RankTable(document, one, rank, rank, one, -one.astype(float), {"vocab_size": V})


def clustered_ranks(documents, tokens, seed):
    """Documents of differing difficulty: a cutoff law whose exponent varies by document."""
    rng, k, ranks = np.random.default_rng(seed), np.arange(1.0, V + 1), []
    for s in rng.normal(1.3, 0.15, documents):
        mass = k**-s * np.exp(-k / 900)
        ranks.append(rng.choice(V, size=tokens, p=mass / mass.sum()) + 1)
    document = np.repeat(np.arange(documents) * 3, tokens)  # gaps in the numbering are allowed
    return rank_table(np.concatenate(ranks), document, V)


def test_held_out_comparison_and_clustered_vuong():
    table = clustered_ranks(60, 400, seed=2)
    names = ("zipf", "zipf_cutoff", "yule")
    _, scores, tokens = cross_validate(table, names, seed=1)
    assert tokens.sum() == len(table.document) and scores.shape == (60, 3)
    again = cross_validate(table, names, seed=1)
    assert np.array_equal(scores, again[1])
    result, fits = table_contest(table, names, n_bootstrap=2000, seed=1)
    assert result.best == "zipf_cutoff" and result.loss[0] == 0
    for j, name in enumerate(result.candidates[1:], start=1):
        assert result.interval[0, j] < result.loss[j] < result.interval[1, j], name
        assert np.array_equal(result.lead(result.best, name), result.interval[:, j])
    ahead, behind = (
        result.lead("yule", "zipf"),
        result.lead("zipf", "yule"),
    )  # the same sources, so the ends change places
    assert (
        np.allclose(ahead, -behind[::-1])
        and ahead[0] < np.diff(result.nll[[*map(result.place, ("yule", "zipf"))]])[0] < ahead[1]
    )
    assert (
        -scores[:, 1].sum() / tokens.sum() > fit_rank_law(table_histogram(table), "zipf_cutoff").nll
    )  # held out costs something
    first, second = (fit_rank_law(table_histogram(table), f) for f in ("zipf_cutoff", "zipf"))
    test = vuong(first, second, table)
    assert test.nested == "the first" and np.isnan([test.z, test.z_iid, test.deff]).all()
    assert np.isclose(test.mean, second.nll - first.nll - 1 / len(table.document), atol=1e-12)
    assert fits["zipf"].nll == second.nll and result.place("yule") == result.candidates.index("yule")
    test = vuong(first, fits["yule"], table)
    assert test.nested == "neither" and test.z > 3 and test.deff > 1.5 and abs(test.z) < abs(test.z_iid)
    reverse = vuong(fits["yule"], first, table)
    assert np.isclose(reverse.z, -test.z)


HOLDS = [  # candidate and one that contains it: inside, at an edge, in a limit, at a degenerate mixture
    ("zipf", "zipf_mandelbrot"),
    ("zipf", "lognormal"),
    ("zipf", "zipf_cutoff"),
    ("pareto_rounded", "lognormal_rounded"),
    ("yule", "waring"),
    ("waring", "beta_negative_binomial"),
    ("frechet", "frechet_cutoff"),
    ("lognormal_ceiling", "two_lognormals"),
]


def heavy_shares():
    """Shares of ranks with too heavy a tail for any lognormal: its best fit is a power law."""
    k = np.arange(1.0, V + 1)
    head, tail = np.exp(-k / 800) * k**-1.3, k**-0.8
    return 0.7 * head / head.sum() + 0.3 * tail / tail.sum()


@pytest.fixture(scope="module")
def mixed():
    return {name: fit_rank_law(1.3e5 * heavy_shares(), name) for pair in HOLDS for name in pair}


@pytest.mark.parametrize(("part", "whole"), HOLDS)
def test_a_candidate_that_contains_another_is_told(mixed, part, whole):
    assert contains(mixed[whole], mixed[part])


def test_no_statistic_where_one_law_contains_the_other(mixed):
    """On the ridge the paper's lognormal is Zipf: against anything that contains Zipf there is no normal z."""
    assert not contains(mixed["zipf"], mixed["zipf_mandelbrot"]) and not contains(mixed["frechet"], mixed["zipf"])
    assert mixed["lognormal"].status == "ridge" and contains(mixed["zipf_mandelbrot"], mixed["lognormal"])
    rank = np.random.default_rng(3).choice(V, size=40_000, p=heavy_shares())
    table = rank_table(rank, np.arange(40_000) // 400, V)
    zipf, curved, rounded = (fit_rank_law(table_histogram(table), f) for f in ("zipf", "lognormal", "pareto_rounded"))
    assert vuong(curved, zipf, table).nested == "both: one law" and np.isnan(vuong(curved, zipf, table).z)
    assert vuong(zipf, rounded, table).nested == "neither" and np.isfinite(vuong(zipf, rounded, table).z)


def test_too_few_documents_for_the_folds():
    with pytest.raises(InputError, match="folds"):
        cross_validate(rank_table(np.array([1, 2]), np.array([0, 0]), 10), ("zipf",))
