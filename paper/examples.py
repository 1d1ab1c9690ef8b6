"""Single predictions for the page of the metric: real contexts, and what a model would have said.

Rows are chosen from the rank table alone; only the candidates need the model.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np

from rbplib.bootstrap import MIN_DOCUMENTS, percentile_interval, resampled_sums, sum_by_source
from rbplib.families import InputError, load_family

CONTEXT = 12  # tokens of context shown
FIRST = 8  # earliest position used, so that there is a context to show
OVERTAKEN = 4, 9  # ranks by a small model
SEEN = 0.02  # probability by it from which a bar is seen
WORD = 5  # letters of a word that a figure shows
LOW, HIGH = 0.15, 0.3  # of two equal probabilities; p leaves room for 1/p - 1 better candidates


@dataclass(frozen=True)
class Example:
    """One scored token: its context and itself as text, what it got, and the best candidates."""

    context: list[str]
    target: str
    rank: int
    probability: float
    candidates: list  # (text, probability), best first


def same_probability(table):
    """Rows of two tokens of almost the same probability but not the same rank (paper Fig. 1).

    Of all pairs (rank 1, rank 3 or more) with probabilities between LOW and HIGH, the pair whose
    log-probabilities lie closest: (row ranked worse, row ranked first), or None without one.
    """
    p, rank = np.exp(table.logprob.astype(float)), table.rank()
    fits = (p >= LOW) & (p <= HIGH) & (table.position >= FIRST) & (rank != 2)
    rows = np.flatnonzero(fits)
    rows = rows[np.argsort(table.logprob[rows], kind="stable")]

    # the closest two of unlike rank are neighbours by probability
    first = rank[rows] == 1
    unlike = np.flatnonzero(first[1:] != first[:-1])
    if not len(unlike):
        return None
    at = unlike[np.argmin(np.diff(table.logprob[rows])[unlike])]
    return tuple(sorted(rows[at : at + 2].tolist(), key=lambda row: -rank[row]))


def overtaking(small, large, decode):
    """The row of a word that is the large model's first or second choice, but not the small one's.

    Of the rows with the ranks of OVERTAKEN in the small model's table that whose log-probability grows
    most between the two, on the same tokens; without one the row whose rank falls most. decode: token
    ids to text.
    """
    low, high = OVERTAKEN
    rank = small.rank()
    fits = (rank >= low) & (rank <= high) & (small.logprob >= np.log(SEEN))
    rows = np.flatnonzero(fits & (large.rank() <= 2) & (small.position >= FIRST))
    gain = large.logprob[rows] - small.logprob[rows]
    for row in rows[np.argsort(-gain, kind="stable")].tolist():
        text = decode([int(small.token[row])]).strip()
        if text.isalpha() and len(text) >= WORD:
            return row
    return int(np.argmax(rank - large.rank()))


def correlation(table, n_bootstrap=10_000, seed=42):
    """Correlation of log R and -log p over the tokens of a rank table, with its 95% interval.

    The interval is over resampled sources. NaN where one of the two is always the same, and for the
    interval of too few sources.
    """
    x, y, unknown = np.log(table.rank()), -table.logprob.astype(float), (np.nan, np.nan)
    if not np.ptp(x) or not np.ptp(y):
        return np.nan, unknown

    # moments add up over sources
    moments = np.column_stack([np.ones(len(x)), x, y, x * x, y * y, x * y])
    source = table.document if table.source is None else np.asarray(table.source)[table.document]
    sums = sum_by_source(moments, source)
    r = float(np.corrcoef(x, y)[0, 1])
    if len(sums) < MIN_DOCUMENTS:
        return r, unknown
    n, sx, sy, xx, yy, xy = resampled_sums(sums, n_bootstrap, seed).T
    drawn = (n * xy - sx * sy) / np.sqrt((n * xx - sx**2) * (n * yy - sy**2))
    return r, tuple(percentile_interval(drawn[:, None])[:, 0])


@cache
def loaded(family, model):
    """A model of a family, a name or the path of its file, read once."""
    from rbplib.models import load_model

    return load_model(load_family(family).model(model))


def examples(family, corpus, table, rows, n=5):
    """Examples of some rows of a rank table of a family on a corpus, with the n best candidates.

    Raises:
        InputError: no such model or corpus, or the text is no longer what was measured.
    """
    import torch

    from rbplib.models import window_length
    from rbplib.texts import load_documents
    from rbplib.windows import encode

    model, length = loaded(family, table.record["model"]), window_length(load_family(family))
    texts, rank, found = load_documents(corpus).texts, table.rank(), []

    def text(ident):
        return model.tokenizer.decode([int(ident)])

    for row in rows:
        # the context that the table was measured on
        position = int(table.position[row])
        (ids,), _ = encode(model.tokenizer, [texts[table.document[row]]], position + 1)
        if ids[position] != table.token[row]:
            raise InputError("the text is not what was measured: run `rbp measure` again.")
        context = ids[max(0, position + 1 - length) : position]

        with torch.inference_mode():
            read = torch.from_numpy(context.astype("int64"))[None].to(model.device)
            shares = model.model(read).logits[0, -1].float().softmax(-1)
        best = torch.topk(shares, n)
        pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        example = Example(
            context=[text(i) for i in context[-CONTEXT:]],
            target=text(ids[position]),
            rank=int(rank[row]),
            probability=float(np.exp(table.logprob[row])),
            candidates=[(text(i), p) for i, p in pairs],
        )
        found.append(example)
    return found
