"""What is tested of imported counts before they are believed: types, sums that must agree, bounds that must hold.

A file can be made up so well that no test finds it. What they find is damage, edits, and parts of other files.
"""

import numpy as np

from rbplib.counts import rank_entropy
from rbplib.families import check_name
from rbplib.identity import MEASURING

MOST_V, MOST = 1 << 22, 1 << 31  # words of a vocabulary; any other number
SHARED = ("text", "units", "documents", "corpus_digest", "window", "scored_tokens")  # by the models of one corpus


def typed(value, kinds, what):
    """The mapping, or ValueError: it lacks an entry, or has it of another type."""
    for name, kind in kinds.items():
        if not isinstance(value, dict) or type(value.get(name)) is not kind:
            raise ValueError(f"{what} has no {name!r} of type {kind.__name__}")
    return value


def hold(rules, what):
    """Raise ValueError with the first rule that does not hold; rules: pairs of what is wrong and whether it is fine."""
    for wrong, fine in rules:
        if not fine:
            raise ValueError(f"{what}: {wrong}")


def whole(arrays, record):
    """{name: array} in int64, but float64 sums; ValueError where one is missing, of another shape, or not of counts."""
    K, D = arrays["ks"].size, record["documents"]
    shapes = {"ks": (K,), "cells": (K + 1, D), "sums": (3, D), "hit_runs": (4, None), "lags": (6, None)}
    shapes |= dict.fromkeys(("pairs", "scored", "sourced"), (3, None))
    for name, shape in shapes.items():
        a = arrays[name]
        if a.ndim != len(shape) or any(n not in (None, m) for n, m in zip(shape, a.shape, strict=True)):
            raise ValueError(f"{name} is of shape {a.shape}")
        if name == "sums" and not (a.dtype == np.float64 and np.isfinite(a).all()):
            raise ValueError("a sum is not a number")
        if name != "sums" and not (a.dtype.kind in "iu" and ((a >= 0) & (a < MOST)).all()):
            raise ValueError(f"{name} holds what is no count: below 0, a fraction, or too much")
    return {name: arrays[name].astype(float if name == "sums" else np.int64) for name in shapes}


def record_rules(record, role):
    yield f"its role {role!r} is not known", role in ("family", "repeats")
    for name in ("model", "corpus", "protocol"):
        check_name(record[name], f"{name} name")
    yield "it was measured by other code than this", record.get("measuring") == MEASURING
    yield "its vocabulary is of no possible size", 2 <= record["vocab_size"] <= MOST_V
    yield "it has not one source a document", record["documents"] == len(record["units"]) > 0
    yield "its sources are not named by text", all(isinstance(u, str) for u in record["units"])
    yield "its parameters are fewer in all than in part", 0 < record["nonembedding_params"] <= record["total_params"]


def count_rules(t):
    """Of a Counts whose arrays are `whole`."""
    V, n, (nll, entropy, log_rank) = t.record["vocab_size"], len(t), t.sums
    rank, tokens = t.pairs[0] + t.pairs[1], t.pairs[2]
    yield "its ks do not rise", t.ks.size and (np.diff(t.ks, prepend=0) > 0).all()
    yield "a k or a rank is above the vocabulary", t.ks[-1] <= V and (rank <= V).all()
    yield "a token is not tied with itself", (t.pairs[1] > 0).all()
    yield "its tokens are not as many as its record says", n == tokens.sum() == t.record["scored_tokens"] > 0
    counts = np.bincount(rank, tokens, V + 1)
    yield "its hits are not those of its ranks", (t.hits(t.ks).sum(axis=0) == counts.cumsum()[t.ks]).all()
    least, most = np.log(np.append(1, t.ks + 1)) @ t.cells, np.log(np.append(t.ks, V)) @ t.cells
    fine = (least <= log_rank * (1 + 1e-9) + 1e-9) & (log_rank <= most * (1 + 1e-9) + 1e-9)
    yield "its log-ranks are not what its hits allow", fine.all()
    yield "its log-ranks are not those of its ranks", np.isclose(log_rank.sum(), tokens @ np.log(rank), rtol=1e-9)
    mean, expected = entropy.sum() / n, rank_entropy(rank, tokens)[0]
    yield "its entropy is not that of its ranks", np.isclose(mean, expected, rtol=1e-9)
    yield "a token of rank R has more probability than 1/R", (nll >= log_rank - 1e-3 * (1 + t.totals)).all()
    yield "its runs of scored tokens are not its tokens", in_runs(t, t.scored, t.totals)
    for k in np.unique(t.lags[0]):
        yield f"its runs at k = {k} are not its hits", k in t.ks and in_runs(t, t.runs(k), t.hits([k])[:, 0])
        pairs, late, early, both = t.lagged(k)
        windows = [t.inside(t.scored, lag + 1).sum() for lag in t.lags[1, t.lags[0] == k]]
        yield f"its pairs at k = {k} are not those of its runs", (pairs == windows).all()
        fits = (both <= np.minimum(late, early)) & (np.maximum(late, early) <= pairs)
        yield f"its pairs of hits at k = {k} do not fit", fits.all() and both[0] == t.inside(t.runs(k), 2).sum()
    if t.sourced.size:
        source, ranks, number = t.sourced
        yield "a source is not there", (source <= t.source.max()).all() and (ranks <= V).all()
        own = np.bincount(t.source, t.totals), np.bincount(source, number, t.source.max() + 1)
        same = (np.bincount(ranks, number, V + 1) == counts).all() and (own[0] == own[1]).all()
        yield "its ranks by source are not its ranks", same


def table_rules(t):
    """Of the rows of a rank table."""
    yield "a token of rank R has more probability than 1/R", (t.nll >= t.rank_sums()[1] - 1e-3 * (1 + t.totals)).all()


def in_runs(t, runs, tokens):
    """Whether runs hold just those tokens of each document."""
    document, length, number = runs
    return (document < t.documents).all() and (np.bincount(document, length * number, t.documents) == tokens).all()


def family_rules(tables, listed, sizes):
    """Of all Counts of one family on one corpus, smallest model first; listed: its models, sizes: {hub id: S} known."""
    first, models = tables[0], sorted(t.record["model"] for t in tables)
    yield "its models are not those of the family, once each", models == sorted(listed)
    for name in SHARED:
        yield f"models differ in {name!r}", all(t.record.get(name) == first.record.get(name) for t in tables)
    for name in ("ks", "totals", "scored"):
        yield f"models differ in {name}", all(np.array_equal(getattr(t, name), getattr(first, name)) for t in tables)
    yield "the largest model has no ranks by source", tables[-1].sourced.size
    for ident, S in ((t.record["model_id"], t.record["nonembedding_params"]) for t in tables):
        own = sizes.get(ident) or S
        yield f"{ident} has {own:,} parameters outside its embeddings, not {S:,}", S == own
