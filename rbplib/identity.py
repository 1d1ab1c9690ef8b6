"""What a rank table is known by: the content that decides its rows. Its place follows from that; names are labels."""

from functools import partial
from pathlib import Path

from rbplib.families import PROTOCOLS, Corpus, default_corpora, load_corpus, load_family, one_each, results_dir
from rbplib.inputs import InputError, check_choice, check_name, digest
from rbplib.model_files import folder_digest
from rbplib.model_sizes import window_length
from rbplib.texts import text_known

MEASURING = 3  # raise it when the same model and text would give other rows: tables made before are measured again
DECIDE = ("sample", "protocol", "window", "measuring", "requested_dtype", "head_dtype", "experts")


def asked(family, models=None, corpora=None, protocol="paper"):
    """(Family, its Models, Corpora) for names or paths; all models, and the default corpora, where none are given."""
    family = load_family(family)
    check_choice(protocol, PROTOCOLS, "protocol")
    models = [family.model(m) for m in models] if models else family.models
    read = partial(counted_corpus, family) if family.counts else load_corpus
    corpora = one_each(map(read, corpora or default_corpora(family)), "corpora")
    if not corpora:
        raise InputError(f"{family.name} has no corpus to be measured on: name one with --corpus.")
    return family, models, corpora


def counted_corpus(family, corpus):
    """A corpus of an imported family: a label, for its text is not here."""
    if (name := getattr(corpus, "name", corpus)) in family.corpora:
        return Corpus(name)
    known = ", ".join(family.corpora)
    raise InputError(f"{family.name} is imported with counts on {known}, and has no models to measure {name!r}.")


def expected(family, models, corpora, protocol="paper", samples=None, dtype=None, head_dtype="float32"):
    """{model name: list of dicts, one per corpus}: the record entries that make a table the one asked for.

    A model is known by its folder's digest, or by its id on the hub; text by its digest. Of a hub's text the definition
    is known before it is fetched; the sample that is kept here then has to be the table's as well.

    samples: the corpora's Documents, in place of their own. dtype, head_dtype: names, of the weights (None: the models'
    own) and of the head's product. Cost: one reading of the text, and hashing of local models.
    """
    shared = {"protocol": protocol, "window": window_length(family), "measuring": MEASURING, "head_dtype": head_dtype}
    texts = [text_known(c, s) for c, s in zip(corpora, samples or [None] * len(corpora), strict=True)]
    found = {}
    for model in models:
        hub = {"model_id": model.id, "requested_revision": model.revision}
        entries = {"model_digest": folder_digest(model.local)} if model.local else hub
        entries |= shared | {"requested_dtype": dtype or model.dtype, "family": family.name, "model": model.name}
        entries |= {"experts": model.experts if model.experts == "active" else None}  # None: all
        found[model.name] = [entries | {"corpus": c.name} | t for c, t in zip(corpora, texts, strict=True)]
    return found


def ranks_path(record, results=None):
    """results/ranks/FAMILY/MODEL/CORPUS-KEY.parquet of a record, or of `expected`; another protocol than the paper's
    is part of the file's name.

    KEY is a hash of the entries that decide the rows. What is not in it, such as names, is compared by who reads.
    """
    for name in ("family", "model", "corpus"):
        check_name(record[name], f"{name} name")
    names = ("model_digest",) if "model_digest" in record else ("model_id", "requested_revision")
    names += () if record["sample"].get("source") == "hub" else ("corpus_digest",)
    key = digest({name: record.get(name) for name in (*names, *DECIDE)})[:12]
    suffix = "" if record["protocol"] == "paper" else f".{record['protocol']}"
    folder = Path(results or results_dir()) / "ranks" / record["family"] / record["model"]
    return folder / f"{record['corpus']}{suffix}-{key}.parquet"
