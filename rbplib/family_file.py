"""A new family file from a list of models: sizes, context and order come from their configurations."""

import warnings
from pathlib import Path

import yaml

from rbplib import model_files as files
from rbplib import models as loading
from rbplib.families import InputError, check_name, family_of, is_model_place, root, write_text
from rbplib.model_sizes import model_sizes


def write_family(name, ids, *, force=False, trust_remote_code=False):
    """Write families/NAME.yml for some models, smallest first, with S filled in.

    ids: hub ids, ID@REVISION for one that is not the main branch, or folders on this machine. force: replace a family
    of that name. trust_remote_code: let a model's own code build its configuration.
    Returns the file's path. Raises InputError: the name is taken or unusable, an id is named twice, cannot be had, or
    is no language model. Cost: configurations and tokenizers are fetched, weights are not.
    """
    check_name(name, "family name")
    path = root(writing=True) / "families" / f"{name}.yml"
    if path.exists() and not force:
        raise InputError(f"there is a family {name!r} already ({path}): choose another name, or use --force.")
    if twice := sorted({i for i in ids if ids.count(i) > 1}):
        raise InputError(f"the model {twice[0]!r} is named twice: name each model once.")
    entries = sorted((describe(i, trust_remote_code) for i in ids), key=lambda e: (e["nonembedding_params"], e["id"]))
    if len({e.pop("tokenizer") for e in entries}) > 1:
        said = "the models do not share one tokenizer: their ranks are of different tokens, so no law over them holds."
        warnings.warn(said, stacklevel=2)
    ends = [e["name"] or Path(e["id"]).name for e in entries]
    for entry, end in zip(entries, ends, strict=True):
        if ends.count(end) > 1:  # ids that end alike: the owner or the parent folder tells them apart
            entry["name"] = f"{Path(entry['id']).parent.name or 'hub'}-{end}"
    contexts = [c for e in entries if (c := e.pop("context"))]
    family = {"title": name, **({"context": min(contexts)} if contexts else {})}
    family["models"] = [{key: value for key, value in e.items() if value is not None} for e in entries]
    family_of({"name": name} | family, path)  # a name or an id that a family may not have is told before it is written
    write_text(path, yaml.safe_dump(family, sort_keys=False, default_flow_style=None, width=1000, allow_unicode=True))
    return path


def describe(ident, trust_remote_code):
    """What a family file says of one model, with its context and its tokenizer's digest."""
    repo_id, _, revision = ident.partition("@")
    if is_model_place(Path(ident).expanduser()):
        repo_id, revision = ident, ""
    model = files.hub_model(repo_id, revision or None)
    folder, _ = files.model_folder(model, trust_remote_code, weights=False)
    config = loading.read_config(folder, repo_id, trust_remote_code)
    top, local = root().resolve(), model.local
    if local:  # as a path from the root where it lies inside it, else absolute
        repo_id = local.relative_to(top).as_posix() if local.is_relative_to(top) else str(local)
    return {
        "name": f"{model.name}-{revision}" if revision else None,
        "id": repo_id,
        "revision": None if local else revision or "main",
        "nonembedding_params": model_sizes(config, trust_remote_code).nonembedding,
        "context": getattr(config.get_text_config(), "max_position_embeddings", None),
        "tokenizer": loading.tokenizer_digest(loading.load_tokenizer(folder, model.id, trust_remote_code)),
    }
