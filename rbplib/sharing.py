"""Export of a measured family as a counts file, and import of one as a family that pages show like their own."""

import re
from datetime import date
from pathlib import Path

import yaml

from rbplib.exchange import counted, read_counts, role_of, write_counts
from rbplib.families import REPO_ID, load_family, results_dir, yaml_files
from rbplib.identity import asked
from rbplib.inputs import InputError, atomic_path, check_name, write_text
from rbplib.table import by_size, family_tables, tables_here

FOLDERS = re.compile(r"(/|~|[A-Za-z]:\\).*[/\\]", re.DOTALL)  # those of a path of this machine
RUN_KS = (1, 10, 100)  # k of the runs of hits that pages show


def export_family(
    family, out, grid, corpora=None, protocol="paper", ks=(), by="", anonymous=False, results=None, exported=""
):
    """Write the counts file of a measured family, and of the models that tell how its trainings differ where measured.

    grid: the k at which hits are counted, as a function of the size of the vocabulary. ks: further ones, also for runs.
    by: who measured. anonymous: number the sources of text in place of their names. exported: when; today.
    Raises InputError: a model without a table, or the file cannot be written.
    """
    family, _, corpora = asked(family, None, corpora, protocol)
    found = {"family": [family_tables(family, c, protocol, results)[0] for c in corpora]}
    if family.repeats:
        again = [tables_here(*asked(family.repeats, None, [c], protocol), protocol, results) for c in corpora]
        found |= {} if any(missing for _, missing in again) else {"repeats": [tables for tables, _ in again]}
    V, entries = min(int(t.record["vocab_size"]) for tables in found["family"] for t in tables), []
    for role, tables in ((role, by_size(tables)) for role, of_role in found.items() for tables in of_role):
        own = min(V, *(int(t.record["vocab_size"]) for t in tables))
        hits, runs = ([k for k in sorted({*some, *ks}) if k <= own] for some in (grid(V), RUN_KS))
        entries += [(role, public(t, anonymous), counted(t, hits, runs, t is tables[-1])) for t in tables]
    names = {"family": family, "repeats": family.repeats}
    record = {"models": {role: [m.name for m in load_family(names[role]).models] for role in found}}
    record |= {"family": {"name": family.name, "title": family.title, "note": family.note}}
    write_counts(out, record | {"by": by, "exported": exported or date.today().isoformat()}, entries)
    return out


def public(table, anonymous):
    """The record of a table without folders of this machine; its sources are numbered if asked, in the same order."""
    units = table.record.get("units")
    if anonymous or not units or any(map(FOLDERS.match, units)):
        units = [f"source {i:07d}" for i in table.source.tolist()]
    return cleaned(table.record) | {"units": list(units), "text": table.text}


def cleaned(value):
    """What JSON holds, without paths of this machine but for their last part."""
    if isinstance(value, dict):
        return {k: cleaned(v) for k, v in value.items() if k not in ("path", "file", "units")}
    if isinstance(value, list):
        return [cleaned(v) for v in value]
    return FOLDERS.sub("", value, count=1) if isinstance(value, str) and FOLDERS.match(value) else value


def import_counts(path, name=None):
    """Keep a counts file that passes every test under results/imported/, and make it a family: the family's file.

    name: of the family, by default as it was where it was measured. Its repeats are the family NAME.repeats.
    Raises InputError: the file is not believed, or the name is in use.
    """
    record, found = read_counts(path)
    name, data = check_name(name or record["family"].get("name"), "family name"), Path(path).read_bytes()
    kept, own = results_dir() / "imported" / f"{name}.counts", (results_dir() / "imported" / f"{name}.yml").resolve()
    other = kept.is_file() and kept.read_bytes() != data
    if other or yaml_files("family").get(name, own) != own or role_of(name) != "family":
        raise InputError(f"the name {name!r} is in use for another family: choose one for this, as in --as {name}-2.")
    with atomic_path(kept) as temporary:
        temporary.write_bytes(data)
    for role in sorted({role for role, *_ in found}, reverse=True):  # the repeats first: the family names them
        tables = next(tables for (of, *_), tables in found.items() if of == role)
        said = {"name": name if role == "family" else f"{name}.{role}"}
        said |= {key: str(record["family"].get(key) or "") for key in ("title", "note")} | {"counts": kept.name}
        said |= {"corpora": list(dict.fromkeys(corpus for of, corpus, _ in found if of == role))}
        said |= {"repeats": f"{name}.repeats"} if role == "family" and record["models"].get("repeats") else {}
        said |= {"models": [model_entry(t.record) for t in tables]}
        write_text(kept.with_name(f"{said['name']}.yml"), yaml.safe_dump(said, sort_keys=False, allow_unicode=True))
    return own


def model_entry(record):
    """How a family's file names a model that is not here."""
    ident = record["model_id"] if REPO_ID.match(record["model_id"]) else record["model"]
    found = {"name": record["model"], "id": ident, "nonembedding_params": record["nonembedding_params"]}
    return found | {k: v for k, v in {"revision": record.get("requested_revision")}.items() if isinstance(v, str)}
