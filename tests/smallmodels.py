"""Tiny random models of the paper's architectures, saved as the hub has them."""

import json
from pathlib import Path

SHAPES = {
    "gpt2": {"model_type": "gpt2", "n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 2},
    "opt": {
        **{
            "model_type": "opt",
            "max_position_embeddings": 64,
            "hidden_size": 32,
            "num_hidden_layers": 2,
        },
        **{
            "num_attention_heads": 2,
            "ffn_dim": 64,
            "word_embed_proj_dim": 16,
            "do_layer_norm_before": False,
        },
    },
    "gpt_neox": {
        **{
            "model_type": "gpt_neox",
            "max_position_embeddings": 64,
            "hidden_size": 32,
            "num_hidden_layers": 2,
        },
        **{"num_attention_heads": 2, "intermediate_size": 64, "tie_word_embeddings": False},
    },
    "qwen2": {
        **{
            "model_type": "qwen2",
            "max_position_embeddings": 64,
            "hidden_size": 32,
            "num_hidden_layers": 2,
        },
        **{
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "intermediate_size": 64,
            "tie_word_embeddings": True,
        },
    },
    "mamba": {"model_type": "mamba", "hidden_size": 32, "num_hidden_layers": 2, "state_size": 4},
}
WIDTHS = ("n_embd", "hidden_size", "ffn_dim", "intermediate_size", "word_embed_proj_dim")


def tokenizer(vocab=320, alphabet=None):
    """Byte-level BPE, so that any text has tokens; with an alphabet of its own it drops what is not
    in it."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet() if alphabet is None else alphabet
    trainer = trainers.BpeTrainer(
        vocab_size=vocab, special_tokens=["<end>"], initial_alphabet=alphabet
    )
    backend.train_from_iterator([Path(__file__).read_text(encoding="utf-8")], trainer)
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<end>", bos_token="<end>")


def save_model(folder, kind="gpt2", scale=1, seed=0, words=None, shape=None, **changes):
    """A random model with its tokenizer in a folder; `scale` multiplies its widths. Returns the
    model."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    words = words or tokenizer()
    fields = {
        **(shape or SHAPES[kind]),
        "vocab_size": len(words),
        "bos_token_id": 0,
        "eos_token_id": 0,
        "pad_token_id": None,
    }
    if kind == "opt":
        fields["pad_token_id"] = 1
    fields.update({k: v * scale for k, v in fields.items() if k in WIDTHS})
    fields.update(changes)
    config = AutoConfig.for_model(fields.pop("model_type"), **fields)
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config).eval()
    model.save_pretrained(folder)
    words.save_pretrained(folder)
    return model


def add_to_config(folder, **fields):
    path = Path(folder) / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def hub_model(ident, revision=None):
    """A Model of a folder, a GGUF file or a hub id that stands in no family file."""
    from rbplib.families import Model

    place = Path(ident)
    return Model(place.name, ident, revision, local=place.resolve() if place.exists() else None)
