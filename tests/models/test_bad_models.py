"""Folders that are no model, or not the one they say: each is told in one sentence, and nothing is measured."""

import json
import os
import pickle
import re
import shutil
import tempfile
from pathlib import Path

import pytest
import torch
from architectures import made
from safetensors.torch import load_file, save_file
from smallmodels import add_to_config, save_model, tokenizer

from rbplib import cli

WEIGHTS = "model.safetensors"


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """A small GPT-2 with its tokenizer, which every bad one starts from."""
    folder = tmp_path_factory.mktemp("good") / "m"
    save_model(folder, "gpt2")
    return folder


def said_of(root, folder, capsys, *options):
    """(exit code, lines on standard error) of measuring a family of that one model; no table may be left."""
    (root / "text.txt").write_text("the quick brown fox jumps over the lazy dog\n")
    (root / "bad.yml").write_text(json.dumps({"context": 16, "models": [{"id": str(folder), "name": "bad"}]}))
    ask = ["--family", root / "bad.yml", "--corpus", root / "text.txt", "--results", root / "results", "--quiet"]
    code = cli.main(["measure", *map(str, ask), *options])
    assert not list(root.glob("results/**/*.parquet"))
    out, err = capsys.readouterr()
    assert out == ""
    return code, err.strip().splitlines()


def write(name, data):
    return lambda folder: (folder / name).write_bytes(data)


def remove(*names):
    return lambda folder: [(folder / name).unlink() for name in names]


def config(**fields):
    return lambda folder: add_to_config(folder, **fields)


def tensors(change):
    """Change the mapping of tensors in the weights file."""

    def edit(folder):
        found = load_file(folder / WEIGHTS)
        change(found)
        save_file(found, folder / WEIGHTS, {"format": "pt"})

    return edit


def put(value, name="transformer.h.1.mlp.c_fc.weight"):
    return tensors(lambda found: found[name].view(-1).__setitem__(7, value))


def other(kind, **changes):
    """The weights and configuration of another kind, in the place of the good ones."""

    def build(folder):
        (folder / WEIGHTS).unlink()
        made(kind, **changes).save_pretrained(folder)

    return build


def seq2seq(folder):
    from transformers import T5Config, T5ForConditionalGeneration

    shape = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 1, "num_heads": 2, "vocab_size": 331}
    T5ForConditionalGeneration(T5Config(**shape, decoder_start_token_id=0)).save_pretrained(folder)


def whole_bart(folder):
    from transformers import BartConfig, BartForConditionalGeneration

    sides = {f"{s}_{n}": v for s in ("encoder", "decoder") for n, v in (("layers", 1), ("attention_heads", 2))}
    shape = {"d_model": 32, "vocab_size": 331, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48}
    BartForConditionalGeneration(BartConfig(**shape, **sides)).save_pretrained(folder)
    add_to_config(folder, is_decoder=True, is_encoder_decoder=False)


def cut(name, part=0.5):
    return lambda folder: os.truncate(folder / name, int((folder / name).stat().st_size * part))


def only(name, data=b""):
    def build(folder):
        (folder / WEIGHTS).unlink()
        (folder / name).write_bytes(data)

    return build


class Runs:
    def __reduce__(self):
        return os.system, ("touch /tmp/rbp-was-here",)


XLNET = {"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 48}
BERT = {"is_decoder": False}
TOKENIZER = ("tokenizer.json", "tokenizer_config.json")
SHAPE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
         "intermediate_size": 48}  # fmt: skip
BAD = {  # what is done to the folder, and what the sentence must say
    "empty folder": (lambda f: [p.unlink() for p in f.iterdir()], "config.json"),
    "no configuration": (remove("config.json"), "holds no config.json"),
    "configuration is a list": (write("config.json", b'["gpt2"]'), "a list, where a mapping is wanted"),
    "configuration is an empty list": (write("config.json", b"[]"), "a list, where a mapping is wanted"),
    "configuration is a list of pairs": (write("config.json", b'[["model_type", "gpt2"]]'), "a list, where a mapping"),
    "configuration is a number": (write("config.json", b"7"), "a int, where a mapping is wanted"),
    "configuration is null": (write("config.json", b"null"), "where a mapping is wanted"),
    "configuration is broken JSON": (write("config.json", b'{"model_type": '), "not a readable configuration"),
    "configuration is no text": (write("config.json", b"\xff\xfe\x00"), "not a readable configuration"),
    "configuration is nested without end": (write("config.json", b"[" * 100_000), "not a readable configuration"),
    "configuration is empty": (write("config.json", b""), "not a readable configuration"),
    "architecture unknown": (config(model_type="gpt-99"), "type 'gpt-99', unknown to this transformers"),
    "architecture missing": (write("config.json", b"{}"), "unknown to this transformers"),
    "own code": (config(model_type="mine", auto_map={"AutoConfig": "x.C"}), "--trust-remote-code"),
    "width is text": (config(n_embd="wide"), "config.json of .* cannot be used .*n_embd.*wide.*correct or save it"),
    "heads do not divide the width": (config(n_head=5), "must be divisible"),
    "more layers in the weights": (config(n_layer=1), r"hold 11 tensors .* no place for \(transformer.h.1"),
    "fewer layers in the weights": (config(n_layer=3), r"lack 12 tensors .*\(transformer.h.2"),
    "another width": (config(n_embd=16, n_inner=None), "another configuration|could not be loaded"),
    "another vocabulary": (config(vocab_size=77), "another configuration|could not be loaded"),
    "weights of another architecture": (config(model_type="llama", **SHAPE), "lack .* tensors"),
    "a bias the configuration knows nothing of": (
        tensors(lambda t: t.update({"transformer.h.0.ln_3.weight": torch.ones(32)})), "no place for .*ln_3"),
    "a tensor missing": (tensors(lambda t: t.pop("transformer.h.0.ln_1.weight")), "lack 1 tensors"),
    "NaN in the weights": (put(torch.nan), r"a NaN or an infinite number in transformer.h.1.mlp.c_fc.weight"),
    "infinity in the weights": (put(torch.inf), "a NaN or an infinite number"),
    "minus infinity in a table": (put(-torch.inf, "transformer.wte.weight"), "infinite number in transformer.wte"),
    "scores overflow": (tensors(lambda t: [p.mul_(1e38) for p in t.values()]), "NaN|infinite"),
    "weights cut short": (cut(WEIGHTS), "model.safetensors of .* is damaged"),
    "weights cut in their header": (cut(WEIGHTS, 0.01), "model.safetensors of .* is damaged"),
    "weights of zero bytes": (write(WEIGHTS, b""), "model.safetensors is empty: copy the model whole"),
    "weights that are text": (write(WEIGHTS, b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n"),
                              "is a pointer of Git LFS, not the file itself: copy"),
    "weights are a folder": (
        lambda f: [(f / WEIGHTS).unlink(), (f / WEIGHTS).mkdir()], r"cannot be read \(Is a directory"),
    "weights that are prose": (write(WEIGHTS, b"It was a dark night. " * 9), "model.safetensors of .* damaged"),
    "no weights": (remove(WEIGHTS), "no model.safetensors"),
    "weights of another kind": (only("model.ckpt.index"), "cannot be read here"),
    "a pickle that runs code": (only("pytorch_model.bin", pickle.dumps(Runs())), "hold more than tensors"),
    "a pickle of zero bytes": (only("pytorch_model.bin"), "pytorch_model.bin is empty"),
    "an index without its shards": (
        only("model.safetensors.index.json", b'{"weight_map": {"transformer.wte.weight": "a.safetensors"}}'),
        "a.safetensors|could not be loaded"),
    "an index that is broken": (only("model.safetensors.index.json", b"{"), "could not be loaded|not readable"),
    "no tokenizer": (remove(*TOKENIZER), "comes without a tokenizer"),
    "tokenizer broken": (write("tokenizer.json", b"{"), "tokenizer of .* cannot be read"),
    "an encoder": (other("bert", **BERT), "sees the future"),
    "XLNet": (other("xlnet", **XLNET), "sees the future"),
    "RoBERTa": (other("roberta", **SHAPE), "sees the future"),
    "sequence to sequence": (seq2seq, "no causal language model"),
    "a decoder taken out of a whole BART": (whole_bart, "(lack|hold) .* tensors"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", BAD)
def test_a_bad_model_is_one_sentence(name, good, tmp_path, capsys):
    change, wanted = BAD[name]
    folder = tmp_path / "model"
    shutil.copytree(good, folder)
    change(folder)
    capsys.readouterr()
    code, lines = said_of(tmp_path, folder, capsys)
    assert code == 2 and len(lines) == 1 and lines[0].startswith("rbp: "), lines
    assert re.search(wanted, lines[0]), lines[0]
    assert len(lines[0]) < 400
    assert not Path("/tmp/rbp-was-here").exists()


@pytest.mark.parametrize("ident", ["no/such/folder", "/no/such/model.gguf", "../up", "a b", ""])
def test_an_id_that_is_neither_a_folder_nor_of_the_hub(ident, tmp_path, capsys):
    code, lines = said_of(tmp_path, ident, capsys)
    assert code == 2 and len(lines) == 1 and repr(ident) in lines[0]


@pytest.mark.parametrize("count", ["0", "-4096"])
def test_a_batch_holds_at_least_a_token(count, good, tmp_path, capsys):
    code, lines = said_of(tmp_path, good, capsys, "--batch-tokens", count)
    assert code == 2 and lines == [f"rbp: a batch of {count} tokens holds none: give 1 or more, or leave it out."]


@pytest.mark.parametrize("name", [WEIGHTS, "config.json", "tokenizer.json", "."])
def test_files_that_one_may_not_read(name, good, capsys):
    """As another user where the tests run as root, who may read everything."""
    root = Path(tempfile.mkdtemp())
    shutil.copytree(good, root / "model")
    (root / "model" / name).chmod(0o000)
    mine = os.geteuid()
    if mine == 0:
        for path in (root, *root.rglob("*")):
            os.chown(path, 65534, 65534)
        os.seteuid(65534)
    try:
        code, lines = said_of(root, root / "model", capsys)
    finally:
        os.seteuid(mine)
        (root / "model" / name).chmod(0o700)
        shutil.rmtree(root)
    assert code == 2 and len(lines) == 1
    assert "ermission denied" in lines[0] and (name == "." or name in lines[0]), lines


def test_what_older_versions_saved_beside_the_weights_is_no_harm(good, tmp_path, capsys):
    folder = tmp_path / "model"
    shutil.copytree(good, folder)
    mask = torch.ones(1, 1, 64, 64, dtype=torch.bool).tril()
    old = {"transformer.h.0.attn.bias": mask, "transformer.h.0.attn.masked_bias": torch.tensor(-1e4)}
    tensors(lambda found: found.update(old | {"score.weight": torch.ones(2, 32)}))(folder)
    from rbplib.model_files import hub_model
    from rbplib.models import load_model

    assert load_model(hub_model(str(folder))).record["nonembedding_params"] > 0
    assert capsys.readouterr().err == ""


def test_tokenizer_ids_beyond_the_vocabulary(tmp_path, capsys):
    """The tokenizer knows 320 tokens, the model 290."""
    made("gpt2", vocab_size=290).save_pretrained(tmp_path / "model")
    tokenizer().save_pretrained(tmp_path / "model")
    capsys.readouterr()
    code, lines = said_of(tmp_path, tmp_path / "model", capsys)
    assert code == 2 and "is outside the vocabulary" in lines[0] and "tokenizer does not belong to it" in lines[0]
