"""Tiny random models, saved as the hub has them."""

import json
from pathlib import Path
from tempfile import NamedTemporaryFile


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


def save_model(folder, scale=1, seed=0, words=None, rows=None):
    """A random GPT-2 with its tokenizer in a folder, 32 times `scale` wide; its output has so many
    rows."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    words = words or tokenizer()
    shape = {"n_positions": 64, "n_embd": 32 * scale, "n_layer": 2, "n_head": 2}
    shape |= {"vocab_size": rows or len(words), "bos_token_id": 0, "eos_token_id": 0}
    config = GPT2Config(**shape)
    torch.manual_seed(seed)
    GPT2LMHeadModel(config).save_pretrained(folder)
    words.save_pretrained(folder)


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
