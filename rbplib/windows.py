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

from rbplib.families import WINDOW, InputError

AT_ONCE = 1 << 19  # characters tokenised at once, and of a text whose first ids are wanted
LONGEST = 1 << 24  # characters of a text all of whose ids are wanted: about 3 GB while it is cut


class Window(NamedTuple):
    """ids: integers (T,) of a document from `start` on. scored: indices of those that are."""

    ids: np.ndarray
    document: int
    start: int
    scored: np.ndarray


@dataclass(frozen=True)
class Windows:
    """All windows of one corpus for one tokenizer."""

    windows: tuple[Window, ...]
    documents: int  # in the sample, those without a window too
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
    if n < 2:
        return []
    # each further window begins so that its tokens have context
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
        of each text that its ids stand for, as the tokenizer gives them back).
    Cost: about 190 bytes of memory per character tokenised at once: of AT_ONCE or two, or of the
        longest text where `most` is None.
    Raises:
        InputError: a text of more than LONGEST characters, all of whose ids are wanted.
    """
    # texts in turn, in groups of about AT_ONCE characters
    if most is not None:
        texts = [text[: max(AT_ONCE, 128 * most)] for text in texts]
    longest = max(map(len, texts), default=0)
    if longest > LONGEST:
        raise InputError(
            f"a document of {longest:,} characters is more than the {LONGEST:,} cut at once: "
            "cut it into several, as at its chapters."
        )
    group_of = np.cumsum([len(text) for text in texts]) // AT_ONCE
    ids, read = [], []
    for _, pairs in groupby(zip(group_of, texts, strict=True), key=lambda pair: pair[0]):
        group = [text for _, text in pairs]
        rows = tokenizer(group, verbose=False)["input_ids"]
        for text, row in zip(group, rows, strict=True):
            first = row[:most]
            ids.append(np.array(first, dtype=np.min_scalar_type(max(first, default=0))))
            if len(first) < len(row):
                text = tokenizer.decode(first, skip_special_tokens=True)
            read.append(len(text))
    return ids, np.array(read, dtype=np.int64)


def make_windows(ids, special=(), length=WINDOW, protocol="paper", read=()):
    """Windows of tokenised documents.

    Args:
        ids: an int array (n_d,) of each document, in the sample's order.
        special: ids that are read as context, but never scored. length: W in tokens, at least 2.
        read: characters of each document that its ids stand for, see `encode`.
    """
    windows = []
    for document, row in enumerate(ids):
        counted = ~np.isin(row, special)
        for start, stop, first in spans(len(row), length, protocol):
            scored = first + np.flatnonzero(counted[start + first : stop])
            windows.append(Window(row[start:stop], document, start, scored))
    return Windows(tuple(windows), len(ids), int(sum(read)))


def text_windows(tokenizer, texts, length, protocol="paper"):
    """Windows of texts as a tokenizer cuts them; arguments and InputError as of `make_windows`."""
    ids, read = encode(tokenizer, texts, length if protocol == "paper" else None)
    return make_windows(ids, tokenizer.all_special_ids, length, protocol, read)


def batches(windows, batch_tokens):
    """Windows in lists of like length, whose padded size is at most batch_tokens, or one window.

    The order depends only on lengths, so it is the same every time.
    """
    group = []
    for window in sorted(windows, key=lambda window: -len(window.ids)):
        if group and len(group[0].ids) * (len(group) + 1) > batch_tokens:
            yield group
            group = []
        group.append(window)
    if group:
        yield group
