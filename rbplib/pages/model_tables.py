"""Every model that verdicts rest on: those of the ladders, of their repeats, and of the book's own grid."""

import numpy as np
import pandas as pd

from rbplib.laws.curve import repeated
from rbplib.pages.grid_tables import GRID, KINDS
from rbplib.ranks.table import measured_families
from rbplib.settings import load_family


def model_frame(tables, families=(), corpora=(), protocol="paper"):
    """Data frame of every model: part ("ladder", "repeat" or "grid"), family, model, S and what its record tells.

    Args:
        tables: {(family, corpus): rank tables}, of `measured_families`. families, corpora, protocol: as given to it.
    """
    given = {f.name: f for f in map(load_family, families)}
    own = [given.get(name) or load_family(name) for name in dict.fromkeys(name for name, _ in tables)]
    again = {(f.repeats, c): t for f in own if f.repeats for c, t in repeated(f, corpora, protocol).items()}
    own += map(load_family, dict.fromkeys([*(name for name, _ in again), *GRID]))
    tokens, rows = {(f.name, m.name): m.tokens for f in own for m in f.models}, {}
    ids = {t.record["model_id"] for found in tables.values() for t in found}  # a ladder's own are among its repeats
    for part, found in {"ladder": tables, "repeat": again, "grid": measured_families(GRID, KINDS)}.items():
        for r in (t.record for some in found.values() for t in some):
            if part != "repeat" or r["model_id"] not in ids:
                rows.setdefault((part, r["family"], r["model"]), (r, tokens.get((r["family"], r["model"]))))
    return pd.DataFrame([{"part": part, **model_row(*told)} for (part, *_), told in rows.items()])


def model_row(record, tokens):
    """One model by the record of a rank table and the number of tokens that it saw in training, None where unknown."""
    S, whole, seen = record["nonembedding_params"], record.get("total_params") or np.nan, tokens or np.nan
    outside = (record.get("params_by_experts") or {"all": S})["all"]
    row = {"family": record["family"], "model": record["model"], "S": S, "embeddings (%)": 100 * (1 - outside / whole)}
    row |= {"vocabulary": record["vocab_size"], "window": record["window"]}
    return row | {"tokens seen": seen, "tokens per parameter": seen / S}
