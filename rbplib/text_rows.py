"""The sample of a corpus: documents made of some rows of its files by a template and filters.

The sample is drawn from the counts before any text is kept, so a large file costs two readings and the disk of its
sample alone.
"""

import itertools
import string
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

import numpy as np

from rbplib.families import InputError, write_error
from rbplib.text_files import TEXT, no_field, text_suffix

READERS = 8  # files read at once; most of the time is waiting, for a disk or for the hub
IN_MEMORY = 1 << 24  # bytes of a sample; a larger one stands in a temporary file


class Texts(Sequence):
    """Texts at some places (start, bytes) of a file, each read when it is asked for, by one thread at a time."""

    def __init__(self, file, places):
        self.file, self.places = file, places

    def __len__(self):
        return len(self.places)

    def __getitem__(self, i):
        start, size = self.places[i]
        self.file.seek(start)
        return self.file.read(size).decode("utf-8", "surrogatepass")


def draw(n, documents, seed):
    """Row numbers of the sample, int64 (documents,): those of `Dataset.shuffle(seed)` and taking the first ones, as
    the paper's authors do."""
    return np.random.default_rng(seed).permutation(n)[:documents]


def sample_rows(sources, corpus):
    """A corpus's sample of some files taken as one long table.

    Args:
        sources: {name: callable that opens it}, in order; opened only as far as needed.
    Returns:
        {"texts": Texts, "units"}. A row's unit is what the corpus's `group` makes of it, else the file that it was cut
        from with others; no units where every row stands for itself.
    """
    names = template_fields(corpus.template) + (template_fields(corpus.group) if corpus.group else [])
    held, lock = tempfile.SpooledTemporaryFile(IN_MEMORY), Lock()

    def document(file, row):
        own = render(corpus.group, row, corpus.name) if corpus.group else file
        return render(corpus.template, row, corpus.name), own

    def keep(text, own):
        try:
            with lock:
                return (held.tell(), held.write(text.encode("utf-8", "surrogatepass"))), own
        except OSError as error:
            raise write_error(tempfile.gettempdir(), error) from None

    def sample(kept):
        check_characters(texts := Texts(held, [place for place, _ in kept]), corpus.name)
        units = [own or f"row {number}" for number, (_, own) in enumerate(kept)]
        return {"texts": texts, "units": units if any(own for _, own in kept) else []}

    def gather(file, source, start, numbers):
        return {start + i: keep(*document(file, row)) for i, row in source.take(numbers, names)}

    files = [name if len(sources) > 1 and text_suffix(name) in TEXT else "" for name in sources]
    if not (corpus.where or corpus.min_characters or corpus.first is not None):
        with ThreadPoolExecutor(READERS) as pool:
            opened = list(pool.map(lambda source: source(), sources.values()))
            counts = list(pool.map(len, opened))
            starts = np.cumsum([0, *counts])
            chosen = draw(starts[-1], corpus.documents, corpus.seed)
            inside = [np.sort(chosen[(chosen >= a) & (chosen < b)]) - a for a, b in itertools.pairwise(starts)]
            rows = {i: kept for part in pool.map(gather, files, opened, starts, inside) for i, kept in part.items()}
        return sample([rows[i] for i in chosen])
    rows = ((file, row) for file, source in zip(files, sources.values(), strict=True) for row in source())
    asked = [(key, (value, str(value))) for key, value in corpus.where.items()]  # a table's numbers are read as text
    rows = (r for r in rows if all(lookup(r[1], key, corpus.name) in values for key, values in asked))
    long = (d for d in itertools.starmap(document, rows) if len(d[0]) >= corpus.min_characters)
    kept = list(itertools.starmap(keep, itertools.islice(long, corpus.first)))
    return sample([kept[i] for i in draw(len(kept), corpus.documents, corpus.seed)])


def check_characters(texts, name):
    """Refuse half characters: JSON can write them, no tokenizer can read them."""
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            said = f"{text[error.start]!a} after {text[max(0, error.start - 30) : error.start]!r}"
            raise InputError(f"a document of {name} holds half a character ({said}): write the whole one.") from None


def template_fields(template):
    """Names of the fields a template uses; a dot reaches into a nested field, unless it is part of a name."""
    try:
        parts = list(string.Formatter().parse(template))
    except ValueError as error:
        raise InputError(f"template {template!r} is not well formed ({error}): write fields as {{name}}.") from None
    if strange := [name for _, name, form, turned in parts if name is not None and (form or turned or not name)]:
        said = f"template {template!r} has the field {strange[0]!r} with a format, or without a name"
        raise InputError(f"{said}: use plain names, as in {{text}}.")
    if not (names := [name for _, name, _, _ in parts if name is not None]):
        raise InputError(f"template {template!r} uses no field: write one like {{text}}.")
    return names


def render(template, row, place):
    """A row as a document: fields put into the template, missing values as nothing."""
    out = []
    for literal, name, _, _ in string.Formatter().parse(template):
        value = None if name is None else lookup(row, name, place)
        if isinstance(value, list | dict | bytes):
            raise InputError(f"field {name!r} of {place} holds a {type(value).__name__}, not text: name another one.")
        out += [literal, "" if value is None else str(value)]
    return "".join(out)


def lookup(row, name, place):
    """Value of a field, a nested one by its dotted name."""
    for part in [name] if name in row else name.split("."):
        if not isinstance(row, dict) or part not in row:
            raise no_field(place, name, row if isinstance(row, dict) else (), part)
        row = row[part]
    return row
