"""Precision: tables equal naive logits in that precision, ties are counted as they stand, float32
is the reference."""

import numpy as np
from workshop import naive_ranks, write_root

from paper import precision
from rbplib.texts import load_documents
from tests.ranktables import rank_table


def test_tables_are_those_of_naive_logits(tmp_path, monkeypatch):
    root, condition = write_root(tmp_path / "root", models=1), "bf16 throughout"
    monkeypatch.setenv("RBP_ROOT", str(root))
    ((table,),) = precision.precision_tables("toy", "lines", 25, [condition]).values()
    weights, head = precision.CONDITIONS[condition]
    assert (table.record["weights_dtype"], table.record["head_dtype"]) == (weights, head)
    ids, naive = naive_ranks(root, load_documents("lines").texts[0], head)
    start = table.document == 0
    assert ids.tolist() == table.token[start].tolist()
    assert naive.greater.tolist() == table.greater[start].tolist()
    assert naive.ties.tolist() == table.ties[start].tolist()


def test_ties_and_changed_ranks_are_counted():
    document, ties = np.zeros(4, int), np.array([2, 1, 2, 1])
    exact = rank_table([1, 2, 3, 31], document)
    half = rank_table([2, 2, 3, 31], document, ties=ties)
    row = precision.tie_frame({"float32": [exact], "bf16": [half]}).iloc[1]
    assert row["tied (%)"] == 50 and row["tied with the best (%)"] == 25
    assert row["ranks changed (%)"] == 25
