"""How large a model is and how far it reads, from its configuration alone: no weights are read, made or downloaded.

S, the paper's size, is every parameter but the token and position embedding tables and an untied output embedding.
"""

import contextlib
import hashlib
import json
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from rbplib import hub
from rbplib.settings import WINDOW, InputError, load_family, results_dir, root, write_text

CONTEXT = ("max_position_embeddings", "n_positions", "max_sequence_length", "max_seq_len", "n_ctx")  # names it goes by
POSITIONS = ("wpe", "embed_positions", "position_embeddings", "position_embedding")


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
    except Exception as error:  # a wrong field may raise anything
        raise InputError(
            f"a configuration of type {getattr(config, 'model_type', '?')!r} describes no causal language model "
            f"that can be built: {hub.first_line(error)}"
        ) from None
    return count(model)


def as_config(config):
    """A transformers configuration from a mapping, from a config.json, or as it is."""
    from transformers import AutoConfig

    if isinstance(config, str | Path):
        config = read_json(config)
    if not isinstance(config, dict):
        return config
    fields = dict(config)
    kind = fields.pop("model_type", None)
    try:
        return AutoConfig.for_model(kind, **fields)
    except Exception as error:
        raise InputError(
            f"a configuration of type {kind!r} is not known to this transformers: {hub.first_line(error)}"
        ) from None


def read_json(path):
    """The mapping in a JSON file, such as config.json."""
    try:
        return dict(json.loads(Path(path).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise InputError(
            f"{path} is missing or is damaged and not a readable configuration ({str(error)[:120]}): fetch it again."
        ) from None


def count(model):
    """Sizes of a model at hand, on any device.

    Token tables are what the model calls its input embeddings; position tables are other embedding modules, known by
    their names.
    """
    from torch import nn

    params = {id(p): p.numel() for p in model.parameters()}
    total = sum(params.values())
    left_out = [model.get_input_embeddings()]
    for name, module in model.named_modules():
        last = name.rpartition(".")[2]
        if isinstance(module, nn.Embedding) and (last in POSITIONS or "token" in last):
            left_out.append(module)
    head = model.get_output_embeddings()
    vocab = model.config.get_text_config().vocab_size if head is None else head.weight.shape[0]
    for module in (*left_out, head):
        for p in module.parameters(recurse=False) if module is not None else ():
            params.pop(id(p), None)
    return Sizes(sum(params.values()), total, int(vocab))


def family_sizes(family):
    """Sizes of every model of a family, from configurations, without the network wherever one is known here.

    Args:
        family: a settings.Family, a name or a YAML path.
    Returns:
        list of dicts: family, model, id, nonembedding_params, total_params, vocab_size. The last two are None for a
        model whose configuration cannot be had but whose S stands in the family file.
    Raises:
        InputError: a size cannot be had, or the one in the family file differs from the configuration's.
    """
    family = load_family(family)
    names = ("nonembedding_params", "total_params", "vocab_size")
    return [
        {"family": family.name, "model": m.name, "id": m.id, **dict(zip(names, sizes_of(m, family.name), strict=True))}
        for m in family.models
    ]


def sizes_of(model, family=""):
    """Sizes of one settings.Model."""
    published = model.nonembedding_params
    try:
        config = config_of(model)
    except InputError:
        if published is None:
            raise
        return Sizes(published, None, None)
    sizes = remembered_sizes(config)
    if published not in (None, sizes.nonembedding):
        raise InputError(
            f"family {family!r} gives {published:,} non-embedding parameters for {model.name}, but its configuration "
            f"has {sizes.nonembedding:,}: correct the family file."
        )
    return sizes


def remembered_sizes(config):
    """`model_sizes` of a mapping, kept under results/ so that a listing need not load torch again.

    Kept per content of the configuration, of this file, and version of transformers.
    """
    parts = (json.dumps(config, sort_keys=True), Path(__file__).read_text(encoding="utf-8"), version("transformers"))
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]
    path, kept = results_dir() / "sizes.json", {}
    with contextlib.suppress(InputError, KeyError, ValueError, TypeError):  # whatever it holds, it is only a memory
        kept = read_json(path)
        return Sizes(*(int(n) for n in kept[key]))
    sizes = model_sizes(config)
    with contextlib.suppress(InputError):  # a folder that cannot be written costs only time
        write_text(path, json.dumps({**kept, key: sizes}))
    return sizes


def config_of(model):
    """The configuration of a settings.Model as a mapping, for sizes: one kept in families/configs/, or its own."""
    if not model.local and model.revision in (None, "main") and model.id in known_configs(root()):
        return known_configs(root())[model.id]
    return own_config(model)


def own_config(model):
    """The configuration that comes with a model: its folder's or the hub's, whose cache is asked before the network."""
    if model.local:
        return read_json(Path(model.local) / "config.json")
    if (folder := hub.cached_snapshot(model.id, model.revision)) is not None:
        with contextlib.suppress(InputError):  # not there, or damaged: fetched again
            return read_json(folder / "config.json")
    return read_json(hub.fetch(hub.open_repo(model.id, model.revision), "config.json") / "config.json")


@cache
def known_configs(folder):
    """Hub id -> the sizes-giving fields of its configuration, from families/configs/*.json."""
    paths = sorted((Path(folder) / "families" / "configs").glob("*.json"))
    return {ident: config for path in paths for ident, config in read_json(path).items()}


def model_context(model):
    """Longest input of a settings.Model in tokens: its family file's word, else its configuration's, else None.

    A model that cannot be had has no context: it will fail by itself.
    """
    if model.context:
        return model.context
    try:
        config = own_config(model)
    except InputError:
        return None
    found = [part.get(name) for part in (config, config.get("text_config") or {}) for name in CONTEXT]
    return next((n for n in found if isinstance(n, int) and n > 1), None)


def window_length(family, limit=WINDOW):
    """W of a family: the smaller of 512 and the shortest context of its models, given or in their configurations."""
    return min([limit, *(c for m in family.models if (c := model_context(m)))])
