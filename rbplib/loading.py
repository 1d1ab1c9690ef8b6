"""A model ready to be measured: from the hub or from a folder, on the right device, in the right precision.

Nothing of a model is executed but what transformers itself holds: code that comes with the weights is refused unless
the caller allows it for this one run, and weights are read as tensors only.
"""

import hashlib
import json
import os
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from rbplib import fetch
from rbplib.settings import DTYPES, InputError, Model, check_choice
from rbplib.sizes import count

TOKENIZER_FILES = (
    "tokenizer.json tokenizer_config.json special_tokens_map.json added_tokens.json vocab.json merges.txt vocab.txt "
    "tokenizer.model spiece.model sentencepiece.bpe.model"
).split()
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


def model_folder(model, trust_remote_code=False, weights=True):
    """A local folder with the files of a model, and what says which model it is.

    Returns:
        (folder, {"model_id", "revision"}) for the hub, (folder, {"model_id", "model_digest"}) for a folder.
    """
    if model.local:
        folder = Path(model.local)
        if not (folder / "config.json").is_file():
            raise InputError(f"{folder} holds no config.json: give a folder as `save_pretrained` writes it.")
        if not weights:
            return folder, {"model_id": model.id}
        weight_files(sorted(p.name for p in folder.iterdir()), model.id)
        return folder, {"model_id": model.id, "revision": None, "model_digest": folder_digest(folder)}
    repo = fetch.open_repo(model.id, model.revision, "model")
    if "config.json" not in repo.files:
        raise InputError(f"model {model.id!r} has no config.json: it is not in the format transformers reads.")
    folder = fetch.fetch(repo, "config.json").parent
    fetch.remember(repo, model.revision)
    names = [n for n in repo.files if n in (*TOKENIZER_FILES, "generation_config.json")]
    if trust_remote_code:
        names += [n for n in repo.files if n.endswith(".py")]
    if weights:
        names += weight_files(repo.files, model.id, repo)
    for name in names:
        fetch.fetch(repo, name)
    return folder, {"model_id": model.id, "revision": repo.revision}


def weight_files(files, model_id, repo=None):
    """Names of the files that hold the weights: safetensors before anything else, shards by their index.

    Args:
        files: names at the top of the repository or folder.
    """
    for single in ("model.safetensors", "pytorch_model.bin"):
        if single in files:
            return [single]
        index = f"{single}.index.json"
        if index in files:
            return [index, *shards(index, files, model_id, repo)]
    kinds = [f for f in files if f.endswith((".msgpack", ".h5", ".ckpt.index", ".gguf", ".onnx", ".pt", ".pth"))]
    also = f" (it has {kinds[0]}, which cannot be read here)" if kinds else ""
    raise InputError(f"model {model_id!r} has no model.safetensors or pytorch_model.bin{also}: convert or complete it.")


def shards(index, files, model_id, repo):
    if repo is None:
        return []  # a local folder: transformers reads the index itself and names what is missing
    try:
        names = sorted(set(json.loads(fetch.fetch(repo, index).read_text(encoding="utf-8"))["weight_map"].values()))
    except (ValueError, KeyError, AttributeError):
        raise InputError(f"{index} of model {model_id!r} is not readable: the repository is damaged.") from None
    if missing := [n for n in names if n not in files]:
        where = "its repository" if repo.online else "the cache, and the hub cannot be reached"
        raise InputError(f"model {model_id!r} lacks the weight file {missing[0]!r} in {where}.")
    return names


def folder_digest(folder):
    """SHA-256 over names and contents of a folder's configuration, tokenizer and weights; what a local model is."""
    h = hashlib.sha256()
    for path in sorted(Path(folder).iterdir()):
        wanted = path.suffix in (".safetensors", ".bin") or path.name in ("config.json", *TOKENIZER_FILES)
        if path.is_file() and (wanted or path.name.endswith(".index.json")):
            h.update(f"{path.name}\0{fetch.file_digest(path)}\n".encode())
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
        raise InputError(f"config.json of {model_id!r} cannot be used: {fetch.first_line(error)}") from None


def load_tokenizer(folder, model_id, trust_remote_code=False):
    """The tokenizer in a folder, or in `tokenizer/` beside or above it (one for a whole ladder)."""
    from transformers import AutoTokenizer

    folder = Path(folder)
    options = (folder, folder / "tokenizer", folder.parent / "tokenizer", folder.parent.parent / "tokenizer")
    place = next((p for p in options if any((p / n).is_file() for n in TOKENIZER_FILES if n != "vocab.txt")), None)
    if place is None:
        raise InputError(f"model {model_id!r} comes without a tokenizer: put its tokenizer.json beside the weights.")
    try:
        return AutoTokenizer.from_pretrained(place, trust_remote_code=trust_remote_code, local_files_only=True)
    except Exception as error:  # the readers of a dozen formats raise as many kinds of error
        raise InputError(f"the tokenizer of {model_id!r} cannot be read: {fetch.first_line(error)}") from None


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
    names = {c.__name__ for e in fetch.chain(error) for c in type(e).__mro__}
    text = " ".join(str(e) for e in fetch.chain(error))
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
    return InputError(f"model {model_id!r} could not be loaded: {fetch.first_line(error)}")


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


def choose_device(device=None):
    """A device that is there: the one asked for, or the CUDA device with most free memory, then MPS, then the CPU.

    Among equally idle ones the process number decides, so that models measured at once spread over the GPUs.
    """
    import torch

    if device is not None:
        kind, _, number = str(device).partition(":")
        check_choice(kind, ("cpu", "cuda", "mps", "auto"), "device")
        if kind in ("cuda", "auto") and not torch.cuda.is_available():
            raise InputError("there is no CUDA device here: leave --device out, or use --device cpu.")
        if kind == "mps" and not torch.backends.mps.is_available():
            raise InputError("there is no MPS device here: leave --device out, or use --device cpu.")
        if number and not (number.isdigit() and (kind != "cuda" or int(number) < torch.cuda.device_count())):
            raise InputError(f"there is no device {device!r}: this machine has {torch.cuda.device_count()} of CUDA.")
        return str(device)
    if torch.cuda.is_available():
        free = [torch.cuda.mem_get_info(i)[0] for i in range(torch.cuda.device_count())]
        idle = [i for i, f in enumerate(free) if f >= 0.95 * max(free)]
        return f"cuda:{idle[os.getpid() % len(idle)]}"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def choose_dtype(dtype, device):
    """torch dtype of the weights: "auto" is bfloat16 on CUDA (float16 where it has none), float32 elsewhere."""
    import torch

    check_choice(dtype, DTYPES, "dtype")
    if dtype != "auto":
        return getattr(torch, dtype)
    if str(device).startswith(("cuda", "auto")):
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
    return torch.float32


def too_large(folder, dtype, device):
    """Whether the weights leave one CUDA device no room, so that they must be spread over all there is."""
    import torch

    if not str(device).startswith("cuda"):
        return False
    free, _ = torch.cuda.mem_get_info(torch.device(device))
    return weight_bytes(folder, dtype) > FILL * free


def weight_bytes(folder, dtype):
    """Bytes the weights take once loaded: parameters, from the configuration, times the size of `dtype`."""
    from rbplib.sizes import model_sizes

    try:
        return model_sizes(Path(folder) / "config.json").total * dtype.itemsize
    except InputError:  # a model of its own code: its files tell roughly
        return sum(p.stat().st_size for p in Path(folder).iterdir() if p.suffix in (".safetensors", ".bin"))


def device_name(device, net):
    """Kind of the device, for the record: "cpu", "NVIDIA ... x2"."""
    import torch

    used = {p.device for p in net.parameters()}
    if device.type != "cuda":
        return device.type if len(used) == 1 else "+".join(sorted({d.type for d in used}))
    name = torch.cuda.get_device_name(device)
    gpus = sum(d.type == "cuda" for d in used)
    return name if gpus == 1 else f"{name} x{gpus}"


def hub_model(repo_id, revision=None, dtype="auto"):
    """A settings.Model for a hub id or a folder that stands in no family file."""
    local = Path(repo_id).expanduser()
    model = Model(local.name, repo_id, revision, dtype)
    if local.is_dir():
        return replace(model, local=local.resolve())
    if os.sep in repo_id and repo_id.count("/") > 1:
        raise InputError(f"there is no folder {repo_id!r}: check the path.")
    fetch.check_repo_id(repo_id)
    return model
