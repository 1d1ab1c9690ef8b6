"""Tiny random models of the paper's architectures, saved as the hub has them."""

import json
from pathlib import Path
from tempfile import NamedTemporaryFile

WIDE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
SHAPES = {
    "gpt2": {"n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 2},
    "gpt_neox": WIDE | {"max_position_embeddings": 64, "intermediate_size": 64},
}
WIDTHS = ("n_embd", "hidden_size", "intermediate_size")


def tokenizer(vocab=320):
    """Byte-level BPE, so that any text has tokens."""
    from tokenizers import ByteLevelBPETokenizer
    from transformers import PreTrainedTokenizerFast

    backend = ByteLevelBPETokenizer()
    text = [Path(__file__).read_text()]
    backend.train_from_iterator(text, vocab, special_tokens=["<end>"], show_progress=False)
    return PreTrainedTokenizerFast(
        tokenizer_object=backend._tokenizer, eos_token="<end>", bos_token="<end>"
    )


def save_model(folder, kind="gpt2", scale=1, seed=0, words=None, rows=None):
    """A random model with its tokenizer in a folder; `scale` multiplies its widths, its output has
    so many rows. Returns the model."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    words = words or tokenizer()
    widths = {name: SHAPES[kind][name] * scale for name in WIDTHS if name in SHAPES[kind]}
    about = {"vocab_size": rows or len(words), "bos_token_id": 0, "eos_token_id": 0}
    config = AutoConfig.for_model(kind, **SHAPES[kind] | widths | about)
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config).eval()
    model.save_pretrained(folder)
    words.save_pretrained(folder)
    return model


def add_to_config(folder, **fields):
    path = Path(folder) / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def hub_model(ident, revision=None):
    """A Model of a folder, a GGUF file or a hub id that stands in no family file."""
    from rbplib import load_family

    with NamedTemporaryFile("w", suffix=".yml") as file:
        json.dump({"models": [{"id": str(ident), "revision": revision}]}, file)
        file.flush()
        return load_family(file.name).models[0]
