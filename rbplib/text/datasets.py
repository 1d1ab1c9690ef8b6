"""Samples of the hub's datasets: the paper's rows, and for large sets only those rows.

A sample is drawn once, kept with its commit under results/corpora/, and used from there afterwards, so that every
model of a family reads the same text and a second run needs no network.
"""

import fnmatch
import hashlib
import json
from dataclasses import asdict

from rbplib import hub as fetch
from rbplib.settings import InputError, nearest, results_dir, write_error, write_text
from rbplib.text.rows import READABLE, ParquetRows, open_rows, sample_rows
from rbplib.text.templates import template_fields

REQUEST = ("id", "config", "split", "revision", "data_files", "where", "template", "min_characters", "first")


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
    if corpus.streaming and all(n.endswith(".parquet") for n in files):
        opened = [lambda n=n: ParquetRows(fetch.open_remote(repo, n), n) for n in files]
    else:
        folder = fetch.fetch(repo, *files)
        opened = [lambda n=n: open_rows(folder / n, n) for n in files]
    texts, found = sample_rows(opened, corpus)
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
