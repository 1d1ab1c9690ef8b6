"""The contract of a rank table's columns: names, dtypes, order, what they may hold, and what 'the same bytes' are."""

import hashlib

import numpy as np

COLUMNS = {
    "document": np.int32,
    "position": np.int32,
    "token": np.int32,
    "greater": np.int32,
    "ties": np.int32,
    "logprob": np.float32,
}


def columns_digest(columns):
    """SHA-256 over the data columns in the contract's order and byte layout: what 'the same bytes' means."""
    h = hashlib.sha256()
    for name, dtype in COLUMNS.items():
        h.update(np.ascontiguousarray(columns[name], dtype=np.dtype(dtype).newbyteorder("<")).tobytes())
    return h.hexdigest()


def checked_columns(columns, record):
    """The columns in the contract's dtypes and order, or a ValueError that names the first broken rule."""
    out = {}
    for name, dtype in COLUMNS.items():
        if name not in columns:
            raise ValueError(f"rank table lacks the column {name!r}")
        out[name] = np.asarray(columns[name], dtype=dtype)
    if len({a.shape for a in out.values()}) != 1 or out["document"].ndim != 1:
        raise ValueError("the columns of a rank table must be one-dimensional and of one length")
    vocab = int(record["vocab_size"])
    if len(out["document"]):
        key = out["document"].astype(np.int64) << 32 | out["position"]
        rank = out["greater"].astype(np.int64) + out["ties"]
        rules = {
            "rows are not sorted by (document, position), or repeat": (np.diff(key) > 0).all(),
            "a position is below 1": out["position"].min() >= 1,
            "a token id is outside the vocabulary": 0 <= out["token"].min() and out["token"].max() < vocab,
            "greater is negative": out["greater"].min() >= 0,
            "ties is below 1": out["ties"].min() >= 1,
            "a rank is above the vocabulary size": rank.max() <= vocab,
            "a logprob is above 0 or not a number": (out["logprob"] <= 1e-4).all(),
        }
        for broken, fine in rules.items():
            if not fine:
                raise ValueError(f"rank table: {broken}")
    return out
