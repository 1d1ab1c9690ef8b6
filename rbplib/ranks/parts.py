"""Finished pieces of a rank table: what a killed measurement has done already, and goes on from."""

import shutil
import sys
from hashlib import sha256

import numpy as np
from tqdm import tqdm

from rbplib.ranks.columns import COLUMNS, columns_digest
from rbplib.settings import atomic_path, write_text


def tell(text):
    """A line for a person, above the progress bar."""
    tqdm.write(text, file=sys.stderr)


class Parts:
    """Finished pieces of one table, in a folder beside it whose name says what they belong to.

    A resumed run cuts batches as the first one did: `batch_tokens` is the first one's.
    """

    def __init__(self, path, expect, batch_tokens):
        key = sha256(repr(sorted(expect.items())).encode()).hexdigest()[:16]
        self.folder = path.parent / f".{path.stem}.parts-{key}"
        for other in path.parent.glob(f".{path.stem}.parts-*"):
            if other != self.folder:
                shutil.rmtree(other, ignore_errors=True)
        plan = self.folder / "batch_tokens"
        if not plan.is_file():
            write_text(plan, str(batch_tokens))
        self.batch_tokens = int(plan.read_text())

    def read(self, number):
        """Columns of one part, or None where it is not there, or not whole."""
        path = self.folder / f"{number:05d}.npz"
        if not path.is_file():
            return None
        try:
            with np.load(path, allow_pickle=False) as data:
                columns = {name: data[name] for name in COLUMNS}
                if str(data["sha256"]) == columns_digest(columns):
                    return columns
        except Exception:  # a cut zip file raises half a dozen kinds of error
            pass
        return tell(f"{path} is damaged: measuring that part again")

    def write(self, number, columns):
        columns = {name: np.asarray(columns[name], dtype) for name, dtype in COLUMNS.items()}
        with atomic_path(self.folder / f"{number:05d}.npz") as temporary, open(temporary, "wb") as f:
            np.savez(f, sha256=columns_digest(columns), **columns)
        return columns

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)


def groups(windows, tokens):
    """Windows in order, cut into runs of about `tokens` tokens."""
    group, size = [], 0
    for w in windows:
        group.append(w)
        size += len(w.ids)
        if size >= tokens:
            yield group
            group, size = [], 0
    if group:
        yield group
