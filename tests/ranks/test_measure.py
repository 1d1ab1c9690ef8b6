"""Measuring: equal to the naive way, resumable at any instant, and never reusing what does not match."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM, PreTrainedTokenizerFast

from rbplib import identity
from rbplib import measuring as m
from rbplib import table as tables
from rbplib.families import InputError
from rbplib.stored import read_ranks
from rbplib.texts import load_documents

ROOT = Path(__file__).resolve().parents[2]
TEXTS = [f"line {i}: " + "the quick brown fox jumps over the lazy dog " * (1 + i % 7) + str(i * i) for i in range(40)]


@pytest.fixture(scope="module")
def workshop(tmp_path_factory):
    """A root with a family of two random models, their tokenizer, and a corpus of forty lines."""
    base = tmp_path_factory.mktemp("root")
    for folder in ("families", "corpora"):
        (base / folder).mkdir()
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=["<|endoftext|>"],
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())  # fmt: skip
    tokenizer.train_from_iterator(TEXTS, trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|endoftext|>")
    for i, d in enumerate((8, 16)):
        torch.manual_seed(i)
        config = GPTNeoXConfig(vocab_size=320, hidden_size=d, num_hidden_layers=2, num_attention_heads=2,
                               intermediate_size=2 * d, max_position_embeddings=64)  # fmt: skip
        net = GPTNeoXForCausalLM(config)
        torch.nn.init.normal_(net.get_output_embeddings().weight)
        net.save_pretrained(base / f"models/m{i}")
        fast.save_pretrained(base / f"models/m{i}")
    (base / "families" / "toy.yml").write_text("context: 48\nmodels: [models/m0, models/m1]\n")
    (base / "lines.jsonl").write_text("\n".join(f'{{"text": "{t}"}}' for t in TEXTS))
    return base


@pytest.fixture
def root(workshop, tmp_path, monkeypatch):
    monkeypatch.setenv("RBP_ROOT", str(workshop))
    monkeypatch.setenv("RBP_RESULTS", str(tmp_path / "results"))
    return workshop


def run(root, **options):
    return m.measure("toy", corpora=[str(root / "lines.jsonl")], progress=False, **options)


def place(root, model="m1"):
    family, models, corpora = identity.asked("toy", [model], [str(root / "lines.jsonl")])
    return identity.ranks_path(identity.expected(family, models, corpora)[model][0])


def test_equal_to_naive_logits(root):
    first, second = run(root)
    table = read_ranks(second)
    net = GPTNeoXForCausalLM.from_pretrained(root / "models/m1", dtype=torch.float32).eval()
    tokenizer = PreTrainedTokenizerFast.from_pretrained(root / "models/m1")
    row = 0
    for d, text in enumerate(load_documents(root / "lines.jsonl").texts):
        ids = tokenizer(text)["input_ids"][:48]
        with torch.no_grad():
            scores = net(torch.tensor([ids])).logits[0].double().numpy()
        for t in range(1, len(ids)):
            x = scores[t - 1]
            assert (table.document[row], table.position[row], table.token[row]) == (d, t, ids[t])
            near = np.abs(x - x[ids[t]]) < 1e-5  # another chunking may move a rank by float32 rounding only
            assert (x > x[ids[t]]).sum() - near.sum() <= table.greater[row] <= (x > x[ids[t]]).sum() + near.sum()
            assert table.logprob[row] == pytest.approx(x[ids[t]] - np.logaddexp.reduce(x), abs=1e-4)
            row += 1
    assert row == len(table) == table.record["scored_tokens"]
    record, rows = table.record, [tokenizer(t, return_offsets_mapping=True)["offset_mapping"][:48] for t in TEXTS]
    assert record["characters"] == sum(map(len, TEXTS)) and record["read_characters"] == sum(r[-1][1] for r in rows)
    assert 0 < record["read_characters"] < record["characters"]
    assert record["nonembedding_params"] == net.num_parameters() - 2 * 320 * 16 and record["vocab_size"] == 320
    assert {"model_digest", "tokenizer_digest", "corpus_digest", "protocol", "sample", "libraries", "device",
            "wall_time_s", "code_version", "weights_dtype", "head_dtype", "total_params"} <= set(record)  # fmt: skip
    assert (read_ranks(first).token == table.token).all()


def test_full_protocol_scores_every_token(root):
    path = run(root, models=["m0"], protocol="full")[0]
    assert path.name.startswith("lines.full-")
    table = read_ranks(path)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(root / "models/m0")
    assert len(table) == sum(len(tokenizer(t)["input_ids"]) - 1 for t in TEXTS)
    assert table.record["read_characters"] == table.record["characters"] == sum(map(len, TEXTS))


def test_batches_and_parts_do_not_change_the_data(root, tmp_path, monkeypatch):
    digests = set()
    for i, (batch, part) in enumerate(((48, 1 << 16), (500, 300), (4096, 1 << 16))):
        monkeypatch.setattr(m, "PART_TOKENS", part)
        path = run(root, models=["m1"], batch_tokens=batch, results=tmp_path / str(i))[0]
        table = read_ranks(path)
        digests.add(tuple(table.greater + table.ties))
        assert not list(path.parent.glob(".*"))
    assert len(digests) == 1


def test_what_matches_is_reused_and_what_does_not_is_measured_again(root, monkeypatch):
    path = run(root, models=["m0"])[0]
    before = path.stat().st_mtime_ns
    with monkeypatch.context() as patch:
        patch.setattr(m.loading, "load_model", lambda *a, **k: pytest.fail("a matching table was measured again"))
        assert run(root, models=["m0"]) == [path]
    assert path.stat().st_mtime_ns == before
    whole = read_ranks(path)
    path.write_bytes(path.read_bytes()[:-100])
    run(root, models=["m0"])
    assert read_ranks(path).record["columns_sha256"] == whole.record["columns_sha256"]
    other = root / "changed" / "lines.jsonl"
    other.parent.mkdir(exist_ok=True)
    other.write_text('{"text": "another text altogether, and a longer one"}\n')
    found = m.measure("toy", models=["m0"], corpora=[str(other)], progress=False)
    assert read_ranks(found[0]).record["corpus_digest"] != whole.record["corpus_digest"]
    assert read_ranks(path).record["corpus_digest"] == whole.record["corpus_digest"]


@pytest.mark.parametrize("changed", ["weights", "tokenizer", "measuring"])
def test_a_page_measures_anew_what_its_table_was_not_measured_with(root, tmp_path, monkeypatch, changed):
    copy = tmp_path / "root"
    shutil.copytree(root, copy)
    monkeypatch.setenv("RBP_ROOT", str(copy))
    corpus = str(copy / "lines.jsonl")
    first = tables.measured("toy", [corpus])["lines"]
    made = {t.path: t.path.stat().st_mtime_ns for t in first}
    assert {t.path: t.path.stat().st_mtime_ns for t in tables.measured("toy", [corpus])["lines"]} == made
    if changed == "weights":
        net = GPTNeoXForCausalLM.from_pretrained(copy / "models/m1")
        torch.nn.init.normal_(net.get_output_embeddings().weight)
        net.save_pretrained(copy / "models/m1")
    elif changed == "tokenizer":
        file = copy / "models/m1/tokenizer.json"
        file.write_text(file.read_text() + "\n")
    else:
        monkeypatch.setattr(identity, "MEASURING", 0)
    again = tables.measured("toy", [corpus])["lines"]
    assert again[1].path not in made and (again[0].path in made) == (changed != "measuring")
    assert {p: p.stat().st_mtime_ns for p in made} == made  # the tables of what was before stay


def test_a_model_of_two_families_is_measured_once(root, tmp_path, monkeypatch):
    """A table of the same model and text is taken over under the other's names; a damaged or other one is not."""
    made, other = run(root)[1], tmp_path / "again.yml"
    other.write_text(f"context: 48\nmodels: [{{name: twin, id: '{root}/models/m1'}}]\n")
    measured, ask = [], {"corpora": [str(root / "lines.jsonl")], "progress": False}
    monkeypatch.setattr(m, "measure_model", lambda model, tasks, *_: measured.extend(t.path for t in tasks))
    here, there = read_ranks(*m.measure(str(other), **ask)), read_ranks(made)
    assert not measured and (here.record["family"], here.record["model"]) == ("again", "twin")
    assert here.record["model_id"] == f"{root}/models/m1" and here.path.name == made.name
    assert here.record["columns_sha256"] == there.record["columns_sha256"] and here.text == there.text
    for path in (here.path, made):
        held = bytearray(path.read_bytes())
        held[len(held) // 3] ^= 1
        path.write_bytes(held)
    assert m.measure(str(other), **ask) == measured == [here.path]
    assert m.measure(str(other), protocol="full", **ask) == measured[1:] != [here.path]


def test_the_door_reads_each_table_once_smallest_model_first_and_mends_a_damaged_one(root, monkeypatch):
    corpus = str(root / "lines.jsonl")
    run(root)
    real, read = tables.open_ranks, []
    monkeypatch.setattr(tables, "open_ranks", lambda path, expect: read.append(path) or real(path, expect))
    found = tables.measured("toy", [corpus])
    assert list(found) == ["lines"] and [t.record["model"] for t in found["lines"]] == ["m0", "m1"]
    assert sorted(read) == sorted(t.path for t in found["lines"])
    monkeypatch.undo()
    monkeypatch.setenv("RBP_ROOT", str(root))
    monkeypatch.setenv("RBP_RESULTS", str(read[0].parents[3]))
    data = read[0].read_bytes()
    read[0].write_bytes(data[:200] + bytes(8) + data[208:])  # the record at the end still fits
    again = tables.measured_families(["toy"], [corpus])["toy", "lines"]
    same = [t.record["columns_sha256"] for t in found["lines"]]
    assert [t.record["columns_sha256"] for t in again] == same


def test_a_state_space_model_is_measured_without_advice_on_kernels(tmp_path):
    text = tmp_path / "text.jsonl"
    text.write_text("\n".join(f'{{"text": "{t}"}}' for t in TEXTS[:3]))
    command = ["measure", "--family", "nano-mamba", "--corpus", str(text), "--quiet"]
    settings = {**os.environ, "RBP_RESULTS": str(tmp_path / "results"), "RBP_ROOT": str(ROOT)}
    done = subprocess.run([sys.executable, "-m", "rbplib", *command], capture_output=True, text=True, env=settings,
                          cwd=ROOT)  # fmt: skip
    assert done.returncode == 0 and done.stderr == ""
    assert len(list((tmp_path / "results" / "ranks" / "nano-mamba").glob("*/text-*.parquet"))) == 6


def test_an_interrupted_run_goes_on_from_its_parts(root, monkeypatch):
    monkeypatch.setattr(m, "PART_TOKENS", 200)
    path = place(root)
    real, calls = m.measure_windows, []

    def dies(*args):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(*args)

    monkeypatch.setattr(m, "measure_windows", dies)
    with pytest.raises(KeyboardInterrupt):
        run(root, models=["m1"])
    assert not path.exists()
    parts = sorted(path.parent.glob(".lines-*.parts-*/*.parquet"))
    assert len(parts) == 2
    parts[1].write_bytes(parts[1].read_bytes()[:50])  # a damaged part is measured again, not used
    calls[:] = [1] * 10
    run(root, models=["m1"])
    resumed = read_ranks(path).record["columns_sha256"]
    path.unlink()
    monkeypatch.setattr(m, "measure_windows", real)
    run(root, models=["m1"])
    assert read_ranks(path).record["columns_sha256"] == resumed


def test_memory_that_runs_out_halves_the_batch(root, tmp_path, monkeypatch):
    calm = read_ranks(run(root, models=["m0"])[0])
    real, refused = m.sequence_ranks, []

    def tight(model, ids, **options):
        if len(ids) > 3:
            refused.append(len(ids))
            raise torch.OutOfMemoryError("simulated")
        return real(model, ids, **options)

    monkeypatch.setattr(m, "sequence_ranks", tight)
    table = read_ranks(run(root, models=["m0"], results=tmp_path / "tight")[0])
    assert refused and (table.rank() == calm.rank()).all()
    monkeypatch.setattr(m, "sequence_ranks", lambda *a, **k: (_ for _ in ()).throw(torch.OutOfMemoryError("always")))
    with pytest.raises(InputError, match="does not fit"):
        run(root, models=["m0"], results=tmp_path / "never")


def test_special_tokens_are_never_scored(root):
    (root / "special.jsonl").write_text('{"text": "the fox<|endoftext|>the dog"}\n')
    path = m.measure("toy", models=["m0"], corpora=[str(root / "special.jsonl")], progress=False)[0]
    table = read_ranks(path)
    assert 0 not in table.token and len(table) > 2


@pytest.mark.parametrize("text", ["", "\n \n"])
def test_an_empty_corpus_is_refused(root, tmp_path, text):
    (tmp_path / "nothing.txt").write_text(text)
    with pytest.raises(InputError, match="nothing"):
        m.measure("toy", corpora=[str(tmp_path / "nothing.txt")], progress=False)


def test_a_window_beyond_the_context_is_refused(root):
    (root / "families" / "wide.yml").write_text("context: 512\nmodels: [models/m0]\n")  # it reads 64
    with pytest.raises(InputError, match="context: 64"):
        m.measure("wide", corpora=[str(root / "lines.jsonl")], progress=False)


def test_results_that_cannot_be_written(root, tmp_path):
    (tmp_path / "results").write_text("a file in the way")
    with pytest.raises(InputError, match="could not be written"):
        run(root, models=["m0"])


@pytest.mark.parametrize("first", ["import rbplib.measuring", "import rbplib"])
def test_measure_is_a_public_function_whatever_was_imported_before(first):
    code = f"{first}; import rbplib; from rbplib import measure; assert measure is rbplib.measure and callable(measure)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_no_more_than_the_next_text_is_tokenised_ahead(root, tmp_path, monkeypatch):
    texts, seen, encode = [tmp_path / f"{name}.txt" for name in "abc"], [], m.encode
    for path in texts:
        path.write_text(f"some words of {path.stem}\n" * 300)
    monkeypatch.setattr(m, "encode", lambda *given: seen.append(1) or encode(*given))
    monkeypatch.setattr(m, "_measure_table", lambda *given: time.sleep(0.5) or ahead.append(len(seen)))
    ahead = []
    m.measure("toy", models=["m0"], corpora=list(map(str, texts)), progress=False)
    assert ahead == [2, 3, 3]  # the ids of all would be held at once


def test_candidates_at_a_place_are_those_of_the_whole_scores(root):
    from paper.top_tokens import best_candidates

    net = GPTNeoXForCausalLM.from_pretrained(root / "models/m1", dtype=torch.float32).eval()
    ids = PreTrainedTokenizerFast.from_pretrained(root / "models/m1")(TEXTS[3])["input_ids"]
    family, (model,), (corpus,) = identity.asked("toy", ["m1"], [str(root / "lines.jsonl")])
    document = list(load_documents(corpus).texts).index(TEXTS[3])
    ((context, token, _, told),) = best_candidates(family, model, corpus, [(document, 9)])
    with torch.no_grad():
        best = net(torch.tensor([ids[:9]])).logits[0, -1].softmax(-1).sort(descending=True).values
    assert len(context) == 9 and token == ids[9] and [p for _, p in told] == pytest.approx(best[:5].tolist(), rel=1e-4)
