"""Counts of measured families in one small file, which `paper.counts_file` writes: the grid's are published.

A grid of 53 models is 5 MB of counts and would be some 100 MB of rank tables, so its weights stay away and its
counts are in the repository. A zip of NumPy arrays, each named by its SHA-256, and of `record.json`; book/data
describes it. The checksum that a zip has of each part finds damage, a forger can lie anyway.
"""

import io
import json
import lzma
import zipfile

import numpy as np

from rbplib import table as tables_of_ranks
from rbplib.families import InputError, load_family
from rbplib.table import RankTable, by_size

FORMAT = {"format": "rbp counts", "version": 1}
KS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10_000)
# what readers of zip, JSON and .npy make of damage
DAMAGE = (ValueError, TypeError, LookupError, OSError, EOFError, RuntimeError)
DAMAGE += (zipfile.BadZipFile, lzma.LZMAError)


def k_grid(vocab_size, per_decade=8):
    """Whole numbers from 1 to V, about evenly spaced in log k, with 1, 10, 50, 100 and 1000."""
    grid = np.geomspace(1, vocab_size, 1 + round(per_decade * np.log10(vocab_size)))
    marks = {k for k in (1, 10, 50, 100, 1000) if k <= vocab_size}
    return sorted(marks.union(grid.round().astype(int).tolist()))


class Counts(RankTable):
    """Counts of one model on one corpus, of which losses are made as of the RankTable that they were made of.

    `columns` are the arrays of the file: ks, int64 (K,), where hits were counted, rising; cells, int64
    (K + 1, D), tokens of each document with ranks between neighbouring ks; sums, float64 (3, D), whose first is nll.
    """

    totals = property(lambda self: self.columns["cells"].sum(axis=0))
    nll = property(lambda self: self.columns["sums"][0])

    def __len__(self):
        return int(self.columns["cells"].sum())

    def hits(self, ks, definition="greater+ties"):
        if missing := sorted(set(ks) - set(self.columns["ks"].tolist())):
            message = "{family} is here as counts, without {corpus}".format(**self.record)
            raise InputError(f"{message} at k = {missing[0]}: choose another.")
        return (
            self.columns["cells"].cumsum(axis=0)[np.flatnonzero(np.isin(self.columns["ks"], ks))].T
        )


def read_counts(path):
    """(record, {(role, corpus): list of Counts, smallest model first}) of a counts file.

    Raises InputError: no such file, or it is damaged.
    """
    tables, arrays = {}, {}
    try:
        # the arrays, each under its digest; whole numbers are int64 again
        with zipfile.ZipFile(path) as file:
            for name in file.namelist():
                if name.endswith(".npy"):
                    array = np.load(io.BytesIO(file.read(name)), allow_pickle=False)
                    arrays[name] = array if array.dtype.kind == "f" else array.astype(np.int64)
            record = json.loads(file.read("record.json"))
        if record | FORMAT != record:
            raise ValueError("another format")
        # those of each table
        for entry in record["tables"]:
            columns = {name: arrays[f"{digest}.npy"] for name, digest in entry["arrays"].items()}
            place = entry["role"], entry["record"]["corpus"]
            tables.setdefault(place, []).append(Counts(columns, entry["record"]))
    except FileNotFoundError:
        raise InputError(f"there is no file {path}: check the path.") from None
    except DAMAGE:
        message = f"{path} is damaged, or no counts file of version {FORMAT['version']}"
        raise InputError(f"{message}: get it again.") from None
    return record, {place: by_size(counts) for place, counts in tables.items()}


def counts_file(family):
    """The path of the counts that lie beside a family's file; None where there are none."""
    path = family.path and family.path.with_name(f"{family.name.removesuffix('.repeats')}.counts")
    return path if path and path.is_file() else None


def family_tables(family, corpus):
    """(tables of a family on one corpus, smallest model first, names of models without one), or Counts of it.

    InputError: as of `rbplib.table.family_tables`, or nothing of that corpus was counted.
    """
    family = load_family(family)
    path = counts_file(family)
    if not path:
        return tables_of_ranks.family_tables(family, corpus)
    role = "repeats" if family.name.endswith(".repeats") else "family"
    name = getattr(corpus, "name", corpus)
    tables = read_counts(path)[1].get((role, name))
    if not tables:
        raise InputError(f"{family.name} is here as counts, without {name}: choose another corpus.")
    about = {"family": family.name}
    return [Counts(table.columns, table.record | about) for table in tables], ()
