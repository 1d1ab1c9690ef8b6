"""Rank tables of several families at once, as pages over all of them read them;
what a page rests on."""

from paper.counts import family_tables
from paper.curves import beside, rbp_curve
from rbplib.families import InputError, known, load_family, one_each
from rbplib.losses import vocabulary
from rbplib.measuring import measured


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


def counted_curves(families, ks):
    """{(family, corpus): Curve} of families that are here as counts,
    on all that they were counted on, with repeats.

    ks: the ranks to count, as a function of the size of a vocabulary.
    """
    curves = {}
    for family in map(load_family, families):
        for corpus in family.corpora:
            tables, _ = family_tables(family, corpus)
            again, _ = family_tables(family.repeats, corpus) if family.repeats else ((), ())
            curve = rbp_curve(tables, ks(vocabulary(tables)))
            curves[family.name, corpus] = beside(curve, again)
    return curves


PAPERS = ("gpt2", "opt", "pythia", "qwen2.5")  # families of the paper
GRID = tuple(f"nano-pythia-{n}m" for n in (1, 2, 4, 8, 16))  # here as counts, see published/ranks
COUNTED = ("docs", "code", "descriptions")  # corpora that all of it was counted on


def scope(tables):
    """What results rest on: how many models, of what sizes, trained on how much, of what text.

    tables: {corpus, or (family, corpus): rank tables}. S and trained hold a number a model, trained
    those that are known; tokens: how many the models were scored on. papers: models of the paper.
    """
    # one record a model
    every = [table.record for ranks in tables.values() for table in ranks]
    records = {(record["family"], record["model"]): record for record in every}
    papers = {model.id for name in PAPERS for model in models_of(name)}
    families = sorted({family for family, _ in records})
    # how much text models saw, and each text once
    trained = {(name, model.name): model.tokens for name in families for model in models_of(name)}
    first = {(corpus, ranks[0].text): ranks[0].record for corpus, ranks in tables.items()}
    texts = {record["corpus"]: record["scored_tokens"] for record in first.values()}
    return {
        "models": len(records),
        "families": families,
        "S": [record["nonembedding_params"] for record in records.values()],
        "trained": [trained[model] for model in records if trained.get(model)],
        "corpora": list(texts),
        "tokens": sum(texts.values()),
        "papers": sum(record.get("model_id") in papers for record in records.values()),
    }


def models_of(family):
    """The models of a family by its file; none where that is gone."""
    try:
        return load_family(family).models
    except InputError:
        return ()
