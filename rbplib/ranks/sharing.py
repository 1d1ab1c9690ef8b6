"""Export of a measured family as a counts file, and import of one as a family that pages show like their own."""

import re
from datetime import date
from pathlib import Path

import numpy as np
import yaml

from rbplib.ranks.exchange import counted, read_counts, write_counts
from rbplib.ranks.table import asked, family_tables, tables_here
from rbplib.settings import InputError, atomic_path, check_name, family_names, load_family, results_dir, write_text

ABSOLUTE = re.compile(r"(/|~|[A-Za-z]:\\).*[/\\]", re.DOTALL)  # the folders of a path of this machine
RUN_KS = (1, 10, 100)  # k of the runs of hits that pages show


def export_family(family, out, corpora=None, protocol="paper", grid=None, ks=(), by="", anonymous=False, results=None):
    """Write the counts file of a measured family, with the models that tell how its trainings differ where measured.

    Args:
        grid: the k at which hits are counted, as a function of the size of the vocabulary. ks: further ones, also for
            runs. by: who measured. anonymous: number the sources of text in place of their names.
    Raises:
        InputError: a model without a table, or the file cannot be written.
    """
    family, _, corpora = asked(family, None, corpora, protocol)
    tables, models = [], {}
    for corpus in corpora:
        found = {"family": family_tables(family, corpus, protocol, results)[0]}
        if family.repeats:
            again, missing = tables_here(*asked(family.repeats, None, [corpus], protocol), protocol, results)
            found |= {} if missing else {"repeats": again}
        V = min(int(t.record["vocab_size"]) for t in found["family"])
        for role, of_role in found.items():
            models[role] = [t.record["model"] for t in of_role]
            own = min(int(t.record["vocab_size"]) for t in of_role)
            hits, runs = ([k for k in sorted({*some, *ks}) if k <= own] for some in (grid(V), RUN_KS))
            for t in of_role:
                arrays = counted(t, hits, runs, t is max(of_role, key=lambda t: t.record["nonembedding_params"]))
                tables.append((role, public(t, anonymous), arrays))
    said = {"name": family.name, "title": family.title, "note": family.note, "embedded": family.embedded}
    record = {"family": said | {"published": family.published}, "models": models, "by": by}
    write_counts(out, record | {"exported": date.today().isoformat()}, tables)
    return out


def public(table, anonymous):
    """The record of a table without folders of this machine; its sources are numbered if asked, in the same order."""
    units = table.record.get("units") or [str(i) for i in range(table.documents)]
    if anonymous or not table.record.get("units") or any(ABSOLUTE.match(u) for u in units):
        units = [f"source {i:07d}" for i in table.source]
    return cleaned(table.record) | {"units": list(units), "text": table.text}


def cleaned(value):
    if isinstance(value, dict):
        return {k: cleaned(v) for k, v in value.items() if k not in ("path", "file", "units")}
    if isinstance(value, list):
        return [cleaned(v) for v in value]
    return ABSOLUTE.sub("", value) if isinstance(value, str) and ABSOLUTE.match(value) else value


def import_counts(path, name=None):
    """Keep a counts file that passes every test, as a family of that name (default: its own); the family's file."""
    record, found = read_counts(path)
    name = check_name(str(name or record["family"].get("name")), "family name")
    folder = results_dir() / "imported"
    kept, data = folder / f"{name}.counts", Path(path).read_bytes()
    if name in family_names() and not (kept.is_file() and kept.read_bytes() == data):
        raise InputError(f"there is a family {name!r} already: give this one another name, as in --as {name}-2.")
    with atomic_path(kept) as temporary:
        temporary.write_bytes(data)
    roles = {role: f"{name}{'' if role == 'family' else '.' + role}" for role, *_ in found}
    for role, own in roles.items():
        tables = next(t for (r, *_), t in found.items() if r == role)
        models = [
            {"name": t.record["model"], "id": hub_id(t.record), "nonembedding_params": t.record["nonembedding_params"]}
            for t in tables
        ]
        said = {"name": own, "counts": kept.name, "part": role, "models": models}
        ...
