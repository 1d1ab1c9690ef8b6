"""Documents to windows of token ids: what a model reads, and which of its tokens are scored.

        document   "the cat sat on"      ids      [ 5, 17, 902, 33 ]
        position                                    0   1    2   3
        scored                                      -   x    x   x      position 0 has no context

Protocol `paper`: the first W tokens of each document. Protocol `full`: every token once, in windows of W tokens that
overlap by W/2, so that a token (but for a document's first W) is scored with at least W/2 tokens of context.
W is the smaller of 512 and the shortest context in the family, so that every model scores the same tokens.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rbplib.settings import PROTOCOLS, WINDOW, InputError, check_choice


class Window(NamedTuple):
    """ids: int64 (T,); document: its index; start: place of ids[0] in the document; first: first scored index."""

    ids: np.ndarray
    document: int
    start: int
    first: int


@dataclass(frozen=True)
class Windows:
    """All windows of one corpus for one tokenizer, with what was left out and why."""

    windows: tuple[Window, ...]
    special: frozenset[int]
    documents: int  # in the sample
    empty: int  # documents without any token
    single: int  # documents of one token: nothing to score
    length: int  # W

    @property
    def tokens(self):
        """Tokens the model reads, special ones included."""
        return sum(len(w.ids) for w in self.windows)


def spans(n, length, protocol):
    """(start, stop, first scored index within the window) of each window of a document of n tokens.

    Example (n=7, length=4): paper (0,4,1); full (0,4,1) (2,6,2) (3,7,3).
    """
    check_choice(protocol, PROTOCOLS, "protocol")
    if n < 2:
        return []
    out, scored = [(0, min(n, length), 1)], min(n, length)
    while scored < n and protocol == "full":
        stop = min(scored + max(1, length // 2), n)
        start = max(0, stop - length)
        out.append((start, stop, scored - start))
        scored = stop
    return out


def encode(tokenizer, texts):
    """Token ids of each text, special tokens as the tokenizer adds them; list of int64 arrays.

    Raises InputError: the corpus holds no text at all.
    """
    if not any(t.strip() for t in texts):
        raise InputError("the corpus holds no text: check its source, split and fields.")
    ids = []
    for i in range(0, len(texts), 64):  # a tokenizer takes much memory per text
        found = tokenizer(list(texts[i : i + 64]), verbose=False)["input_ids"]
        ids += [np.asarray(row, dtype=np.int64) for row in found]
    return ids


def make_windows(ids, special=(), length=WINDOW, protocol="paper"):
    """Windows of tokenised documents.

    ids: one int array (n_d,) per document, in the sample's order. special: ids read as context, but never scored.
    length: W in tokens, at least 2.
    """
    if length < 2:
        raise InputError(f"a window of {length} tokens scores nothing: give at least 2.")
    special = frozenset(int(s) for s in special)
    windows = tuple(
        Window(row[start:stop], d, start, first)
        for d, row in enumerate(ids)
        for start, stop, first in spans(len(row), length, protocol)
    )
    real = [sum(int(t) not in special for t in row[:2]) if len(row) <= 2 else 2 for row in ids]
    return Windows(windows, special, len(ids), real.count(0), real.count(1), length)


def scored_rows(window, special):
    """Indices i >= 1 of the window whose token is scored, as an int array."""
    index = np.arange(window.first, len(window.ids))
    return index[~np.isin(window.ids[index], list(special))] if special else index


def batches(windows, batch_tokens):
    """Groups of windows of like length, as lists of indices; each one's padded size is at most batch_tokens, or it is
    one window. The order depends only on lengths, so it is the same every time."""
    order = sorted(range(len(windows)), key=lambda i: (-len(windows[i].ids), i))
    out = []
    for i in order:
        if not out or len(windows[out[-1][0]].ids) * (len(out[-1]) + 1) > batch_tokens:
            out.append([])
        out[-1].append(i)
    return out
