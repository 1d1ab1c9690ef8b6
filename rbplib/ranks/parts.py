"""Finished pieces of a rank table: what a killed measurement has done already, and goes on from."""

import shutil
import sys
from hashlib import sha256

import numpy as np
from tqdm import tqdm

from rbplib.ranks.table import COLUMNS, columns_digest
from rbplib.settings import atomic_path, write_text

PART_TOKENS = 65_536  # tokens a part holds: what a killed run loses at most


def say(text):
    """A line for a person, above the progress bar."""
    tqdm.write(text, file=sys.stderr)


class Parts:
    """Finished pieces of one table, in a folder beside it whose name says what they belong to."""

    def __init__(self, task, windows, batch_tokens, tokens=PART_TOKENS):
        key = sha256(repr(sorted(task.expect.items())).encode()).hexdigest()[:16]
        self.folder = task.path.parent / f".{task.path.stem}.parts-{key}"
        for other in task.path.parent.glob(f".{task.path.stem}.parts-*"):
            if other != self.folder:
                shutil.rmtree(other, ignore_errors=True)
        plan = self.folder / "batch_tokens"  # a resumed run must cut batches as the first one did
        if plan.is_file():
            batch_tokens = int(plan.read_text())
        else:
            write_text(plan, str(batch_tokens))
        self.batch_tokens = batch_tokens
        self.groups = list(groups(windows.windows, tokens))

    def file(self, number):
        return self.folder / f"{number:05d}.npz"

    def is_done(self, number):
        return self._load(number) is not None

    def _load(self, number):
        try:
            with np.load(self.file(number), allow_pickle=False) as data:
                columns = {name: data[name] for name in COLUMNS}
                return columns if str(data["sha256"]) == columns_digest(columns) else None
        except (OSError, KeyError, ValueError, EOFError):
            return None
        except Exception as error:  # a cut zip file raises zipfile.BadZipFile or zlib.error
            say(f"{self.file(number)} is damaged ({error}): measuring that part again")
            return None

    def write(self, number, columns):
        columns = {name: np.asarray(columns[name], dtype) for name, dtype in COLUMNS.items()}
        with atomic_path(self.file(number)) as temporary, open(temporary, "wb") as f:
            np.savez(f, sha256=columns_digest(columns), **columns)

    def gather(self):
        """All parts as one table, sorted by (document, position)."""
        loaded = [self._load(i) for i in range(len(self.groups))]
        columns = {n: np.concatenate([np.empty(0, d), *(part[n] for part in loaded)]) for n, d in COLUMNS.items()}
        order = np.lexsort((columns["position"], columns["document"]))
        return {name: values[order] for name, values in columns.items()}

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
