"""Rows of files, and the documents made of some of them by a template and filters.

The sample is drawn from the counts before any text is kept, so a large file costs two readings and the memory of its
sample alone. The reading is by hand: `datasets.load_dataset` turns text that looks like a date into one and a missing
field into nothing, which changes documents and hides mistakes; it does not say which line is wrong, and cannot read
only the row groups of a sample from Parquet, where Wikipedia is 20 GB.
"""

import io
import itertools
import json
import string
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np

from rbplib.hub import first_line, status
from rbplib.settings import TEXT_SUFFIXES, InputError, nearest

READERS = 8  # files read at once; most of the time is waiting, for a disk or for the hub
LEAST = 2_000  # characters of a document cut out of a longer text
TEXT = (".txt", ".md")  # cut into pieces
READABLE = (".parquet", ".jsonl", ".json", ".jsonl.gz", ".json.gz", ".jsonl.zst", ".json.zst", *TEXT)


def draw(n, documents, seed):
    """Row numbers of the sample, int64 (documents,): those of `Dataset.shuffle(seed)` and taking the first ones, as
    the paper's authors do."""
    return np.random.default_rng(seed).permutation(n)[:documents]


def sample_rows(sources, corpus):
    """A corpus's sample of some files taken as one long table.

    Args:
        sources: {name: callable that opens it}, in order; opened only as far as needed.
    Returns:
        {"texts", "units", "found": number of rows there were to draw from}. A row's unit is what the corpus's `group`
        makes of it, else the file that it was cut from with others; no units where every row stands for itself.
    """
    names = template_fields(corpus.template) + (template_fields(corpus.group) if corpus.group else [])

    def document(file, row):
        own = render(corpus.group, row, corpus.name) if corpus.group else file
        return render(corpus.template, row, corpus.name), own

    def sample(documents, found):
        units = [own or f"row {number}" for number, (_, own) in enumerate(documents)]
        kept = units if any(own for _, own in documents) else []
        return {"texts": [text for text, _ in documents], "units": kept, "found": found}

    files = [name if len(sources) > 1 and name.endswith(TEXT) else "" for name in sources]
    if not (corpus.where or corpus.min_characters or corpus.first is not None):
        with ThreadPoolExecutor(READERS) as pool:
            opened = list(pool.map(lambda source: source(), sources.values()))
            counts = list(pool.map(len, opened))
            starts = np.cumsum([0, *counts])
            chosen = draw(starts[-1], corpus.documents, corpus.seed)
            inside = [np.sort(chosen[(chosen >= a) & (chosen < b)]) - a for a, b in itertools.pairwise(starts)]
            parts = pool.map(lambda source, numbers: source.take(numbers, names), opened, inside)
            held = zip(starts, files, parts, strict=False)
            rows = {start + i: (file, row) for start, file, part in held for i, row in part.items()}
        return sample([document(*rows[i]) for i in chosen], int(starts[-1]))
    rows = ((file, row) for file, source in zip(files, sources.values(), strict=True) for row in source())
    rows = (r for r in rows if all(lookup(r[1], k, corpus.name) == v for k, v in corpus.where.items()))
    long = (d for d in itertools.starmap(document, rows) if len(d[0]) >= corpus.min_characters)
    texts = list(itertools.islice(long, corpus.first))
    return sample([texts[i] for i in draw(len(texts), corpus.documents, corpus.seed)], len(texts))


def open_rows(path, name):
    return ParquetRows(path, name) if name.endswith(".parquet") else TextRows(path, name)


class ParquetRows:
    """Rows of one Parquet file, or of a file-like object that holds one; only the row groups asked for are read."""

    def __init__(self, file, name):
        import pyarrow.parquet as pq

        self.name = name
        with readable(name):
            self.file = pq.ParquetFile(file)

    def __len__(self):
        return self.file.metadata.num_rows

    def __iter__(self):
        with readable(self.name):
            for batch in self.file.iter_batches(batch_size=1024):
                yield from batch.to_pylist()

    def take(self, numbers, names):
        """{row number: row} for sorted row numbers, int64 (n,); rows hold what the fields `names` need."""
        known, columns = self.file.schema_arrow.names, sorted({n.split(".")[0] for n in names})
        if strange := [c for c in columns if c not in known]:
            raise InputError(f"{self.name} has no field {strange[0]!r}: {nearest(strange[0], known)}")
        start, found = 0, {}
        for group in range(self.file.num_row_groups):
            stop = start + self.file.metadata.row_group(group).num_rows
            here = numbers[(numbers >= start) & (numbers < stop)]
            if len(here):
                with readable(self.name):
                    table = self.file.read_row_group(group, columns=columns).take(here - start)
                found.update(zip(here.tolist(), table.to_pylist(), strict=True))
            start = stop
        return found


@contextmanager
def readable(name):
    """What pyarrow finds wrong with a Parquet file, as one sentence."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError) as error:
        if status(error):  # the hub's answer, not the file
            raise
        raise InputError(f"{name} is no readable Parquet file ({first_line(error)}): fetch it again.") from None


class TextRows:
    """Rows of one file of text, plain, .gz or .zst: JSON lines (or one JSON array), else documents cut out of it."""

    def __init__(self, path, name):
        self.path, self.name = path, name

    def __len__(self):
        return sum(1 for _ in self)

    def __iter__(self):
        import pyarrow as pa

        number = 0
        try:
            with io.TextIOWrapper(pa.input_stream(str(self.path)), encoding="utf-8-sig") as lines:
                if self.name.endswith(TEXT):
                    yield from ({"text": piece} for piece in cut(lines.read()))
                for number, line in enumerate(lines, start=1):  # noqa: B007
                    if line.strip():
                        yield from rows_of(line, self.name)
        except InputError:
            raise
        except UnicodeDecodeError:
            raise InputError(f"{self.name} is not UTF-8 text: convert it, for instance with iconv.") from None
        except ValueError as error:
            reason = str(error)[:80]
            raise InputError(f"line {number} of {self.name} is not readable JSON ({reason}): correct it.") from None
        except OSError as error:
            raise InputError(f"{self.name} cannot be read ({first_line(error)}): fetch or write it again.") from None

    def take(self, numbers, names):
        """{row number: row} for row numbers, int64 (n,)."""
        numbers = set(numbers.tolist())
        return {i: row for i, row in enumerate(self) if i in numbers} if numbers else {}


def rows_of(line, name):
    """The row on one line; a bare string stands for its text, an array (a .json file on one line) for its items."""
    value = json.loads(line)
    for row in value if isinstance(value, list) else [value]:
        if isinstance(row, str):
            row = {"text": row}
        if not isinstance(row, dict):
            raise InputError(f"{name} holds a row that is no object: write each line as an object with a text field.")
        yield row


def cut(text):
    """Pieces of at least LEAST characters, cut at blank lines, or at line ends where a paragraph is very long.

    A bootstrap resamples documents, so one long text must become many; a piece still fills a window of 512 tokens.
    """
    pieces, held, size = [], [], 0
    for paragraph in text.split("\n\n"):
        lines = [paragraph] if len(paragraph) <= 4 * LEAST else paragraph.splitlines(keepends=True)
        for i, line in enumerate(lines):
            held.append(line + ("\n\n" if i == len(lines) - 1 else ""))
            size += len(line)
            if size >= LEAST:
                pieces.append("".join(held).strip("\n"))
                held, size = [], 0
    rest = "".join(held).strip("\n")
    if rest.strip() or not pieces:
        pieces.append(rest)
    return pieces


def file_sample(path, corpus):
    """`sample_rows` of a file, or of all text files of a folder in the order of their paths."""
    files = [path]
    if path.is_dir():
        files = sorted(p for p in path.rglob("*") if p.suffix in TEXT_SUFFIXES and p.is_file())
        files = [p for p in files if not any(part.startswith(".") for part in p.relative_to(path).parts)]
    if not files:
        raise InputError(f"{path} holds no {', '.join(TEXT_SUFFIXES)} file: put the text there, or name a file.")
    inside = path if path.is_dir() else path.parent
    return sample_rows({p.relative_to(inside).as_posix(): lambda p=p: open_rows(p, str(p)) for p in files}, corpus)


def template_fields(template):
    """Names of the fields a template uses; a dot reaches into a nested field."""
    try:
        names = [name for _, name, _, _ in string.Formatter().parse(template) if name is not None]
    except ValueError as error:
        raise InputError(f"template {template!r} is not well formed ({error}): write fields as {{name}}.") from None
    if strange := [n for n in names if not all(part.isidentifier() for part in n.split("."))]:
        raise InputError(f"template {template!r} has the field {strange[0]!r}: use plain names, as in {{text}}.")
    if not names:
        raise InputError(f"template {template!r} uses no field: write one like {{text}}.")
    return names


def render(template, row, place):
    """A row as a document: fields put into the template, missing values as nothing."""
    out = []
    for literal, name, _, _ in string.Formatter().parse(template):
        value = None if name is None else lookup(row, name, place)
        out += [literal, "" if value is None else str(value)]
    return "".join(out)


def lookup(row, name, place):
    """Value of a field, a nested one by its dotted name."""
    for part in name.split("."):
        if not isinstance(row, dict) or part not in row:
            hint = nearest(part, row) if row and isinstance(row, dict) else "it holds no fields."
            raise InputError(f"{place} has no field {name!r}: {hint}")
        row = row[part]
    return row
