"""The rank table: one row per scored token, and what is counted from it.

    document  position  token  greater  ties  logprob      the paper's rank (Eq. 3)
    0         1         917    0        1     -0.31        is greater + ties = 1
    0         2         44     6        1     -3.90                            7

A Parquet file with its provenance, results/ranks/FAMILY/MODEL/CORPUS.parquet (CORPUS.full.parquet
of the protocol `full`). What it is a table of is told by the record inside alone: `read_record`
compares that with what is asked. Counts are whole numbers per document; ratios are formed last.
"""

import hashlib
import json
import os
import shlex
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rbplib.families import (
    DTYPES,
    NAME,
    PROTOCOLS,
    Corpus,
    InputError,
    argument,
    atomic_path,
    check_choice,
    check_name,
    complain,
    default_corpora,
    digest,
    load_corpus,
    load_family,
    one_each,
    results_dir,
    yaml_file,
)
from rbplib.models import folder_digest, text_begin, window_length
from rbplib.texts import text_known

COLUMNS = dict.fromkeys(("document", "position", "token", "greater", "ties"), np.int32)
COLUMNS["logprob"] = np.float32
SCHEMA = pa.schema([(name, pa.from_numpy_dtype(dtype)) for name, dtype in COLUMNS.items()])
KEY = b"rbplib"  # of the record in the file's metadata
ENGINE = 3  # raise it when the same model and text would give other rows
DEFINITIONS = ("greater+ties", "greater+1", "random")
_KEPT = {}  # within `kept_columns`: "free" bytes, and columns by the bytes of their file


# --- Counting


def distinct(first, second):
    """The distinct pairs of numbers below 2^31 (n,), sorted, and how many of each: int64 (3, R)."""
    pairs, number = np.unique(as_one(first, second), return_counts=True)
    return np.vstack([pairs >> 32, pairs & 0xFFFFFFFF, number])


def as_one(first, second):
    """Two numbers below 2^31 as one, int64 (n,): of positions of a document neighbours differ by
    1."""
    return np.asarray(first, np.int64) << 32 | second


def column(name):
    """A column of a RankTable as an attribute."""
    about = f"{COLUMNS[name].__name__} (n,), its column."
    return property(lambda table: table.columns[name], doc=about)


@dataclass(frozen=True)
class RankTable:
    """Ranks of one model on one corpus, sorted by document and position; D documents, n rows.

    >>> plain_table(([[0, 3]], [[1, 1]], [[-0.1, -2.5]]), S=1e6, vocab_size=9)
    RankTable(path=None)

    Attributes:
        columns: {name: array (n,)}, as of the attributes below.
        record: the provenance, as JSON can hold it: family, model, corpus,
            nonembedding_params, vocab_size and more. path: of its file, where it has one.
    """

    columns: dict = field(repr=False)
    record: dict = field(repr=False)
    path: Path | None = None

    document = column("document")
    position = column("position")
    token = column("token")
    greater = column("greater")
    ties = column("ties")
    logprob = column("logprob")

    @property
    def documents(self):
        """Documents in the sample, also those without a scored token."""
        return int(self.record["documents"])

    @property
    def source(self):
        """Number of each document's source, int64 (D,): those of one were drawn as one."""
        units = self.record.get("units") or range(self.documents)
        return np.unique(units, return_inverse=True)[1]

    def inside(self, runs, N):
        """Windows of N tokens inside runs (document, length, number), int (3, R): int64 (D,)."""
        document, length, number = runs
        windows = number * np.maximum(length - N + 1, 0)
        return np.bincount(document, windows, self.documents).astype(np.int64)

    def __len__(self):
        return len(self.document)

    def rank(self, definition="greater+ties"):
        """Rank of the true token, int64 (n,); 1 is best.

        "greater+ties" is the paper's Eq. 3, "greater+1" its authors' code, "random" the expected
        rank when ties are broken at random, float64.
        """
        taken = self.record.get("definition")
        if taken and definition not in (taken, DEFINITIONS[0]):
            self.refuse("ties", f"the rank {definition!r}")
        others = {"greater+ties": self.ties, "greater+1": 1, "random": (self.ties + 1) / 2}
        others = others[check_choice(definition, DEFINITIONS, "rank definition")]
        return self.greater.astype(np.int64) + others

    def refuse(self, column, what):
        """InputError for what a table that lacks something cannot tell."""
        raise InputError(
            f"the ranks of {self.record['model']} are here without their {column}: "
            f"{what} cannot be told."
        )

    @cached_property
    def text(self):
        """SHA-256 of which tokens were scored: equal for models on the same tokens."""
        names = ("document", "position", "token")
        return self.record.get("text") or columns_digest(self.columns, names)

    def per_document(self, values=None):
        """Sums of values (n,) over each document, float64 (D,); without values its rows."""
        return np.bincount(self.document, values, self.documents)

    @cached_property
    def totals(self):
        """Scored tokens of each document, int64 (D,)."""
        return self.per_document().astype(np.int64)

    @cached_property
    def nll(self):
        """Summed -logprob of each document in nats, float64 (D,)."""
        return self.per_document(-self.logprob.astype(float))

    @cached_property
    def entropy(self):
        """Each document's part of the entropy of the ranks, nats times tokens, float64 (D,), see
        `losses.rank_entropy`."""
        rank = self.rank()
        counts = np.bincount(rank)
        correction = (np.count_nonzero(counts) - 1) / (2 * len(rank))
        return self.per_document(correction - np.log(counts[rank] / len(rank)))

    def knows(self, k, definition=DEFINITIONS[0]):
        """Can hits be counted at k? Of ranks always; of counts only at some."""
        return True

    def hits(self, ks, definition="greater+ties"):
        """Tokens of each document with rank <= k, int64 (D, K), for rising ks (K,).

        Cost: a histogram over (document, k), no sort.
        """
        # the first k that each rank reaches, and how many reach it first in each document
        first = np.searchsorted(ks, self.rank(definition))
        columns = len(ks) + 1
        cells = self.document.astype(np.int64) * columns + first
        counts = np.bincount(cells, minlength=self.documents * columns).reshape(-1, columns)
        return counts[:, :-1].cumsum(1)

    @cached_property
    def joined(self):
        """Whether a row is of the same document and the next position as that before, bool (n,)."""
        return np.diff(as_one(self.document, self.position), prepend=-9) == 1

    @cached_property
    def kept_runs(self):
        """{k: `runs`} of what was asked for."""
        return {}

    @property
    def scored(self):
        """As `runs`, of scored tokens, hits or not."""
        return self.runs(np.inf)

    @property
    def longest_run(self):
        """Most scored tokens in a row without a gap: the largest N that can be counted."""
        return int(self.scored[1].max(initial=0))

    def runs(self, k):
        """Distinct (document, length) of runs of hits at k, and their number, int64 (3, R).

        Each is as long as it is; a gap ends a run. Those of a k are kept: lengths of several N are
        counted from the same runs.
        """
        if k in self.kept_runs:
            return self.kept_runs[k]
        if "order" in self.record.get("lacks", ()):
            self.refuse("order", "runs of hits")
        hits = self.rank() <= k
        # a run starts at a hit that does not go on from another
        goes_on = hits[:-1] & self.joined[1:]
        starts = hits.copy()
        starts[1:] &= ~goes_on
        run = starts.cumsum()[hits] - 1
        lengths = np.bincount(run, minlength=starts.sum())
        self.kept_runs[k] = distinct(self.document[starts], lengths)
        return self.kept_runs[k]


def plain_table(ranks, S, vocab_size, **about):
    """A RankTable of ranks at hand, to make losses of; `read_table` is for those in files.

    >>> table = plain_table(([[0, 3]], [[1, 1]], [[-0.1, -2.5]]), S=1e6, vocab_size=9)
    >>> table.rank().tolist(), table.hits([1, 5]).tolist()
    ([1, 4], [[1, 2]])

    Args:
        ranks: Ranks, or greater, ties and logprob, of each token: (D, T), a row a document, where
            ties of 0 mark what is not scored.
        S: non-embedding parameters. vocab_size: candidates.
        about: of its record: "model", "family", "corpus"; "units", (D,) what each document is from.
    Raises:
        ValueError: what no rank table may hold.
    """
    greater, ties, logprob = map(np.asarray, ranks)
    scored = ties > 0
    row, column = np.nonzero(scored)
    values = row, column + 1, np.zeros_like(row), greater[scored], ties[scored], logprob[scored]
    columns = checked_columns(dict(zip(COLUMNS, values, strict=True)), vocab_size)
    record = {"family": "a family", "model": "a model", "corpus": "a text"} | about
    record |= {"nonembedding_params": S, "vocab_size": vocab_size, "documents": len(ties)}
    return RankTable(columns, record)


class Ladder(list):
    """Rank tables of one family on one corpus, a list with the smallest model first.

    >>> large = plain_table(([[0, 2]], [[1, 1]], [[-1, -2]]), S=1e7, vocab_size=9)
    >>> small = plain_table(([[4, 2]], [[1, 1]], [[-4, -2]]), S=1e6, vocab_size=9)
    >>> ladder = Ladder([large, small])
    >>> [table.rank().tolist() for table in ladder], ladder.repeats, ladder.vocab_size
    ([[5, 3], [1, 3]], (), 9)
    >>> from rbplib import fit
    >>> fit(ladder)                                    # doctest: +ELLIPSIS
    Traceback (most recent call last):
    rbplib.families.InputError: a fit takes a Loss, and got Ladder: make one by rbp_loss, ...

    Args:
        tables: RankTables, in any order. repeats: RankTables of models of which several have one
            size, trained with other seeds: they tell how far trainings scatter.
    """

    def __init__(self, tables, repeats=()):
        super().__init__(by_size(tables))
        self.repeats = repeats

    @property
    def vocab_size(self):
        """Smallest vocabulary of its models, the largest k that can be counted: int."""
        return min(int(table.record["vocab_size"]) for table in self)


def by_size(tables):
    """Tables of one family, smallest model first."""

    def size(table):
        return table.record["nonembedding_params"], str(table.record.get("model"))

    return sorted(tables, key=size)


# --- The file


def columns_digest(columns, names=tuple(COLUMNS)):
    """SHA-256 over columns in order, little-endian."""
    checksum = hashlib.sha256()
    for name in names:
        dtype = np.dtype(COLUMNS[name]).newbyteorder("<")
        checksum.update(np.ascontiguousarray(columns[name], dtype))
    return checksum.hexdigest()


def checked_columns(columns, vocab):
    """The columns in the contract's dtypes and order; ValueError names the first broken rule."""
    # one type each
    given, columns = columns, {}
    for name, dtype in COLUMNS.items():
        values = np.asarray(given[name])
        columns[name] = values.astype(dtype, copy=False)
        if dtype is np.int32 and (values != columns[name]).any():
            raise ValueError(f"rank table: {name} is no whole number of 32 bits")
    document, position, token, greater, ties, logprob = columns.values()
    # comparisons, which take a byte a row, one rule at a time
    rules = {
        "rows are not sorted by (document, position), or repeat": lambda: (
            (document[1:] > document[:-1])
            | (document[1:] == document[:-1]) & (position[1:] > position[:-1])
        ),
        "a position is below 1": lambda: position >= 1,
        "a token id is outside the vocabulary": lambda: (token >= 0) & (token < vocab),
        "greater is negative": lambda: greater >= 0,
        "ties is below 1": lambda: ties >= 1,
        "a rank is above the vocabulary size": lambda: ties <= vocab - greater,
        "a logprob is above 0 or not a number": lambda: logprob <= 1e-4,
    }
    for broken, fine in rules.items():
        if not fine().all():
            raise ValueError(f"rank table: {broken}")
    return columns


def write_table(path, columns, record, checksum=None):
    """Write a rank table, whole or not at all, with its record and checksums over all of it.

    Args:
        columns: {name: array (n,)} of COLUMNS.
        record: provenance, JSON-able, with what `measuring.provenance` tells.
        checksum: of the columns, where it is known.
    Raises:
        KeyError, ValueError: a column is missing, is of another length or breaks the contract.
        InputError: the file cannot be written.
    """
    columns = checked_columns(columns, record["vocab_size"])
    record = record | {
        "scored_tokens": len(columns["document"]),
        "columns_sha256": checksum or columns_digest(columns),
        "sealed": True,
    }
    # as they lie, by which pyarrow loads no pandas; a column that is not known is null
    for name, values in columns.items():
        kind, size = SCHEMA.field(name).type, len(values)
        columns[name] = pa.nulls(size, kind)
        if name not in record.get("lacks", ()):
            data = [None, pa.py_buffer(np.ascontiguousarray(values))]
            columns[name] = pa.Array.from_buffers(kind, size, data)
    table = pa.table(columns)
    # no two logprobs are alike
    names = [name for name in COLUMNS if name != "logprob"]
    with atomic_path(path) as temporary, open(temporary, "wb+") as file:
        with pq.ParquetWriter(
            file, SCHEMA, compression="zstd", store_schema=False, use_dictionary=names
        ) as writer:
            writer.write_table(table)
            # not as metadata of the schema, which would stand in the file twice
            text = json.dumps(record | {"sha256": digest(record)}, sort_keys=True)
            writer.add_key_value_metadata({KEY: text})
        # the seal comes between its parts
        file.seek(0)
        pages, footer = parts(file.read())
        file.seek(len(pages))
        file.writelines([seal(pages, footer), footer])


def parts(data):
    """(pages of a Parquet file, its footer), which says at the end how long it is: memoryviews."""
    data = memoryview(data)
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    return data[:start], data[start:]


def seal(pages, footer):
    """SHA-256 of a file, 32 bytes that stand between both: Parquet finds its footer from the end
    and its pages from the start."""
    checksum = hashlib.sha256(pages)
    checksum.update(footer)
    return checksum.digest()


def file_record(source):
    """The record in a rank table's path or open file. Raises an error of whatever kind: damage."""
    record = dict(json.loads(pq.read_metadata(source).metadata[KEY]))
    if record.pop("sha256") != digest(record):
        raise ValueError("its record fails its checksum")
    return record


def file_columns(data, record):
    """The columns of a rank table's bytes with that record, its checksums compared.

    Raises an error of whatever kind: damage. Cost: 24 bytes of memory a row.
    """
    pages, footer = parts(data)
    if record.get("sealed") and pages[-32:] != seal(pages[:-32], footer):
        raise ValueError("it fails its checksum")
    file, columns = pq.ParquetFile(pa.BufferReader(data)), {}
    if file.schema_arrow != SCHEMA or file.metadata.num_rows != record["scored_tokens"]:
        raise ValueError("it has other columns or rows than its record says")
    # by batches into memory of their own: what pyarrow frees it may keep
    for name, dtype in COLUMNS.items():
        values, start = np.empty(record["scored_tokens"], dtype), 0
        for (part,) in file.iter_batches(columns=[name]):
            # what is not known is null: a token 0, a tie with itself
            if part.null_count:
                values = np.broadcast_to(dtype(name == "ties"), len(values))
                break
            values[start : start + len(part)] = part
            start += len(part)
        columns[name] = values
    if columns_digest(columns) != record["columns_sha256"]:
        raise ValueError("its columns fail their checksum")
    return columns


@contextmanager
def kept_columns(free=2**29):
    """Within it a rank table's columns are read and compared once for all that read the same bytes,
    and by processes that are forked from this one not again.

    Args:
        free: bytes of memory for what is kept, 24 a row and those of the files; what goes beyond is
            read each time.
    """
    _KEPT["free"] = free
    try:
        yield
    finally:
        _KEPT.clear()


def _columns(data, record):
    """`file_columns`, or those that are kept."""
    columns = _KEPT and _KEPT.get(data) or file_columns(data, record)
    size = len(data) + 24 * record["scored_tokens"]
    if size <= _KEPT.get("free", 0) and data not in _KEPT:
        _KEPT["free"] -= size
        _KEPT[data] = columns
    return columns


def read_record(path, wanted=None):
    """The record of a rank table, without its rows; arguments and InputError as of `read_table`."""
    return read_table(path, wanted, rows=False).record


def read_table(path, wanted=None, command="", rows=True):
    """The rank table in a file, its checksums compared.

    This alone decides whether a table is used again.

    Args:
        path: of the file.
        wanted: {entry: value} that its record has to hold.
        command: which measures the table, for a sentence; None of an imported one.
        rows: whether its columns are read; without, only its record is.
    Returns:
        RankTable.
    Raises:
        InputError: no file, a damaged one, or one that was measured with something else.
    Cost: one reading of the file, and 33 bytes of memory a row.
    """
    if not os.path.isfile(path):
        raise InputError(f"there is no rank table {path}: run `rbp measure` for it first.")
    # nothing writes over a table unasked
    mend = f"measure over it by `{command or 'rbp measure'} --replace`, or give another folder by "
    mend += "--results."
    if command is None:
        mend = "`rbp import` its family's file again."
    try:
        record = file_record(path)
        columns = _columns(Path(path).read_bytes(), record) if rows else {}
    except Exception:  # of damage the readers make errors of a dozen kinds
        raise InputError(f"{path} is damaged, or no rank table: {mend}") from None

    # of what is asked for, where sources of the same text are those of today
    wanted = wanted or {}
    if "units" in wanted and record.get("corpus_digest") == wanted["corpus_digest"]:
        drawn = [entries.get("sample") for entries in (record, wanted)]
        drawn = [{**d, "group": None} if isinstance(d, dict) else d for d in drawn]
        if drawn[0] == drawn[1]:
            record |= {name: wanted[name] for name in ("sample", "units")}
    if different := [name for name, value in wanted.items() if record.get(name) != value]:
        raise InputError(
            f"{path} was measured with another {' and '.join(different)} than what is asked for: "
            f"{mend}"
        )
    return RankTable(columns, record, Path(path))


# --- What is asked for, and where it is


def resolve(family, models=None, corpora=None, protocol="paper", results=None):
    """(Family, its Models, Corpora) for names or paths.

    models: all where None. corpora: the default ones where None; of an imported family labels, and
    so where a text was measured by its path.
    Raises InputError: one is unknown, or two corpora have one name.
    """
    family = load_family(family)
    check_choice(protocol, PROTOCOLS, "protocol")
    if isinstance(corpora, str):
        corpora = [corpora]
    models = [family.model(name) for name in models] if models else family.models
    for name in corpora or ():
        meant = yaml_file("corpus", str(name))
        if meant and os.path.lexists(name):
            complain(
                f"{name} is the corpus of that name here, of {meant}, and not the file or folder "
                f"./{name}, which is here too: write ./{name} for that."
            )
    texts = [labelled(family, name, results) for name in corpora or default_corpora(family)]
    if not texts:
        raise InputError(f"{family.name} has no corpus to be measured on: name one with --corpus.")
    return family, models, one_each(texts, "corpora")


def labelled(family, name, results=None):
    """The Corpus of a name, path or Corpus; for its label that of a text that is not here: of an
    imported family, or of one that was measured on it by its path."""
    if family.imported:
        name = check_choice(getattr(name, "name", name), family.corpora, "corpus")
        return Corpus(name, source="table")
    is_label = not isinstance(name, Corpus) and NAME.match(str(name))
    if is_label and not yaml_file("corpus", str(name)):
        # of any model, by whichever protocol
        records = [record for _, record in records_of(family.name, results)]
        record = next((record for record in records if record["corpus"] == name), None)
        if record and os.path.lexists(name):
            complain(
                f"{name} is read as the file or folder ./{name} here, which may be another text "
                f"than {family.name} was measured on under this name: write ./{name} if it is "
                "meant, else go elsewhere, or give the path of the other."
            )
        elif record:
            where = {key: record.get(key) for key in ("sample", "corpus_digest", "units")}
            return Corpus(name, source="table", where=where)
    return load_corpus(name)


def expected(
    family, models, corpora, protocol="paper", samples=None, dtype=None, head_dtype="float32"
):
    """What the records of the tables asked for must hold: {model name: [entries of each corpus]}.

    A model is known by its folder's digest, or by its id and revision on the hub; text by its
    digest, that of the hub before it is fetched by how it is drawn. A precision that is not asked
    for ("auto") is not compared.

    Args:
        samples: the corpora's Documents, in place of their own.
        dtype, head_dtype: names, of the weights (None: as the family file says) and of the head's
            product.
    Cost: one reading of the text, and hashing of local models.
    """
    # what all tables share, and what each text adds; of an imported family only names count
    shared = {"family": family.name, "protocol": protocol}
    if not family.imported:
        shared |= {"window": window_length(family), "engine": ENGINE, "head_dtype": head_dtype}
        if protocol == "full" and (begin := text_begin(family)):
            shared["bos"] = begin  # before every window
    samples = samples or [None] * len(corpora)
    texts = [
        {"corpus": corpus.name, **text_known(corpus, sample)}
        for corpus, sample in zip(corpora, samples, strict=True)
    ]
    # what each model adds
    records = {}
    for model in models:
        entries = shared | {"model": model.name}
        if model.local and not family.imported:
            entries["model_digest"] = folder_digest(model.local)
        elif not family.imported:
            entries |= {"model_id": model.id, "requested_revision": model.revision}
        precision = check_choice(dtype or model.dtype, DTYPES, "dtype")
        if precision != "auto":
            entries["weights_dtype"] = precision
        records[model.name] = [entries | text for text in texts]
    return records


def table_paths(family, results=None, text="*"):
    """Paths of a family's rank tables, by its name: of all texts, or whose file's stem matches."""
    return sorted(Path(results or results_dir(), "ranks", family).glob(f"*/{text}.parquet"))


def measured_texts(family, protocol, results):
    """Names of the texts that some model of a family has a table of, by the names of the files; its
    default ones where there is none."""
    family = load_family(family)
    ending = "" if protocol == "paper" else f".{protocol}"
    paths = table_paths(family.name, results, f"*{ending}")
    names = {path.stem.removesuffix(ending) for path in paths}
    return sorted(name for name in names if not name.endswith(".full")) or default_corpora(family)


def ranks_path(record, results=None):
    """results/ranks/FAMILY/MODEL/CORPUS.parquet of a record, or of `expected`."""
    family, model, corpus = (
        check_name(record[key], f"{key} name") for key in ("family", "model", "corpus")
    )
    protocol = check_choice(record["protocol"], PROTOCOLS, "protocol")
    suffix = "" if protocol == "paper" else f".{protocol}"
    return Path(results or results_dir(), "ranks", family, model, f"{corpus}{suffix}.parquet")


def records_of(family, results=None):
    """(path, record) of each whole rank table of a family of this name, by their paths."""
    for path in table_paths(family, results):
        with suppress(InputError):
            yield path, read_record(path, {"family": family})


def tables_here(
    family,
    models,
    corpora,
    protocol="paper",
    results=None,
    *,
    counts=True,
    rows=True,
    replace=False,
    **options,
):
    """({corpus name: tables, smallest model first}, [(model, corpus) names without one]).

    Nothing is measured. Arguments as `resolve` gives them; options of `expected`. counts: whether
    `counts.Counts` from the family's file stand for tables that are not here. rows: whether tables
    are read, or their records alone. replace: whether a table of something else is as good as none.
    Raises InputError: a table there is not the one asked for, or models were measured in different
    precisions, not all of which are asked for.
    """
    from rbplib.counts import counts_here  # which imports this module

    # those that are there, and those that were counted elsewhere
    command = None if family.imported else measuring(family, corpora, protocol, results)
    if command and options.get("dtype"):
        command += f" --dtype {options['dtype']}"
    tables, missing, unasked = [], [], False
    for records in expected(family, models, corpora, protocol, **options).values():
        for record in records:
            path = ranks_path(record, results)
            with suppress(InputError) if replace else nullcontext():
                if os.path.isfile(path):
                    tables.append(read_table(path, record, command, rows))
                    unasked |= "weights_dtype" not in record
                    continue
            missing.append(record)
    # several precisions are not comparable, unless the family's file or a caller asks for them
    models_of = {t.record.get("weights_dtype"): t.record["model"] for t in tables}
    if unasked and len(models_of) > 1:
        both = " and ".join(f"{model} in {precision}" for precision, model in models_of.items())
        raise InputError(
            f"{family.name} was measured in several precisions, {both}: measure again in one, by "
            f"`{command} --replace --dtype float32`, or another."
        )
    if counts:
        counted, missing = counts_here(family, missing, command, rows)
        tables += counted
    ladders = {corpus.name: [] for corpus in corpora}
    for table in by_size(tables):
        ladders[table.record["corpus"]].append(table)
    return ladders, [(record["model"], record["corpus"]) for record in missing]


def missing(family, corpora=(), dtype=None, replace=False, **_):
    """[(model, corpus) names] of the tables of a family that are not here as asked for, nor counts.

    Rows are not read. Raises InputError: one of another record is there, unless `replace`.
    """
    wanted = resolve(family, None, corpora)
    return tables_here(*wanted, rows=False, replace=replace, dtype=dtype)[1]


def tell_candidates(sizes, tell=complain):
    """Say where models of one family rank among other numbers of candidates: {name: how many}.

    The paper ranks among the full logits, and lm-evaluation-harness takes softmax and first choice
    over all of them; so all rows of an output count here, also those that stand for no token of the
    tokenizer, as some of Pythia's 50,304 to 50,688.
    """
    rows = sorted({size for size in sizes.values() if size})
    if len(rows) > 1:
        tell(
            f"outputs of {', '.join(sizes)} have {rows[0]:,} to {rows[-1]:,} rows: each model "
            "ranks among all of its own, also those of no token, and k is at most the least."
        )


def measuring(family, corpora, protocol="paper", results=None, name="measure"):
    """The command that measures a family, or another one, as a shell takes it."""
    command = ["rbp", name, "--family", argument(family)]
    for corpus in corpora or ():
        # where the text of a label lies no table says
        label = getattr(corpus, "source", "") == "table"
        command += ["--corpus", f"PATH_OF_{corpus.name}" if label else argument(corpus)]
    command += ["--protocol", protocol] if protocol != "paper" else []
    command += ["--results", str(results)] if results else []
    return shlex.join(command)


def repeated(family, corpora):
    """(the family of a Family's models trained again; which of the corpora it may be measured on:
    what was imported may lack one)."""
    others = family.repeats and load_family(family.repeats)
    if not others or not others.imported:
        return others, corpora if others else []
    return others, [corpus for corpus in corpora if corpus.name in others.corpora]


def family_tables(family, corpus, protocol="paper", results=None, partial=False, counts=True):
    """(Ladder of a family on one corpus, with its repeats; names of the models without a table).

    Nothing is measured. counts: as of `tables_here`.
    Raises InputError: as `tables_here`, no table at all, or, unless `partial`, a model without one.
    """
    wanted = resolve(family, None, [corpus], protocol, results)
    family, _, (text,) = wanted
    how = {"protocol": protocol, "results": results, "counts": counts}
    ladders, absent = tables_here(*wanted, **how)
    tables, names = ladders[text.name], tuple(model for model, _ in absent)
    # which are missing, and how to make them
    if not tables or names and not partial:
        message = f"{family.name} has no rank table on {text.name} of {', '.join(names)}"
        if family.imported:
            raise InputError(f"{message}: it is imported, without models and text to measure.")
        mend = f"run `{measuring(family, [text], protocol, results)}`"
        if tables:
            mend += ", or go on without with --partial"
        raise InputError(f"{message}: {mend}.")
    # trained again
    others, texts = repeated(family, [text])
    repeats = texts and tables_here(*resolve(others, None, texts, protocol), **how)[0][text.name]
    return Ladder(tables, repeats), names
