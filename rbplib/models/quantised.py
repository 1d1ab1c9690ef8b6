"""GGUF files, in which models are handed on quantised: found, read by transformers, and told apart in the record.

transformers expands the weights to the dtype asked for, so S counts them as those of any model.
"""

import re
from collections import Counter
from functools import lru_cache
from pathlib import Path

from rbplib.network import first_line
from rbplib.settings import InputError


def is_model_place(path):
    """Whether a model may lie at a path: a GGUF file, or a folder."""
    return path.is_file() if path.suffix == ".gguf" else path.is_dir()


def gguf_of(place):
    """The GGUF file that a place on this machine is or holds, or None for a folder with a model in another format.

    Raises InputError: the folder holds several, or the file is one part of several.
    """
    place = Path(place)
    found = [place] if place.is_file() else sorted(p for p in place.iterdir() if p.suffix == ".gguf")
    if place.is_dir() and (place / "config.json").is_file() and any(place.glob("*.safetensors")) or not found:
        return None
    if re.search(r"-\d{5}-of-\d{5}$", found[0].stem):
        raise InputError(f"{found[0]} is one part of several: join them with `llama-gguf-split --merge` first.")
    if len(found) > 1:
        names = ", ".join(p.name for p in found[:3])
        raise InputError(f"{place} holds {len(found)} GGUF files ({names}): give the path of one as the id.")
    return found[0]


def given_to_transformers(place):
    """(folder, options) of `from_pretrained` for a folder or a GGUF file."""
    return (place.parent, {"gguf_file": place.name}) if place.is_file() else (place, {})


@lru_cache(8)
def header(path):
    """(configuration as a mapping, quantisation for the record) of a GGUF file; cost: its header, 1 to 5 s."""
    try:
        import gguf
    except ImportError:
        raise InputError(f"{path} needs the package gguf: install it with `pip install 'rbplib[gguf]'`.") from None
    from transformers import AutoConfig

    try:
        reader = gguf.GGUFReader(path)
        kinds = Counter(t.tensor_type.name for t in reader.tensors)
        kind = reader.get_field("general.file_type")
        name = gguf.LlamaFileType(kind.contents()).name.removeprefix("MOSTLY_") if kind else None
        config = AutoConfig.from_pretrained(path.parent, gguf_file=path.name).to_dict()
    except Exception as error:  # a damaged file may raise anything
        raise InputError(f"{path} cannot be read as a model in GGUF: {first_line(error)}") from None
    return config, {"file_type": name, "tensors": dict(sorted(kinds.items()))}
