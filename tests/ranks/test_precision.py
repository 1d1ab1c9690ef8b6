"""Precision: tables equal naive logits in that precision, ties are counted as they stand, float32
is the reference."""

from workshop import naive_ranks, write_root

from paper import precision
from rbplib.texts import load_documents


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
