"""The rank tables of families: one per model and text, found by what was asked for, or measured where missing.

`measured` is the door from a notebook to them.
"""

import shlex
from contextlib import suppress
from pathlib import Path

from rbplib.exchange import imported_tables
from rbplib.families import InputError, Model, argument, is_model_place, known, load_family, one_each, results_dir, root
from rbplib.identity import asked, expected, ranks_path
from rbplib.model_files import folder_digest
from rbplib.model_sizes import sizes_of
from rbplib.rules import hold, table_rules
from rbplib.stored import open_ranks, read_record, unusable
from rbplib.texts import text_known

SAME_TOKENS = ("family", "corpus", "protocol", "corpus_digest", "window", "sample")  # what settles which are scored


def corpus_records(corpus, results=None):
    """Records of the rank tables of a corpus as it is now, of every family and protocol; damaged ones are left out."""
    now = {k: v for k, v in text_known(corpus).items() if k != "units"} | {"corpus": corpus.name}
    paths = sorted((Path(results or results_dir()) / "ranks").glob(f"*/*/{corpus.name}[-.]*.parquet"))
    return [record for path in paths if (record := record_here(path, now))]


def record_here(path, expect):
    """The record of a rank table with these entries, or None where there is no such table; its rows are not read."""
    with suppress(InputError):
        return read_record(path, expect)


def measured(family, corpora=None, protocol="paper"):
    """The rank tables of a family: the one door from a notebook to what was measured.

    Args:
        as `measure`.
    Returns:
        {corpus name: list of StoredRanks, smallest model first}. What is missing, damaged, or was measured with another
        model, window, seed, text or code is measured first, see `expected`. Of an imported family: list of Counts.
    Cost: each table is hashed once, see `open_ranks`; its columns are read when something is counted.
    """
    family, models, corpora = asked(family, None, corpora, protocol)
    if family.counts:
        return imported_tables(family, corpora, protocol)
    with suppress(InputError):
        expect = [entries for of_model in expected(family, models, corpora, protocol).values() for entries in of_model]
        return by_corpus(corpora, [open_ranks(ranks_path(entries), entries) for entries in expect])
    from rbplib.measuring import measure

    return by_corpus(corpora, list(map(open_ranks, measure(family, corpora=corpora, protocol=protocol))))


def by_corpus(corpora, tables):
    """{corpus name: its tables, smallest model first} of tables given model by model."""
    return {c.name: by_size(tables[i :: len(corpora)]) for i, c in enumerate(corpora)}


def measured_families(families=(), corpora=(), protocol="paper"):
    """{(family name, corpus name): list of StoredRanks, smallest model first}; empty families: the embedded ones.

    Raises InputError: two families of one name, or texts that differ under one name.
    """
    families = one_each(map(load_family, families), "families") or [f for f in known("family") if f.embedded]
    found = {(f.name, name): tables for f in families for name, tables in measured(f, corpora, protocol).items()}
    first = {corpus: (family, tables[0]) for (family, corpus), tables in reversed(found.items())}
    for (family, corpus), (table, *_) in found.items():
        other, theirs = first[corpus]
        if table.record.get("corpus_digest") != theirs.record.get("corpus_digest"):
            raise InputError(f"{corpus} of {family} is another text than that of {other}: show them apart.")
    return found


def by_size(tables):
    """Tables of one family, smallest model first."""
    return sorted(tables, key=lambda t: (float(t.record["nonembedding_params"]), str(t.record.get("model"))))


def family_tables(family, corpus, protocol="paper", results=None, partial=False):
    """(tables, names of the models without one) of a family on one corpus, in its order; nothing is measured.

    Raises InputError: no table at all; one that is damaged or another's; or, unless `partial`, a model without one.
    """
    family, models, corpora = asked(family, None, [corpus], protocol)
    tables, missing = tables_here(family, models, corpora, protocol, results)
    corpus = corpora[0]
    names = " ".join(shlex.quote(x) for x in ("--family", argument(family), "--corpus", argument(corpus)))
    mend = f"run `rbp measure {names}{'' if protocol == 'paper' else f' --protocol {protocol}'}`"
    if not tables:
        raise InputError(f"{family.name} has no rank table on {corpus.name} as it is now: {mend}.")
    if missing and not partial:
        raise InputError(
            f"{family.name} has no rank table on {corpus.name} as it is now of {', '.join(missing)}: {mend}, or go on "
            "without with --partial."
        )
    return tables, missing


def tables_here(family, models, corpora, protocol="paper", results=None):
    """(tables of those models that have one on the one corpus, names of the others); sizes are compared."""
    if family.counts:
        return imported_tables(family, corpora, protocol)[corpora[0].name], ()
    expect = {name: entries for name, (entries,) in expected(family, models, corpora, protocol).items()}
    paths = {m: ranks_path(expect[m.name], results) for m in models}
    tables = [sized(open_ranks(path, expect[m.name]), m) for m, path in paths.items() if path.is_file()]
    return tables, tuple(m.name for m, path in paths.items() if not path.is_file())


def sized(table, model):
    """The table; refused where its record gives its model, which is on this machine, another size or vocabulary."""
    sizes, record = None, table.record
    with suppress(InputError):  # where a model brings its own code, its size cannot be told before it runs
        sizes = sizes_of(model) if model.local else None
    if sizes and (sizes.nonembedding, sizes.vocab) != (record["nonembedding_params"], record["vocab_size"]):
        said = f"S = {record['nonembedding_params']:,} and {record['vocab_size']:,} tokens"
        raise unusable(table.path, f"gives its model {said}, which has {sizes.nonembedding:,} and {sizes.vocab:,}")
    return table


def check_tables(folder):
    """(number of tables in a folder, problems as sentences): each by itself, and those of one family on one text."""
    paths, first, problems = sorted(folder.glob("*/*/*.parquet")), {}, []
    for path in paths:
        try:
            table = check_table(path)
            shared = tuple(str(table.record.get(name)) for name in SAME_TOKENS)
            other = first.setdefault(shared, table)
            one, two = ((t.text, t.documents, t.record.get("units")) for t in (other, table))
            if one != two:
                raise unusable(path, f"has other tokens or sources than {other.path}")
        except InputError as error:
            problems.append(str(error))
    return len(paths), problems


def check_table(path):
    """Read one table: its place, record and rows must fit, and its model's size where that is on this machine."""
    table = open_ranks(path, again=True)
    record, ident = table.record, str(table.record.get("model_id"))
    if ranks_path(record).parts[-3:] != path.parts[-3:]:
        belongs = f"{record['family']}/{record['model']} on {record['corpus']}"
        raise unusable(path, f"is not the table of that place, but one of {belongs}")
    try:
        hold(table_rules(table), "its record or rows are not those of a measurement")
    except InputError:
        raise
    except (ValueError, IndexError) as error:
        raise unusable(path, f"cannot be: {error}") from None
    for folder in (Path(ident), root() / ident):
        if is_model_place(folder) and folder_digest(folder) == record.get("model_digest"):
            sized(table, Model(record["model"], ident, experts=record.get("experts"), local=folder))
    return table
