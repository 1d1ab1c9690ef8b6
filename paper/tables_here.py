"""Rank tables of several families at once, as pages over all of them read them."""

from rbplib.families import InputError, known, load_family, one_each
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
