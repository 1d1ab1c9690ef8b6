"""Single predictions for the page of the metric: real contexts of a corpus and what a model would have said.

Rows are chosen from the rank table alone; only the candidates need the model, and they are kept beside the results.
"""

import json
from types import SimpleNamespace

import numpy as np

from rbplib.families import InputError, load_corpus, load_family, results_dir, write_text

CONTEXT = 12  # tokens of context shown
FIRST = 8  # earliest position used, so that there is a context to show
LOW, HIGH = 0.15, 0.3  # of the two equal probabilities; p leaves room for at most 1/p - 1 better candidates


def same_probability(table):
    """Rows of two tokens that got almost the same probability but not the same rank (paper Fig. 1).

    Of all pairs (rank 1, rank 3 or more) with probabilities between LOW and HIGH, the pair whose log-probabilities lie
    closest: (row ranked worse, row ranked first), or None where the table holds no such pair.
    """
    p, rank = np.exp(table.logprob.astype(float)), table.rank()
    fits = (p >= LOW) & (p <= HIGH) & (table.position >= FIRST)
    worse = np.flatnonzero(fits & (rank >= 3))
    first = np.flatnonzero(fits & (rank == 1))
    if not len(worse) or not len(first):
        return None
    order = first[np.argsort(table.logprob[first], kind="stable")]
    at = np.searchsorted(table.logprob[order], table.logprob[worse])
    sides = np.stack([order[np.maximum(at - 1, 0)], order[np.minimum(at, len(order) - 1)]])  # (2, worse)
    gaps = np.abs(table.logprob[sides] - table.logprob[worse])
    side, best = np.unravel_index(np.argmin(gaps), gaps.shape)
    return int(worse[best]), int(sides[side, best])


def greedy(table, row):
    """What a decoder that takes the best candidate does at one row of a rank table."""
    return "fails" if table.greater[row] else "is left to a tie" if table.ties[row] > 1 else "succeeds"


def three_predictions(table, k=3):
    """The first three neighbours of different ranks of which exactly one is within k (paper Fig. 2): rows, or None."""
    rank, position, document = table.rank(), table.position, table.document
    near = (document[:-2] == document[2:]) & (position[2:] - position[:-2] == 2) & (position[:-2] >= FIRST)
    for i in np.flatnonzero(near).tolist():
        three = rank[i : i + 3]
        if (three <= k).sum() == 1 and len(set(three)) == 3:
            return [i, i + 1, i + 2]
    return None


def examples(family, corpus, table, rows, n=5):
    """Scored tokens at some rows of a rank table of a family on a corpus, as `_ask` tells them, each a namespace.

    They are kept in results/examples/, so that they need the model once.

    Raises:
        InputError: no such model or corpus, or the text is no longer what was measured.
    """
    family, corpus = load_family(family), load_corpus(corpus)
    model, sha = family.model(table.record["model"]), table.record["columns_sha256"]
    path = results_dir() / "examples" / family.name / model.name / f"{corpus.name}.json"
    key = f"{sha}:{n}:{','.join(str(int(r)) for r in rows)}"
    kept = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    if key not in kept:
        kept = {k: v for k, v in kept.items() if k.startswith(sha)}
        kept[key] = list(_ask(family, model, corpus, table, rows, n))
        write_text(path, json.dumps(kept, indent=1))
    return [SimpleNamespace(**e) for e in kept[key]]


def _ask(family, model, corpus, table, rows, n):
    """Fields of each: context and target as text, what that got, the n best candidates as (text, probability)."""
    from paper.top_tokens import best_candidates

    places, rank = [(int(table.document[r]), int(table.position[r])) for r in rows], table.rank()
    for r, place, found in zip(rows, places, best_candidates(family, model, corpus, places, n), strict=True):
        context, token, target, candidates = found
        if token != int(table.token[r]):
            raise InputError(f"the text of {corpus.name!r} is not what was measured: run `rbp measure` again.")
        got = {"rank": int(rank[r]), "probability": float(np.exp(table.logprob[r])), "candidates": candidates}
        got |= {"document": place[0], "position": place[1]}
        yield {"context": context[-CONTEXT:], "target": target} | got
