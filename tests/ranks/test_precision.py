"""Precision: tables equal naive logits in that precision, ties are counted as they stand, float32
is the reference."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from smallmodels import save_model
from transformers import AutoModelForCausalLM, AutoTokenizer

from paper import precision
from paper.precision import (
    precision_curves,
    precision_frame,
    precision_tables,
    shift_frame,
    tie_frame,
)
from rbplib.models import round_weights, rounded
from rbplib.ranks import token_ranks
from rbplib.texts import load_documents
from tests.ranktables import rank_table


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    root = tmp_path_factory.mktemp("precision")
    models = [save_model(root / f"m{s}", "gpt2", scale=s, seed=s) for s in (1, 2, 3)]
    lines = "\n".join(f"  - {{id: {root}/m{s}}}" for s in (1, 2, 3))
    (root / "tiny.yml").write_text(f"context: 32\nmodels:\n{lines}\n")
    folder = root / "text"
    folder.mkdir()
    for i in range(25):
        (folder / f"{i:02d}.txt").write_text(
            f"the {i} quick brown foxes {i * 7} jump over the lazy dog again and again"
        )
    return root, models


def assert_naive(net, root, table):
    """The first document's ranks are those of the model's own logits."""
    text, start = load_documents(str(root / "text")).texts[0], table.document == 0
    ids = torch.tensor([AutoTokenizer.from_pretrained(root / "m1")(text)["input_ids"][:32]])
    assert ids[0, 1:].tolist() == table.token[start].tolist()
    with torch.no_grad():
        naive = token_ranks(net(ids).logits[0, :-1], ids[0, 1:])
    assert naive.greater.tolist() == table.greater[start].tolist()
    assert naive.ties.tolist() == table.ties[start].tolist()


def test_tables_are_those_of_naive_logits(place, monkeypatch):
    root, models = place
    monkeypatch.setenv("RBP_RESULTS", str(root / "results"))
    wanted = ("float32", "bf16 throughout")
    found = precision_tables(str(root / "tiny.yml"), str(root / "text"), 25, wanted)
    assert [len(found[c]) for c in wanted] == [3, 3]
    table = found["bf16 throughout"][0]
    assert (
        table.record["head_dtype"] == "bfloat16"
        and found["float32"][0].record["head_dtype"] == "float32"
    )
    assert_naive(models[0].to(torch.bfloat16), root, table)
    again = precision_tables(str(root / "tiny.yml"), str(root / "text"), 25, wanted)
    assert again["float32"][0].path == found["float32"][0].path
    curves = precision_curves(found, [1, 10])
    assert (shift_frame(curves, 10).query("precision == 'float32'")["change"] == 0).all()
    assert len(precision_frame(curves, [10], n_bootstrap=100)) == 6


def test_a_sample_of_the_first_documents_knows_their_sources(place, monkeypatch):
    """Those of the whole corpus once stood in the record of its first hundred documents, and no fit
    was possible."""
    root, _ = place
    monkeypatch.setenv("RBP_RESULTS", str(root / "results"))
    whole = load_documents(str(root / "text"))
    sample = replace(whole, units=tuple(f"package {i // 3}" for i in range(len(whole.texts))))
    monkeypatch.setattr(precision, "load_documents", lambda corpus: sample)
    (table, *_) = precision_tables(str(root / "tiny.yml"), str(root / "text"), 21, ("float32",))[
        "float32"
    ]
    assert table.source.tolist() == [i // 3 for i in range(21)] and len(table.record["units"]) == 21


def made(greater, ties):
    return rank_table(np.add(greater, ties), 0 * np.array(ties), ties=np.array(ties))


def test_ties_and_changed_ranks_are_counted():
    exact, rounded = made([0, 1, 2, 30], [1, 1, 1, 1]), made([0, 1, 1, 30], [2, 1, 2, 1])
    row = tie_frame({"float32": [exact], "bf16": [rounded]}).query("precision == 'bf16'").iloc[0]
    assert row["tied (%)"] == 50 and row["tied with the best (%)"] == 25
    assert row["ranks changed (%)"] == 25  # row 0 (1 to 2); row 2 is 3 either way


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_1", "Q4_0"])
def test_a_row_that_no_block_divides_ends_in_a_shorter_one(kind):
    whole = torch.randn(5, 40, generator=torch.Generator().manual_seed(0))
    parts = [rounded(part, kind) for part in (whole[:, :32], whole[:, 32:])]
    assert torch.equal(rounded(whole, kind), torch.cat(parts, 1))
    assert (parts[1] - whole[:, 32:]).abs().max() < 0.3


def test_rounding_turns_gpt2s_weights_and_leaves_norms_positions_and_biases(place):
    net = save_model(place[0] / "again", "gpt2", scale=2, seed=2)
    before = {name: p.clone() for name, p in net.named_parameters()}
    round_weights(net, "Q4_0")
    for name, p in net.named_parameters():
        old = before[name]
        if "wte" in name:
            assert torch.equal(p, rounded(old, "Q4_0"))
        elif "ln_" in name or "wpe" in name or name.endswith("bias"):
            assert torch.equal(p, old), name
        else:
            assert torch.equal(p, rounded(old.T, "Q4_0").T), name


def test_quantised_tables_are_those_of_the_rounded_weights(place, monkeypatch):
    root, models = place
    monkeypatch.setenv("RBP_RESULTS", str(root / "results"))
    found = precision_tables(
        str(root / "tiny.yml"), str(root / "text"), 25, ("float32", "Q8_0", "Q4_0")
    )
    table = found["Q4_0"][0]
    assert table.record["weights_dtype"] == "Q4_0" and table.record["head_dtype"] == "float32"
    net = AutoModelForCausalLM.from_pretrained(root / "m1", dtype=torch.float32).eval()
    round_weights(net, "Q4_0")
    assert_naive(net, root, table)
    moved = {
        kind: np.mean(
            [
                (a.rank() != b.rank()).mean()
                for a, b in zip(found[kind], found["float32"], strict=True)
            ]
        )
        for kind in ("Q8_0", "Q4_0")
    }
    assert 0 < moved["Q8_0"] < moved["Q4_0"]
