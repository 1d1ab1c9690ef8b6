"""Documents to windows of token ids: what a model reads, and which of its tokens are scored.

        document   "the cat sat on"      ids      [ 5, 17, 902, 33 ]
        position                                    0   1    2   3
        scored                                      -   x    x   x      position 0 has no context

Protocol `paper`: the first W tokens of each document. Protocol `full`: every token once, in windows
of W tokens that overlap by W/2, so that a token (but for a document's first W) is scored with at
least W/2 tokens of context, of which the first is BOS where the tokenizer begins text with it. W is
the smaller of 512 and the shortest context in the family, so that every model scores the same
tokens.
"""

import json
from collections import Counter
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

import numpy as np

from rbplib.families import WINDOW, InputError

AT_ONCE = 1 << 19  # characters tokenised at once, and of a text whose first ids are wanted
LONGEST = 1 << 24  # characters of a text all of whose ids are wanted: about 3 GB while it is cut


class Window(NamedTuple):
    """ids: integers (T,) of a document, the token at `start` + i each; where the tokenizer begins
    text with BOS, that stands before those of a window further on. scored: indices of those that
    are."""

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
    unscored: dict = field(default_factory=dict)  # {special id: how often it is a word of the text}

    @property
    def tokens(self):
        """Tokens the model reads, special ones included."""
        return sum(len(window.ids) for window in self.windows)


def spans(n, length, protocol="paper", begin=0):
    """(start, stop, first scored token) of each window of a document of n tokens, which has room
    for `begin` more tokens before those of each but the first.

    >>> spans(7, 4), spans(7, 4, "full")
    ([(0, 4, 1)], [(0, 4, 1), (2, 6, 4), (3, 7, 6)])
    """
    if n < 2:
        return []
    # each further window begins so that its tokens have context
    scored = min(n, length)
    places = [(0, scored, 1)]
    step = max(1, min(length // 2, length - begin))
    while scored < n and protocol == "full":
        stop = min(scored + step, n)
        places.append((stop - length + begin, stop, scored))
        scored = stop
    return places


def encode(tokenizer, texts, most=None):
    """Token ids of each text, special tokens as the tokenizer adds them, and how far they reach.

    Args:
        most: how many ids of each text are wanted, its first ones; all where None. They are read
            off its first 524,288 characters, or 128 for each id wanted: what comes after is too
            far away to matter.
    Returns:
        (list of arrays of the smallest unsigned integers that hold the ids, int64 (D,): characters
        of each text that its ids stand for, as the tokenizer gives them back).
    Cost: about 190 bytes of memory per character tokenised at once: of 524,288 or twice that, or of
        the longest text where `most` is None.
    Raises:
        InputError: a text of more than 16,777,216 characters, all of whose ids are wanted.
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
            how = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False}
            read.append(min(len(text), len(tokenizer.decode(first, **how))))
    return ids, np.array(read, dtype=np.int64)


def make_windows(ids, special=(), length=WINDOW, protocol="paper", read=(), around=((), ())):
    """Windows of tokenised documents.

    Args:
        ids: an int array (n_d,) of each document, in the sample's order.
        special: ids that are read as context, but never scored. length: W in tokens, at least 2.
        read: characters of each document that its ids stand for, see `encode`.
        around: ids that the tokenizer puts before and after each text, see `added_ids`.
    """
    windows, unscored = [], Counter()
    before, after = around
    before = np.array(before[: length - 1], int)
    for document, row in enumerate(ids):
        counted = ~np.isin(row, special)
        stop = 0
        for start, stop, first in spans(len(row), length, protocol, len(before)):
            part = row[start:stop]
            if start:  # the first window has its own
                part = np.concatenate([before.astype(row.dtype), part])
                start -= len(before)
            scored = first - start + np.flatnonzero(counted[first:stop])
            windows.append(Window(part, document, start, scored))
        # special ones that stand in the text itself
        if after and row[stop - len(after) : stop].tolist() == list(after):
            stop -= len(after)
        words = slice(max(1, len(before)), stop)
        unscored.update(row[words][~counted[words]].tolist())
    return Windows(tuple(windows), len(ids), int(sum(read)), dict(unscored))


def added_ids(tokenizer):
    """(ids that a tokenizer puts before a text, ids that it puts after it): tuples."""
    plain = tokenizer("a", add_special_tokens=False)["input_ids"]
    whole = tokenizer("a")["input_ids"]
    for start in range(len(whole) - len(plain) + 1):
        stop = start + len(plain)
        if whole[start:stop] == plain:
            return tuple(whole[:start]), tuple(whole[stop:])
    return (), ()


def special_ids(tokenizer):
    """Ids that are never scored: special ones, and what stands for text that a tokenizer does not
    know, whether it calls that special or not."""
    ids, backend = {*tokenizer.all_special_ids}, getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        model = json.loads(backend.to_str())["model"]
        ids |= {model.get("unk_id"), tokenizer.get_vocab().get(model.get("unk_token"))}
    return sorted(ids - {None})


def text_windows(tokenizer, texts, length, protocol="paper"):
    """Windows of texts as a tokenizer cuts them; arguments and InputError as of `make_windows`."""
    ids, read = encode(tokenizer, texts, length if protocol == "paper" else None)
    special, around = special_ids(tokenizer), added_ids(tokenizer)
    return make_windows(ids, special, length, protocol, read, around)


def by_length(windows):
    """Windows, the longest first, and in order where they are equally long."""
    return sorted(windows, key=lambda window: -len(window.ids))


def batches(windows, batch_tokens):
    """Windows in lists of like length, whose padded size is at most batch_tokens, or one window.

    The order depends only on lengths, so it is the same every time.
    """
    group = []
    for window in by_length(windows):
        if group and len(group[0].ids) * (len(group) + 1) > batch_tokens:
            yield group
            group = []
        group.append(window)
    if group:
        yield group
