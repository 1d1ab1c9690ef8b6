"""Single predictions for the page of the metric: real contexts of a corpus and what a model would have said.

Rows are chosen from the rank table alone; only the candidates need the model, and they are kept beside the results.
"""

import json
from dataclasses import asdict, dataclass

import numpy as np

from rbplib.settings import InputError, load_corpus, load_family, results_dir, write_text

CONTEXT = 12  # tokens of context shown
FIRST = 8  # earliest position used, so that there is a context to show


@dataclass(frozen=True)
class Example:
    """One scored token: its context and itself as text, what it got, and the model's best candidates."""

    context: list[str]
    target: str
    rank: int
    probability: float
    candidates: list[tuple[str, float]]  # (text, probability), best first
    document: int
    position: int


def same_probability(table, low=0.15, high=0.3):
    """Rows of two tokens that got almost the same probability but not the same rank (paper Fig. 1).

    Of all pairs (rank 1, rank 3 or more) with probabilities between low and high, the pair whose log-probabilities lie
    closest. A probability p leaves room for at most 1/p - 1 better candidates, hence the bound on `high`.

    Returns:
        (row ranked worse, row ranked first), or None where the table holds no such pair.
    """
    p, rank = np.exp(table.logprob.astype(float)), table.rank()
    fits = (p >= low) & (p <= high) & (table.position >= FIRST)
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


def three_predictions(table, k=3):
    """Three neighbouring scored tokens of which exactly one is ranked within k (paper Fig. 2): rows, or None.

    The first such place whose ranks all differ.
    """
    rank, n = table.rank(), len(table)
    for i in range(n - 2):
        part = slice(i, i + 3)
        near = table.document[i] == table.document[i + 2] and table.position[i + 2] - table.position[i] == 2
        if near and table.position[i] >= FIRST and (rank[part] <= k).sum() == 1 and len(set(rank[part])) == 3:
            return [i, i + 1, i + 2]
    return None


def examples(family, corpus, table, rows, n=5):
    """Examples for some rows of a rank table of a family on a corpus, with the model's n best candidates at each.

    Returns:
        list of Example. Kept in results/examples/, so that a page rendered again needs no model.
    Raises:
        InputError: no such model or corpus, or the text is no longer what was measured.
    """
    family, corpus = load_family(family), load_corpus(corpus)
    model = family.model(table.record["model"])
    path = results_dir() / "examples" / family.name / model.name / f"{corpus.name}.json"
    key = f"{table.record['sha256']}:{n}:{','.join(str(int(r)) for r in rows)}"
    kept = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    if key not in kept:
        kept = {k: v for k, v in kept.items() if k.startswith(table.record["sha256"])}
        kept[key] = [asdict(e) for e in _ask(family, model, corpus, table, rows, n)]
        write_text(path, json.dumps(kept, ensure_ascii=True, indent=1))
    return [Example(**e) for e in kept[key]]


def _ask(family, model, corpus, table, rows, n):
    from rbplib.ranks.candidates import best_candidates

    places = [(int(table.document[r]), int(table.position[r])) for r in rows]
    rank, out = table.rank(), []
    for r, place, found in zip(rows, places, best_candidates(family, model, corpus, places, n), strict=True):
        context, token, target, candidates = found
        if token != int(table.token[r]):
            raise InputError(f"the text of {corpus.name!r} is not what was measured: run `rbp measure` again.")
        example = Example(
            context=context[-CONTEXT:],
            target=target,
            rank=int(rank[r]),
            probability=float(np.exp(table.logprob[r])),
            candidates=candidates,
            document=place[0],
            position=place[1],
        )
        out.append(example)
    return out
