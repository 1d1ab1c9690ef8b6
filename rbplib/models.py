"""A model ready to be measured: from the hub or from a folder, on the right device, in the right precision.

Nothing of a model is executed but what transformers itself holds: code that comes with the weights is refused unless
the caller allows it for this one run, and weights are read as tensors only.
"""

import copy
import json
import logging
import warnings
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from unittest import mock

from rbplib.devices import choose_device, choose_dtype, device_name, must_spread
from rbplib.families import InputError
from rbplib.inputs import digest
from rbplib.model_files import model_folder, tokenizer_place
from rbplib.model_sizes import as_config, count, read_json
from rbplib.network import chain, class_names, first_line
from rbplib.quantised import given_to_transformers, header, round_weights


@dataclass(frozen=True)
class Loaded:
    """A model in evaluation mode, its tokenizer, the device its inputs go to, and its part of the provenance record:
    model_id, revision (a commit) or model_digest (a folder), sizes, weights_dtype, tokenizer_digest, device."""

    model: object
    tokenizer: object
    device: object
    record: dict


def load_model(model, device=None, dtype=None, trust_remote_code=False):
    """Load one settings.Model with its tokenizer.

    Args:
        device: "cpu", "cuda", "cuda:1", "mps", "auto" (spread over all GPUs), or None: the best there is.
        dtype: of the weights; None takes the model's own entry, and "auto" is bfloat16 on CUDA, float32 elsewhere.
        trust_remote_code: run code that comes with the weights. Off unless a person asks for it for this run.
    Raises:
        InputError: one sentence, for anything wrong with the model, the network, the files or the memory.
    Cost: the download on first use; each time, one hashing of the files and the reading of the weights.
    """
    folder, record = model_folder(model, trust_remote_code)
    config = read_config(folder, model.id, trust_remote_code)
    device = choose_device(device)
    asked = dtype or model.dtype
    dtype = choose_dtype(asked, device)
    tokenizer = load_tokenizer(folder, model.id, trust_remote_code)
    net = load_weights(folder, model.id, config, dtype, device, trust_remote_code, tokenizer.all_special_ids)
    if asked.startswith("Q"):
        round_weights(net, asked)
    sizes = count(net)
    size = sizes.chosen(model.experts)
    if (told := model.nonembedding_params) not in (None, size):
        warnings.warn(
            f"{model.id!r} has {size:,} non-embedding parameters and its family file says {told:,}: "
            "the number counted in the model itself is used.",
            stacklevel=2,
        )
    first = net.get_input_embeddings().weight.device
    if sizes.active != sizes.nonembedding:
        record["params_by_experts"] = {which: sizes.chosen(which) for which in ("all", "active")}
        if model.experts is None:
            warnings.warn(
                f"{model.id!r} is a mixture of experts: S is {size:,} with all, as here, and {sizes.active:,} with "
                "those that one token meets: write 'experts: all' or 'experts: active' into the family file.",
                stacklevel=2,
            )
    record |= {
        "nonembedding_params": size,
        "total_params": sizes.total,
        "vocab_size": sizes.vocab,
        "weights_dtype": asked if asked.startswith("Q") else str(dtype).removeprefix("torch."),
        "tokenizer_digest": tokenizer_digest(tokenizer),
        "device": device_name(first, net),
        "remote_code": bool(trust_remote_code and folder.is_dir() and "auto_map" in read_json(folder / "config.json")),
    }
    if folder.is_file():
        record["quantisation"] = header(folder)[1]
    return Loaded(model=net, tokenizer=tokenizer, device=first, record=record)


def read_config(folder, model_id, trust_remote_code):
    """The configuration in a folder, or one sentence why there is none that can be used."""
    from transformers import AutoConfig
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    if folder.is_file():
        return as_config(header(folder)[0])
    fields = read_json(folder / "config.json")
    kind = fields.get("model_type")
    if kind not in CONFIG_MAPPING and not trust_remote_code:
        said = f"is of type {kind!r}, unknown to this transformers: update it."
        if "auto_map" in fields:
            said = "brings its own code, which is refused: read it, then allow it for one run with --trust-remote-code."
        raise InputError(f"model {model_id!r} {said}")
    try:
        return AutoConfig.from_pretrained(folder, trust_remote_code=trust_remote_code, local_files_only=True)
    except Exception as error:  # a wrong field may raise anything
        said = first_line(" ".join(str(error).split()))  # which field is told in the first line, why in the next
        raise InputError(f"config.json of {model_id!r} cannot be used ({said}): correct or save it again.") from None


def load_tokenizer(folder, model_id, trust_remote_code=False):
    """The tokenizer in a folder, or in `tokenizer/` beside or above it (one for a whole ladder), or in a GGUF file."""
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    place, options = given_to_transformers(folder)
    generic = False
    if not options:
        if (place := tokenizer_place(folder)) is None:
            said = f"model {model_id!r} comes without a tokenizer: put its tokenizer.json beside the weights."
            raise InputError(said)
        with suppress(InputError):
            # AutoTokenizer goes by the model's type: a Qwen2 would split text its own way, whatever tokenizer.json says
            kind = read_json(place / "tokenizer_config.json").get("tokenizer_class")
            generic = kind in ("TokenizersBackend", "PreTrainedTokenizerFast") and (place / "tokenizer.json").is_file()
    reader = PreTrainedTokenizerFast if generic else AutoTokenizer
    try:
        return reader.from_pretrained(place, trust_remote_code=trust_remote_code, local_files_only=True, **options)
    except Exception as error:  # the readers of a dozen formats raise as many kinds of error
        raise InputError(f"the tokenizer of {model_id!r} cannot be read: {first_line(error)}") from None


def tokenizer_digest(tokenizer):
    """SHA-256 of what a tokenizer does, whatever files it came from."""
    if (backend := getattr(tokenizer, "backend_tokenizer", None)) is None:
        return digest({"vocab": tokenizer.get_vocab(), "special": tokenizer.all_special_tokens})
    state = json.loads(backend.to_str())
    return digest({k: v for k, v in state.items() if k not in ("padding", "truncation", "version")})


def load_weights(folder, model_id, config, dtype, device, trust_remote_code, special=()):
    """The model with its weights, in evaluation mode, every parameter of it read from the files, and proven causal."""
    import torch
    from transformers import AutoModelForCausalLM

    from rbplib import proof

    spread = must_spread(copy.deepcopy(config), model_id, dtype, device, trust_remote_code)
    options = {"config": config, "dtype": dtype, "device_map": "auto" if spread else None, "weights_only": True}
    options |= {"trust_remote_code": trust_remote_code, "local_files_only": True, "output_loading_info": True}
    place, which = given_to_transformers(folder)
    try:
        with quiet(device):
            net, report = AutoModelForCausalLM.from_pretrained(place, **options, **which)
        net = net if spread else net.to(device)
    except torch.OutOfMemoryError:
        said = f"model {model_id!r} does not fit the memory of {device}: use --device auto, or a smaller model."
        raise InputError(said) from None
    except Exception as error:
        raise weights_error(error, model_id, folder) from None
    net = net.eval().requires_grad_(False)
    proof.check_keys(report, net, model_id)
    proof.check_finite(net, model_id)
    proof.check_causal(net, model_id, special)
    return net


@contextmanager
def quiet(device):
    """Without transformers' progress bars and long tables, and on a processor without advice on kernels for GPUs."""
    from transformers.utils import logging as theirs

    if device == "cpu":
        logging.getLogger("transformers.integrations.hub_kernels").setLevel(logging.ERROR)
    bars, level = theirs.set_tqdm_hook(lambda _, given, how: theirs.EmptyTqdm(*given, **how)), theirs.get_verbosity()
    theirs.set_verbosity(logging.CRITICAL)
    try:
        with mock.patch("transformers.modeling_gguf_pytorch_utils.tqdm", lambda rows, **_: rows):
            yield
    finally:
        theirs.set_verbosity(level)
        theirs.set_tqdm_hook(bars)


def weights_error(error, model_id, folder):
    """One sentence for a failure to read weights."""
    names = class_names(error)
    text = " ".join(str(e) for e in chain(error))
    said = f"model {model_id!r} could not be loaded: {first_line(error)}"
    if "UnpicklingError" in names or "weights_only" in text or "Weights only" in text:
        said = f"the weights of {model_id!r} hold more than tensors and are refused: use a copy in safetensors format."
    elif "SafetensorError" in names or "PytorchStreamReader" in text or "EOFError" in names:
        said = f"{damaged_file(folder)} of {model_id!r} is damaged: fetch or copy that file again."
    elif "Unrecognized configuration class" in text:
        said = f"model {model_id!r} is no causal language model: ranks need one that predicts next tokens."
    elif "MemoryError" in names or "can't allocate memory" in text:
        said = f"model {model_id!r} does not fit this machine's memory: choose a smaller model."
    return InputError(said)


def damaged_file(folder):
    """Name of the first safetensors file of a folder that cannot be opened."""
    from safetensors import SafetensorError, safe_open

    if folder.is_file():
        return folder.name
    for path in sorted(folder.glob("*.safetensors")):
        try:
            safe_open(path, "pt")
        except (SafetensorError, OSError):
            return path.name
    return "a weight file"
