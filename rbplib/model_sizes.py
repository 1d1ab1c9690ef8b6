"""How large a model is and how far it reads, from its configuration alone: no weights are read, made or downloaded.

S, the paper's size, is every parameter but the token and position embedding tables and an untied output embedding.
"""

import contextlib
import hashlib
import json
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from rbplib import hub
from rbplib.families import PACKAGE, WINDOW, InputError, load_family, results_dir, root, write_text
from rbplib.network import first_line
from rbplib.quantised import gguf_of, header, readable

CONTEXT = ("max_position_embeddings", "n_positions", "max_sequence_length", "max_seq_len", "n_ctx")  # names it goes by
# what a configuration may call the number of experts that a token meets
CHOSEN = ("num_experts_per_tok", "num_experts_per_token", "top_k_experts", "moe_topk", "moe_k", "moe_top_k")


class Sizes(NamedTuple):
    """nonembedding: S; total: every parameter, a tied head counted once; vocab: rows of the output embedding; active:
    S with the experts that one token meets alone, which is S where there are none."""

    nonembedding: int
    total: int
    vocab: int
    active: int

    def chosen(self, experts):
        """S with the experts that a family file's `experts` says: all, or those that one token meets."""
        return self.active if experts == "active" else self.nonembedding


def model_sizes(config, trust_remote_code=False):
    """Sizes of the model that a transformers configuration, or a mapping with `model_type`, describes.

    Paper section 3 (S); the book's page on the metric says what is left out.

    Raises InputError: it is no configuration of a causal language model that transformers knows.
    Cost: the modules are built on the meta device: no memory, 0.01 to 1 s.
    """
    import torch
    from transformers import AutoModelForCausalLM

    config = as_config(config)
    try:
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config, trust_remote_code=trust_remote_code)
    except Exception as error:  # a wrong field may raise anything
        said = f"a configuration of type {getattr(config, 'model_type', '?')!r} describes no causal language model"
        raise InputError(f"{said} that can be built: {first_line(error)}") from None
    return count(model)


def as_config(config):
    """A transformers configuration from a mapping, or as it is."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    if not isinstance(config, dict):
        return config
    try:
        return CONFIG_MAPPING[config.get("model_type")].from_dict(dict(config))
    except Exception as error:
        said = f"a configuration of type {config.get('model_type')!r} is not known to this transformers"
        raise InputError(f"{said}: {first_line(error)}") from None


@readable()
def read_json(path):
    """The mapping in a JSON file, such as config.json; transformers' {"__float__": "Infinity"} in it are numbers."""
    try:
        text = path.read_text(encoding="utf-8")
        found = json.loads(text, object_hook=lambda x: float(x["__float__"]) if set(x) == {"__float__"} else x)
        error = None if isinstance(found, dict) else f"a {type(found).__name__}, where a mapping is wanted"
    except (FileNotFoundError, ValueError, RecursionError) as failed:
        error = failed
    if error:
        said = f"is missing or is damaged and not a readable configuration ({first_line(error)})"
        raise InputError(f"{path} {said}: fetch it again.")
    return found


def count(model):
    """Sizes of a model at hand, on any device.

    Tables are what the model calls its input embeddings, and every other embedding module outside its repeated blocks:
    of positions, of token types. Experts are modules of that name with one matrix each stacked along the first axis.
    """
    from torch import nn

    head, config = model.get_output_embeddings(), model.config.get_text_config()
    vocab = config.vocab_size if head is None else head.weight.shape[0]
    left_out = [m for m in (model.get_input_embeddings(), head) if m is not None]
    chosen = next((n for name in CHOSEN if isinstance(n := getattr(config, name, None), int)), None)
    idle = 0
    for name, module in model.named_modules():
        if isinstance(module, nn.Embedding) and not any(part.isdigit() for part in name.split(".")):
            left_out.append(module)
        if chosen and "expert" in f"{name.rpartition('.')[2]} {type(module).__name__}".lower():
            own = list(module.parameters(recurse=False))
            stacks = {p.shape[:1] for p in own if p.dim() == 3}  # one matrix of each expert; biases go with them
            idle += sum(p.numel() * max(0, len(p) - chosen) // len(p) for p in own if p.shape[:1] in stacks)
    tables = {id(p) for module in left_out for p in module.parameters(recurse=False)}
    inside = sum(p.numel() for p in model.parameters() if id(p) not in tables)
    return Sizes(inside, sum(p.numel() for p in model.parameters()), int(vocab), inside - idle)


def family_sizes(family):
    """Sizes of every model of a family (its name or YAML path), without the network where one is known here.

    Returns a list of dicts: family, model, id, nonembedding_params, total_params, vocab_size; as `sizes_of`.
    """
    family, rows = load_family(family), []
    for model in family.models:
        sizes = sizes_of(model)
        row = {"family": family.name, "model": model.name, "id": model.id, "nonembedding_params": sizes.nonembedding}
        rows.append(row | {"total_params": sizes.total, "vocab_size": sizes.vocab})
    return rows


def families_place():
    """Where families are looked for, in a sentence or two."""
    apart = " The embedded models, nano-..., come with a checkout, not with the package." * (root() == PACKAGE)
    folders = dict.fromkeys((root() / "families", root(writing=True) / "families", results_dir() / "imported"))
    places = " and ".join(map(str, folders))
    return f"Families are looked for in {places}; one elsewhere is given by the path of its file." + apart


def sizes_of(model):
    """Sizes of one settings.Model; S alone where its configuration cannot be had but S stands in the family file.

    Raises InputError: S cannot be had, or the one in the family file differs from the configuration's.
    """
    told = model.nonembedding_params
    try:
        config = config_of(model)
    except InputError:
        if told is None:
            raise
        return Sizes(told, None, None, None)
    sizes = remembered_sizes(config)
    sizes = sizes._replace(nonembedding=sizes.chosen(model.experts))
    if told not in (None, sizes.nonembedding):
        raise InputError(
            f"the family file gives {told:,} non-embedding parameters for {model.name}, but its configuration "
            f"has {sizes.nonembedding:,}: correct the family file."
        )
    return sizes


def remembered_sizes(config):
    """`model_sizes` of a mapping, kept under results/ so that a listing need not load torch again; per content of the
    configuration and of this file, and version of transformers."""
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
    if not model.local and model.revision in (None, "main") and (config := known_configs().get(model.id)):
        return config
    return own_config(model)


def own_config(model):
    """The configuration that comes with a model: its folder's or the hub's, whose cache is asked before the network."""
    if model.local:
        file = gguf_of(model.local)
        return header(file)[0] if file else read_json(Path(model.local) / "config.json")
    if (folder := hub.cached_snapshot(model.id, model.revision)) is not None:
        with contextlib.suppress(InputError):  # not there, or damaged: fetched again
            return read_json(folder / "config.json")
    return read_json(hub.fetch(hub.open_repo(model.id, model.revision), "config.json") / "config.json")


def known_configs():
    """Hub id -> the sizes-giving fields of its configuration, from families/configs/*.json."""
    paths = (root() / "families" / "configs").glob("*.json")
    return {ident: config for path in sorted(paths) for ident, config in read_json(path).items()}


def model_context(model):
    """Longest input of a settings.Model in tokens: its family file's word, else its configuration's, else None, as
    for a model that cannot be had, which will fail by itself."""
    if model.context:
        return model.context
    try:
        config = own_config(model)
    except InputError:
        return None
    found = [part.get(name) for part in (config, config.get("text_config") or {}) for name in CONTEXT]
    return next((n for n in found if isinstance(n, int) and n > 1), None)


def window_length(family):
    """W of a family: the smaller of 512 and the shortest context of its models, given or in their configurations."""
    return min([WINDOW, *(c for m in family.models if (c := model_context(m)))])
