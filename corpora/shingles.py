"""Texts that repeat each other, told by their shingles: hashes of runs of words."""

import re
import zlib
from collections import Counter, defaultdict
from itertools import chain

import numpy as np

SHINGLE = 8  # words of a shingle
SHARED = 0.25  # of a document's shingles: with more in another one, the two are near-duplicates
WORD = re.compile(r"\w+")


def shingles(text):
    """Hashes of all runs of SHINGLE words, lower-cased, uint64 (n,); of a shorter text one hash."""
    words = np.array([zlib.crc32(w.encode()) for w in WORD.findall(text.lower())], np.uint64)
    runs = max(len(words) - SHINGLE + 1, 1)
    code = np.zeros(runs, np.uint64)
    for step in range(min(SHINGLE, len(words))):
        # a rolling hash, which wraps around
        code = code * np.uint64(1_000_003) + words[step : step + runs]
    return np.unique(code ^ (code >> np.uint64(29)))


class Kept:
    """Documents kept so far by their shingles."""

    def __init__(self):
        self.where, self.sizes = defaultdict(list), []

    def adds(self, text):
        """Keep a text and say so, unless it is a near-duplicate of one kept before."""
        codes = shingles(text).tolist()
        shared = Counter(chain.from_iterable(map(self.where.__getitem__, codes)))
        if any(n > SHARED * min(len(codes), self.sizes[number]) for number, n in shared.items()):
            return False
        for code in codes:
            self.where[code].append(len(self.sizes))
        self.sizes.append(len(codes))
        return True
