"""Single predictions for the page of the metric: real contexts, and what a model would have said.

The page chooses rows from the rank table alone; only the candidates need the model.
"""

from dataclasses import dataclass

import numpy as np

from paper.show.figures import draw_candidates as draw_candidates
from rbplib.families import load_family

CONTEXT = 12  # tokens of context shown
BEST = 5  # candidates shown


@dataclass(frozen=True)
class Example:
    """One scored token: its context and itself as text, what it got, and the best candidates."""

    context: list[str]
    target: str
    rank: int
    probability: float
    candidates: list  # (text, probability), best first; the true token last if it is not among them


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
