"""What a corpus holds, counted from its text."""

import numpy as np

from rbplib.families import known, load_family
from rbplib.model_files import model_folder
from rbplib.model_sizes import window_length
from rbplib.models import load_tokenizer
from rbplib.texts import sample_here
from rbplib.windows import encode, make_windows, scored_rows


def corpus_facts(corpus, family=None):
    """What a corpus holds, as JSON can hold it: documents, the sources they are from, and what each source gives.

    family: whose tokenizer and window count what the paper's protocol scores; embedded text is counted as the embedded
    families read it where none is given, other text by characters. largest_share is the largest source's share of
    these, effective_sources 1 / sum of squared shares. None: the text of a hub's corpus is not here yet.
    """
    if family is None and corpus.source == "embedded":
        family = next((f for f in known("family") if f.embedded), None)
    family, sample = family and load_family(family), sample_here(corpus)
    found = {"tokens_of": family and family.name, "window": family and window_length(family)}
    found |= dict.fromkeys(("documents", "sources", "scored_tokens", "characters", "read_characters"))
    found |= dict.fromkeys(("largest_source", "largest_share", "effective_sources"))
    found |= {"note": corpus.note, "licence": corpus.licence, "digest": corpus.digest}
    if sample is None:
        return found
    sizes = np.array([len(text) for text in sample.texts])
    found |= {"documents": len(sizes), "characters": int(sizes.sum()), "digest": sample.digest}
    if family:
        windows = family_windows(sample.texts, family)
        scored = [len(scored_rows(w, windows.special)) for w in windows.windows]
        sizes = np.bincount([w.document for w in windows.windows], scored, len(sizes)).astype(int)
        found |= {"scored_tokens": int(sizes.sum()), "read_characters": windows.read}
    names, source = np.unique(sample.units or np.arange(len(sizes)).astype(str), return_inverse=True)
    given = np.bincount(source, sizes)
    largest, share = given.argmax(), given / max(given.sum(), 1)
    found |= {"sources": len(names), "largest_source": str(names[largest]) if sample.units else None}
    return found | {"largest_share": float(share[largest]), "effective_sources": float(1 / max((share**2).sum(), 1e-9))}


def family_windows(texts, family, protocol="paper"):
    """The Windows of documents as a family reads them."""
    model, length = family.models[0], window_length(family)
    tokenizer = load_tokenizer(model_folder(model, weights=False)[0], model.id)
    ids, read = encode(tokenizer, texts, length if protocol == "paper" else None)
    return make_windows(ids, tokenizer.all_special_ids, length, protocol, read)


def facts_text(facts):
    """What a corpus holds as lines for people."""
    if facts["documents"] is None:
        lines = ["its text is not here yet: `rbp measure` fetches it"]
    else:
        read = f"{facts['characters']:,} characters"
        if facts["tokens_of"]:
            share = facts["read_characters"] / max(facts["characters"], 1)
            read = f"{facts['scored_tokens']:,} tokens scored as {facts['tokens_of']} reads it"
            read += f", which are {share:.1%} of the text's characters"
        largest = f" ({facts['largest_source']})" if facts["largest_source"] else ""
        lines = [
            f"{facts['documents']:,} documents of {facts['sources']:,} sources, {read}",
            f"largest source {facts['largest_share']:.1%}{largest}; as {facts['effective_sources']:.1f} equal sources",
        ]
    lines += [f"{name}: {facts[name]}" for name in ("note", "licence", "digest") if facts[name]]
    return [f"    {line}" for line in lines]
