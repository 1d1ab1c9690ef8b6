"""Quantised models: GGUF files, in which they are handed on, and the same rounding done to any model's weights.

transformers expands a file's weights to the dtype asked for, so S counts them as those of any model.
"""

import re
from collections import Counter
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from rbplib.families import InputError
from rbplib.network import first_line


@contextmanager
def readable():
    """A file that this user may not read is told in one sentence."""
    try:
        yield
    except OSError as error:
        said = f"{error.filename} cannot be read ({error.strerror}): allow it with `chmod u+r`, or give a copy you own."
        raise InputError(said) from None


@readable()
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


BLOCK = 32  # weights that share a scale


def rounded(values, kind):
    """Weights rounded to the nearest that a kind of llama.cpp's blocks holds, bit for bit as the package gguf does.

    Args:
        values: float32 (..., n), cut along the last side into blocks of 32; what is left over is a shorter block.
        kind: "Q8_0" (8 bits and a scale), "Q4_0" (4 bits and a scale) or "Q4_1" (4 bits, a scale and a smallest value).
    Returns:
        float32 of the same shape.
    """
    import torch
    from torch.nn import functional as F

    *front, n = values.shape
    lines = F.pad(values.reshape(1, -1, n), (0, -n % BLOCK), mode="replicate")  # repeats the last, which moves no end
    x = lines.reshape(-1, BLOCK)
    low, high = x.aminmax(dim=-1, keepdim=True)
    far = x.gather(-1, x.abs().argmax(-1, keepdim=True))  # the farthest from 0, with its sign
    scale = {"Q8_0": far.abs() / 127, "Q4_0": far / -8, "Q4_1": (high - low) / 15}[kind]
    inverse = torch.where(scale == 0, 0.0, 1 / scale)
    if kind == "Q8_0":
        steps, base = x * inverse, 0.0
        steps = steps.sign() * (steps.abs() + 0.5).floor()
    elif kind == "Q4_0":
        steps, base = (x * inverse + 8.5).trunc().clamp(0, 15) - 8, 0.0
    else:
        steps, base = ((x - low) * inverse + 0.5).trunc().clamp(0, 15), low.half().float()
    found = steps * scale.half().float() + base  # scales are kept in float16
    return found.reshape(lines.shape)[..., :n].reshape(*front, n)


def round_weights(net, kind):
    """Round a model's matrices, its token table and its head to blocks, in place; norms, biases, convolutions and
    position tables stay as they are, as llama.cpp leaves them."""
    import torch
    from torch import nn

    done = set()
    for module in net.modules():
        turned = type(module).__name__ == "Conv1D"  # of GPT-2: its matrix stands the other way round
        flat = turned or isinstance(module, nn.Linear) or module is net.get_input_embeddings()
        for p in module.parameters(recurse=False):
            matrix = p.dim() == 2 and flat or p.dim() == 3 and not isinstance(module, nn.Conv1d)
            if matrix and id(p) not in done:  # a tied head shares its table
                with torch.no_grad():
                    p.copy_(rounded(p.T, kind).T if turned else rounded(p, kind))
                done.add(id(p))
