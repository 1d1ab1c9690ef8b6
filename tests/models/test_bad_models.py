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
from commands import refusal
from safetensors.torch import load_file, save_file
from smallmodels import add_to_config, hub_model, save_model, tokenizer

from rbplib.models import load_model

WEIGHTS = "model.safetensors"


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """A small GPT-2 with its tokenizer, which every bad one starts from."""
    folder = tmp_path_factory.mktemp("good") / "m"
    save_model(folder)
    return folder


@pytest.fixture
def folder(good, tmp_path):
    return shutil.copytree(good, tmp_path / "model")


def refused(root, ident):
    """The sentence about measuring a family of that one model; no table may be left."""
    (root / "text.txt").write_text("the quick brown fox jumps over the lazy dog\n")
    entry = {"id": str(ident), "name": "bad"}
    (root / "bad.yml").write_text(json.dumps({"context": 16, "models": [entry]}))
    words = f"--family {root}/bad.yml --corpus {root}/text.txt --results {root}/results"
    line = refusal(f"measure {words} --quiet")
    assert len(line) < 800 and not list(root.glob("results/**/*.parquet"))
    return line


def write(name, text):
    return lambda folder: (folder / name).write_text(text)


def remove(*names):
    return lambda folder: [(folder / name).unlink() for name in names]


def config(**fields):
    return lambda folder: add_to_config(folder, **fields)


def tensors(change, pickled=False):
    """Change the mapping of tensors in the weights file."""

    def edit(folder):
        state = load_file(folder / WEIGHTS)
        change(state)
        if pickled:
            (folder / WEIGHTS).unlink()
            return torch.save(state, folder / "pytorch_model.bin")
        save_file(state, folder / WEIGHTS, {"format": "pt"})

    return edit


def surplus(name, *shape):
    """Weights with a tensor of ones more."""
    return tensors(lambda state: state.update({name: torch.ones(shape)}))


def other(kind, **changes):
    """The weights and configuration of another kind, in the place of the good ones."""

    def build(folder):
        (folder / WEIGHTS).unlink()
        made(kind, **changes).save_pretrained(folder)

    return build


class Runs:
    def __reduce__(self):
        return os.system, ("touch /tmp/rbp-was-here",)


def pickled_code(folder):
    (folder / WEIGHTS).unlink()
    torch.save(Runs(), folder / "pytorch_model.bin")


def dropout(folder):
    fields = json.loads((folder / "tokenizer.json").read_text())
    fields["model"]["dropout"] = 0.5
    (folder / "tokenizer.json").write_text(json.dumps(fields))


REFORMER = {"attn_layers": ["local", "lsh"], "axial_pos_embds": False, "is_decoder": True}
AUTO_MAP = json.dumps({"auto_map": {"a": "x.T"}})
FC, ATTENTION = "transformer.h.1.mlp.c_fc.weight", "transformer.h.0.attn.bias"
FREQUENCIES = "model.layers.0.self_attn.rotary_emb.inv_freq"
BAD = {  # what the sentence says: what is done to the folder, one after the other
    "holds no config.json": [remove("config.json")],
    "gpt-99": [config(model_type="gpt-99")],
    "configuration of .* cannot be used.*n_embd": [config(n_embd="wide")],
    "'n_embd' is there twice": [write("config.json", '{"n_embd": 32, "n_embd": 64}')],
    "GPT2LMHeadModelEagle .*transformers lacks": [config(architectures=["GPT2LMHeadModelEagle"])],
    # code
    "'auto_map' of its config.json.*is not run": [
        write("x.py", "open('/tmp/rbp-was-here', 'w')"),
        config(auto_map={"AutoConfig": "x.C"}),
    ],
    "of its tokenizer_config.json.*is not run": [write("tokenizer_config.json", AUTO_MAP)],
    "attn_impl.*is not run": [config(attn_implementation="owner/k")],
    "load failed. [^`]*posix.system[^`]*$": [pickled_code],
    # weights and configuration that do not belong together
    "could not be loaded": [remove(WEIGHTS)],
    "lack 2. tensors of .*belong together": [config(n_embd=64)],
    r"hold 11 more .*transformer.h.1": [config(n_layer=1)],
    "hold 1 more .*c_fc.weight_scale": [surplus(f"{FC}_scale", 1)],
    f"{FC} as I64, .* does not say how it was": [
        tensors(lambda state: state.update({FC: state[FC].mul(100).long()}))
    ],
    f"hold {FC} as U8": [
        tensors(lambda state: state.update({FC: state[FC].byte()})),
        config(quantization_config={"quant_method": "mine"}),
    ],
    f"hold {FC} as int8": [tensors(lambda state: state.update({FC: state[FC].char()}), True)],
    "hold a NaN": [tensors(lambda state: state[FC][0].fill_(torch.nan))],
    f"{ATTENTION} of other values than a": [surplus(ATTENTION, 32)],
    "bias of other values than a causal mask": [surplus(ATTENTION, 1, 1, 4, 4)],
    "inv_freq of other values.*rope_theta": [other("llama"), surplus(FREQUENCIES, 4)],
    r"adapter beside .*merge_and_unload.*give its folder": [write("adapter_config.json", "{}")],
    # tokenizers
    "without a tokenizer": [remove("tokenizer.json", "tokenizer_config.json")],
    "tokenizer of .* cannot be read": [write("tokenizer.json", "{")],
    "cuts text at random": [dropout],
    "its own tokenizer.*vocabulary": [other("gpt2", vocab_size=290)],
    # no causal language models
    "sees the future": [other("bert", is_decoder=False)],
    "draws at random": [other("reformer", **REFORMER)],
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("words", BAD)
def test_a_bad_model_is_one_sentence(words, folder, tmp_path):
    for change in BAD[words]:
        change(folder)
    line = refused(tmp_path, folder)
    assert re.search(words, line), line
    assert not Path("/tmp/rbp-was-here").exists()


@pytest.mark.parametrize("ident", ["no/such/folder", "/no/such/model.gguf", "../up", "a b"])
def test_an_id_that_is_neither_a_folder_nor_of_the_hub(ident, tmp_path):
    assert repr(ident) in refused(tmp_path, ident)


def test_a_device_that_is_not_there(good):
    with pytest.raises(ValueError, match="cuda:99"):
        load_model(hub_model(good), device="cuda:99")


def test_a_head_beside_a_tied_embedding_is_told(folder, capsys):
    surplus("lm_head.weight", 320, 32)(folder)
    load_model(hub_model(folder))
    assert "hold a head of their own" in capsys.readouterr().err


def test_what_older_versions_saved_beside_the_weights_is_no_harm(folder, capsys):
    names = ("attn.bias", "attn.masked_bias", "attn.attention.masked_bias", "attn.causal_mask")
    names += ("attn.rotary_emb.inv_freq", "attn.rotary_emb.cos_cached", "position_ids")
    old = {f"transformer.h.0.{name}": torch.ones(1, 1, 4, 4).tril() for name in names}
    tensors(lambda state: state.update(old))(folder)
    assert load_model(hub_model(folder)).record["nonembedding_params"] > 0
    assert capsys.readouterr().err == ""


def test_rotary_frequencies_kept_in_half_precision_are_those_of_the_configuration(folder):
    other("llama")(folder)
    theirs = load_model(hub_model(folder)).model.model.rotary_emb.inv_freq
    tensors(lambda state: state.update({FREQUENCIES: theirs.half()}))(folder)
    load_model(hub_model(folder))


def test_the_family_shares_a_tokenizer_above_its_models(good, tmp_path):
    shutil.copytree(good, tmp_path / "family" / "m")
    alone = load_model(hub_model(good)).record
    (tmp_path / "tokenizer").mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.move(tmp_path / "family" / "m" / name, tmp_path / "tokenizer" / name)
    record = load_model(hub_model(tmp_path / "family" / "m")).record
    assert record["tokenizer_digest"] == alone["tokenizer_digest"]
    assert record["model_digest"] != alone["model_digest"]
    # its code is not run either, and it is part of the model
    (tmp_path / "tokenizer/tokenizer_config.json").write_text(AUTO_MAP)
    with pytest.raises(ValueError, match="auto_map"):
        load_model(hub_model(tmp_path / "family" / "m"))
    tokenizer(vocab=300).save_pretrained(tmp_path / "tokenizer")
    other_words = load_model(hub_model(tmp_path / "family" / "m")).record
    assert other_words["model_digest"] != record["model_digest"]
