"""Models in GGUF, and weights rounded to such blocks: measured as what transformers expands them
to."""

import shutil

import pytest
import torch
from gguffile import small_llama, write_gguf
from smallmodels import hub_model, tokenizer
from test_bad_models import refused

from rbplib import cli
from rbplib.models import family_sizes, folder_digest, load_model, rounded
from rbplib.ranks import token_ranks
from rbplib.table import read_table

gguf = pytest.importorskip("gguf", reason="reading GGUF needs the package gguf")
TEXT = "".join(f"{i}: the quick brown fox jumps over {i * i} lazy dogs\n" for i in range(30))


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """(a GGUF file in Q4_1, the Llama that it holds)."""
    path, model = tmp_path_factory.mktemp("gguf") / "small.Q4_1.gguf", small_llama()
    write_gguf(path, model)
    return path, model


def test_a_gguf_file_is_measured_as_any_model(small, tmp_path, capsys):
    path, model = small
    (tmp_path / "text.txt").write_text(TEXT)
    (tmp_path / "mine.yml").write_text(f"models: [{{id: {path}, name: small}}]\n")
    request = [
        "--family",
        tmp_path / "mine.yml",
        "--corpus",
        tmp_path / "text.txt",
        "--results",
        tmp_path / "results",
    ]
    assert cli.main(["measure", *map(str, request), "--quiet"]) == 0
    said = f"--family {tmp_path}/mine.yml --corpus={tmp_path}/text.txt --results {tmp_path}/results"
    out = capsys.readouterr().out
    assert "models 1" in out and f"next: rbp fit {said}\n" in out
    table = read_table(tmp_path / "results/ranks/mine/small/text.parquet")
    assert table.record["quantisation"] == {"file_type": "Q4_1"} and table.record["window"] == 64
    assert table.record["model_digest"] == folder_digest(path)
    S = model.num_parameters() - 2 * model.lm_head.weight.numel()
    assert table.record["nonembedding_params"] == S
    assert family_sizes(tmp_path / "mine.yml")[0]["nonembedding_params"] == S
    ids = torch.tensor([load_model(hub_model(str(path))).tokenizer(TEXT)["input_ids"][:64]])
    assert ids[0].tolist() == tokenizer()(TEXT)["input_ids"][:64]
    assert ids[0, 1:].tolist() == table.token[:63].tolist()
    with torch.inference_mode():
        naive = token_ranks(model(ids).logits[0, :-1], ids[0, 1:])
    assert naive.greater.tolist() == table.greater[:63].tolist()
    assert naive.ties.tolist() == table.ties[:63].tolist()
    assert abs(naive.logprob.numpy() - table.logprob[:63]).max() < 1e-5


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_0", "Q4_1"])
def test_every_block_is_rounded_by_itself(kind):
    """Of any shape, with a shorter block at the end of each row."""
    values = torch.randn(2, 3, 40, generator=torch.Generator().manual_seed(3)) * 10
    values[0, 0, :32] = 0.0
    blocks = [rounded(block, kind) for row in values.view(6, 40) for block in row.split(32)]
    assert torch.equal(rounded(values, kind).flatten(), torch.cat(blocks))
    assert (rounded(values, kind)[0, 0, :32] == 0).all()
    # what is left over ends where its weights do: no zero widens its range
    rest = torch.linspace(5, 6, 40)[None]
    assert kind != "Q4_1" or (rounded(rest, kind) - rest).abs().max() < 0.05


def test_a_rounded_model_has_the_weights_of_its_file(small, tmp_path):
    """`--dtype Q4_1` of the full weights and the GGUF file of them are one model, but for its
    head."""
    full = small_llama()
    full.save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)
    ours = load_model(hub_model(str(tmp_path)), dtype="Q4_1")
    assert ours.record["weights_dtype"] == "Q4_1"
    theirs = load_model(hub_model(str(small[0]))).model.state_dict()
    state = ours.model.state_dict()
    assert all(torch.equal(state[name], theirs[name]) for name in state if name != "lm_head.weight")
    assert not torch.equal(state["lm_head.weight"], full.lm_head.weight)


BAD = {  # what the file holds: of the good one, so many bytes of it, or others
    "no GGUF": lambda data: b"hello there, this is no model",
    "cut in its header": lambda data: data[: len(data) // 50],
    "cut in its weights": lambda data: data[: len(data) * 7 // 10],
    "an architecture that transformers does not read": lambda data: data.replace(
        b"llama", b"lumma"
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_gguf_is_one_sentence(name, small, tmp_path, capsys):
    path = tmp_path / "model.gguf"
    path.write_bytes(BAD[name](small[0].read_bytes()))
    assert str(path) in refused(tmp_path, path, capsys)


def test_a_folder_that_holds_one_is_told_to_name_the_file(small, tmp_path, capsys):
    (tmp_path / "model").mkdir()
    shutil.copy(small[0], tmp_path / "model")
    assert "or the path of a .gguf file" in refused(tmp_path, tmp_path / "model", capsys)
