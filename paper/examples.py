"""Single predictions for the page of the metric: real contexts, and what a model would have said.

Rows are chosen from the rank table alone; only the candidates need the model.
"""

from dataclasses import dataclass

import numpy as np

from paper.show.figures import draw_candidates as draw_candidates
from rbplib.families import load_family

CONTEXT = 12  # tokens of context shown
BEST = 5  # candidates shown
FIRST = 8  # earliest position used, so that there is a context to show
SEEN = 0.02  # probability from which a bar is seen
WORD = 5  # letters of a word that a figure shows
LOW, HIGH = 0.15, 0.3  # of two equal probabilities; p leaves room for 1/p - 1 better candidates


@dataclass(frozen=True)
class Example:
    """One scored token: its context and itself as text, what it got, and the best candidates."""

    context: list[str]
    target: str
    rank: int
    probability: float
    candidates: list  # (text, probability), best first; the true token last if it is not among them


def same_probability(table):
    """Rows of two tokens of almost the same probability but not the same rank (paper Fig. 1).

    Of all pairs (rank 1, rank 3 or more) with probabilities between LOW and HIGH, the pair whose
    log-probabilities lie closest: (row ranked worse, row ranked first), or None without one.
    """
    p, rank = np.exp(table.logprob.astype(float)), table.rank()
    fits = (p >= LOW) & (p <= HIGH) & (table.position >= FIRST) & (rank != 2)
    rows = np.flatnonzero(fits)
    rows = rows[np.argsort(p[rows], kind="stable")]
    # the closest two of unlike rank are neighbours by probability
    unlike = np.flatnonzero(np.diff(rank[rows] == 1))
    if not len(unlike):
        return None
    at = unlike[np.argmin(np.diff(np.log(p[rows]))[unlike])]
    return tuple(sorted(rows[at : at + 2].tolist(), key=lambda row: -rank[row]))


def overtaking(small, large, decode):
    """The row of a word that is the large model's first or second choice, but not the small one's.

    Of the rows with rank 4 to 9 in the small model's table the one whose log-probability grows most
    between the two, on the same tokens; without one the row whose rank falls most. decode: token
    ids to text.
    """
    rank, gain = small.rank(), large.logprob - small.logprob
    fits = (rank >= 4) & (rank <= 9) & (small.logprob >= np.log(SEEN))
    rows = np.flatnonzero(fits & (large.rank() <= 2) & (small.position >= FIRST))
    for row in rows[np.argsort(-gain[rows], kind="stable")].tolist():
        text = decode([int(small.token[row])]).strip()
        if text.isalpha() and len(text) >= WORD:
            return row
    return int(np.argmax(rank - large.rank()))


def examples(family, corpus, table, rows):
    """Examples of some rows of a rank table of a family on a corpus, with the BEST candidates.

    Raises InputError: no such model or corpus.
    """
    import torch

    from rbplib.models import load_model, window_length
    from rbplib.texts import load_documents
    from rbplib.windows import encode

    family = load_family(family)
    model, length = load_model(family.model(table.record["model"])), window_length(family)
    texts, rank, chosen = load_documents(corpus).texts, table.rank(), []
    for row in rows:
        # the context that the table was measured on
        position, target = int(table.position[row]), int(table.token[row])
        (ids,), _ = encode(model.tokenizer, [texts[table.document[row]]], position)
        context = ids[-length:].astype("int64")
        with torch.inference_mode():
            ids = torch.tensor(context[None], device=model.device)
            logits = model.model(ids).logits[0, -1].float()
        best = torch.topk(logits.softmax(-1), BEST)

        # in words
        tokens, shares = best.indices.tolist(), best.values.tolist()
        probability = float(np.exp(table.logprob[row]))
        if target not in tokens:
            tokens, shares = [*tokens, target], [*shares, probability]
        decode = model.tokenizer.decode
        words = [decode([int(token)]) for token in context[-CONTEXT:]]
        names = [decode([token]) for token in tokens]
        true = decode([target])
        candidates = list(zip(names, shares, strict=True))
        chosen.append(Example(words, true, int(rank[row]), probability, candidates))
    return chosen
