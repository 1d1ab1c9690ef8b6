"""How large a model is, from its configuration alone: no weights are read, made or downloaded.

S, the paper's size, is every parameter but the token and position embedding tables and an untied output embedding.
"""

import json
from pathlib import Path
from typing import NamedTuple

from rbplib.settings import InputError


class Sizes(NamedTuple):
    """nonembedding: S; total: every parameter, a tied head counted once; vocab: rows of the output embedding."""

    nonembedding: int
    total: int
    vocab: int


def model_sizes(config, trust_remote_code=False):
    """Sizes of the model that a configuration describes.

    Paper section 3 (S); the book's page on the metric says what is left out.

    Args:
        config: a transformers configuration, a mapping with `model_type`, or the path of a config.json.
    Returns:
        Sizes, unit: parameters (vocab: tokens).
    Raises:
        InputError: the configuration is not one of a causal language model that transformers knows.
    Cost: the modules are built on the meta device: no memory, 0.01 to 1 s.
    """
    import torch
    from transformers import AutoModelForCausalLM

    config = as_config(config)
    try:
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config, trust_remote_code=trust_remote_code)
    except (ValueError, TypeError, AttributeError, KeyError, RuntimeError, ImportError) as error:
        kind = getattr(config, "model_type", "?")
        raise InputError(
            f"a configuration of type {kind!r} describes no causal language model that can be built: "
            f"{str(error).strip().splitlines()[0][:160]}"
        ) from None
    return count(model)


def count(model):
    """Sizes of a model at hand, on any device.

    Token tables are what the model names its input embeddings; position tables are the other embedding modules of its
    top, which every architecture here names by position.
    """
    params = {id(p): p.numel() for p in model.parameters()}
    total = sum(params.values())
    for module in embedding_tables(model):
        params.pop(id(module.weight), None)
    head = model.get_output_embeddings()
    vocab = head.weight.shape[0] if head is not None else model.config.get_text_config().vocab_size
    if head is not None:
        for p in head.parameters(recurse=False):
            params.pop(id(p), None)
    return Sizes(sum(params.values()), total, int(vocab))


def embedding_tables(model):
    """Modules that turn token or position ids into vectors."""
    from torch import nn

    tokens = model.get_input_embeddings()
    tables = [tokens] if tokens is not None else []
    for name, module in model.named_modules():
        last = name.rpartition(".")[2]
        positional = last in ("wpe", "embed_positions", "position_embeddings", "position_embedding")
        if isinstance(module, nn.Embedding) and module is not tokens and (positional or "token" in last):
            tables.append(module)
    return tables


def as_config(config):
    """A transformers configuration from a mapping, from a config.json, or as it is."""
    from transformers import AutoConfig

    if isinstance(config, (str, Path)):
        path = Path(config)
        try:
            config = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"{path} is not a readable configuration ({str(error)[:120]}): fetch it again.") from None
    if isinstance(config, dict):
        fields = dict(config)
        kind = fields.pop("model_type", None)
        try:
            return AutoConfig.for_model(kind, **fields)
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            reason = str(error).strip().splitlines()[0][:160]
            raise InputError(f"a configuration of type {kind!r} is not known to this transformers: {reason}") from None
    return config
