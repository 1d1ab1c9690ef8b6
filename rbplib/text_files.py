"""Files of text as rows, plain or compressed: prose is cut into pieces, tables and JSON give a row each.

The reading is by hand: `datasets.load_dataset` turns text that looks like a date into one and a missing field into
nothing, which changes documents and hides mistakes; it does not say which line is wrong, and cannot read only the row
groups of a sample from Parquet, where Wikipedia is 20 GB. Nothing is held but the line at hand.
"""

import csv
import io
import json
import os
from contextlib import contextmanager
from pathlib import Path

from rbplib.families import TEXT_SUFFIXES, InputError, nearest
from rbplib.network import first_line, status

LEAST = 2_000  # characters of a document cut out of a longer text
LONGEST = 1 << 27  # characters of a line, a field or a JSON array; a longer one is refused, so that memory is bounded
TEXT = (".txt", ".md")  # cut into pieces
TABLES = {".csv": ",", ".tsv": "\t"}
PACKED = {".gz": "gzip", ".zst": "zstd"}
KNOWN = f"{', '.join(TEXT_SUFFIXES)}, the first seven also with {' or '.join(PACKED)}"


def text_suffix(path):
    """The one of TEXT_SUFFIXES that says how a file is read, in any case and compressed or not; "" for another."""
    suffixes = [s.lower() for s in Path(path).suffixes]
    last = suffixes[-2:-1] if suffixes and suffixes[-1] in PACKED else suffixes[-1:]
    return last[0] if last and last[0] in TEXT_SUFFIXES else ""


def open_rows(path, name):
    return ParquetRows(path, name) if text_suffix(name) == ".parquet" else TextRows(path, name)


def text_files(path):
    """The file at a path, or all text files of a folder in the order of their paths, hidden ones left out."""
    files = [path]
    if path.is_dir():
        files = []
        for folder, inside, names in os.walk(path, onerror=unreadable):
            inside[:] = [name for name in inside if not name.startswith(".")]
            files += [Path(folder, n) for n in names if text_suffix(n) and not n.startswith(".")]
        if not files:
            raise InputError(f"{path} holds no text file: put one there whose ending is known ({KNOWN}).")
    for file in files:
        if not os.path.exists(file):
            raise InputError(f"{file} is a link to {os.readlink(file)}, which is not there: mend or remove the link.")
        if not file.is_file():
            raise InputError(f"{file} is a pipe or device, no file: give its text to standard input, as `--corpus -`.")
        if not text_suffix(file):
            raise InputError(f"{file} has no ending that says how to read it: name it as one of {KNOWN}.")
    return sorted(files)


def no_field(place, name, known, part=None):
    hint = nearest(part or name, known) if known else "it holds no fields."
    return InputError(f"{place} has no field {name!r}: {hint} A corpus file's `template` says which make a document.")


def unreadable(error, name=None, kind=""):
    """What the system says about a file, as one sentence."""
    mend = "change its permissions" if isinstance(error, PermissionError) else "fetch or write it again"
    raise InputError(f"{name or error.filename} cannot be read{kind} ({first_line(error)}): {mend}.") from None


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
        """(row number, row) for sorted row numbers, int64 (n,); rows hold what the fields `names` need."""
        known = self.file.schema_arrow.names
        columns = sorted({n if n in known else n.split(".")[0] for n in names})
        if strange := [c for c in columns if c not in known]:
            raise no_field(self.name, strange[0], known)
        start = 0
        for group in range(self.file.num_row_groups):
            stop = start + self.file.metadata.row_group(group).num_rows
            here = numbers[(numbers >= start) & (numbers < stop)]
            if len(here):
                with readable(self.name):
                    table = self.file.read_row_group(group, columns=columns).take(here - start)
                rows = (row for batch in table.to_batches(1024) for row in batch.to_pylist())
                yield from zip(here.tolist(), rows, strict=True)
            start = stop


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
    """Rows of one file of text: JSON lines or one JSON array, a table with a line of names, else pieces of prose."""

    def __init__(self, path, name):
        self.path, self.name, self.kind = path, name, text_suffix(name)
        self.packed = PACKED.get(Path(name).suffix.lower())
        self.line = self.start = 0  # the line read last, and the one where its row starts

    def __len__(self):
        return sum(1 for _ in self)

    def __iter__(self):
        import pyarrow as pa

        self.line, self.start = 0, 1
        newline = "" if self.kind in TABLES else None  # line ends inside a table's field are the field's own
        try:
            with pa.input_stream(str(self.path), compression=self.packed) as file:
                stream = io.TextIOWrapper(file, encoding="utf-8-sig", newline=newline)
                if self.kind in TEXT:
                    yield from ({"text": piece} for piece in cut(self.lines(stream)))
                else:
                    yield from self.table(stream) if self.kind in TABLES else self.json(stream)
        except InputError:
            raise
        except UnicodeDecodeError as error:
            other = "UTF-16" if self.line == 0 and error.object[:2] in (b"\xff\xfe", b"\xfe\xff") else ""
            said = f" but {other}" if other else f" (byte {error.object[error.start]:#x} after line {self.line})"
            raise InputError(
                f"{self.name} is not UTF-8 text{said}: convert it, as in `iconv -f {other or 'LATIN1'} -t UTF-8`."
            ) from None
        except (ValueError, RecursionError, csv.Error) as error:
            raise self.wrong(error) from None
        except OSError as error:
            unreadable(error, self.name, f" as {self.packed}" if self.packed else "")

    def wrong(self, error):
        """What is wrong with a row, as one sentence."""
        if isinstance(error, csv.Error):
            said = f"the row at line {self.start} of {self.name} is not readable ({error})"
            return InputError(f'{said}: close its quotes, and write a quote inside a field as "".')
        reason = "nested too deeply" if isinstance(error, RecursionError) else getattr(error, "msg", first_line(error))
        line = self.line + getattr(error, "lineno", 1) - 1
        mend = "write an array of objects, or one on each line" if self.kind == ".json" else "correct it"
        return InputError(f"line {line} of {self.name} is not readable JSON ({reason}): {mend}.")

    def lines(self, stream):
        """Lines of an open file, each checked."""
        while line := stream.readline(LONGEST + 1):
            self.line += 1
            self.check(line)
            yield line

    def check(self, text):
        if len(text) > LONGEST:
            what = f"line {self.line} of {self.name} is longer than {LONGEST:,} characters"
            raise InputError(f"{what}: break it into lines, or write JSON lines.")
        if "\0" in text:
            said = "it is no text, or UTF-16: convert it, as in `iconv -f UTF-16 -t UTF-8`"
            raise InputError(f"line {self.line} of {self.name} holds a NUL byte: {said}.")

    def json(self, stream):
        for line in self.lines(stream):
            if self.kind == ".json" and line.lstrip().startswith("["):  # an array may go on over many lines
                line += stream.read(LONGEST + 1)
                self.check(line)
            value = json.loads(line) if line.strip() else []
            for row in value if isinstance(value, list) else [value]:
                if not isinstance(row, dict | str):
                    said = f"line {self.line} of {self.name} holds a row that is no object but {json.dumps(row)[:40]}"
                    raise InputError(f'{said}: write each as {{"text": ...}} or as a text in quotes.')
                yield {"text": row} if isinstance(row, str) else row

    def table(self, stream):
        csv.field_size_limit(LONGEST)
        rows = csv.reader(self.lines(stream), delimiter=TABLES[self.kind], strict=True)
        names = next(rows, [])
        if len(names) == 1 and (other := next((c for c in ";\t," if c in names[0]), None)):
            raise InputError(f"the columns of {self.name} are parted by {other!r}: save it with {TABLES[self.kind]!r}.")
        if twice := [name for i, name in enumerate(names) if name in names[:i]]:
            raise InputError(f"{self.name} has two columns {twice[0]!r}: give each its own name in the first line.")
        self.start = self.line + 1
        for row in rows:
            if row and len(row) != len(names):
                said = f"has {len(row)} fields where the first line names {len(names)}"
                raise InputError(f"the row at line {self.start} of {self.name} {said}: mend it, or its quotes.")
            self.start = self.line + 1
            if row:
                yield {"text": row[0]} if len(names) == 1 else dict(zip(names, row, strict=True))

    def take(self, numbers, names):
        """(row number, row) for row numbers, int64 (n,)."""
        numbers = set(numbers.tolist())
        yield from ((i, row) for i, row in enumerate(self) if i in numbers) if numbers else ()


def cut(lines):
    """Pieces of at least LEAST characters, cut at blank lines, or at line ends where a paragraph is very long.

    A bootstrap resamples sources, so one long text must become many; a piece still fills a window of 512 tokens.
    """
    held, size, first = [], 0, True
    for unit, characters in paragraphs(lines):
        held.append(unit)
        size += characters
        if size >= LEAST:
            yield "".join(held).strip("\n")
            held, size, first = [], 0, False
    rest = "".join(held).strip("\n")
    if rest.strip() or first:
        yield rest


def paragraphs(lines):
    """(text with a blank line after it, its own characters) of each paragraph; of a very long one, of each line."""

    def ended(text):
        parts = text.splitlines(keepends=True) if long or len(text) > 4 * LEAST else [text]
        return [*((part, len(part)) for part in parts[:-1]), (parts[-1] + "\n\n", len(parts[-1]))]

    held, size, long = [], 0, False
    for line in lines:
        if line == "\n" and held:
            yield from ended("".join(held)[:-1])
            held, size, long = [], 0, False
            continue
        held.append(line)
        size += len(line)
        long = long or size > 4 * LEAST + 1
        while long and len(held) > 1:
            yield from ((part, len(part)) for part in held.pop(0).splitlines(keepends=True))
    yield from ended("".join(held))
