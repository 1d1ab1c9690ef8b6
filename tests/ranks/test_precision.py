"""Precision: tables equal naive logits in that precision, ties are counted as they stand, float32 is the reference."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from smallmodels import save_model

from paper import precision
from paper.precision import precision_tables
from paper.show.tables import precision_curves, precision_frame, shift_frame, tie_frame
from rbplib.models import round_weights, rounded
from rbplib.ranks import token_ranks
from rbplib.table import COLUMNS, RankTable
from rbplib.texts import load_documents


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
    start = table.document == 0
    from transformers import AutoTokenizer

    text = load_documents(str(root / "text")).texts[0]
    ids = torch.tensor([AutoTokenizer.from_pretrained(root / "m1")(text)["input_ids"][:32]])
    assert ids[0, 1:].tolist() == table.token[start].tolist()
    with torch.no_grad():
        logits = models[0].to(torch.bfloat16)(ids).logits[0, :-1]
    naive = token_ranks(logits, ids[0, 1:])
    assert naive.greater.tolist() == table.greater[start].tolist()
    assert naive.ties.tolist() == table.ties[start].tolist()
    again = precision_tables(str(root / "tiny.yml"), str(root / "text"), 25, wanted)
    assert again["float32"][0].path == found["float32"][0].path
    curves = precision_curves(found, [1, 10])
    assert (shift_frame(curves, 10).query("precision == 'float32'")["change"] == 0).all()
    assert len(precision_frame(curves, 10, n_bootstrap=50)) == 6


def test_a_sample_of_the_first_documents_knows_their_sources(place, monkeypatch):
    """Those of the whole corpus once stood in the record of its first hundred documents, and no fit was possible."""
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
    n = len(greater)
    record = {"model": "m", "nonembedding_params": 10, "documents": 1, "vocab_size": 50}
    columns = [np.zeros(n, np.int32), np.arange(1, n + 1, dtype=np.int32), np.zeros(n, np.int32)]
    columns += [np.array(greater, np.int32), np.array(ties, np.int32), np.full(n, -1.0)]
    return RankTable(dict(zip(COLUMNS, columns, strict=True)), record)


def test_ties_and_changed_ranks_are_counted():
    exact, rounded = made([0, 1, 2, 30], [1, 1, 1, 1]), made([0, 1, 1, 30], [2, 1, 2, 1])
    row = tie_frame({"float32": [exact], "bf16": [rounded]}).query("precision == 'bf16'").iloc[0]
    assert row["tied"] == 0.5 and row["tied with the best"] == 0.25 and row["ties, largest"] == 2
    assert row["rank changed, greater+ties"] == 0.25  # rows 0 (1 to 2); row 2 is 3 either way
    assert row["rank changed, greater+1"] == 0.25 and row["rank changed, random"] == 0.5
    assert row["rank changed, first ten"] == pytest.approx(1 / 3) and np.isnan(
        row["rank changed, beyond 100"]
    )


@pytest.mark.parametrize("n", [1, 12, 31, 33, 40])
def test_a_row_that_no_block_divides_ends_in_a_shorter_one(n):
    values = torch.randn(5, n, generator=torch.Generator().manual_seed(n))
    for kind, levels in (("Q8_0", 255), ("Q4_1", 16), ("Q4_0", 16)):
        found = rounded(values, kind)
        assert found.shape == values.shape
        assert torch.equal(found[:, 32:], rounded(values[:, 32:], kind)) if n > 32 else True
        for row in found[:, :32]:
            assert row.unique().numel() <= levels
        span = values.abs().amax(-1, keepdim=True) * 2
        assert (
            (found - values).abs() <= span / (levels - 1) * 1.01
        ).all()  # a step at most, and the scale's own rounding


def test_rounding_leaves_norms_positions_and_biases(place):
    root, models = place
    net = save_model(root / "again", "gpt2", scale=2, seed=2)
    before = {name: p.clone() for name, p in net.named_parameters()}
    round_weights(net, "Q4_0")
    changed = {
        name.rpartition(".")[0]
        for name, p in net.named_parameters()
        if not torch.equal(p, before[name])
    }
    assert (
        "transformer.wte" in changed
        and "transformer.h.1.mlp.c_fc" in changed
        and "transformer.wpe" not in changed
    )
    assert not any("ln_" in name for name in changed)
    assert all(
        torch.equal(p, before[name]) for name, p in net.named_parameters() if name.endswith("bias")
    )
    turned = net.transformer.h[0].mlp.c_fc.weight
    assert torch.equal(turned, rounded(before["transformer.h.0.mlp.c_fc.weight"].T, "Q4_0").T)


def test_quantised_tables_are_those_of_the_rounded_weights(place, monkeypatch):
    root, models = place
    monkeypatch.setenv("RBP_RESULTS", str(root / "results"))
    found = precision_tables(
        str(root / "tiny.yml"), str(root / "text"), 25, ("float32", "Q8_0", "Q4_0")
    )
    table = found["Q4_0"][0]
    assert table.record["weights_dtype"] == "Q4_0" and table.record["head_dtype"] == "float32"
    from transformers import AutoModelForCausalLM, AutoTokenizer

    text = load_documents(str(root / "text")).texts[0]
    ids = torch.tensor([AutoTokenizer.from_pretrained(root / "m1")(text)["input_ids"][:32]])
    net = AutoModelForCausalLM.from_pretrained(root / "m1", dtype=torch.float32).eval()
    round_weights(net, "Q4_0")
    with torch.no_grad():
        naive = token_ranks(net(ids).logits[0, :-1], ids[0, 1:])
    assert naive.greater.tolist() == table.greater[table.document == 0].tolist()
    moved = {kind: np.mean([(a.rank() != b.rank()).mean() for a, b in zip(found[kind], found["float32"], strict=True)])
             for kind in ("Q8_0", "Q4_0")}  # fmt: skip
    assert 0 < moved["Q8_0"] < moved["Q4_0"]
