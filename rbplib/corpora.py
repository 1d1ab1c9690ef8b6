"""From a corpus's entry to its sample of documents, wherever the text lies."""

import warnings
from dataclasses import dataclass

from rbplib import embedded
from rbplib.settings import InputError, load_corpus


@dataclass(frozen=True)
class Documents:
    """The sample, in order. digest: SHA-256 of the texts; `found` of `asked` documents were there."""

    texts: tuple[str, ...]
    digest: str
    asked: int
    note: str = ""

    @property
    def found(self):
        return len(self.texts)


def load_documents(corpus):
    """The sampled documents of a corpus.

    Args:
        corpus: a name, a path, or a settings.Corpus.
    Returns:
        Documents.
    Raises:
        InputError: the source cannot be had, lacks a field, or holds no document.
    """
    corpus = load_corpus(corpus)
    if corpus.source == "embedded":
        texts = embedded.documents(corpus.kind, corpus.documents, corpus.seed)
    elif corpus.source == "hub":
        from rbplib import hub

        texts = hub.hub_documents(corpus)
    else:
        from rbplib import hub

        texts = hub.file_documents(corpus)
    if not texts:
        raise InputError(f"corpus {corpus.name!r} holds no document: check its source, split and fields.")
    digest = embedded.corpus_digest(texts)
    note = ""
    if corpus.digest and digest != corpus.digest:
        changed = embedded.changed_packages(corpus.kind) if corpus.source == "embedded" else []
        why = f" ({'; '.join(changed)})" if changed else ""
        note = f"the text of corpus {corpus.name!r} differs from the one on record{why}: its numbers will differ too."
        warnings.warn(note, stacklevel=2)
    return Documents(tuple(texts), digest, corpus.documents, note)
