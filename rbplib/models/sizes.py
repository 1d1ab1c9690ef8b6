"""How large a model is, from its configuration alone: no weights are read, made or downloaded.

S, the paper's size, is every parameter but the token and position embedding tables and an untied output embedding.
"""

import contextlib
import hashlib
import json
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from rbplib import hub as fetch
from rbplib.settings import WINDOW, InputError, load_family, results_dir, root, write_text


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
        config = read_json(config)
    if isinstance(config, dict):
        fields = dict(config)
        kind = fields.pop("model_type", None)
        try:
            return AutoConfig.for_model(kind, **fields)
        except Exception as error:
            reason = str(error).strip().splitlines()[0][:160]
            raise InputError(f"a configuration of type {kind!r} is not known to this transformers: {reason}") from None
    return config


def read_json(path):
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is not a readable configuration ({str(error)[:120]}): fetch it again.") from None


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
    rows = []
    for model in family.models:
        sizes = sizes_of(model, family.name)
        rows.append(
            {
                "family": family.name,
                "model": model.name,
                "id": model.id,
                "nonembedding_params": sizes.nonembedding,
                "total_params": sizes.total,
                "vocab_size": sizes.vocab,
            }
        )
    return rows


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
    """`model_sizes` of a mapping or a config.json, kept under results/ so that a listing need not load torch again.

    Kept per content of the configuration, of this file, and version of transformers.
    """
    if not isinstance(config, dict):
        config = read_json(config)
    text = json.dumps(config, sort_keys=True)
    parts = (text, Path(__file__).read_text(encoding="utf-8"), version("transformers"))
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]
    path = results_dir() / "sizes.json"
    with contextlib.suppress(KeyError, ValueError, TypeError):
        return Sizes(*(int(n) for n in kept_sizes(path)[key]))
    sizes = model_sizes(config)
    with contextlib.suppress(InputError):  # a folder that cannot be written costs only time
        write_text(path, json.dumps({**kept_sizes(path), key: sizes}))
    return sizes


def kept_sizes(path):
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return held if isinstance(held, dict) else {}


def window_length(family, limit=WINDOW):
    """W of a family: the smaller of 512 and the shortest context of its models, given or in their configurations."""
    return min([limit, *(c for m in family.models if (c := model_context(m)))])


@cache
def model_context(model):
    """Longest input of a settings.Model in tokens: its family file's word, else its configuration's, else None.

    The cache is asked before the network, and a model that cannot be had has no context: it will fail by itself.
    """
    if model.context:
        return model.context
    folder = Path(model.local) if model.local else fetch.cached_snapshot(model.id, model.revision)
    try:
        if folder is None or not (folder / "config.json").is_file():
            folder = fetch.fetch(fetch.open_repo(model.id, model.revision), "config.json")
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (InputError, OSError, ValueError):
        return None
    for fields in (config, config.get("text_config") or {}):
        for name in ("max_position_embeddings", "n_positions", "max_sequence_length", "max_seq_len", "n_ctx"):
            if isinstance(fields.get(name), int) and fields[name] > 1:
                return fields[name]
    return None


def config_of(model):
    """The configuration of a settings.Model: its folder's, one kept in families/configs/, or the hub's."""
    if model.local:
        return Path(model.local) / "config.json"
    if model.revision in (None, "main") and model.id in known_configs(root()):
        return known_configs(root())[model.id]
    repo = fetch.open_repo(model.id, model.revision)
    return fetch.fetch(repo, "config.json") / "config.json"


@cache
def known_configs(folder):
    """Hub id -> the sizes-giving fields of its configuration, from families/configs/*.json."""
    found = {}
    for path in sorted((Path(folder) / "families" / "configs").glob("*.json")):
        try:
            found.update(json.loads(path.read_text(encoding="utf-8")))
        except ValueError as error:
            raise InputError(f"{path} is not readable JSON ({error}): restore it.") from None
    return found
