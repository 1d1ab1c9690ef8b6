"""Rank tables of several families at once, as pages over all of them read them;
what a page rests on."""

from rbplib.counts import counts_path
from rbplib.families import InputError, default_corpora, known, load_family, one_each
from rbplib.measuring import UNSCORED, measured
from rbplib.table import Ladder, table_paths
from rbplib.table import family_tables as family_tables


def measured_families(families=(), corpora=(), protocol="paper"):
    """{(family name, corpus name): rank tables, smallest model first}; empty families:
    the embedded ones.

    Raises InputError: two families of one name, or texts that differ under one name.
    """
    families = one_each(map(load_family, families), "families")
    # one text under one name
    tables, first = {}, {}
    for family in families or [family for family in known("family") if family.embedded]:
        for corpus, ladder in measured(family, corpora, protocol).items():
            tables[family.name, corpus] = ladder
            digest = ladder[0].record.get("corpus_digest")
            other, text = first.setdefault(corpus, (family.name, digest))
            if text != digest:
                raise InputError(
                    f"{corpus} of {family.name} is another text than {other}'s: show them apart."
                )
    return tables


def ladders(families=(), corpora=(), protocol="paper"):
    """{(family name, corpus name): Ladder} of several families; arguments and InputError as of
    `measured_families`. Repeats that families share are read once."""
    paths = {load_family(family).name: family for family in families}
    repeats, shown = {}, {}
    for (name, corpus), ranks in measured_families(families, corpora, protocol).items():
        family = load_family(paths.get(name, name))
        texts = corpora or default_corpora(family)
        key = family.repeats, *map(str, texts)
        if family.repeats and key not in repeats:
            repeats[key] = measured(load_family(family.repeats), texts, protocol)
        shown[name, corpus] = Ladder(ranks, repeats.get(key, {}).get(corpus, ()))
    return shown


def counted_elsewhere(families):
    """Names of the families' repeats that are here as files of counts, and were not measured."""
    names = {load_family(family).repeats for family in families} - {""}
    files = [name for name in names if counts_path(load_family(name)).is_file()]
    return sorted(name for name in files if not table_paths(name))


PAPERS = ("gpt2", "opt", "pythia", "qwen2.5")  # families of the paper


def scope(tables):
    """What results rest on: how many models, of what sizes, trained on how much, of what text.

    tables: {corpus, or (family, corpus): rank tables}. S and trained hold a number a model, trained
    those that are known; tokens: how many the models were scored on. papers: models of the paper.
    halved: precisions that are not float32. rows: families whose outputs differ in rows. unscored:
    {corpus: share of its tokens, above UNSCORED, that are special ones}.
    """
    # one record a model, which may be there under two families
    first = {}
    for record in (table.record for ranks in tables.values() for table in ranks):
        name = record["family"], record["model"]
        first.setdefault(record.get("model_digest") or name, record)
    records = list(first.values())
    papers = {model.id for name in PAPERS for model in models_of(name)}
    families = sorted({record["family"] for record in records})
    # how much text models saw, and each text once
    seen = {(name, model.name): model.tokens for name in families for model in models_of(name)}
    trained = [seen.get((record["family"], record["model"])) for record in records]
    ladders = [ranks[0].record for ranks in tables.values()]
    texts = {record["corpus"]: record["scored_tokens"] for record in ladders}
    # what a reader would not expect
    outputs, unscored = {}, {}
    for record in records:
        outputs.setdefault(record["family"], set()).add(record.get("vocab_size"))
    for record in ladders:
        words = sum((record.get("unscored") or {}).values())
        share = words / (words + record["scored_tokens"])
        if share > UNSCORED:
            unscored[record["corpus"]] = share
    return {
        "halved": sorted({r.get("weights_dtype") for r in records} - {None, "float32"}),
        "rows": [family for family, rows in outputs.items() if len(rows) > 1],
        "unscored": unscored,
        "models": len(records),
        "families": families,
        "S": [record["nonembedding_params"] for record in records],
        "trained": [tokens for tokens in trained if tokens],
        "corpora": list(texts),
        "tokens": sum(texts.values()),
        "papers": sum(record.get("model_id") in papers for record in records),
    }


def models_of(family):
    """The models of a family by its file; none where that is gone."""
    try:
        return load_family(family).models
    except InputError:
        return ()
