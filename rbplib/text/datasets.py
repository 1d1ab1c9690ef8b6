"""Samples of the hub's datasets: the paper's rows, and for large sets only those rows.

A sample is drawn once, kept with its commit under results/corpora/, and used from there afterwards, so that every
model of a family reads the same text and a second run needs no network.
"""

import fnmatch
import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict

import numpy as np

from rbplib import hub as fetch
from rbplib.hub import sentence
from rbplib.settings import InputError, nearest, results_dir, write_error, write_text
from rbplib.text.rows import READABLE, READERS, ParquetRows, open_rows, rows_of, sample_rows
from rbplib.text.templates import render, template_fields, wanted

REQUEST = ("id", "config", "split", "revision", "data_files", "where", "template", "min_characters", "first")
BLOCK = 1 << 16  # bytes read at a time while looking for the end of a row
LONGEST = 1 << 26  # bytes of the longest row accepted


def hub_sample(corpus):
    """(texts, rows there were or None, {"id", "revision", "files"}) of a hub corpus."""
    template_fields(corpus.template)
    path = sample_path(corpus)
    held = read_sample(path)
    if held is None:
        with one_at_a_time(path):
            held = read_sample(path)  # another process may have drawn it meanwhile
            if held is None:
                held = draw_sample(corpus)
                write_text(path, json.dumps({**held, "digest": checksum(held["texts"])}))
    return held["texts"], held["found"], held["source"]


def one_at_a_time(path):
    """A lock beside `path`, so that models measured at once do not all fetch the same text."""
    from huggingface_hub.utils import WeakFileLock

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_error(path, error) from None
    return WeakFileLock(path.with_name(f".{path.stem}.lock"))


def sample_path(corpus):
    """results/corpora/NAME-KEY.json; the key is a hash of everything that decides the sample."""
    request = {k: v for k, v in asdict(corpus).items() if k in (*REQUEST, "documents", "seed", "streaming")}
    key = hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()[:16]
    return results_dir() / "corpora" / f"{corpus.name}-{key}.json"


def checksum(texts):
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()


def read_sample(path):
    """A kept sample, or None where there is none or it is damaged."""
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
        return held if held["digest"] == checksum(held["texts"]) and "found" in held and "source" in held else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def draw_sample(corpus):
    """Fetch what the sample needs and draw it."""
    repo = fetch.open_repo(corpus.id, corpus.revision, "dataset")
    files = data_files(repo, corpus)
    source = {"id": repo.id, "revision": repo.revision, "files": files}
    if corpus.streaming and not repo.online and not all(name in repo.files for name in files):
        raise sentence(ConnectionError(), repo.id, repo.kind)
    if corpus.streaming and repo.online and all(n.endswith(".parquet") for n in files):
        remote = [lambda n=n: ParquetRows(fetch.RemoteFile(repo, n), n) for n in files]
        texts, found = sample_rows(remote, corpus)
    elif corpus.streaming and repo.online and corpus.first is None and all(n.endswith(".jsonl") for n in files):
        texts, found = scattered_rows(repo, files, corpus), None
    else:
        local = [lambda n=n: open_rows(fetch.fetch(repo, n), n) for n in files]
        texts, found = sample_rows(local, corpus)
        fetch.remember(repo, corpus.revision)
    return {"texts": texts, "found": found, "source": source}


def data_files(repo, corpus):
    """Files of the split, in order: by the corpus's patterns, else by the set's own layout."""
    readable = [f for f in repo.files if f.endswith(READABLE) and not f.endswith(("README.md", ".json"))]
    if corpus.data_files:
        found = [f for pattern in corpus.data_files.split() for f in sorted(fnmatch.filter(repo.files, pattern))]
        if not found:
            raise InputError(
                f"dataset {repo.id!r} has no file {corpus.data_files!r}: {nearest(corpus.data_files, readable[:8])}"
            )
        return found
    split, config = corpus.split or "train", corpus.config
    folders = (f"{config}/", "") if config else ("", "data/")
    for folder in folders:
        for pattern in (f"{folder}{split}-*", f"{folder}{split}.*", f"{folder}{split}/*", f"{folder}data/{split}-*"):
            if found := sorted(fnmatch.filter(readable, pattern)):
                return found
    listed = ", ".join(readable[:4]) or "none that can be read"
    raise InputError(
        f"dataset {repo.id!r} has no files for split {split!r}{f' of {config!r}' if config else ''}: "
        f"name them in 'data_files' (there are {listed})."
    )


def scattered_rows(repo, files, corpus):
    """The row after each of many seeded places of JSON-lines files, without repeats, read by ranges.

    A row is met in proportion to the length of the row before it, so its own length does not favour it. This is not
    the sample that a shuffle of the whole file gives; a corpus with `streaming: false` fetches the file and gives that.
    """
    sizes = [fetch.file_size(repo, name) for name in files]
    ends = np.cumsum(sizes)
    rng = np.random.default_rng(corpus.seed)
    seen, texts = set(), []

    def row_at(place):
        i = int(np.searchsorted(ends, place, side="right"))
        return i, *row_after(repo, files[i], int(place - (ends[i] - sizes[i])), sizes[i])

    with ThreadPoolExecutor(READERS) as pool:
        idle = 0
        while len(texts) < corpus.documents and idle < 8:  # rounds without a new row: the file holds no more
            before = len(seen)
            for i, start, line in pool.map(row_at, rng.integers(0, ends[-1], 4 * READERS)):
                if (i, start) in seen or len(texts) == corpus.documents:
                    continue
                seen.add((i, start))
                for row in parsed(line, files[i], repo):
                    if wanted(row, corpus, files[i]):
                        texts.append(render(corpus.template, row, files[i]))
            idle = 0 if len(seen) > before else idle + 1
    return texts


def parsed(line, name, repo):
    try:
        return list(rows_of(line, None, name)) if line.strip() else []
    except InputError:
        raise
    except ValueError:
        raise InputError(f"{name} of dataset {repo.id!r} holds a row that is not JSON: it may be damaged.") from None


def row_after(repo, name, place, size):
    """(start, bytes) of the first row that begins at or after `place`; the first of the file when none does."""
    if place > 0:
        data, at = b"", place - 1
        while b"\n" not in data:
            data = fetch.read_range(repo, name, at, min(size, at + BLOCK))
            at += len(data)
            if at >= size and b"\n" not in data:
                break
        cut = data.find(b"\n")
        place, data = at - len(data) + cut + 1, data[cut + 1 :] if cut >= 0 else b""
        if cut < 0 or place >= size:
            place, data = 0, b""
    else:
        data = b""
    block = BLOCK
    while b"\n" not in data and place + len(data) < size:
        if len(data) > LONGEST:
            raise InputError(f"{name} of dataset {repo.id!r} has a row longer than {LONGEST >> 20} MB: it is no JSONL.")
        at = place + len(data)
        data += fetch.read_range(repo, name, at, min(size, at + block))
        block *= 2
    return place, data.split(b"\n", 1)[0]
