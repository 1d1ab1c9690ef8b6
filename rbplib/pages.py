"""What a page asks for first: the measured curves of its family, measuring what is missing.

The notebooks start here. torch is imported only when something has to be measured.
"""

from rbplib.curves import family_tables, rbp_curve
from rbplib.settings import InputError, default_corpora, load_corpus, load_family
from rbplib.tables import mismatches, ranks_path, read_record
from rbplib.windows import window_length

KS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


def ensure_measured(family, corpora=None, protocol="paper"):
    """Names of the corpora, once every model of the family has its rank table on each of them.

    A table whose record says another model, window, seed or sample is measured again; `rbp measure` compares the
    digests of text and weights too.
    """
    family = load_family(family)
    corpora = [load_corpus(c) for c in (corpora or default_corpora(family))]
    window = window_length(family)
    for corpus in corpora:
        for model in family.models:
            expect = {"model_id": model.id, "window": window, "seed": corpus.seed, "protocol": protocol}
            if corpus.digest:
                expect["corpus_digest"] = corpus.digest
            try:
                fine = not mismatches(read_record(ranks_path(family.name, model.name, corpus.name, protocol)), expect)
            except InputError:  # missing or damaged
                fine = False
            if not fine:
                from rbplib.measure import measure

                measure(family, corpora=corpora, protocol=protocol)
                return [c.name for c in corpora]
    return [c.name for c in corpora]


def family_curves(family, corpora=None, ks=KS, protocol="paper", definition="greater+ties"):
    """{corpus name: Curve} of a family, measured where missing; ks above the vocabulary are an error."""
    family = load_family(family)
    curves = {}
    for name in ensure_measured(family, corpora, protocol):
        tables, missing = family_tables(family, name, protocol)
        curves[name] = rbp_curve(tables, ks, definition, missing)
    return curves


def family_rank_tables(family, corpus, protocol="paper"):
    """The rank tables of a family on one corpus, smallest model first, measured where missing."""
    (name,) = ensure_measured(family, [corpus], protocol)
    tables, _ = family_tables(family, name, protocol)
    return sorted(tables, key=lambda t: t.record["nonembedding_params"])


def corpus_title(name):
    """A corpus name as pages show it."""
    return load_corpus(name).title or name
