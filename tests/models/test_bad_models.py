"""What is no model, or not the one it says: each is told in one sentence, and nothing is
measured."""

import json
import os
import re
import shutil
from pathlib import Path

import pytest
import torch
from architectures import made
from commands import call
from safetensors.torch import load_file, save_file
from smallmodels import add_to_config, hub_model, save_model, tokenizer

from rbplib.models import load_model

WEIGHTS = "model.safetensors"


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """A small GPT-2 with its tokenizer, which every bad one starts from."""
    folder = tmp_path_factory.mktemp("good") / "m"
    save_model(folder, "gpt2")
    return folder


def refused(root, ident, capsys):
    """The one line on standard error of measuring a family of that one model; no table may be
    left."""
    (root / "text.txt").write_text("the quick brown fox jumps over the lazy dog\n")
    entry = {"id": str(ident), "name": "bad"}
    (root / "bad.yml").write_text(json.dumps({"context": 16, "models": [entry]}))
    words = f"measure --family {root}/bad.yml --corpus {root}/text.txt --results {root}/results"
    capsys.readouterr()
    assert call(f"{words} --quiet") == 2
    out, err = capsys.readouterr()
    assert out == "" and not list(root.glob("results/**/*.parquet"))
    (line,) = err.strip().splitlines()
    assert line.startswith("rbp: ") and len(line) < 800
    return line


def write(name, data):
    return lambda folder: (folder / name).write_bytes(data)


def remove(*names):
    return lambda folder: [(folder / name).unlink() for name in names]


def config(**fields):
    return lambda folder: add_to_config(folder, **fields)


def tensors(change):
    """Change the mapping of tensors in the weights file."""

    def edit(folder):
        state = load_file(folder / WEIGHTS)
        change(state)
        save_file(state, folder / WEIGHTS, {"format": "pt"})

    return edit


def other(kind, **changes):
    """The weights and configuration of another kind, in the place of the good ones."""

    def build(folder):
        (folder / WEIGHTS).unlink()
        made(kind, **changes).save_pretrained(folder)

    return build


def own_code(folder):
    (folder / "x.py").write_text("open('/tmp/rbp-was-here', 'w')")
    add_to_config(folder, model_type="mine", auto_map={"AutoConfig": "x.C"})


class Runs:
    def __reduce__(self):
        return os.system, ("touch /tmp/rbp-was-here",)


def adapter(folder):
    (folder / "adapter_config.json").write_text('{"peft_type": "LORA", "r": 8}')


def surplus(name, size=32):
    """Weights with one tensor more than their configuration says."""
    return tensors(lambda state: state.update({name: torch.ones(size)}))


def pickled_code(folder):
    (folder / WEIGHTS).unlink()
    torch.save(Runs(), folder / "pytorch_model.bin")


def pickled(folder, changed):
    state = load_file(folder / WEIGHTS) | changed
    (folder / WEIGHTS).unlink()
    torch.save(state, folder / "pytorch_model.bin")


def dropout(folder):
    fields = json.loads((folder / "tokenizer.json").read_text())
    fields["model"]["dropout"] = 0.5
    (folder / "tokenizer.json").write_text(json.dumps(fields))


REFORMER = {"attn_layers": ["local", "lsh"], "axial_pos_embds": False, "is_decoder": True}
FC = "transformer.h.1.mlp.c_fc.weight"
BAD = {  # what is done to the folder, and what the sentence must say
    "empty folder": (lambda f: [p.unlink() for p in f.iterdir()], "holds no config.json"),
    "architecture unknown": (config(model_type="gpt-99"), "gpt-99"),
    "own code": (own_code, "is not run"),
    "width is text": (config(n_embd="wide"), "configuration of .* cannot be used.*n_embd"),
    "more layers in the weights": (config(n_layer=1), r"hold 11 more .*transformer.h.1"),
    "biases that the configuration leaves out": (
        lambda folder: (
            other("llama", attention_bias=True)(folder),
            add_to_config(folder, attention_bias=False),
        ),
        r"hold 8 more tensors .*\(model.layers.0.self_attn.k_proj.bias",
    ),
    "a scale of a quantised weight": (surplus(f"{FC}_scale", 1), "hold 1 more .*c_fc.weight_scale"),
    "a quantised weight without its scale": (
        tensors(lambda state: state.update({FC: state[FC].mul(100).long()})),
        "hold transformer.h.1.mlp.c_fc.weight as I64, .* does not say how it was quantised",
    ),
    "quantised by a way that nobody knows": (
        lambda folder: (
            tensors(lambda state: state.update({FC: state[FC].to(torch.uint8)}))(folder),
            config(quantization_config={"quant_method": "mine"})(folder),
        ),
        "hold transformer.h.1.mlp.c_fc.weight as U8",
    ),
    "a pickled weight without its scale": (
        lambda folder: pickled(folder, {FC: torch.ones(32, 128, dtype=torch.int8)}),
        "hold transformer.h.1.mlp.c_fc.weight as int8",
    ),
    "a bias by a mask's name": (surplus("transformer.h.0.attn.bias"), "of other values than a"),
    "a mask that sees the future": (
        surplus("transformer.h.0.attn.bias", (1, 1, 4, 4)),
        "attn.bias of other values than a causal mask",
    ),
    "a configuration that says a thing twice": (
        write("config.json", b'{"n_embd": 32, "n_embd": 64}'),
        "the key 'n_embd' is there twice",
    ),
    "text cut at random": (dropout, "cuts text at random"),
    "kernels of a repository": (config(attn_implementation="owner/k"), "attn_impl.*is not run"),
    "a class that transformers lacks": (
        config(architectures=["GPT2LMHeadModelEagle"]),
        "is a GPT2LMHeadModelEagle .*transformers lacks",
    ),
    "other rotary frequencies": (
        lambda f: (
            other("llama")(f),
            surplus("model.layers.0.self_attn.rotary_emb.inv_freq", 4)(f),
        ),
        "hold model.layers.0.*inv_freq of other values.*rope_theta",
    ),
    "other rotary frequencies, pickled": (
        lambda f: (
            other("gpt_neox")(f),
            pickled(f, {"gpt_neox.rotary_emb.inv_freq": torch.ones(9)}),
        ),
        "inv_freq of other values",
    ),
    "an adapter": (adapter, r"adapter beside .*merge_and_unload.*give its folder"),
    "own code of a known kind": (
        config(auto_map={"AutoModelForCausalLM": "x.C"}),
        "'auto_map' of its config.json.*is not run",
    ),
    "own code of the tokenizer": (
        lambda folder: (folder / "tokenizer_config.json").write_text('{"auto_map": {"a": "x.T"}}'),
        "'auto_map' of its tokenizer_config.json.*is not run",
    ),
    "a tensor missing": (tensors(lambda t: t.pop("transformer.h.0.ln_1.weight")), "lack 1 tensors"),
    "NaN in the weights": (
        tensors(lambda t: t[FC].view(-1).__setitem__(7, torch.nan)),
        "hold a NaN",
    ),
    "weights of another model": (config(n_embd=64), "lack 2. tensors of .*belong together"),
    "no weights": (remove(WEIGHTS), "could not be loaded"),
    "a pickle that runs code": (pickled_code, "load failed. [^`]*posix.system[^`]*$"),
    "no tokenizer": (
        remove("tokenizer.json", "tokenizer_config.json"),
        "comes without a tokenizer",
    ),
    "tokenizer broken": (write("tokenizer.json", b"{"), "tokenizer of .* cannot be read"),
    "an encoder": (other("bert", is_decoder=False), "sees the future"),
    "attention at random": (other("reformer", **REFORMER), "draws at random"),
    "a tokenizer of more tokens": (other("gpt2", vocab_size=290), "its own tokenizer.*vocabulary"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", BAD)
def test_a_bad_model_is_one_sentence(name, good, tmp_path, capsys):
    change, wanted = BAD[name]
    folder = tmp_path / "model"
    shutil.copytree(good, folder)
    change(folder)
    line = refused(tmp_path, folder, capsys)
    assert re.search(wanted, line), line
    assert not Path("/tmp/rbp-was-here").exists()


@pytest.mark.parametrize("ident", ["no/such/folder", "/no/such/model.gguf", "../up", "a b"])
def test_an_id_that_is_neither_a_folder_nor_of_the_hub(ident, tmp_path, capsys):
    assert repr(ident) in refused(tmp_path, ident, capsys)


@pytest.mark.parametrize("choice", [{"device": "cuda:99"}, {"dtype": "int8"}])
def test_a_device_or_dtype_that_is_not_there(choice, good):
    with pytest.raises(ValueError, match="cuda:99|int8"):
        load_model(hub_model(good), **choice)


def test_a_head_beside_a_tied_embedding_is_told(good, tmp_path, capsys):
    folder = shutil.copytree(good, tmp_path / "m")
    tensors(lambda t: t.update({"lm_head.weight": -t["transformer.wte.weight"]}))(folder)
    load_model(hub_model(folder))
    assert "hold a head of their own" in capsys.readouterr().err


def test_what_older_versions_saved_beside_the_weights_is_no_harm(good, tmp_path, capsys):
    folder = tmp_path / "model"
    shutil.copytree(good, folder)
    names = ("attn.bias", "attn.masked_bias", "attn.attention.masked_bias", "attn.causal_mask")
    names += ("attn.rotary_emb.inv_freq", "attn.rotary_emb.cos_cached", "position_ids")
    old = {f"transformer.h.0.{name}": torch.ones(1, 1, 4, 4).tril() for name in names}
    tensors(lambda state: state.update(old))(folder)
    assert load_model(hub_model(folder)).record["nonembedding_params"] > 0
    assert capsys.readouterr().err == ""


def test_rotary_frequencies_kept_in_half_precision_are_those_of_the_configuration(good, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(good, folder)
    other("llama")(folder)
    theirs = load_model(hub_model(folder)).model.model.rotary_emb.inv_freq
    name = "model.layers.0.self_attn.rotary_emb.inv_freq"
    tensors(lambda state: state.update({name: theirs.half()}))(folder)
    load_model(hub_model(folder))


def test_the_family_shares_a_tokenizer_above_its_models(good, tmp_path):
    shutil.copytree(good, tmp_path / "family" / "m")
    alone = load_model(hub_model(good)).record
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / "tokenizer").mkdir(exist_ok=True)
        shutil.move(tmp_path / "family" / "m" / name, tmp_path / "tokenizer" / name)
    record = load_model(hub_model(tmp_path / "family" / "m")).record
    assert record["tokenizer_digest"] == alone["tokenizer_digest"]
    assert record["model_digest"] != alone["model_digest"]
    (tmp_path / "tokenizer/tokenizer_config.json").write_text('{"auto_map": {"a": "x.T"}}')
    with pytest.raises(ValueError, match="auto_map"):
        load_model(hub_model(tmp_path / "family" / "m"))
    tokenizer(vocab=300).save_pretrained(tmp_path / "tokenizer")
    repeated = load_model(hub_model(tmp_path / "family" / "m")).record
    assert repeated["model_digest"] != record["model_digest"]
