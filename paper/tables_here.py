"""Rank tables of several families at once, as pages over all of them read them;
what a page rests on."""

from contextlib import suppress

from rbplib import measuring
from rbplib.counts import counts_path
from rbplib.families import InputError, list_families, load_family, one_each
from rbplib.losses import precision
from rbplib.measuring import DOUBTFUL
from rbplib.table import family_tables as family_tables
from rbplib.table import table_paths

PAPERS = ("gpt2", "opt", "pythia", "qwen2.5")  # families of the paper


def ladders(families=(), corpora=(), protocol="paper"):
    """{(family name, corpus name): Ladder}, with its repeats; empty families: the embedded ones.

    Raises InputError: two families of one name, or texts that differ under one name.
    """
    families = one_each(map(load_family, families), "families")
    shown, first = {}, {}
    for family in families or [family for family in list_families() if family.embedded]:
        for corpus, ladder in measuring.ladders(family, corpora, protocol).items():
            shown[family.name, corpus] = ladder
            # one text under one name
            digest = ladder[0].record.get("corpus_digest")
            other, text = first.setdefault(corpus, (family.name, digest))
            if text != digest:
                raise InputError(
                    f"{corpus} of {family.name} is another text than {other}'s: show them apart."
                )
    return shown


def counted_elsewhere(families):
    """Names of the families' repeats that are here as files of counts, and were not measured."""
    names = {load_family(family).repeats for family in families} - {""}
    files = [name for name in names if counts_path(load_family(name)).is_file()]
    return sorted(name for name in files if not table_paths(name))


def scope(tables):
    """What results rest on: how many models, of what sizes, trained on how much, of what text.

    tables: {corpus, or (family, corpus): rank tables}. S and trained hold a number a model, trained
    those that are known; tokens: how many the models were scored on. papers: models of the paper.
    halved: precisions that are not float32. rows: families whose outputs differ in rows. unscored:
    {corpus: share of its tokens, above DOUBTFUL, that are special ones}.
    """
    # one record a model, which may be there under two families
    first = {}
    for record in (table.record for ranks in tables.values() for table in ranks):
        name = record["family"], record["model"]
        first.setdefault(record.get("model_digest") or name, record)
    records = list(first.values())
    families = sorted({record["family"] for record in records})
    # what their files say, where these are not gone
    seen, papers = {}, set()
    for name in (*PAPERS, *families):
        with suppress(InputError):
            for model in load_family(name).models:
                seen[name, model.name] = model.tokens
                papers |= {model.id} if name in PAPERS else set()
    trained = [seen.get((record["family"], record["model"])) for record in records]
    # each text once, and what of it a reader would not expect to be left out
    texts = {ranks[0].record["corpus"]: ranks[0].record for ranks in tables.values()}
    unscored = {}
    for corpus, record in texts.items():
        words = sum((record.get("unscored") or {}).values())
        share = words / (words + record["scored_tokens"])
        unscored |= {corpus: share} if share > DOUBTFUL else {}
    outputs = {(record["family"], record.get("vocab_size")) for record in records}
    outputs = [family for family, _ in outputs]
    return {
        "halved": sorted({*map(precision, records)} - {None, "float32"}),
        "rows": [family for family in families if outputs.count(family) > 1],
        "unscored": unscored,
        "models": len(records),
        "families": families,
        "S": [record["nonembedding_params"] for record in records],
        "trained": [tokens for tokens in trained if tokens],
        "corpora": list(texts),
        "tokens": sum(record["scored_tokens"] for record in texts.values()),
        "papers": sum(record.get("model_id") in papers for record in records),
    }
