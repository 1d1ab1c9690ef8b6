"""A corpus's sample: its documents in order, where they came from, and a digest that names exactly this text.

Three sources (the packages installed here, the hub, files of the user's) give the same record, so nothing after this
module knows where text came from.
"""

import hashlib
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from rbplib.settings import Corpus, InputError, load_corpus, root


@dataclass(frozen=True)
class Documents:
    """The sample of one corpus.

    texts: the documents in the sample's order, empty ones included (they are counted, never scored).
    digest: SHA-256 over all of them. asked: documents wanted. found: documents there were to draw from, or None
    where a streamed source does not tell. source: commit and files, for the provenance record. note: how this text
    differs from the one on record, if it does.
    """

    texts: tuple[str, ...]
    digest: str
    asked: int
    found: int | None
    source: dict = field(default_factory=dict)
    note: str = ""

    @property
    def empty(self):
        return sum(not t.strip() for t in self.texts)


def load_documents(corpus):
    """The sample of a corpus.

    Args:
        corpus: a settings.Corpus, a name in `corpora/`, or the path of a YAML, a text file or a folder.
    Returns:
        Documents.
    Raises:
        InputError: the source cannot be had or read, lacks a field of the template, or holds no document.
    Cost: a hub sample is fetched once and kept under results/corpora/.
    """
    corpus = load_corpus(corpus)
    found, source = None, {}
    if corpus.source == "embedded":
        from rbplib.text import packages as embedded

        texts = embedded.documents(corpus.kind, corpus.documents, corpus.seed)
    elif corpus.source == "hub":
        from rbplib.text.datasets import hub_sample

        texts, found, source = hub_sample(corpus)
    else:
        texts, found = file_texts(corpus)
    if not texts:
        raise InputError(f"corpus {corpus.name!r} holds no document: check its source, split, filter and template.")
    digest = texts_digest(texts)
    note = difference(corpus) if corpus.digest not in (None, digest) else ""
    if note:
        warnings.warn(note, stacklevel=2)
    return Documents(tuple(texts), digest, corpus.documents, found, source, note)


def difference(corpus):
    """A sentence for a text that is not the one on record, with the packages that changed where it is embedded."""
    why = ""
    if corpus.source == "embedded":
        from rbplib.text import packages as embedded

        changed = embedded.changed_packages(corpus.kind)
        why = f" ({'; '.join(changed)})" if changed else ""
    return f"the text of corpus {corpus.name!r} differs from the one on record{why}: its numbers will differ too."


def texts_digest(texts):
    """SHA-256 over the documents in order, each preceded by its length in bytes."""
    h = hashlib.sha256()
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        h.update(b"%d\n" % len(data))
        h.update(data)
    return h.hexdigest()


def draw(n, documents, seed):
    """Row numbers of the sample: the first `documents` of a seeded permutation of n rows.

    The same rows in the same order as `Dataset.shuffle(seed)` followed by taking the first ones, which is what the
    paper's authors do.
    """
    return np.random.default_rng(seed).permutation(n)[:documents]


def file_texts(corpus):
    """(sample, number of documents there were) of a file or folder of the user's."""
    from rbplib.text.rows import file_sample

    if not corpus.path:
        raise InputError(
            f"corpus {corpus.name!r} has no 'path': name a .txt, .md, .jsonl or .parquet file or a folder."
        )
    return file_sample(find_path(corpus), corpus)


def find_path(corpus: Corpus):
    """Where a corpus's file is: as given, beside its YAML file, or in the root."""
    given = Path(corpus.path).expanduser()
    places = [given, root() / given]
    if corpus.file:
        places.insert(1, corpus.file.parent / given)
    for place in places:
        if place.exists():
            return place.resolve()
    raise InputError(f"corpus {corpus.name!r}: there is no file or folder {corpus.path!r}: check the path.")
