"""Rows of text files: how many there are, and the documents made of some of them.

A source is anything with `count()` and `take(numbers)`; the sample is drawn from the counts before any text is kept,
so a large file costs two readings and the memory of its sample alone.
"""

import gzip
import io
import json
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, islice
from pathlib import Path

from rbplib.settings import TEXT_SUFFIXES, InputError, nearest
from rbplib.text.corpora import draw
from rbplib.text.templates import render, template_fields, wanted

READERS = 8  # files read at once; most of the time is waiting, for a disk or for the hub
LEAST = 2_000  # characters of a document cut out of a longer text
READABLE = (".parquet", ".jsonl", ".json", ".jsonl.gz", ".json.gz", ".jsonl.zst", ".json.zst", ".txt", ".md")


def sample_rows(sources, corpus):
    """The sample of some sources taken as one long table.

    Args:
        sources: callables that open one source each, in order; opened only as far as needed.
        corpus: its template, filters, `first`, documents and seed.
    Returns:
        (texts, number of rows there were to draw from).
    """
    names = template_fields(corpus.template)
    filtered = bool(corpus.where or corpus.min_characters)
    if not filtered and corpus.first is None:
        pool = ThreadPoolExecutor(READERS)
        opened = list(pool.map(lambda open_source: open_source(), sources))
        starts, n = [], 0
        for source in opened:
            starts.append(n)
            n += source.count()
        chosen = draw(n, corpus.documents, corpus.seed).tolist()

        def taken(source, start, stop):
            inside = sorted(i - start for i in chosen if start <= i < stop)
            return {start + i: row for i, row in source.take(inside, names).items()} if inside else {}

        rows = {}
        for part in pool.map(taken, opened, starts, [*starts[1:], n]):
            rows.update(part)
        pool.shutdown()
        return [render(corpus.template, rows[i], corpus.name) for i in chosen], n
    passing = (
        render(corpus.template, row, corpus.name)
        for row in chain.from_iterable(open_source() for open_source in sources)
        if wanted(row, corpus, corpus.name)
    )
    texts = list(islice(passing, corpus.first))
    return [texts[i] for i in draw(len(texts), corpus.documents, corpus.seed)], len(texts)


class ParquetRows:
    """Rows of one Parquet file, or of anything file-like that holds one; only the row groups asked for are read."""

    def __init__(self, file, name):
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.name = name
        try:
            self.file = pq.ParquetFile(file)
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{name} is no readable Parquet file ({str(error)[:120]}): fetch it again.") from None

    def count(self):
        return self.file.metadata.num_rows

    def columns(self, names):
        tops = sorted({n.split(".")[0] for n in names})
        known = self.file.schema_arrow.names
        for top in tops:
            if top not in known:
                raise InputError(f"{self.name} has no field {top!r}: {nearest(top, known)}")
        return tops

    def take(self, numbers, names):
        """{row number: row} for sorted row numbers."""
        import pyarrow as pa

        columns, found, start, wanted_rows = self.columns(names), {}, 0, list(numbers)
        for group in range(self.file.num_row_groups):
            stop = start + self.file.metadata.row_group(group).num_rows
            here = [i for i in wanted_rows if start <= i < stop]
            if here:
                try:
                    table = self.file.read_row_group(group, columns=columns).take(pa.array([i - start for i in here]))
                except (pa.ArrowException, OSError) as error:
                    raise damaged(self.name, error) from None
                found.update(zip(here, table.to_pylist(), strict=True))
            start = stop
        return found

    def __iter__(self):
        import pyarrow as pa

        try:
            for batch in self.file.iter_batches(batch_size=1024):
                yield from batch.to_pylist()
        except (pa.ArrowException, OSError) as error:
            raise damaged(self.name, error) from None


class JsonRows:
    """Rows of one JSON-lines file, plain or compressed (or one JSON array)."""

    def __init__(self, path, name=None):
        self.path, self.name = Path(path), name or Path(path).name

    def __iter__(self):
        number = 0
        try:
            with open_text(self.path, self.name) as lines:
                for number, line in enumerate(lines, start=1):  # noqa: B007
                    if line.strip():
                        yield from rows_of(line, self.path, self.name)
        except InputError:
            raise
        except (ValueError, EOFError) as error:
            reason = str(error)[:80]
            raise InputError(f"line {number} of {self.name} is not readable JSON ({reason}): correct it.") from None
        except OSError as error:
            raise damaged(self.name, error) from None

    def count(self):
        return sum(1 for _ in self)

    def take(self, numbers, names):
        numbers = set(numbers)
        return {i: row for i, row in enumerate(self) if i in numbers}


def rows_of(line, path, name):
    """The row on one line; a bare string stands for its text, an array (a .json file on one line) for its items."""
    value = json.loads(line)
    for row in value if isinstance(value, list) else [value]:
        if isinstance(row, str):
            row = {"text": row}
        if not isinstance(row, dict):
            raise InputError(f"{name} holds a row that is no object: write each line as an object with a text field.")
        yield row


class TextRows:
    """Documents of one text file: cut at blank lines into pieces of at least LEAST characters."""

    def __init__(self, path, name=None):
        self.path, self.name = Path(path), name or Path(path).name

    def __iter__(self):
        try:
            with open_text(self.path, self.name) as f:
                text = f.read()
        except OSError as error:
            raise damaged(self.name, error) from None
        yield from ({"text": piece} for piece in cut(text))

    def count(self):
        return sum(1 for _ in self)

    def take(self, numbers, names):
        if names != ["text"]:
            raise InputError(f"{self.name} is plain text: its only field is 'text', so the template must be {{text}}.")
        numbers = set(numbers)
        return {i: row for i, row in enumerate(self) if i in numbers}


def cut(text, least=LEAST):
    """Pieces of at least `least` characters, cut at blank lines, or at line ends where a paragraph is very long.

    A bootstrap resamples documents, so one long text must become many; a piece still fills a window of 512 tokens.
    """
    pieces, held, size = [], [], 0
    for paragraph in text.split("\n\n"):
        lines = [paragraph] if len(paragraph) <= 4 * least else paragraph.splitlines(keepends=True)
        for i, line in enumerate(lines):
            held.append(line + ("\n\n" if i == len(lines) - 1 else ""))
            size += len(line)
            if size >= least:
                pieces.append("".join(held).strip("\n"))
                held, size = [], 0
    rest = "".join(held).strip("\n")
    if rest.strip() or not pieces:
        pieces.append(rest)
    return pieces


def open_text(path, name):
    """A text stream of a plain, .gz or .zst file; InputError where its bytes are not UTF-8."""
    import pyarrow as pa

    if path.name.endswith(".gz"):
        raw = gzip.open(path, "rb")
    elif path.name.endswith(".zst"):
        raw = pa.input_stream(str(path), compression="zstd")
    else:
        raw = open(path, "rb")
    return Utf8(raw, name)


class Utf8(io.TextIOWrapper):
    """A UTF-8 text stream whose decoding errors name the file."""

    def __init__(self, raw, name):
        super().__init__(raw, encoding="utf-8-sig", newline=None)
        self.label = name

    def read(self, size=-1):
        try:
            return super().read(size)
        except UnicodeDecodeError:
            raise self.refusal() from None

    def __next__(self):
        try:
            return super().__next__()
        except UnicodeDecodeError:
            raise self.refusal() from None

    def refusal(self):
        return InputError(f"{self.label} is not UTF-8 text: convert it, for instance with iconv.")


def damaged(name, error):
    return InputError(f"{name} cannot be read ({str(error).splitlines()[0][:120]}): fetch or write it again.")


def open_rows(path, name=None):
    """Rows of a local file, by its ending."""
    path = Path(path)
    name = name or path.name
    if name.endswith(".parquet"):
        return ParquetRows(path, name)
    if name.endswith((".txt", ".md")):
        return TextRows(path, name)
    return JsonRows(path, name)


def file_sample(path, corpus):
    """(texts, number of documents) of a file, or of all text files of a folder in the order of their paths."""
    if path.is_dir():
        files = sorted(p for p in path.rglob("*") if p.suffix in TEXT_SUFFIXES and p.is_file() and not hidden(p, path))
        if not files:
            raise InputError(f"{path} holds no {', '.join(TEXT_SUFFIXES)} file: put the text there, or name a file.")
    else:
        files = [path]
    return sample_rows([lambda p=p: open_rows(p, str(p)) for p in files], corpus)


def hidden(path, top):
    return any(part.startswith(".") for part in path.relative_to(top).parts)
