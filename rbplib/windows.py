"""Documents to windows of token ids: what a model reads, and which of its tokens are scored.

        document   "the cat sat on"      ids      [ 5, 17, 902, 33 ]
        position                                    0   1    2   3
        scored                                      -   x    x   x      position 0 has no context

Protocol `paper`: the first W tokens of each document. Protocol `full`: every token once, in windows
of W tokens that overlap by W/2, so that a token (but for a document's first W) is scored with at
least W/2 tokens of context. W is the smaller of 512 and the shortest context in the family, so that
every model scores the same tokens.
"""

from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np

from rbplib.families import PROTOCOLS, WINDOW, InputError, check_choice

AT_ONCE = 1 << 19  # characters tokenised at once, and of a text whose first ids are wanted


class Window(NamedTuple):
    """ids: integers (T,) of a document from `start` on; tokens from index `first` on are scored."""

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
        return sum(len(window.ids) for window in self.windows)


def spans(n, length, protocol="paper"):
    """(start, stop, first scored index within the window) of each window of a document of n tokens.

    >>> spans(7, 4), spans(7, 4, "full")
    ([(0, 4, 1)], [(0, 4, 1), (2, 6, 2), (3, 7, 3)])
    """
    check_choice(protocol, PROTOCOLS, "protocol")
    if n < 2:
        return []
    scored = min(n, length)
    places = [(0, scored, 1)]
    while scored < n and protocol == "full":
        stop = min(scored + max(1, length // 2), n)
        start = max(0, stop - length)
        places.append((start, stop, scored - start))
        scored = stop
    return places


def encode(tokenizer, texts, most=None):
    """Token ids of each text, special tokens as the tokenizer adds them, and how far they reach.

    Args:
        most: how many ids of each text are wanted, its first ones; all where None. They are read
            off its first AT_ONCE characters, or 128 for each id wanted: what comes after is too
            far away to matter.
    Returns:
        (list of arrays of the smallest unsigned integers that hold the ids, int64 (D,): characters
        of each text up to the end of its last id; about, where a tokenizer keeps no places).
    Cost: about 190 bytes of memory per character tokenised at once: of AT_ONCE or two, or of the
        longest text where `most` is None.
    """
    # texts in turn, in groups of about AT_ONCE characters
    if most is not None:
        texts = [text[: max(AT_ONCE, 128 * most)] for text in texts]
    group_of = np.cumsum([len(text) for text in texts]) // AT_ONCE
    ids, read = [], []
    for _, pairs in groupby(zip(group_of, texts, strict=True), key=lambda pair: pair[0]):
        group = [text for _, text in pairs]
        tokens = tokenizer(group, verbose=False)
        for number, (text, row) in enumerate(zip(group, tokens["input_ids"], strict=True)):
            kind = np.min_scalar_type(max(row[:most], default=0))
            ids.append(np.array(row[:most], dtype=kind))
            cut = len(row) > len(ids[-1])
            read.append(reach(tokens, number, len(text), most) if cut else len(text))
    return ids, np.array(read, dtype=np.int64)


def reach(tokens, number, size, most):
    """Characters of a text, of `size` characters, up to the end of its first `most` ids."""
    if tokens.is_fast:
        for place in reversed(range(most)):  # special ids stand for no characters
            if span := tokens.token_to_chars(number, place):
                return span.end
    return round(size * most / len(tokens["input_ids"][number]))


def make_windows(ids, special=(), length=WINDOW, protocol="paper", read=()):
    """Windows of tokenised documents.

    ids: one int array (n_d,) per document, in the sample's order. special: ids read as context, but
    never scored. length: W in tokens, at least 2. read: characters of each document that its ids
    stand for, see `encode`.
    """
    if length < 2:
        raise InputError(f"a window of {length} tokens scores nothing: give at least 2.")
    special = frozenset(int(token) for token in special)
    windows, empty, single = [], 0, 0
    for document, row in enumerate(ids):
        for start, stop, first in spans(len(row), length, protocol):
            windows.append(Window(row[start:stop], document, start, first))
        tokens = len(row) if len(row) > 2 else len([t for t in row.tolist() if t not in special])
        empty += tokens == 0
        single += tokens == 1
    return Windows(tuple(windows), special, len(ids), empty, single, length, int(sum(read)))


def scored_rows(window, special):
    """Indices i >= 1 of the window whose token is scored, as an int array."""
    index = np.arange(window.first, len(window.ids))
    return index[~np.isin(window.ids[index], list(special))] if special else index


def batches(windows, batch_tokens):
    """Groups of windows of like length, as lists of indices.

    A group's padded size is at most batch_tokens, or it is one window. The order depends only on
    lengths, so it is the same every time.
    """
    order = sorted(range(len(windows)), key=lambda i: (-len(windows[i].ids), i))
    groups = []
    for i in order:
        if not groups or len(windows[groups[-1][0]].ids) * (len(groups[-1]) + 1) > batch_tokens:
            groups.append([])
        groups[-1].append(i)
    return groups
