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
    out = [(0, min(n, length), 1)]
    if protocol == "paper":
        return out
    scored, stride = out[0][1], max(1, length // 2)
    while scored < n:
        stop = min(scored + stride, n)
        start = max(0, stop - length)
        out.append((start, stop, scored - start))
        scored = stop
    return out


def encode(tokenizer, texts, batch=64):
    """Token ids of each text, special tokens as the tokenizer adds them; list of int64 arrays.

    Raises:
        InputError: the corpus holds no text at all.
    """
    if not any(t.strip() for t in texts):
        raise InputError("the corpus holds no text: check its source, split and fields.")
    ids = []
    for i in range(0, len(texts), batch):
        part = list(texts[i : i + batch])
        ids += [np.asarray(row, dtype=np.int64) for row in tokenizer(part, verbose=False)["input_ids"]]
    return ids


def make_windows(ids, special=(), length=WINDOW, protocol="paper"):
    """Cut tokenised documents into windows.

    Args:
        ids: one int array (n_d,) per document, in the sample's order.
        special: ids never scored (they are still read as context).
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
    """Group windows of like length; each group's padded size is at most batch_tokens (or it is one window).

    Returns a list of lists of indices into `windows`. The order depends only on lengths, so it is the same every time.
    """
    order = sorted(range(len(windows)), key=lambda i: (-len(windows[i].ids), i))
    out, current, longest = [], [], 0
    for i in order:
        longest = longest or len(windows[i].ids)
        if current and longest * (len(current) + 1) > batch_tokens:
            out.append(current)
            current, longest = [], len(windows[i].ids)
        current.append(i)
    return out + [current] if current else out
