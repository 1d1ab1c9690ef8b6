"""Cross-entropy per byte: a ladder and a model with another tokenizer, on the same bytes of the same documents."""

from dataclasses import replace

import numpy as np

from rbplib.families import InputError
from rbplib.losses import Loss, measured_on
from rbplib.windows import encode


def token_ends(tokenizer, texts):
    """[(ids, ends)] of the tokens of each document, int64 (n,): ends in bytes of the text.

    In a byte-level vocabulary each character of a token's name stands for a byte. Where that does not add up to the
    text (another kind of vocabulary, a special token within the text), all ends are 0: no byte of the document counts.
    """
    vocabulary, special = tokenizer.get_vocab(), set(tokenizer.all_special_ids)
    length = np.zeros(max(vocabulary.values()) + 1, np.int64)
    length[list(vocabulary.values())] = [
        0 if i in special else len(name) for name, i in vocabulary.items()
    ]
    tokens = [(ids, length[ids].cumsum()) for ids in encode(tokenizer, texts)[0]]
    sizes = [len(text.encode("utf-8", "surrogatepass")) for text in texts]
    return [
        (i, e if len(e) and e[-1] == size else e * 0)
        for (i, e), size in zip(tokens, sizes, strict=True)
    ]


def rows_in_bytes(table, tokens):
    """(first, end) in bytes of each row's token, int64 (2, n). Raises InputError: the table is of other tokens."""
    starts = np.cumsum([0, *(len(ids) for ids, _ in tokens)])
    at = starts[np.minimum(table.document, len(tokens))] + table.position
    ids, ends = (np.concatenate(column) for column in zip(*tokens, strict=True))
    if table.documents != len(tokens) or (at >= len(ids)).any() or (ids[at] != table.token).any():
        raise InputError(
            f"{table.path} is of other text, or of another tokenizer: run `rbp measure` again."
        )
    return np.stack([ends[at - 1], ends[at]])


def byte_losses(tables, other, texts, tokenizers):
    """{"bits", "first", "tokens"}: per byte, the cross-entropy in bits, bytes in tokens ranked first, and tokens; each
    a Loss of a ladder's models and, last, of a larger one. Of a document counts what scored tokens of both cover whole.

    tables, other: RankTables of the ladder, smallest first, and of the other model. texts: their documents, in order.
    tokenizers: the ladder's, the other's. Raises InputError: the other is no larger, of other text, or shares no byte.
    """
    sides, models = [token_ends(tokenizer, texts) for tokenizer in tokenizers], (*tables, other)
    ends = np.zeros((2, len(texts)), int)
    for rows in models:
        of = int(rows is other)
        rows_in_bytes(rows, sides[of])  # is it of this text?
        np.maximum.at(ends[of], rows.document, rows.position + 1)
    both = [
        np.intersect1d(a[:m], b[:n]) for (_, a), (_, b), m, n in zip(*sides, *ends, strict=True)
    ]  # where both end
    span = np.array([shared[[0, -1]] if len(shared) else (0, 0) for shared in both])  # (D, 2)
    known = {**measured_on(models), "totals": span[:, 1] - span[:, 0], "hits": False}
    if known["S"][-1] <= known["S"][:-1].max() or not known["totals"].any():
        raise InputError(
            f"{known['models'][-1]} is no larger than the ladder, or has no byte in common: give another."
        )
    sums = np.zeros((3, len(texts), len(models)))
    for m, rows in enumerate(models):
        first, end = rows_in_bytes(rows, sides[models[m] is other])
        inside = (first >= span[rows.document, 0]) & (end <= span[rows.document, 1]) & (end > first)
        amounts = (
            np.stack(
                [-rows.logprob / np.log(2), (end - first) * (rows.rank() == 1), np.ones(len(end))]
            )
            * inside
        )
        sums[:, :, m] = [np.bincount(rows.document, amount, len(texts)) for amount in amounts]
    loss = Loss(sums=sums[0], name="bits", **known)
    return {
        n: replace(loss, sums=s, name=n)
        for n, s in zip(("bits", "first", "tokens"), sums, strict=True)
    }
