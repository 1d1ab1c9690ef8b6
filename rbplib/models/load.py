"""A model ready to be measured: from the hub or from a folder, on the right device, in the right precision.

Nothing of a model is executed but what transformers itself holds: code that comes with the weights is refused unless
the caller allows it for this one run, and weights are read as tensors only.
"""

import hashlib
import json
import os
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rbplib.hub import (
    TOKENIZER_FILES,
    chain,
    check_repo_id,
    class_names,
    fetch_model,
    file_digest,
    first_line,
    weight_files,
)
from rbplib.models.devices import choose_device, choose_dtype, device_name
from rbplib.models.sizes import count
from rbplib.settings import InputError, Model

FILL = 0.85  # share of a device's free memory that weights may take; the rest is for activations and the head


@dataclass(frozen=True)
class Loaded:
    """A model in evaluation mode, its tokenizer, the device its inputs go to, and its part of the provenance record."""

    model: object
    tokenizer: object
    device: object
    record: dict


def load_model(model, device=None, dtype=None, trust_remote_code=False):
    """Load one model of a family with its tokenizer.

    Args:
        model: settings.Model; its `local` folder is used if it has one, else its hub id and revision.
        device: "cpu", "cuda", "cuda:1", "mps", "auto" (spread over all GPUs), or None: the best there is.
        dtype: of the weights; None takes the model's own entry, and "auto" is bfloat16 on CUDA, float32 elsewhere.
        trust_remote_code: run code that comes with the weights. Off unless a person asks for it for this run.
    Returns:
        Loaded. record holds model_id, revision (a commit) or model_digest (a folder), nonembedding_params,
        total_params, vocab_size, weights_dtype, tokenizer_digest, device.
    Raises:
        InputError: one sentence, for anything wrong with the model, the network, the files or the memory.
    Cost: the download on first use; each time, one hashing of the files and the reading of the weights.
    """
    folder, record = model_folder(model, trust_remote_code)
    config = read_config(folder, model.id, trust_remote_code)
    device = choose_device(device)
    dtype = choose_dtype(dtype or model.dtype, device)
    spread = device == "auto" or too_large(folder, dtype, device)
    tokenizer = load_tokenizer(folder, model.id, trust_remote_code)
    net = load_weights(folder, model.id, config, dtype, device, spread, trust_remote_code)
    sizes = count(net)
    published = model.nonembedding_params
    if published not in (None, sizes.nonembedding):
        warnings.warn(
            f"{model.id!r} has {sizes.nonembedding:,} non-embedding parameters and its family file says {published:,}: "
            "the number counted in the model itself is used.",
            stacklevel=2,
        )
    first = net.get_input_embeddings().weight.device
    return Loaded(
        net,
        tokenizer,
        first,
        {
            **record,
            "nonembedding_params": sizes.nonembedding,
            "total_params": sizes.total,
            "vocab_size": sizes.vocab,
            "weights_dtype": str(dtype).removeprefix("torch."),
            "tokenizer_digest": tokenizer_digest(tokenizer),
            "device": device_name(first, net),
            "remote_code": bool(trust_remote_code and has_own_code(folder)),
        },
    )


def hub_model(repo_id, revision=None, dtype="auto"):
    """A settings.Model for a hub id or a folder that stands in no family file."""
    local = Path(repo_id).expanduser()
    if local.is_dir():
        return Model(local.name, repo_id, revision, dtype, local=local.resolve())
    if os.sep in repo_id and repo_id.count("/") > 1:
        raise InputError(f"there is no folder {repo_id!r}: check the path.")
    return Model(local.name, check_repo_id(repo_id), revision, dtype)


def model_folder(model, trust_remote_code=False, weights=True):
    """A local folder with the files of a model, and what says which model it is.

    Returns:
        (folder, {"model_id", "revision"}) for the hub, (folder, {"model_id", "model_digest"}) for a folder.
    """
    if not model.local:
        folder, commit = fetch_model(model.id, model.revision, trust_remote_code, weights)
        return folder, {"model_id": model.id, "revision": commit}
    folder = Path(model.local)
    if not (folder / "config.json").is_file():
        raise InputError(f"{folder} holds no config.json: give a folder as `save_pretrained` writes it.")
    if not weights:
        return folder, {"model_id": model.id}
    weight_files(sorted(p.name for p in folder.iterdir()), model.id)
    return folder, {"model_id": model.id, "revision": None, "model_digest": folder_digest(folder)}


def folder_digest(folder):
    """SHA-256 over names and contents of a folder's configuration, tokenizer and weights; what a local model is."""
    h = hashlib.sha256()
    for path in sorted(Path(folder).iterdir()):
        wanted = path.suffix in (".safetensors", ".bin") or path.name in ("config.json", *TOKENIZER_FILES)
        if path.is_file() and (wanted or path.name.endswith(".index.json")):
            h.update(f"{path.name}\0{file_digest(path)}\n".encode())
    return h.hexdigest()


def has_own_code(folder):
    try:
        return "auto_map" in json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False


def read_config(folder, model_id, trust_remote_code=False):
    """The configuration in a folder, or one sentence why there is none that can be used."""
    from transformers import AutoConfig
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    try:
        fields = json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))
        kind = fields["model_type"]
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(f"config.json of {model_id!r} is damaged or names no model_type: fetch it again.") from None
    if kind not in CONFIG_MAPPING and not trust_remote_code:
        if "auto_map" in fields:
            raise InputError(
                f"model {model_id!r} brings its own code, which is refused: "
                "read that code, then allow it for one run with --trust-remote-code."
            )
        raise InputError(f"model {model_id!r} is of type {kind!r}, unknown to this transformers: update transformers.")
    try:
        return AutoConfig.from_pretrained(folder, trust_remote_code=trust_remote_code, local_files_only=True)
    except Exception as error:  # a wrong field may raise anything
        raise InputError(f"config.json of {model_id!r} cannot be used: {first_line(error)}") from None


def load_tokenizer(folder, model_id, trust_remote_code=False):
    """The tokenizer in a folder, or in `tokenizer/` beside or above it (one for a whole ladder)."""
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    folder = Path(folder)
    options = (folder, folder / "tokenizer", folder.parent / "tokenizer", folder.parent.parent / "tokenizer")
    place = next((p for p in options if any((p / n).is_file() for n in TOKENIZER_FILES if n != "vocab.txt")), None)
    if place is None:
        raise InputError(f"model {model_id!r} comes without a tokenizer: put its tokenizer.json beside the weights.")
    # AutoTokenizer goes by the model's type: a Qwen2 would split text its own way, whatever tokenizer.json says
    reader = PreTrainedTokenizerFast if is_generic(place) else AutoTokenizer
    try:
        return reader.from_pretrained(place, trust_remote_code=trust_remote_code, local_files_only=True)
    except Exception as error:  # the readers of a dozen formats raise as many kinds of error
        raise InputError(f"the tokenizer of {model_id!r} cannot be read: {first_line(error)}") from None


def is_generic(folder):
    """Whether a tokenizer says that tokenizer.json is all of it, and names no class of a model family's."""
    try:
        said = json.loads((Path(folder) / "tokenizer_config.json").read_text(encoding="utf-8"))
        kind = said.get("tokenizer_class")
    except (OSError, ValueError, AttributeError):
        return False
    return kind in ("TokenizersBackend", "PreTrainedTokenizerFast") and (Path(folder) / "tokenizer.json").is_file()


def tokenizer_digest(tokenizer):
    """SHA-256 of what a tokenizer does, whatever files it came from."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        state = json.loads(backend.to_str())
        state = {k: v for k, v in state.items() if k not in ("padding", "truncation", "version")}
    else:
        state = {"vocab": tokenizer.get_vocab(), "special": tokenizer.all_special_tokens}
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()


def load_weights(folder, model_id, config, dtype, device, spread, trust_remote_code=False):
    """The model with its weights, in evaluation mode, every parameter of it read from the files."""
    import torch
    from transformers import AutoModelForCausalLM

    options = {"device_map": "auto"} if spread else {}
    if not spread and device == "cpu":
        check_memory(folder, model_id, dtype)
    try:
        with no_bars():
            net, report = AutoModelForCausalLM.from_pretrained(
                folder,
                config=config,
                dtype=dtype,
                trust_remote_code=trust_remote_code,
                local_files_only=True,
                weights_only=True,
                output_loading_info=True,
                **options,
            )
        net = net if spread else net.to(device)
        if device == "cpu":
            quiet_kernels()
    except torch.OutOfMemoryError:
        raise InputError(
            f"model {model_id!r} does not fit the memory of {device}: use --device auto, or a smaller model."
        ) from None
    except Exception as error:
        raise weights_error(error, model_id, folder) from None
    lost = sorted({*report.get("missing_keys", ()), *(str(k) for k in report.get("mismatched_keys", ()))})
    if lost:
        raise InputError(
            f"the weights of {model_id!r} lack {len(lost)} tensors of the model ({lost[0]}, ...): "
            "they belong to another configuration."
        )
    return net.eval().requires_grad_(False)


@contextmanager
def no_bars():
    """Without transformers' own progress bars: on a page they are a line of noise for every model."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            with warnings.catch_warnings():  # a user who switched all bars off is warned at each attempt
                warnings.simplefilter("ignore")
                logging.enable_progress_bar()


def quiet_kernels():
    """Kernels are for GPUs: on a processor, advice to install them is a line of noise on a page for every model."""
    import logging

    logging.getLogger("transformers.integrations.hub_kernels").setLevel(logging.ERROR)


def check_memory(folder, model_id, dtype):
    """Refuse a model whose weights exceed the memory that is free now: the system would kill the process instead."""
    import psutil

    need, free = weight_bytes(folder, dtype), psutil.virtual_memory().available
    if need > free:
        raise InputError(
            f"model {model_id!r} needs {need / 1e9:.1f} GB for its weights and {free / 1e9:.1f} GB are free: "
            "choose a smaller model, a machine with more memory, or --dtype bfloat16."
        )


def weights_error(error, model_id, folder):
    """One sentence for a failure to read weights."""
    names = class_names(error)
    text = " ".join(str(e) for e in chain(error))
    if "UnpicklingError" in names or "weights_only" in text or "Weights only" in text:
        return InputError(
            f"the weights of {model_id!r} hold more than tensors and are refused: use a copy in the safetensors format."
        )
    if "SafetensorError" in names or "PytorchStreamReader" in text or "EOFError" in names:
        name = damaged_file(folder) or "a weight file"
        return InputError(f"{name} of {model_id!r} is damaged: fetch or copy that file again.")
    if "Unrecognized configuration class" in text:
        return InputError(f"model {model_id!r} is no causal language model: ranks need one that predicts next tokens.")
    if "MemoryError" in names or "can't allocate memory" in text:
        return InputError(f"model {model_id!r} does not fit this machine's memory: choose a smaller model.")
    return InputError(f"model {model_id!r} could not be loaded: {first_line(error)}")


def damaged_file(folder):
    """Name of the first safetensors file of a folder that cannot be opened, or None."""
    from safetensors import safe_open

    for path in sorted(Path(folder).glob("*.safetensors")):
        try:
            with safe_open(path, "pt"):
                pass
        except Exception:  # SafetensorError, or an OSError
            return path.name
    return None


def too_large(folder, dtype, device):
    """Whether the weights leave one CUDA device no room, so that they must be spread over all there is."""
    import torch

    if not str(device).startswith("cuda"):
        return False
    free, _ = torch.cuda.mem_get_info(torch.device(device))
    return weight_bytes(folder, dtype) > FILL * free


def weight_bytes(folder, dtype):
    """Bytes the weights take once loaded: parameters, from the configuration, times the size of `dtype`."""
    from rbplib.models.sizes import model_sizes

    try:
        return model_sizes(Path(folder) / "config.json").total * dtype.itemsize
    except InputError:  # a model of its own code: its files tell roughly
        return sum(p.stat().st_size for p in Path(folder).iterdir() if p.suffix in (".safetensors", ".bin"))
