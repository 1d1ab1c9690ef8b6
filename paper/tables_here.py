"""Rank tables of several families at once, as pages over all of them read them; what a page rests on."""

from collections import namedtuple
from contextlib import suppress

import numpy as np
import pandas as pd

from paper.counts import family_tables
from paper.curves import own_repeats, rbp_curve, repeated
from rbplib.families import InputError, known, load_family, one_each
from rbplib.losses import vocabulary
from rbplib.measuring import measured


def measured_families(families=(), corpora=(), protocol="paper"):
    """{(family name, corpus name): rank tables, smallest model first}; empty families: the embedded ones.

    Raises InputError: two families of one name, or texts that differ under one name.
    """
    families = one_each(map(load_family, families), "families")
    tables, first = {}, {}
    for family in families or [family for family in known("family") if family.embedded]:
        for corpus, found in measured(family, corpora, protocol).items():
            tables[family.name, corpus] = found
            digest = found[0].record.get("corpus_digest")
            other, text = first.setdefault(corpus, (family.name, digest))
            if text != digest:
                raise InputError(
                    f"{corpus} of {family.name} is another text than that of {other}: show them apart."
                )
    return tables


def counted_curves(families, ks):
    """{(family, corpus): Curve} of families that are here as counts, on all that they were counted on, with repeats.

    ks: the ranks to count, as a function of the size of a vocabulary.
    """
    curves = {}
    for family in map(load_family, families):
        for corpus in family.corpora:
            tables, _ = family_tables(family, corpus)
            curve = rbp_curve(tables, ks(vocabulary(tables)))
            curves[family.name, corpus] = own_repeats(curve, family, corpus)
    return curves


def texts_read(tables):
    """Each text once: list of (corpus, one rank table of it, the families that read it so), by name.

    tables: of `measured_families`. Families whose tokens are others read a corpus apart.
    """
    shared = {}
    for (family, corpus), ranks in tables.items():
        _, families = shared.setdefault((corpus, ranks[0].text), (ranks[0], []))
        families.append(family)
    rows = [(corpus, ranks, families) for (corpus, _), (ranks, families) in shared.items()]
    return sorted(rows, key=lambda row: (row[0], row[2]))


PAPERS = ("gpt2", "opt", "pythia", "qwen2.5")  # families of the paper
Scope = namedtuple("Scope", "models families S trained corpora tokens papers")


def scope(tables):
    """What results rest on: how many models, of what sizes, trained on how much, of what text.

    tables: {corpus, or (family, corpus): rank tables}. S and trained hold a number a model, trained
    those that are known; tokens: how many the models were scored on. papers: models of the paper.
    """
    records, trained, papers = {}, {}, set()
    for table in (table for ranks in tables.values() for table in ranks):
        records[table.record["family"], table.record["model"]] = table.record
    for name in {*PAPERS, *(family for family, _ in records)}:
        with suppress(InputError):  # a family that is gone, or of a root of one's own
            for model in load_family(name).models:
                trained[name, model.name] = model.tokens
                papers |= {model.id} if name in PAPERS else set()
    first = {(corpus, ranks[0].text): ranks[0].record for corpus, ranks in tables.items()}
    texts = {record["corpus"]: record["scored_tokens"] for record in first.values()}
    return Scope(
        models=len(records),
        families=sorted({family for family, _ in records}),
        S=[record["nonembedding_params"] for record in records.values()],
        trained=[trained[model] for model in records if trained.get(model)],
        corpora=list(texts),
        tokens=sum(texts.values()),
        papers=sum(record.get("model_id") in papers for record in records.values()),
    )


# families that are here as counts, see published/ranks, and the corpora that all were counted on
GRID = tuple(f"nano-pythia-{n}m" for n in (1, 2, 4, 8, 16))
COUNTED = ("docs", "code", "descriptions")


def models_behind(tables, families=(), corpora=(), protocol="paper"):
    """Every model once: a data frame of its part ("ladder", "repeat" or "grid"), size and training.

    tables: of `measured_families`, which families, corpora and protocol were given to.
    """
    given = {family.name: family for family in map(load_family, families)}
    records = [("ladder", table.record) for ranks in tables.values() for table in ranks]
    # what repeats the ladders, and the grid
    for name in {name: None for name, _ in tables}:
        again = repeated(given.get(name) or name, corpora, protocol)
        records += [("repeat", table.record) for ranks in again.values() for table in ranks]
    for name in GRID:
        records += [("grid", table.record) for table in family_tables(name, COUNTED[0])[0]]
    # one training may have two names: it counts with its ladder
    digests = {record["columns_sha256"] for part, record in records if part == "ladder"}
    alike, first = set(), {}
    for part, record in records:
        if part != "ladder" and record["columns_sha256"] in digests:
            alike.add((record["family"], record["model"]))
    for part, record in records:
        model = record["family"], record["model"]
        if part == "ladder" or model not in alike:
            first.setdefault((part, *model), record)
    # a row a model
    rows, trained = [], {}
    for (part, name, model), record in first.items():
        if name not in trained:
            models = (given.get(name) or load_family(name)).models
            trained[name] = {other.name: other.tokens for other in models}
        S, whole = record["nonembedding_params"], record.get("total_params") or np.nan
        seen = trained[name].get(model) or np.nan
        outside = (record.get("params_by_experts") or {"all": S})["all"]
        row = {"part": part, "family": name, "model": model, "id": record.get("model_id"), "S": S}
        row["embeddings (%)"] = 100 * (1 - outside / whole)
        row |= {"vocabulary": record["vocab_size"], "window": record["window"]}
        rows.append(row | {"tokens seen": seen, "tokens per parameter": seen / S})
    return pd.DataFrame(rows)
