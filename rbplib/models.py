"""A model ready to be measured, from the hub, a folder or a GGUF file; its size and its reach.

Nothing of a model is executed but what transformers itself holds: code that comes with the weights
is refused, and weights are read as tensors only.
S, the paper's size, is every parameter but the token and position embedding tables and an untied
output embedding. It is counted on the meta device: no weights are read, made or downloaded.

torch and transformers are imported where they are used: pages ask for sizes without them.
"""

import atexit
import hashlib
import json
import math
import os
import re
import shutil
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from pathlib import Path
from tempfile import mkdtemp
from zipfile import is_zipfile

from rbplib.families import (
    DTYPES,
    WINDOW,
    Damaged,
    InputError,
    NoAnswer,
    check_choice,
    complain,
    digest,
    file_digest,
    first_line,
    held,
    intact,
    load_family,
    once,
    one_at_a_time,
    root,
    telling,
    write_text,
)
from rbplib.gguffile import read_header
from rbplib.windows import added_ids

TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "vocab.txt",
    "tokenizer.model",
    "spiece.model",
    "sentencepiece.bpe.model",
)
ADAPTER = "adapter_config.json"  # beside weights that transformers would add to them
# what a configuration may call the longest input
CONTEXT = ("max_position_embeddings", "n_positions", "max_sequence_length", "max_seq_len", "n_ctx")
CONTEXT += ("max_target_positions", "context_length")
API = re.compile("/api/(model|dataset)s/")  # in the address of a listing of the hub
NAMING = ("etag", "x-linked-etag", "x-repo-commit")  # of its answers, what files are named by
PATIENCE = 5  # seconds that the hub has to say that it is there
SMALL = 5_000_000  # parameters, below which sharing the work among threads takes longer than it
# oneDNN would keep the kernels of 1,024 shapes; their small blocks keep the heap from shrinking
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "16")


# --- Loading


@dataclass(frozen=True)
class Loaded:
    """A model in evaluation mode, its tokenizer, and the device that its inputs go to.

    record: its part of a table's record: model_id, revision (a commit) or model_digest (of a
    folder), sizes, weights_dtype, tokenizer_digest, device.
    """

    model: object
    tokenizer: object
    device: object
    record: dict


def load_model(model, device=None, dtype=None):
    """Load one model of a family with its tokenizer.

    Args:
        model: of a Family: `load_family(name).model("70M")`.
        device: "cpu", "cuda", "cuda:1", "mps", "auto" (spread over all GPUs), or None: the best
            there is.
        dtype: of the weights; None takes the model's own entry, and "auto" is bfloat16 on CUDA,
            float32 elsewhere.
    Returns:
        Loaded: model, tokenizer, device, record.
    Raises:
        InputError: one sentence, for anything wrong with the model, the network, the files or the
            memory.
    Cost: the download on first use; each time, one hashing of a folder's files and reading of the
        weights.
    """
    import torch

    # the model and its tokenizer
    folder, record = model_folder(model)
    device = choose_device(device)
    tokenizer = load_tokenizer(folder, model.id)
    dtype = choose_dtype(dtype or model.dtype, device)
    net = load_weights(folder, model.id, dtype, device)
    check_causal(net, model.id)

    # what a table's record says of them
    first = net.get_input_embeddings().weight.device
    record |= checked_sizes(model, count_sizes(net)) | {
        "weights_dtype": str(dtype).removeprefix("torch."),
        "tokenizer_digest": tokenizer_digest(tokenizer),
        "device": torch.cuda.get_device_name(first) if first.type == "cuda" else first.type,
    }
    if folder.is_file():
        record["quantisation"] = {"file_type": gguf_type(folder)}
    return Loaded(model=net, tokenizer=tokenizer, device=first, record=record)


def model_folder(model, weights=True):
    """Where a model's files are, and what names them.

    Returns (folder, or GGUF file; {"model_id", "revision"}, with "model_digest" for one that is
    here). Without weights only its configuration and tokenizer are fetched, and no digest is made.
    Raises InputError: it cannot be had, or is more than weights and a configuration.
    """
    if model.local:
        weights_path = Path(model.local)
        record = {"model_id": model.id, "revision": None}
        check_beside(weights_path, model.id)
        if weights_path.is_dir() and not (weights_path / "config.json").is_file():
            raise InputError(
                f"{weights_path} holds no config.json: "
                "give a folder as `save_pretrained` writes it, or the path of a .gguf file."
            )
        if weights:
            record["model_digest"] = folder_digest(weights_path)
        return weights_path, record
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    # small files first, then tensors, pickled ones where there are no others
    hub, answers = the_hub()
    files = ["config.json", "generation_config.json", ADAPTER, *TOKENIZER_FILES]
    if weights:
        files += ["model*.safetensors", "model.safetensors.index.json"]
    pickled = ["pytorch_model*.bin", "pytorch_model.bin.index.json"]
    message = f"model {model.id!r} at revision {model.revision or 'main'!r}"
    with telling(f"{message} could not be had from {hub}"):
        what = {"revision": pinned(model), "local_files_only": not answers}
        try:
            folder = Path(snapshot_download(model.id, allow_patterns=files, **what))
        except LocalEntryNotFoundError:
            if answers:
                raise
            raise NoAnswer(f"{message} is not in the cache of {hub}.") from None
        check_beside(folder, model.id)
        if weights and not any(folder.glob("*.safetensors")):
            snapshot_download(model.id, allow_patterns=pickled, **what)
    return folder, {"model_id": model.id, "revision": folder.name}


def pinned(model):
    """The revision of a model to ask for: the commit that it stood for when a run first asked.

    The file that RBP_LOCK names keeps these, {"id@revision": commit}, so that a `main` that moves
    meanwhile moves nothing; without it the revision is what the family's file says.
    """
    lock = os.environ.get("RBP_LOCK")
    if not lock:
        return model.revision
    from huggingface_hub import HfApi

    # asked of the hub once, by one process
    path, key = Path(lock), f"{model.id}@{model.revision or 'main'}"
    with one_at_a_time(path):
        commits = read_json(path) if path.is_file() else {}
        if key not in commits:
            commits[key] = HfApi().model_info(model.id, revision=model.revision).sha
            write_text(path, json.dumps(commits, indent=1, sort_keys=True) + "\n")
    return commits[key]


def the_hub():
    """(where the hub is, in words; whether it answers). Its client is guarded from then on."""
    from huggingface_hub import constants

    return guarded(constants.ENDPOINT)


@cache
def guarded(endpoint):
    """Have huggingface_hub's client look at answers by `check_answer` before they are used.

    Returns as `the_hub`: of an address without an answer the library would ask again for minutes,
    for each file.
    """
    from huggingface_hub import set_client_factory
    from huggingface_hub.utils._http import default_client_factory

    # every client that the library makes from now on
    def client():
        client = default_client_factory()
        client.event_hooks["response"].append(check_answer)
        return client

    set_client_factory(client)
    # does it answer?
    try:
        with default_client_factory() as unguarded:
            unguarded.head(endpoint, timeout=PATIENCE)
    except Exception as error:  # of the client's library, whichever that is
        return f"the hub, {endpoint}, which does not answer ({first_line(error)})", False
    return f"the hub, {endpoint}", True


def check_answer(response):
    """Refuse an ETag, a commit, or a file's digest in a listing, that is not hexadecimal.

    huggingface_hub (2.4.0) makes them names of files as they come, and `../` would leave its cache.
    """
    with telling(f"{response.url.host} answers as no hub does, use another mirror"):
        names = []
        if response.request.method == "HEAD":
            names = [response.headers.get(name) for name in NAMING]
        elif API.search(response.url.path):
            names = listed_names(response)
        for name in filter(None, names):
            if not re.fullmatch(r'(W/)?"?[0-9a-fA-F-]+"?', str(name)):
                raise ValueError(f"it names a file {name!r}, not hexadecimal")


def listed_names(response):
    """What a listing of the hub names files by. It may lead to a further one alone, which is looked
    at too. ValueError, or another error: it is none."""
    ways = response.headers.get("location"), response.links.get("next", {}).get("url")
    for way in filter(None, ways):
        if not API.search(response.url.join(way).path):
            raise ValueError(f"it leads from a listing to {way!r}")
    names = []
    if response.is_success:
        response.read()
        answer = response.json()
        for entry in answer if isinstance(answer, list) else [answer]:
            names += [entry.get("sha"), (entry.get("lfs") or {}).get("oid")]
    return names


@cache
def alone(path):
    """A folder with a link to a GGUF file and nothing else: what lies beside it, as a tokenizer, an
    adapter or code, transformers would take with it."""
    folder = Path(mkdtemp(prefix="rbp-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / path.name).symlink_to(path.absolute())
    return folder


def for_transformers(weights_path):
    """(folder, options) of `from_pretrained` for a folder or a GGUF file."""
    options = {"local_files_only": True, "trust_remote_code": False}  # else it would ask
    if weights_path.is_file():
        return alone(weights_path), options | {"gguf_file": weights_path.name}
    return weights_path, options


def read_config(weights_path, model_id):
    """The transformers configuration in a folder or a GGUF file."""
    from transformers import AutoConfig

    folder, options = for_transformers(weights_path)
    with telling(
        f"the configuration of {model_id!r} cannot be used, "
        "and code that comes with a model is not run"
    ):
        return AutoConfig.from_pretrained(folder, **options)


def load_tokenizer(weights_path, model_id):
    """The tokenizer of a folder, see `tokenizer_place`, or in a GGUF file."""
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    folder, options = for_transformers(weights_path)
    reader = AutoTokenizer
    if weights_path.is_dir():
        folder = tokenizer_place(weights_path)
        if folder is None:
            raise InputError(
                f"model {model_id!r} comes without a tokenizer: "
                "put its tokenizer.json beside the weights."
            )
        # AutoTokenizer goes by the model's type: a Qwen2 would split text its own way, whatever
        # the file says
        settings = folder / "tokenizer_config.json"
        generic = ("TokenizersBackend", "PreTrainedTokenizerFast")
        if settings.is_file() and read_json(settings).get("tokenizer_class") in generic:
            reader = PreTrainedTokenizerFast
    with telling(f"the tokenizer of {model_id!r} cannot be read"):
        tokenizer = reader.from_pretrained(folder, **options)
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if getattr(getattr(backend, "model", None), "dropout", None):
        raise InputError(
            f"the tokenizer of {model_id!r} cuts text at random ('dropout' of its tokenizer.json): "
            "set that to null."
        )
    return tokenizer


def tokenizer_place(folder):
    """Where the tokenizer of a model is; None: nowhere.

    In its folder, or in a folder `tokenizer/` in it, beside it or above that; of a GGUF file in it.
    """
    if folder.is_file():
        return folder
    above = (folder, folder.parent, folder.parent.parent)
    for candidate in (folder, *(parent / "tokenizer" for parent in above)):
        if any((candidate / name).is_file() for name in TOKENIZER_FILES if name != "vocab.txt"):
            return candidate
    return None


def load_weights(weights_path, model_id, dtype, device):
    """The model with its weights, in evaluation mode, each parameter of it read from the files.

    accelerate places what is spread over several devices.
    """
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    from rbplib.scan import speed_up

    # what is read, and nothing said of it on the way
    config = read_config(weights_path, model_id)
    folder, options = for_transformers(weights_path)
    logging.disable_progress_bar()
    logging.set_verbosity_error()  # else a long table of what does not fit, which is refused below
    if weights_path.is_file():
        check_numbers(config, weights_path, model_id)
    elif not is_quantised(config):
        check_stored(config, weights_path, model_id)
    check_class(config, model_id)
    # the weights; each parameter must have come from the files
    with telling(f"model {model_id!r} could not be loaded, give a whole copy of it in safetensors"):
        net, report = AutoModelForCausalLM.from_pretrained(
            folder,
            config=config,
            dtype=dtype,
            device_map=device,
            weights_only=True,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # else it refers to a report, of which nothing is shown
            **options,
        )
    check_keys(report, model_id)
    if weights_path.is_dir():
        check_rotary(net, weights_path, model_id)
        tell_head(net, model_id)
    speed_up(net)
    return net.eval().requires_grad_(False)


def choose_device(device=None):
    """A device that is there: the one asked for, or an accelerator, or else the processor."""
    import torch

    if device is None:
        return str(torch.accelerator.current_accelerator(check_available=True) or "cpu")
    with telling(f"there is no device {device!r} here, leave --device out or use --device cpu"):
        torch.empty(0, device="cuda" if device == "auto" else device)
    return device


def choose_dtype(dtype, device):
    """torch dtype of the weights: "auto" is bfloat16 on CUDA, float32 elsewhere."""
    import torch

    check_choice(dtype, DTYPES, "dtype")
    if dtype == "auto" and device.startswith(("cuda", "auto")):
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
    return getattr(torch, dtype, torch.float32)


@cache
def all_threads():
    """The threads that torch takes unless told otherwise."""
    import torch

    return torch.get_num_threads()


def choose_threads(parameters):
    """Use one thread for a small model, all for others; OMP_NUM_THREADS goes before it."""
    import torch

    default = all_threads()
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1 if parameters < SMALL else default)


# --- Whether a model is what it says

MOVE = 1e-3  # of the scores' spread that rounding may move them by; in half precision its unit


# Tensors that a file may hold beside those of its model, each made anew from the configuration
COMPUTED = re.compile(
    r"(^|\.)(?:"
    r"attn(\.attention)?\.(masked_)?bias|"  # the causal mask, and its score: GPT-2, -Neo and -J
    r"attention\.(masked_)?bias|"  # the same of GPT-NeoX
    r"causal_mask|"  # the same of CodeGen
    r"(original_)?inv_freq|"  # frequencies of rotary positions
    r"(cos|sin)_cached|"  # their cosines and sines
    r"position_ids|"  # 0, 1, 2, ...
    r"embed_positions\.(weights|_float_tensor)"  # sinusoids of positions
    r")$"
)


def check_beside(weights_path, model_id):
    """Refuse a model that is changed by what lies beside its weights: an adapter, which is added to
    them where the package peft happens to be installed, or code of its own."""
    if (weights_path / ADAPTER).is_file():
        raise InputError(
            f"model {model_id!r} has an adapter beside its weights ({ADAPTER}): merge it by peft's "
            "`merge_and_unload`, save that by `save_pretrained`, and give its folder."
        )
    words = tokenizer_place(weights_path) or weights_path
    for path in (weights_path / "config.json", words / "tokenizer_config.json"):
        fields = read_json(path) if path.is_file() else {}
        for key, value in fields.items():
            # kernels of attention are a repository's too
            if (key == "auto_map" and value) or ("attn_impl" in key and "/" in str(value)):
                raise InputError(
                    f"model {model_id!r} names code that comes with it ({key!r} of its "
                    f"{path.name}), which is not run: give a copy whose class is transformers' "
                    "own, or rank by `rbp.sequence_ranks`."
                )


def check_keys(report, model_id):
    """Refuse weights that lack tensors of the model, or hold others than it has a place for.

    Another model would be measured under their name. COMPUTED ones may be there.
    """
    # what does not fit, and what to say of it
    missing = [*report["missing_keys"], *report["mismatched_keys"]]
    unexpected = [key for key in report["unexpected_keys"] if not COMPUTED.search(key)]
    if missing or unexpected:
        what = f"hold {len(unexpected)} more tensors than"
        if missing:
            what = f"lack {len(missing)} tensors of those that"
        first = min(str(key) for key in missing or unexpected)
        raise InputError(
            f"the weights of {model_id!r} {what} its configuration has ({first}, ...): "
            "give the weights and the config.json that belong together."
        )


def tell_head(net, model_id):
    """Say that a head is not the embedding which its configuration ties it to: transformers takes
    the one in the files."""
    table = net.get_input_embeddings().weight
    head = getattr(net.get_output_embeddings(), "weight", table)
    if head is not table and net.config.get_text_config().tie_word_embeddings:
        complain(
            f"the weights of {model_id!r} hold a head of their own, which is taken, where its "
            "config.json ties it to the embedding: say 'tie_word_embeddings' false there if it is "
            "meant, else leave it out of the weights."
        )


# a tensor's name and kind, in safetensors' words or torch's: numbers, or indices and masks
PLAIN = re.compile(r"(?i).* b?f(loat)?(16|32|64)|.*(?<!weight) (i(nt)?64|bool)")


def is_quantised(config):
    """Whether a configuration says how weights were quantised, by a way that transformers has."""
    from transformers.quantizers.auto import AUTO_QUANTIZATION_CONFIG_MAPPING as WAYS

    fields = getattr(config, "quantization_config", None) or {}
    method = fields.get("quant_method") if isinstance(fields, dict) else fields.quant_method
    return bool(method) and any(way.startswith(method) for way in WAYS)


def check_stored(config, weights_path, model_id):
    """Refuse weights of a folder that are stored in 8 bits or as integers: without a configuration
    of how they were quantised they would be read as they lie, without their scale; and what bears
    the name of a causal mask and is none, as a bias of attention."""
    for name, kind, read in stored(weights_path):
        if COMPUTED.search(name):
            wrong = name.endswith((".bias", "causal_mask")) and not is_mask(read(), config)
            fault = (
                "of other values than a causal mask: give the weights and the config.json that "
                "belong together"
            )
        else:
            wrong = not PLAIN.fullmatch(f"{name} {kind}")
            fault = f"as {kind}, and its config.json does not say how it was quantised: give that"
            fault += " too, or weights in floats"
        if wrong:
            raise InputError(f"the weights of {model_id!r} hold {name} {fault}.")


def is_mask(tensor, config):
    """Whether a tensor is the causal mask that a model makes anew."""
    kept = tensor[None]
    mask = kept.new_ones(kept.shape).tril()
    # of GPT-Neo's layers, every second looks back no further than its window
    window = config.window_size if config.model_type == "gpt_neo" else kept.numel()
    return kept.equal(mask) or kept.equal(mask.triu(1 - window))


def check_class(config, model_id):
    """Refuse a configuration that names a class transformers lacks: its type would be read as that
    of another. Old versions wrote some names in other capitals."""
    import transformers

    # `dir` would take a hundred times as long
    there = {name.lower() for name in transformers.__all__}
    for name in config.architectures or ():
        if name.lower() not in there:
            raise InputError(
                f"model {model_id!r} is a {name} ('architectures' of its config.json), which "
                "transformers lacks: install the version that has it, or name the class that its "
                "weights are of."
            )


def check_rotary(net, weights_path, model_id):
    """Refuse frequencies of rotary positions that are not those of the configuration, but for
    rounding to half precision; where positions are scaled, old versions kept what is not."""
    import torch

    modules = [module for module in net.modules() if hasattr(module, "inv_freq")]
    if any(getattr(module, "rope_type", "default") != "default" for module in modules):
        return
    mine = [module.inv_freq.flatten().float().cpu() for module in modules]
    for name, _, read in stored(weights_path) if mine else ():
        if not re.search(r"(^|\.)inv_freq$", name):
            continue
        kept = read().flatten().float()
        if not any(len(f) == len(kept) and torch.allclose(kept, f, 1e-2, 1e-7) for f in mine):
            raise InputError(
                f"the weights of {model_id!r} hold {name} of other values than its configuration "
                "gives: correct 'rope_theta', or what else the config.json says of positions."
            )


def stored(weights_path):
    """(name, dtype, what reads it) of each tensor in the files of a folder; no numbers are
    read before."""
    import torch
    from safetensors import safe_open

    files = sorted(weights_path.glob("*.safetensors"))
    for path in files or sorted(weights_path.glob("pytorch_model*.bin")):
        with telling(f"{path} could not be loaded, give a whole copy in safetensors"):
            if not files:
                mapped = is_zipfile(path)  # as of torch 1.6 and later
                for name, tensor in torch.load(path, "cpu", weights_only=True, mmap=mapped).items():
                    yield name, str(tensor.dtype).removeprefix("torch."), tensor.clone
                continue
            with safe_open(path, "pt") as file:
                for name in file.keys():  # noqa: SIM118
                    part = file.get_slice(name)
                    yield name, part.get_dtype(), partial(file.get_tensor, name)


def check_numbers(config, path, model_id):
    """Refuse a GGUF file with more numbers than its model takes: transformers passes over tensors
    that it has no place for, as biases, or factors of rotary frequencies."""
    header = read_header(path)
    left = header.sizes["total_params"] - model_sizes(config)["total_params"]
    if config.tie_word_embeddings:
        left -= math.prod(header.tensors.get("output.weight", [0]))  # kept twice
    if left > 0:
        odd = [name for name in header.tensors if re.search(r"^rope|(?<!\.weight)$", name)]
        raise InputError(
            f"{model_id!r} holds {left:,} numbers more than transformers takes from a GGUF file of "
            f"its kind ({', '.join(odd[:3])}, ...): give it as a folder in safetensors."
        )


def check_causal(net, model_id):
    """Refuse a model whose scores at a position depend on later tokens.

        w0 w1 ... w6 w7      two rows that differ in the last, in one batch, so that equal tokens
        w0 w1 ... w6 x7      meet equal products: the scores of the first seven are then equal,
                             nearly everywhere bit for bit

    The head is proven on the same pass, see `heads.prove_head`.
    Raises InputError also where the model cannot be run on token ids alone, or draws what it
    attends to. Cost: one forward pass over (2, 8) ids.
    """
    import torch

    from rbplib.heads import prove_head

    if "lsh" in getattr(net.config, "attn_layers", ()) and net.config.hash_seed is None:
        raise InputError(
            f"model {model_id!r} draws at random what it attends to: "
            "give its config.json a 'hash_seed'."
        )
    table = net.get_input_embeddings().weight
    # from the middle of the vocabulary: at its ends stand ids of no text
    ids = torch.linspace(0.1 * len(table), 0.9 * len(table), 9, device=table.device).long()
    rows = torch.stack([ids[:-1], torch.cat([ids[:-2], ids[-1:]])])  # (2, 8)
    with telling(f"model {model_id!r} cannot be run on tokens alone"), torch.inference_mode():
        scores = prove_head(net, rows).float()  # (2, 8, V)
    # how far the scores before the last token moved, beside how far they spread
    moved = (scores[0, :-1] - scores[1, :-1]).nan_to_num(0.0).abs().max().item()
    spread = scores[0].nan_to_num(neginf=0.0, posinf=0.0).std(-1).mean().item()
    if moved > max(MOVE, torch.finfo(net.dtype).eps) * spread:
        raise InputError(
            f"model {model_id!r} ({type(net).__name__}) sees the future: "
            "its ranks predict nothing, use a causal language model."
        )


# --- What a model is known by


def folder_digest(weights_path):
    """What a local model is: SHA-256 over its files' names and contents; of a GGUF file its own.

    They are the configuration, tokenizer and weights of a folder. Each file is read once in a
    process, unless it changes.
    """
    weights_path = Path(weights_path)
    if weights_path.is_file():
        return file_digest(weights_path)
    ours = "config.json", *TOKENIZER_FILES
    files = {}
    for path in filter(Path.is_file, weights_path.iterdir()):
        if path.name in ours or path.name.endswith((".safetensors", ".bin", ".index.json")):
            files[path.name] = path
    # a tokenizer that lies beside the folder
    for path in tokenizer_files(weights_path):
        if path.parent != weights_path:
            files[f"tokenizer/{path.name}"] = path
    total = hashlib.sha256()
    for name, path in sorted(files.items()):
        total.update(f"{name}\0{file_digest(intact(path))}\n".encode())
    return total.hexdigest()


def tokenizer_files(weights_path):
    """Paths of the files that the tokenizer of a model is made from."""
    folder = tokenizer_place(weights_path) or weights_path
    return [folder / name for name in TOKENIZER_FILES if (folder / name).is_file()]


def tokenizer_digest(tokenizer):
    """SHA-256 of what a tokenizer does, whatever files it came from."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return digest({"vocab": tokenizer.get_vocab(), "special": tokenizer.all_special_tokens})
    state = json.loads(backend.to_str())
    for name in ("padding", "truncation", "version"):
        state.pop(name, None)
    return digest(state)


def tokenizer_files_digest(weights_path):
    """SHA-256 of the files that a model's tokenizer is made from, and of its kind, by which they
    are read; of a GGUF file what it says of it."""
    if weights_path.is_file():
        fields = read_header(weights_path).fields.items()
        return digest({name: str(value) for name, value in fields if name.startswith("tokenizer.")})
    digests = {path.name: file_digest(path) for path in tokenizer_files(weights_path)}
    return digest([read_json(weights_path / "config.json").get("model_type"), digests])


def gguf_type(path):
    """How the weights of a GGUF file are quantised, as "Q4_1"; None where it does not say."""
    with telling("a GGUF file needs the package gguf, of `pip install 'rbplib[gguf]'`"):
        import gguf
    kind = read_header(path).fields.get("general.file_type")
    return None if kind is None else gguf.LlamaFileType(kind).name.removeprefix("MOSTLY_")


def read_json(path):
    """The mapping in a JSON file, such as config.json."""
    with telling(f"{path} cannot be read, mend it, or copy or fetch it again"):
        # {"__float__": "Infinity"} is how transformers writes that
        def decoded(pairs):
            entry = once(pairs)
            return float(entry["__float__"]) if "__float__" in entry else entry

        return dict(json.loads(intact(path).read_text("utf-8"), object_pairs_hook=decoded))


# --- How large it is, and how far it reads


def count_sizes(model):
    """Numbers of parameters of a model at hand, on any device, and of candidates.

    Tables are what the model calls its input embeddings, and every other embedding module outside
    its repeated blocks: of positions, of token types. Of a mixture all experts count.

    Returns:
        {"nonembedding_params": S, "total_params": every parameter, a tied head counted once,
        "vocab_size": rows of the output embedding}.
    """
    from torch import nn

    # tables of embeddings, which S leaves out
    head = model.get_output_embeddings()
    tables = [model.get_input_embeddings()]
    if head is not None:
        tables.append(head)
    for name, module in model.named_modules():
        if isinstance(module, nn.Embedding) and not re.search(r"(^|\.)\d", name):
            tables.append(module)
    # every other parameter, each once
    left_out = {id(p) for module in tables for p in module.parameters(recurse=False)}
    vocab = model.config.get_text_config().vocab_size if head is None else len(head.weight)
    return {
        "nonembedding_params": sum(p.numel() for p in model.parameters() if id(p) not in left_out),
        "total_params": model.num_parameters(),
        "vocab_size": int(vocab),
    }


def model_sizes(config):
    """`count_sizes` of a transformers configuration, or of a mapping with `model_type`.

    Paper section 3 (S); the book's page on the metric says what is left out.

    Raises InputError: it is no configuration of a causal language model that transformers knows.
    Cost: the modules are built on the meta device: no memory, 0.01 to 1 s.
    """
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    with telling("the configuration describes no causal language model"):
        if isinstance(config, dict):
            config = AutoConfig.for_model(config["model_type"]).from_dict(config)
        with torch.device("meta"):
            return count_sizes(AutoModelForCausalLM.from_config(config))


def sizes_of(model):
    """`count_sizes` of one families.Model, from a configuration in families/configs/ or its own.

    S alone where there is none to be had, but S stands in the family file.

    Raises InputError: S cannot be had, or the one in the family file is another.
    """
    try:
        fields = configuration(model)
    except InputError as error:
        if model.nonembedding_params is None or isinstance(error, Damaged):
            raise
        return {"nonembedding_params": model.nonembedding_params}
    # sizes that are known need no torch
    path = held("families", "sizes.json")
    sizes = fields.get("sizes") or (path.is_file() and read_json(path).get(digest(fields)))
    return checked_sizes(model, sizes or model_sizes(fields))


def checked_sizes(model, sizes):
    """Sizes, whose S has to be the one that the family file gives, if it does."""
    S = sizes["nonembedding_params"]
    if model.nonembedding_params not in (None, S):
        raise InputError(
            f"the family file gives {model.nonembedding_params:,} non-embedding parameters for "
            f"{model.name}, but it has {S:,}: correct the family file."
        )
    return sizes


def family_sizes(family):
    """Sizes of every model of a family (its name or YAML path): list of dicts, see `sizes_of`, with
    "family", "model" and "id"; of an imported family, whose models are not here, S alone."""
    family, rows = load_family(family), []
    for model in family.models:
        sizes = {"nonembedding_params": model.nonembedding_params}
        if not family.imported:
            sizes = sizes_of(model)
        rows.append({"family": family.name, "model": model.name, "id": model.id} | sizes)
    return rows


def configuration(model):
    """The configuration of a model, a mapping, as families/configs/*.json hold it, enough for its
    size, or its own; of a GGUF file what that says of it, with its "sizes".

    Raises InputError: it cannot be had.
    """
    if not model.local and model.revision in (None, "main"):
        for path in (root() / "families" / "configs").glob("*.json"):
            if fields := read_json(path).get(model.id):
                return fields
    weights_path, _ = model_folder(model, weights=False)
    if not weights_path.is_file():
        return read_json(weights_path / "config.json")
    header = read_header(weights_path)
    kind = f"{header.fields.get('general.architecture')}."
    return {name.removeprefix(kind): value for name, value in header.fields.items()} | {
        "sizes": header.sizes
    }


def model_context(model):
    """Longest input of a model in tokens, as its own configuration says.

    None where it does not, and for a model that cannot be had, which will fail by itself. Neither
    torch nor transformers is loaded for it.
    """
    fields = {}
    with suppress(InputError):
        fields = configuration(model)
    # the first length that it names
    fields = {**(fields.get("text_config") or {}), **fields}
    lengths = [fields.get(name) for name in CONTEXT]
    return next((n for n in lengths if isinstance(n, int) and n > 1), None)


def window_length(family):
    """W of a family: the smaller of 512 and the shortest context of its models, that of the family
    file before that of a configuration."""
    contexts = [model.context or model_context(model) for model in family.models]
    return min([WINDOW, *filter(None, contexts)])


def check_window(model, length):
    """Refuse a window that is longer than what a model's own configuration says it reads: cut for
    one model, it would unpair the family's tokens."""
    most = model_context(model)
    if most is not None and most < length:
        raise InputError(
            f"{model.name} reads at most {most} tokens, not the window of {length}: "
            f"write 'context: {most}' into its family file."
        )


def text_begin(family):
    """Ids that the tokenizer of a family puts before a text, a list; empty where none of its models
    can be had."""
    for model in family.models:
        with suppress(InputError):
            weights_path, _ = model_folder(model, weights=False)
            return list(_text_begin(weights_path, model.id, tokenizer_files_digest(weights_path)))
    return []


@lru_cache(64)
def _text_begin(weights_path, model_id, files):
    return added_ids(load_tokenizer(weights_path, model_id))[0]


def check_tokenizers(family):
    """Refuse a family whose models cut text, that of this module, into other tokens.

    A model that cannot be had fails by itself. Cost: one reading of the tokenizers' files; where
    these differ, each other one is made.
    """
    # the first model of each tokenizer's files
    by_files = {}
    for model in family.models:
        with suppress(InputError):
            weights_path, _ = model_folder(model, weights=False)
            by_files.setdefault(tokenizer_files_digest(weights_path), (model, weights_path))
    # and of each way to cut
    text, models = Path(__file__).read_text(encoding="utf-8"), {}
    for model, weights_path in by_files.values() if len(by_files) > 1 else ():
        with suppress(InputError):
            tokenizer = load_tokenizer(weights_path, model.id)
            models.setdefault(tuple(tokenizer(text, verbose=False)["input_ids"]), model.name)
    if len(models) > 1:
        names = " and ".join(models.values())
        raise InputError(
            f"{names} of {family.name} cut text into other tokens, so their ranks are not "
            "comparable: make a family for each tokenizer."
        )
