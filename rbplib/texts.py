"""A corpus's sample: its documents in order, where they came from, and a digest that names exactly this text.

Three sources (the packages installed here, the hub, files of the user's) give the same record, so nothing after this
module knows where text came from. Text of the first two is drawn once and kept under results/corpora/, so that every
model of a family reads the same and a second run needs no network.
"""

import fnmatch
import hashlib
import json
import os
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path

from corpora import make as packages
from rbplib import hub
from rbplib.families import Corpus, InputError, atomic_path, load_corpus, nearest, results_dir, root, write_text
from rbplib.inputs import digest, one_at_a_time
from rbplib.text_files import KNOWN, ParquetRows, open_rows, text_files, text_suffix
from rbplib.text_rows import sample_rows, template_fields

REQUEST = ("id", "config", "split", "revision", "data_files", "where", "template", "min_characters", "first")
REQUEST += ("documents", "seed", "streaming")  # everything that decides the sample of a hub corpus


@dataclass(frozen=True)
class Documents:
    """The sample of one corpus.

    texts: the documents in the sample's order, empty ones included (they are counted, never scored).
    digest: SHA-256 over all of them. source: commit and files, for the provenance record. units: what each document is
    from (a package, a file, a book), drawn as one by the bootstrap; empty where every document stands for itself.
    """

    texts: Sequence[str] = field(compare=False)
    digest: str
    source: dict = field(default_factory=dict)
    units: tuple[str, ...] = ()


def load_documents(corpus):
    """The Documents of a settings.Corpus, a name in `corpora/`, or the path of a YAML, a text file or a folder.

    Raises InputError: the source cannot be had or read, lacks a field of the template, or holds no document.
    Cost: a hub sample is fetched, and the text of packages gathered, once.
    """
    corpus = load_corpus(corpus)
    if corpus.source == "file":
        path = find_path(corpus)
        inside = path if path.is_dir() else path.parent
        sources = {p.relative_to(inside).as_posix(): lambda p=p: open_rows(p, str(p)) for p in text_files(path)}
        held = sample_rows(sources, corpus) | {"source": {"file": path.name}}
        held["digest"] = texts_digest(held["texts"])
    else:
        held = kept_sample(corpus)
        held["texts"] = tuple(held["texts"])
    if not held["texts"]:
        raise InputError(f"corpus {corpus.name!r} holds no document: check its source, split, filter and template.")
    if not any(text.strip() for text in held["texts"]):
        raise InputError(f"corpus {corpus.name!r} holds no text: check its source, split and fields.")
    if corpus.digest not in (None, held["digest"]):
        changed = packages.changed_packages(corpus.kind) if corpus.source == "embedded" else []
        why = f" ({'; '.join(changed)})" if changed else ""
        said = f"the text of corpus {corpus.name!r} differs from the one on record{why}: its numbers will differ too."
        warnings.warn(said, stacklevel=2)
    return Documents(**{**held, "units": tuple(held.get("units", ()))})


def texts_digest(texts):
    """SHA-256 over the documents in order, each preceded by its length in bytes."""
    h = hashlib.sha256()
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        h.update(b"%d\n" % len(data))
        h.update(data)
    return h.hexdigest()


def find_path(corpus: Corpus):
    """Where a corpus's file is: as given, beside its YAML file, or in the root."""
    if corpus.path == "-":
        return standard_input()
    if not corpus.path:
        raise InputError(f"corpus {corpus.name!r} has no 'path': name a folder, or a file that ends in one of {KNOWN}.")
    folders = ["", corpus.file.parent, root()] if corpus.file else ["", root()]
    for place in (folder / Path(corpus.path).expanduser() for folder in map(Path, folders)):
        if os.path.lexists(place):
            return place.resolve() if os.path.exists(place) else place
    raise InputError(f"corpus {corpus.name!r}: there is no file or folder {corpus.path!r}: check the path.")


@cache
def standard_input():
    """Path of what standard input holds: read once, and kept under results/corpora/ by its content."""
    if sys.stdin is None or sys.stdin.isatty() or not (data := sys.stdin.buffer.read()):
        raise InputError("standard input holds no text: pipe some into `rbp`, as in `cat notes.txt | rbp ...`.")
    kind = "txt"
    with suppress(ValueError, RecursionError):
        kind = "jsonl" if isinstance(json.loads(data.lstrip().partition(b"\n")[0]), dict | list | str) else kind
    path = results_dir() / "corpora" / f"stdin-{hashlib.sha256(data).hexdigest()[:16]}.{kind}"
    with atomic_path(path) as temporary:
        temporary.write_bytes(data)
    return path


def kept_sample(corpus):
    """{"texts", "digest", "units" where known, of a hub corpus "source"}: the one kept, else a new one."""
    path = sample_path(corpus)
    if held := read_sample(path):
        return held
    with one_at_a_time(path):  # models measured at once do not all fetch the same text
        if held := read_sample(path):
            return held
        if corpus.source == "hub":
            held = draw_sample(corpus)
        else:
            drawn = packages.evaluation_documents(corpus.kind, corpus.documents, corpus.seed)
            held = {"texts": [text for _, text in drawn], "units": [source for source, _ in drawn]}
        held["digest"] = texts_digest(held["texts"])
        write_text(path, json.dumps(held | {"rest": rest_digest(held)}))
    return held


def sample_path(corpus):
    """results/corpora/NAME-KEY.json; the key is a hash of everything that decides the sample."""
    if corpus.source == "hub":
        request, name = definition(corpus), corpus.name
    else:
        request, name = [corpus.kind, corpus.documents, corpus.seed, packages.state(corpus.kind)], corpus.kind
    return results_dir() / "corpora" / f"{name}-{digest(request)[:16]}.json"


def definition(corpus):
    """What decides the sample of a hub's corpus, as JSON holds it."""
    asked = {k: v for k, v in asdict(corpus).items() if k in REQUEST or (k == "group" and v)}
    return json.loads(json.dumps(asked, default=str))  # YAML knows dates


def text_known(corpus, sample=None):
    """What a rank table's record says of a corpus's text, as far as it is known here: "sample", what it is drawn by;
    "corpus_digest"; "units", what its documents are from. A file of one's own is read for that.

    sample: Documents to read in place of the corpus's own.
    """
    how = definition(corpus) if corpus.source == "hub" else {"group": corpus.group}
    found = {"sample": {"source": corpus.source} | how}
    if not sample and corpus.source == "embedded" and corpus.digest and not read_sample(sample_path(corpus)):
        if not packages.changed_packages(corpus.kind):
            return found | {"corpus_digest": corpus.digest}
    if (sample := sample or sample_here(corpus)) is None:
        return found
    return found | {"corpus_digest": sample.digest, "units": list(sample.units)}


def read_sample(path):
    """A kept sample, or None where there is none or it is damaged."""
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
        rest = held.pop("rest", None)  # of what the digest of the texts does not cover
        whole = held["digest"] == texts_digest(held["texts"]) and rest in (None, rest_digest(held))
        return held if whole and Documents(**held) else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def rest_digest(held):
    return texts_digest([json.dumps(held | {"texts": None}, sort_keys=True)])


def sample_here(corpus):
    """The Documents of a corpus that need no network, or None."""
    return None if corpus.source == "hub" and not read_sample(sample_path(corpus)) else load_documents(corpus)


def draw_sample(corpus):
    """Fetch what the sample of a hub corpus needs and draw it."""
    for template in filter(None, (corpus.template, corpus.group)):
        template_fields(template)
    repo = hub.open_repo(corpus.id, corpus.revision, "dataset")
    files = data_files(repo, corpus)
    if corpus.streaming and all(n.endswith(".parquet") for n in files):
        with hub.telling(repo):
            sample = sample_rows({n: lambda n=n: ParquetRows(hub.open_remote(repo, n), n) for n in files}, corpus)
    else:
        folder = hub.fetch(repo, *files) if corpus.first is None else None  # the first rows may be all in one file
        sources = {n: lambda n=n: open_rows((folder or hub.fetch(repo, n)) / n, n) for n in files}
        sample = sample_rows(sources, corpus)
    source = {"id": repo.id, "revision": repo.revision, "files": files}
    return sample | {"texts": list(sample["texts"]), "source": source}


def data_files(repo, corpus):
    """Files of a Repo's split, in order: by the corpus's patterns, else by the set's own layout."""
    known = [f for f in repo.files if text_suffix(f) and not f.endswith(("README.md", ".json"))]
    if corpus.data_files:
        found = [f for pattern in corpus.data_files.split() for f in sorted(fnmatch.filter(repo.files, pattern))]
        if not found:
            hint = nearest(corpus.data_files, known[:8]) if known else "it holds none that can be read."
            raise InputError(f"dataset {repo.id!r} has no file {corpus.data_files!r}: {hint}")
        return found
    split, config = corpus.split or "train", corpus.config
    for folder in (f"{config}/", "") if config else ("", "data/"):
        for pattern in (f"{folder}{split}-*", f"{folder}{split}.*", f"{folder}{split}/*", f"{folder}data/{split}-*"):
            if found := sorted(fnmatch.filter(known, pattern)):
                return found
    raise InputError(
        f"dataset {repo.id!r} has no files for split {split!r}{f' of {config!r}' if config else ''}: "
        f"name them in 'data_files' (there are {', '.join(known[:4]) or 'none that can be read'})."
    )
