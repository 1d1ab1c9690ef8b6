"""Models in GGUF: measured as what transformers expands them to."""

from hashlib import sha256

import pytest
import torch
from architectures import made
from commands import answers, call, refusal
from gguffile import write_gguf
from smallmodels import hub_model, tokenizer
from test_bad_models import refused

from rbplib import rbp_loss, read_table, token_ranks
from rbplib.models import load_model

gguf = pytest.importorskip("gguf", reason="reading GGUF needs the package gguf")
# sides that are multiples of the 32 numbers of a block
SHAPE = {"hidden_size": 64, "intermediate_size": 96, "max_position_embeddings": 64}
SHAPE |= {"vocab_size": len(tokenizer())}
TEXT = "".join(f"{i}: the quick brown fox jumps over {i * i} lazy dogs\n" for i in range(30))


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """(a GGUF file in Q4_1, the Llama that it holds)."""
    path = tmp_path_factory.mktemp("gguf") / "small.Q4_1.gguf"
    model = made("llama", **SHAPE)
    write_gguf(path, model)
    tokenizer(300).save_pretrained(path.parent)  # another's, which happens to lie there
    (path.parent / "adapter_config.json").write_text("{}")
    return path, model


@pytest.fixture
def words(small, tmp_path):
    """What a command is told of the family of that file and a text."""
    (tmp_path / "text.txt").write_text(TEXT)
    (tmp_path / "mine.yml").write_text(f"models: [{{id: {small[0]}, name: small}}]\n")
    return f"--family {tmp_path}/mine.yml --corpus {tmp_path}/text.txt"


def test_a_gguf_file_is_measured_as_any_model(small, words, tmp_path):
    path, model = small
    results = f"--results {tmp_path}/results"
    assert call(f"measure {words} {results} --quiet") == 0
    table = read_table(tmp_path / "results/ranks/mine/small/text.parquet")
    # what is told of it
    S = model.num_parameters() - 2 * model.lm_head.weight.numel()
    assert answers(f"families {tmp_path}/mine.yml")[0]["nonembedding_params"] == S
    assert table.record["nonembedding_params"] == S and table.record["window"] == 64
    assert table.record["model_digest"] == sha256(path.read_bytes()).hexdigest()
    assert rbp_loss([table], 1).precision == "Q4_1"
    assert "--dtype bfloat16 --replace`" in refusal(f"measure {words} {results} --dtype bfloat16")
    # naive ranks of its tokens
    ids = torch.tensor([load_model(hub_model(path)).tokenizer(TEXT)["input_ids"][:64]])
    assert ids[0].tolist() == tokenizer()(TEXT)["input_ids"][:64]
    assert ids[0, 1:].tolist() == table.token[:63].tolist()
    with torch.inference_mode():
        naive = token_ranks(model(ids).logits[0, :-1], ids[0, 1:])
    assert naive.greater.tolist() == table.greater[:63].tolist()
    assert naive.ties.tolist() == table.ties[:63].tolist()


def test_a_plan_reads_no_more_than_the_header(small, words, monkeypatch):
    monkeypatch.setattr(gguf, "GGUFReader", lambda *_: pytest.fail("every token is made an array"))
    plan = answers(f"plan {words}")
    total = small[1].num_parameters()
    assert plan["models"][0]["weights_bytes"] == 4 * total and plan["corpora"][0]["tokens"] <= 64


@pytest.mark.parametrize("name", ["blk.0.attn_q.bias", "rope_freqs.weight"])
def test_numbers_that_transformers_passes_over_are_refused(name, tmp_path):
    write_gguf(tmp_path / "more.gguf", made("llama", **SHAPE), {name: 32})
    line = refused(tmp_path, tmp_path / "more.gguf")
    assert "holds 32 numbers more than transformers takes" in line and name in line


BAD = {  # what the file holds
    "no GGUF": lambda data: b"hello there, this is no model",
    "cut in its header": lambda data: data[: len(data) // 50],
    "cut in its weights": lambda data: data[: len(data) * 7 // 10],
    "an architecture not read": lambda data: data.replace(b"llama", b"lumma"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_gguf_is_one_sentence(name, small, tmp_path):
    path = tmp_path / "model.gguf"
    path.write_bytes(BAD[name](small[0].read_bytes()))
    assert str(path) in refused(tmp_path, path)
