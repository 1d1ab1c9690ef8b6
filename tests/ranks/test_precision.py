"""Precision: tables equal naive logits in that precision, ties are counted as they stand, float32
is the reference."""

import numpy as np
import pytest
from workshop import naive_ranks, write_root

from paper import precision
from rbplib.texts import load_documents
from tests.ranktables import rank_table


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Three models, their family, a text, and room for results."""
    root = write_root(tmp_path_factory.mktemp("precision") / "root")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RBP_ROOT", str(root))
        yield root


def tables(*conditions, documents=25):
    return precision.precision_tables("toy", "lines", documents, conditions)


def test_tables_are_those_of_naive_logits(root):
    condition = "bf16 throughout"
    (table, *_) = tables(condition)[condition]
    weights, head = precision.CONDITIONS[condition]
    assert (table.record["weights_dtype"], table.record["head_dtype"]) == (weights, head)
    ids, naive = naive_ranks(root, load_documents("lines").texts[0], head)
    start = table.document == 0
    assert ids.tolist() == table.token[start].tolist()
    assert naive.greater.tolist() == table.greater[start].tolist()
    assert naive.ties.tolist() == table.ties[start].tolist()


def made(greater, ties):
    return rank_table(np.add(greater, ties), 0 * np.array(ties), ties=np.array(ties))


def test_ties_and_changed_ranks_are_counted():
    exact, bf16 = made([0, 1, 2, 30], [1, 1, 1, 1]), made([0, 1, 1, 30], [2, 1, 2, 1])
    row = precision.tie_frame({"float32": [exact], "bf16": [bf16]}).iloc[1]
    assert row["tied (%)"] == 50 and row["tied with the best (%)"] == 25
    assert row["ranks changed (%)"] == 25  # row 0 (1 to 2); row 2 is 3 either way
