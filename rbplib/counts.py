"""Counts of measured models in a Parquet file, a row a document: what laws need of rank tables, a
twentieth of their size, without text and without order.

    model  corpus  source  tokens  nll     ranks_1  ranks_2  ...  runs_1        copyable  copyable_1
    1.9k   docs    click   255     1320.5  31       8             [1, 1, 2, 3]  64        20

ranks_K are the tokens ranked up to K and above the column before; runs_K the lengths of the runs of
hits at K, shortest first, and runs those of all scored tokens; copyable and copyable_K the tokens
that could be copied and the hits among them. Any of the last three may lack. The file's metadata
has the records of the rank tables; checksums stand over both.
"""

import json
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rbplib.families import InputError, atomic_path, digest, held
from rbplib.table import DEFINITIONS, KEY, RankTable, distinct


@dataclass(frozen=True)
class Counts(RankTable):
    """Counts of one model on one corpus: losses are made of it as of the RankTable it was.

    Attributes:
        columns: {name: array (D,)} of the file's columns; of runs, (document, length), int (2, R).
        mend: how to have what was not counted.
    """

    mend: str = "choose another"

    totals = property(lambda self: self.columns["tokens"])
    nll = property(lambda self: self.columns["nll"])
    entropy = property(lambda self: self.counted("entropy", "the entropy of ranks"))
    document = position = token = greater = ties = logprob = property(
        lambda self: self.lack("its single tokens")
    )

    def __len__(self):
        return int(self.totals.sum())

    def lack(self, what):
        """InputError: what was not counted."""
        about = "{family} is here as counts of {corpus}, without ".format(**self.record)
        raise InputError(f"{about}{what}: {self.mend}.")

    def counted(self, name, what):
        """A column; InputError names what was not counted."""
        return self.columns[name] if name in self.columns else self.lack(what)

    @cached_property
    def ks(self):
        """The ranks at which hits were counted, rising."""
        return [int(name[6:]) for name in self.columns if name.startswith("ranks_")]

    def knows(self, k, definition=DEFINITIONS[0]):
        return k in self.ks and definition == DEFINITIONS[0]

    def hits(self, ks, definition=DEFINITIONS[0]):
        if definition != DEFINITIONS[0]:
            self.lack(f"the rank {definition!r}")
        for k in ks:
            if k not in self.ks:
                self.lack(f"k = {k}")
        reached = np.cumsum([self.columns[f"ranks_{k}"] for k in self.ks], axis=0)
        return reached[[self.ks.index(k) for k in ks]].T

    def runs(self, k):
        if k not in self.kept_runs:
            what = f"runs of hits at k = {k}" if k < np.inf else "runs"
            name = f"runs_{k}" if k < np.inf else "runs"
            self.kept_runs[k] = distinct(*self.counted(name, what))
        return self.kept_runs[k]


def counts_path(family):
    """Where a family's counts would be."""
    return held("published", "ranks", f"{family.name}.parquet")


def counts_here(family, wanted, command, rows=True):
    """(Counts in a family's file, records of `table.expected` that are not in it).

    command: which measures the family. rows: whether what was counted is read too.
    Raises InputError: the file is damaged, or counts of another text, model or setting are there
    than what is wanted.
    """
    path = counts_path(family)
    if not (wanted and path.is_file()):
        return [], wanted
    mend = "choose another" if family.imported else f"measure its ranks by `{command}`"
    tables = read_counts(path, mend, rows)
    counted, missing = [], []
    for record in wanted:
        table = tables.get(known_by(record))
        if table is None:
            missing.append(record)
            continue
        if different := [name for name, what in record.items() if table.record.get(name) != what]:
            raise InputError(
                f"{path} counts {record['model']} on {record['corpus']} with another "
                f"{' and '.join(different)} than what is asked for: {mend}."
            )
        counted.append(table)
    return counted, missing


def known_by(record):
    """What tells a table of counts from the others of its file."""
    return tuple(record[name] for name in ("family", "model", "corpus", "protocol"))


def read_counts(path, mend=Counts.mend, rows=True):
    """{`known_by`: Counts} of a file. rows: else no more than sources are read.

    Raises InputError: the file is damaged.
    """
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            about = json.loads(file.metadata.metadata[KEY])
            if about["sha256"] != digest(about["tables"]):
                raise ValueError("another record")
            rows = file.read(None if rows else ["source"])
    except (OSError, pa.ArrowException, ValueError, LookupError, TypeError):
        raise InputError(f"{path} is damaged: get it again, or {mend}.") from None
    # its tables, one after the other
    tables, start = {}, 0
    for record in about["tables"]:
        part = rows.slice(start, record["documents"])
        start += record["documents"]
        columns = {name: values(part[name]) for name in part.column_names}
        units = columns.pop("source").tolist()
        tables[known_by(record)] = Counts(columns, record | {"units": units}, path, mend)
    return tables


def values(column):
    """A column of the file as an array, lists of lengths as (document, length)."""
    if not pa.types.is_list(column.type):
        array = column.to_numpy()
        return array.astype(np.int64) if array.dtype.kind == "i" else array
    lengths = column.combine_chunks()
    document = np.repeat(np.arange(len(lengths)), lengths.value_lengths())
    return np.vstack([document, lengths.flatten()]).astype(np.int64)


def write_counts(path, tables):
    """Write Counts to a file, whole or not at all. The same counts give the same bytes."""
    records, rows = [], []
    for table in tables:
        columns = {"source": table.record["units"]} | table.columns
        columns = {name: packed(array, table.documents) for name, array in columns.items()}
        rows.append(pa.table(columns))
        records.append({name: value for name, value in table.record.items() if name != "units"})
    about = json.dumps({"tables": records, "sha256": digest(records)}, sort_keys=True)
    whole = pa.concat_tables(rows).combine_chunks().replace_schema_metadata({KEY: about})
    how = {"compression": "zstd", "compression_level": 19, "write_page_checksum": True}
    with atomic_path(path) as temporary:
        pq.write_table(whole, temporary, **how)


def packed(array, documents):
    """An array as a column of the file: whole numbers of 32 bits, runs as lists of lengths."""
    array = np.asarray(array)
    if array.dtype.kind == "i":
        array = array.astype(np.int32)
    if array.ndim < 2:
        return pa.array(array)
    # lengths of each document, shortest first
    document, length = array[:, np.lexsort(array[::-1])]
    ends = np.cumsum(np.bincount(document, minlength=documents))
    return pa.ListArray.from_arrays(pa.array(np.r_[0, ends], pa.int32()), pa.array(length))
