"""A corpus: its documents in order, the source of each, and a digest of all of them.

    a file, a folder of files, or a data set of the hub -> rows, mappings of fields
    `where`, `min_characters` and `first` leave rows out -> rows that may be drawn
    shuffled by `seed`, the first `documents` of them    -> the sample
    `template` and `group` of the corpus                 -> a document and its source of each row

The sample is that of `Dataset.shuffle(seed)`, as the paper's authors draw it. Data sets of the hub
are read by `datasets`; own files by json, csv and pyarrow, since `datasets` makes dates and
numbers of text that looks like some.
"""

import hashlib
import io
import json
import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np

from rbplib.families import (
    PACKAGE,
    InputError,
    argument,
    complain,
    digest,
    file_digest,
    from_json,
    load_corpus,
    nearest,
    place_of,
    results_dir,
    root,
    telling,
    write_text,
)

FIELDS = re.compile(r"{([^{}]*)}")  # of a template
PROSE = (".txt", ".md")  # cut into pieces
JSON = (".jsonl", ".ndjson", ".json")
TABLES = {".csv": ",", ".tsv": "\t"}
KNOWN = (*PROSE, *JSON, *TABLES, ".parquet")  # also .gz and .zst, but for the last; in any case
PACKED = {".gz": "gzip", ".zst": "zstd"}
PIECE_OF = "\0file"  # field of a piece: the file that it was cut from with others
PIECE = 2_000  # characters of a document that is cut out of longer prose
# what decides the sample of a hub's corpus
REQUEST = ("id", "config", "split", "revision", "data_files", "where", "template", "group")
REQUEST += ("min_characters", "first", "documents", "seed", "shuffle")


@dataclass(frozen=True)
class Documents:
    """The sample of one corpus.

    texts: the documents in the sample's order, empty ones included (counted, never scored).
    digest: SHA-256 over all of them. source: {"file"}, or {"id", "revision"} of the hub.
    units: what each document is from (a package, a file, a book), drawn as one by the bootstrap;
    empty where every document stands for itself.
    rows: how many it was drawn from. unfit: those left out by `where` or `min_characters`.
    passed_over: {ending: how many files of a folder, which are no text that is known}.
    """

    texts: list[str] = field(compare=False)
    digest: str
    source: dict
    units: list[str]
    rows: int | None = None
    unfit: int = 0
    passed_over: dict = field(default_factory=dict)


def load_documents(corpus):
    """The Documents of a Corpus, a name in `corpora/`, or the path of YAML, text or a folder.

    Raises InputError: the text cannot be had or read, lacks a field of the template, or is empty.
    Cost: a sample of the hub is fetched once, and kept under results/corpora/.
    """
    # as it was kept, or drawn now
    corpus = load_corpus(corpus)
    documents = read_sample(corpus) if corpus.source == "hub" else file_sample(corpus)
    if documents is None:
        documents = hub_sample(corpus)
        entries = asdict(documents)
        write_text(sample_path(corpus), json.dumps(entries | {"sha256": digest(entries)}))
    # the one on record?
    if corpus.digest not in (None, documents.digest):
        complain(
            f"the text of corpus {corpus.name!r} differs from the one on record: "
            "its numbers will differ too."
        )
    return documents


# --- the sample of some rows


def draw_sample(rows, corpus, source, passed_over=()):
    """The Documents that a corpus asks for of a sequence of rows, {field: value} each."""
    # which rows may be drawn, and which of them are, in order
    numbers = range(len(rows))
    if corpus.where or corpus.min_characters:
        numbers = [number for number in numbers if fits(rows[number], corpus)]
    unfit = len(rows) - len(numbers)
    numbers = numbers[: corpus.first]
    order = range(len(numbers))
    if corpus.shuffle:
        order = np.random.default_rng(corpus.seed).permutation(len(numbers)).tolist()
    drawn = [rows[numbers[i]] for i in order[: corpus.documents]]

    # what they say
    texts = [render(corpus.template, row, corpus) for row in drawn]
    if not any(map(str.strip, texts)):
        raise InputError(
            f"corpus {corpus.name!r} holds no text: check its source, split, filter and template."
        )

    # where each is from: equal ones that do not say so are from one place
    units, first, equal = [], {}, 0
    for i, row in enumerate(drawn):
        named = corpus.group and render(corpus.group, row, corpus)
        origin = unit = named or row.get(PIECE_OF, f"row {i}")
        if not named:
            unit = first.setdefault(texts[i].strip() or i, origin)
        units.append(unit)
        equal += unit != origin
    if equal:
        complain(
            f"corpus {corpus.name!r} holds {equal} documents that are equal to others: "
            "equal documents count as one source."
        )
    if units == [f"row {i}" for i in range(len(units))]:
        units = []
    with telling(f"corpus {corpus.name!r} holds half a character"):
        read = len(numbers), unfit, dict(passed_over)
        return Documents(texts, texts_digest(texts), source, units, *read)


def fits(row, corpus):
    """Whether a row has the values that a corpus asks for, and is long enough."""
    for name, value in corpus.where.items():
        if lookup(row, name, corpus) != str(value):  # a table's numbers are read as text
            return False
    return len(render(corpus.template, row, corpus)) >= corpus.min_characters


def render(template, row, corpus):
    """A row as a document: fields put into the template, missing values as nothing.

    >>> from rbplib.families import Corpus
    >>> render("{title}: {body.text}", {"title": "a", "body": {"text": "b"}}, Corpus("notes"))
    'a: b'
    """
    if not FIELDS.search(template):
        raise InputError(f"template {template!r} names no field: write one like {{text}}.")
    return FIELDS.sub(lambda match: lookup(row, match[1], corpus), template)


def lookup(row, name, corpus):
    """The text of a field, nothing where it is missing; a dot reaches into a nested one, unless it
    is part of a name."""
    for part in [name] if name in row else name.split("."):
        if not isinstance(row, dict) or part not in row:
            hint = nearest(part, row) if isinstance(row, dict) else "check its `template`."
            raise InputError(
                f"the rows of corpus {corpus.name!r} have no field {name!r}: {hint} Say which in "
                "a YAML file of the corpus, by template: '{field}'."
            )
        row = row[part]
    if isinstance(row, list | dict | bytes):
        kind = type(row).__name__
        raise InputError(f"field {name!r} of corpus {corpus.name!r} holds a {kind}, not text.")
    return "" if row is None or row != row else str(row)  # NaN too


def texts_digest(texts):
    """SHA-256 over the documents in order, each preceded by its length in bytes."""
    total = hashlib.sha256()
    for text in texts:
        data = text.encode()
        total.update(b"%d\n" % len(data) + data)
    return total.hexdigest()


# --- a data set of the hub


def hub_sample(corpus):
    """The Documents of a corpus of the hub, as `datasets` reads it.

    Rows lie in a file of the library's cache; where the corpus asks for the first ones, no more
    than these are fetched. Raises InputError with the library's own reason.
    """
    import datasets

    from rbplib.models import the_hub

    # what is asked for, for the library and in words
    split = corpus.split or "train"
    options = {"name": corpus.config}
    if corpus.data_files:  # in place of what the data set itself says
        options = {"data_files": {split: corpus.data_files.split()}}
    request = filter(None, [corpus.config, f"split {split!r}", corpus.data_files, corpus.revision])
    hub, answers = the_hub()
    message = f"data set {corpus.id!r} ({', '.join(request)}) could not be had from {hub}"
    if not answers:
        raise InputError(f"{message}.")
    # its rows
    with telling(message):
        builder = datasets.load_dataset_builder(corpus.id, revision=corpus.revision, **options)
        if corpus.first is None:
            builder.download_and_prepare(verification_mode="no_checks")
            rows = builder.as_dataset(split)
        else:
            stream = builder.as_streaming_dataset(split)
            rows = list(islice((row for row in stream if fits(row, corpus)), corpus.first))
    return draw_sample(rows, corpus, {"id": corpus.id, "revision": builder.hash})


def definition(corpus):
    """What decides the sample of a corpus of the hub, as JSON holds it."""
    request = {name: getattr(corpus, name) for name in REQUEST}
    return json.loads(json.dumps(request, default=str))  # YAML knows dates


def sample_path(corpus):
    """results/corpora/NAME-KEY.json; the key is a hash of everything that decides the sample."""
    return results_dir() / "corpora" / f"{corpus.name}-{digest(definition(corpus))[:16]}.json"


def read_sample(corpus):
    """The kept Documents of a corpus of the hub, or None where there are none."""
    path = sample_path(corpus)
    if not path.is_file():
        return None
    with telling(f"{path} is damaged, delete it, and it is drawn again"):
        entries = json.loads(path.read_text(encoding="utf-8"))
        if entries.pop("sha256") != digest(entries):
            raise ValueError("its digest is another")
        return Documents(**entries)


# --- what a table's record says of its text


def text_known(corpus, sample=None):
    """What a rank table's record says of a corpus' text, as far as it is known without a network.

    Returns:
        {"sample": how it is drawn, "corpus_digest", "units": what its documents are from}; the
        last two only where the text is here. sample: Documents in place of the corpus' own.
    """
    if corpus.source == "table":
        return corpus.where
    # how it is drawn
    request = definition(corpus)
    if corpus.source != "hub":  # its digest says what was drawn
        request = {"group": None if corpus.kind else corpus.group}
    entries = {"sample": {"source": "embedded" if corpus.kind else corpus.source, **request}}
    # what was drawn
    sample = sample or sample_here(corpus)
    if sample is not None:
        entries.update(corpus_digest=sample.digest, units=list(sample.units))
    elif corpus.kind:
        entries["corpus_digest"] = corpus.digest
    return entries


def sample_here(corpus):
    """The Documents of a corpus that need no network, or None where there are none."""
    if corpus.source == "hub":
        return read_sample(corpus)
    if corpus.kind and corpus.digest and not find_path(corpus).is_file():
        return None  # text that `corpora.make` promises
    return load_documents(corpus)


# --- files of one's own


def file_sample(corpus):
    """The Documents of a corpus of files."""
    path = find_path(corpus)
    make_texts([corpus])
    # rows of each file; of several each is a source of its pieces
    rows, (paths, passed_over) = [], text_files(path)
    for file in paths:
        source = {}
        if len(paths) > 1 and text_kind(file) in PROSE:
            source = {PIECE_OF: file.relative_to(path).as_posix()}
        rows += [row | source for row in file_rows(file)]
    return draw_sample(rows, corpus, {"file": path.name}, passed_over)


def find_path(corpus):
    """Where a corpus' file or folder is: beside its YAML, in the root, or as it says."""
    if not corpus.path:
        raise InputError(f"corpus {corpus.name!r} has no 'path': give that of its file or folder.")
    if corpus.kind:
        return root() / corpus.path
    beside = corpus.file.parent if corpus.file else Path()
    return place_of(corpus.path, beside, os.path.exists) or beside / os.path.expanduser(corpus.path)


def is_made(path):
    """Whether the text of an embedded corpus is here, with the digest that its record says."""
    record = path.with_suffix(".made.json")
    return path.is_file() and record.is_file() and file_digest(path).encode() in record.read_bytes()


def unmade(corpora):
    """The embedded ones of Corpus whose text is not here."""
    return [corpus for corpus in corpora if corpus.kind and not is_made(find_path(corpus))]


def make_texts(corpora):
    """Have `corpora.make` of a checkout write the text of those that are `unmade`, by one reading
    of its packages."""
    corpora = unmade(corpora)
    command = [sys.executable, "-m", "corpora.make", *map(argument, corpora)]
    env = os.environ | {"RBP_ROOT": str(root())}
    how = {"cwd": PACKAGE.parent, "env": env, "capture_output": True, "text": True}
    if corpora and (done := subprocess.run(command, **how)).returncode:
        reason = done.stderr.strip().rpartition("\n")[2].removeprefix("rbp: ")
        raise InputError(
            f"the text of {', '.join(c.name for c in corpora)} is not here: "
            f"run `python -m corpora.make` in a checkout ({reason})"
        )


def text_files(path):
    """(the file at a path, or the text files of a folder in the order of their paths; {ending: how
    many others are there that are not hidden})."""
    files, others = [path], Counter()
    if os.path.isdir(path):
        visible = [
            file
            for file in sorted(path.rglob("*"))
            if not file.is_dir() and "/." not in f"/{file.relative_to(path).as_posix()}"
        ]
        files = list(filter(text_kind, visible))
        others.update(f.suffix.lower() or "no ending" for f in visible if not text_kind(f))
    if not any(map(text_kind, files)):
        raise InputError(f"{path} holds no text: no file ends in {', '.join(KNOWN)}.")
    for file in files:
        if not os.path.isfile(file):
            raise InputError(f"there is no file {file}: check the path.")
    return files, others


def text_kind(path):
    """One of KNOWN by a file's name, packed or not; empty for another ending.

    >>> text_kind("notes.JSONL.gz"), text_kind("notes.docx")
    ('.jsonl', '')
    """
    endings = ["", *(ending.lower() for ending in Path(path).suffixes)]
    kind = endings[-2 if endings[-1] in PACKED else -1]
    return kind if kind in KNOWN else ""


def file_rows(path):
    """Rows of one file: of a table, objects of JSON, or pieces of prose. Raises InputError."""
    import pyarrow.parquet as pq

    kind = text_kind(path)
    with telling(f"{path} cannot be read as {kind}, mend it, or save it anew as UTF-8"):
        if kind == ".parquet":
            return pq.read_table(path).to_pylist()
        # text, by its ending
        text = file_text(path)
        if kind in TABLES:
            return table_rows(text, TABLES[kind])
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        if kind in PROSE:
            return [{"text": piece} for piece in pieces(text)]
        return json_rows(text, kind == ".json" and text.lstrip().startswith("["))


def file_text(path):
    """The text of a file, which may be packed. ValueError or OSError: it is not UTF-8."""
    import pyarrow as pa

    packed = PACKED.get(Path(path).suffix.lower())
    with pa.input_stream(str(path), compression=packed) as stream:
        text = stream.read().decode("utf-8-sig")
    if "\0" in text:
        raise ValueError("it holds a NUL byte, as UTF-16 does")
    return text


def table_rows(text, delimiter, **how):
    """Rows of a table, {column: text}; its first line names the columns. how: of `read_csv`."""
    import pandas as pd

    first = text.partition("\n")[0]
    if delimiter not in first and (others := re.findall("[;,|\t]", first)):
        raise ValueError(f"its columns lie between {others[0]!r}")
    how |= {"sep": delimiter, "header": None, "dtype": str, "keep_default_na": False}
    rows = pd.read_csv(io.StringIO(text), **how)
    names = rows.iloc[0]
    # what is too little is not known
    if rows.isna().any(axis=None) or not names.is_unique:
        raise ValueError("a row lacks a column, or the first line names one twice")
    return rows[1:].set_axis(names, axis=1).to_dict("records")


def json_rows(text, whole):
    """Rows of JSON: an object or a text in quotes on each line, or a whole array of them."""
    if whole:
        values = from_json(text)
    else:
        values = [from_json(line) for line in text.split("\n") if line.strip()]
    rows = [{"text": value} if isinstance(value, str) else value for value in values]
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise ValueError(f"row {number} is neither object nor text but {str(row)[:40]}")
    return rows


def pieces(text):
    """Prose cut at blank lines, or line ends of a very long one, into PIECE characters or more.

    A bootstrap resamples sources, so one long text must become many; a piece still fills a window
    of 512 tokens.
    """
    # units are put together until they are long enough
    cut, parts, size = [], [], 0
    for paragraph in text.split("\n\n"):
        units = [paragraph]
        if len(paragraph) > 4 * PIECE:
            units = paragraph.splitlines(keepends=True)
        for unit in units:
            if size >= PIECE:
                cut.append("".join(parts).strip("\n"))
                parts, size = [], 0
            parts.append(unit)
            size += len(unit)
        parts.append("\n\n")
    rest = "".join(parts).strip("\n")
    return [*cut, rest] if rest.strip() or not cut else cut
