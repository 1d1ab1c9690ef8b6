"""Documents to windows of token ids: what a model reads, and which of its tokens are scored.

        document   "the cat sat on"      ids      [ 5, 17, 902, 33 ]
        position                                    0   1    2   3
        scored                                      -   x    x   x      position 0 has no context

Protocol `paper`: the first W tokens of each document. Protocol `full`: every token once, in windows of W tokens that
overlap by W/2, so that a token (but for a document's first W) is scored with at least W/2 tokens of context.
W is the smaller of 512 and the shortest context in the family, so that every model scores the same tokens.
"""

import itertools
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rbplib.families import PROTOCOLS, WINDOW, InputError, check_choice

AT_ONCE = 1 << 19  # characters; of a longer text no more are tokenised where only its first ids are wanted


class Window(NamedTuple):
    """ids: integers (T,); document: its index; start: place of ids[0] in the document; first: first scored index."""

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
    read: int  # characters of the sample that the ids stand for

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


def encode(tokenizer, texts, most=None):
    """Token ids of each text, special tokens as the tokenizer adds them, and how much of it they stand for.

    Args:
        most: how many ids of each text are wanted, its first ones; all where None. They are read off its first AT_ONCE
            characters, or 128 for each id wanted: what comes after these is too far away to matter.
    Returns:
        (list of arrays of the smallest unsigned integers that hold the ids, int64 (D,): characters of each text up to
        the end of its last id; about, where a tokenizer keeps no places).
    Cost: about 190 bytes of memory per character tokenised at once: of AT_ONCE or two, or of the longest text where
        `most` is None.
    """
    longest, ids, read = most and max(AT_ONCE, 128 * most), [], []
    places = np.cumsum([len(text[:longest]) for text in texts]) // AT_ONCE
    for _, group in itertools.groupby(zip(texts, places, strict=True), key=lambda pair: pair[1]):
        group = [text[:longest] for text, _ in group]
        found = tokenizer(group, verbose=False)
        for i, row in enumerate(found["input_ids"]):
            ids.append(np.array(row[:most], dtype=np.min_scalar_type(max(row[:most], default=0))))
            read.append(len(group[i]) if len(row) == len(ids[-1]) else reach(found, i, len(group[i]), len(row), most))
    return ids, np.array(read, dtype=np.int64)


def reach(found, i, size, n, most):
    """Characters of text i, of `size` characters and n ids, up to the end of its first `most` ids."""
    spans = (found.token_to_chars(i, j) for j in range(most - 1, -1, -1)) if found.is_fast else ()
    return next((span.end for span in spans if span), round(size * most / n))  # special ids stand for no characters


def make_windows(ids, special=(), length=WINDOW, protocol="paper", read=()):
    """Windows of tokenised documents.

    ids: one int array (n_d,) per document, in the sample's order. special: ids read as context, but never scored.
    length: W in tokens, at least 2. read: characters of each document that its ids stand for, see `encode`.
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
    return Windows(windows, special, len(ids), real.count(0), real.count(1), length, int(sum(read)))


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
