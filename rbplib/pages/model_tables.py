"""Every model that verdicts rest on: those of the ladders, of their repeats, and of the book's own grid."""

from rbplib.laws.curve import repeated
from rbplib.pages.grid_tables import GRID, KINDS
from rbplib.ranks.table import measured_families
from rbplib.settings import load_family


def models_behind(tables, families=(), corpora=(), protocol="paper"):
    """Every model once: list of ("ladder", "repeat" or "grid"; record of a rank table; tokens it saw, or None).

    Args:
        tables: {(family, corpus): rank tables}, of `measured_families`. families, corpora, protocol: as given to it.
    """
    given = {f.name: f for f in map(load_family, families)}
    own = [given.get(name) or load_family(name) for name in dict.fromkeys(name for name, _ in tables)]
    again = {(f.repeats, c): t for f in own if f.repeats for c, t in repeated(f, corpora, protocol).items()}
    own += map(load_family, dict.fromkeys([*(name for name, _ in again), *GRID]))
    tokens, found = {(f.name, m.name): m.tokens for f in own for m in f.models}, {}
    places = {"ladder": tables, "repeat": again, "grid": measured_families(GRID, KINDS)}
    records = [(part, t.record) for part, where in places.items() for some in where.values() for t in some]
    alike = {r["columns_sha256"] for part, r in records if part == "ladder"}  # one training may have two names
    once_more = {(r["family"], r["model"]) for part, r in records if part != "ladder" and r["columns_sha256"] in alike}
    for part, r in records:
        if part == "ladder" or (r["family"], r["model"]) not in once_more:
            found.setdefault((part, r["family"], r["model"]), r)
    return [(part, r, tokens.get((family, model))) for (part, family, model), r in found.items()]
