"""Precision: tables equal naive logits in that precision, ties are counted as they stand, float32
is the reference."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from smallmodels import save_model
from transformers import AutoModelForCausalLM, AutoTokenizer

from paper import precision
from rbplib import token_ranks
from rbplib.texts import load_documents
from tests.ranktables import rank_table


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A folder with three models, their family file, a text, and room for results."""
    root = tmp_path_factory.mktemp("precision")
    for s in (1, 2, 3):
        save_model(root / f"m{s}", "gpt2", scale=s, seed=s)
    lines = "\n".join(f"  - {{id: {root}/m{s}}}" for s in (1, 2, 3))
    (root / "tiny.yml").write_text(f"context: 32\nmodels:\n{lines}\n")
    (root / "text").mkdir()
    for i in range(25):
        words = f"the {i} quick brown foxes {i * 7} jump over the lazy dog again and again"
        (root / "text" / f"{i:02d}.txt").write_text(words)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RBP_RESULTS", str(root / "results"))
        yield root


def tables(root, *conditions, documents=25):
    family, corpus = str(root / "tiny.yml"), str(root / "text")
    return precision.precision_tables(family, corpus, documents, conditions)


@pytest.mark.parametrize("condition", ["bf16 throughout", "fp16 throughout"])
def test_tables_are_those_of_naive_logits(root, condition):
    (table, *_) = tables(root, condition)[condition]
    weights, head = precision.CONDITIONS[condition]
    assert (table.record["weights_dtype"], table.record["head_dtype"]) == (weights, head)
    net = AutoModelForCausalLM.from_pretrained(root / "m1", dtype=getattr(torch, head)).eval()
    text, start = load_documents(str(root / "text")).texts[0], table.document == 0
    ids = torch.tensor([AutoTokenizer.from_pretrained(root / "m1")(text)["input_ids"][:32]])
    with torch.no_grad():
        naive = token_ranks(net(ids).logits[0, :-1], ids[0, 1:])
    assert ids[0, 1:].tolist() == table.token[start].tolist()
    assert naive.greater.tolist() == table.greater[start].tolist()
    assert naive.ties.tolist() == table.ties[start].tolist()


def test_float32_is_the_reference_and_coarser_precision_moves_more(root):
    ranks = tables(root, "float32", "fp16 throughout", "bf16 throughout")
    moved = precision.tie_frame(ranks).groupby("precision")["ranks changed (%)"].mean()
    assert moved["float32"] == 0 < moved["fp16 throughout"] < moved["bf16 throughout"]
    curves = precision.precision_curves(ranks, [10])
    shifts = precision.shift_frame(curves, 10).set_index("precision")["change"]
    assert (shifts["float32"] == 0).all() and (shifts["bf16 throughout"] != 0).any()
    alphas = precision.precision_frame(curves, [10], n_bootstrap=100)
    exact = alphas[alphas["precision"] == "float32"].set_index("definition")["alpha"]
    change = alphas["alpha"] - alphas["definition"].map(exact)
    assert len(alphas) == 9 and alphas["change of alpha"].tolist() == change.tolist()


def test_a_sample_of_the_first_documents_knows_their_sources(root, monkeypatch):
    """Those of the whole corpus once stood in the record of its first hundred documents, and no fit
    was possible."""
    whole = load_documents(str(root / "text"))
    sample = replace(whole, units=tuple(f"package {i // 3}" for i in range(len(whole.texts))))
    monkeypatch.setattr(precision, "load_documents", lambda corpus: sample)
    (table, *_) = tables(root, "float32", documents=21)["float32"]
    assert table.source.tolist() == [i // 3 for i in range(21)] and len(table.record["units"]) == 21


def made(greater, ties):
    return rank_table(np.add(greater, ties), 0 * np.array(ties), ties=np.array(ties))


def test_ties_and_changed_ranks_are_counted():
    exact, bf16 = made([0, 1, 2, 30], [1, 1, 1, 1]), made([0, 1, 1, 30], [2, 1, 2, 1])
    row = precision.tie_frame({"float32": [exact], "bf16": [bf16]}).iloc[1]
    assert row["tied (%)"] == 50 and row["tied with the best (%)"] == 25
    assert row["ranks changed (%)"] == 25  # row 0 (1 to 2); row 2 is 3 either way
