"""The files of a model: which there must be, where they are, and a digest that names a folder's contents."""

import hashlib
import json
import os
import time
from contextlib import suppress
from pathlib import Path

from rbplib import hub
from rbplib.families import InputError, Model, is_model_place, results_dir, write_text
from rbplib.quantised import gguf_of, readable

LARGE = 1 << 26  # bytes of a file whose digest is kept
JUST_NOW = 2_000_000_000  # ns: what changed since may change again within one tick of the clock of a file's times
TOKENIZER_FILES = (
    "tokenizer.json tokenizer_config.json special_tokens_map.json added_tokens.json vocab.json merges.txt vocab.txt "
    "tokenizer.model spiece.model sentencepiece.bpe.model"
).split()


def hub_model(repo_id, revision=None):
    """A settings.Model for a hub id or a folder that stands in no family file."""
    local = Path(repo_id).expanduser()
    if is_model_place(local):
        return Model(local.name.removesuffix(".gguf"), repo_id, revision, local=local.resolve())
    if os.sep in repo_id and repo_id.count("/") > 1:
        raise InputError(f"there is no folder {repo_id!r}: check the path.")
    return Model(local.name, hub.check_repo_id(repo_id), revision)


@readable()
def model_folder(model, trust_remote_code=False, weights=True):
    """(local folder with a model's files, or its GGUF file, {"model_id", "revision"}, with "model_digest" for one that
    is no hub's)."""
    if not model.local:
        repo = hub.open_repo(model.id, model.revision)
        return fetch_model(repo, trust_remote_code, weights), {"model_id": model.id, "revision": repo.revision}
    folder = Path(model.local)
    file = gguf_of(folder)
    if not file and not (folder / "config.json").is_file():
        raise InputError(f"{folder} holds no config.json: give a folder as `save_pretrained` writes it.")
    if not weights:
        return file or folder, {"model_id": model.id}
    names = [] if file else weight_files(sorted(p.name for p in folder.iterdir()), model.id)
    for said in filter(None, (hub.hollow(folder / n) for n in names)):
        raise InputError(f"{folder}: {said.rstrip(',')}: copy the model whole, or run `git lfs pull` there.")
    return file or folder, {"model_id": model.id, "revision": None, "model_digest": folder_digest(folder)}


@readable()
def folder_digest(folder):
    """SHA-256 over names and contents of a folder's configuration, tokenizer, weights and code: what a local model is.
    Of a GGUF file, or a folder that holds one: of that file."""
    folder, h = Path(folder), hashlib.sha256()
    if file := gguf_of(folder):
        return known_digest(file)
    files, config = sorted(filter(Path.is_file, folder.iterdir())), folder / "config.json"
    kinds = (".safetensors", ".bin")
    kinds += (".py",) if config.is_file() and b'"auto_map"' in config.read_bytes() else ()
    names = {p.name: p for p in files if p.suffix in kinds or p.name.endswith(".index.json")}
    names |= {p.name: p for p in files if p.name in ("config.json", *TOKENIZER_FILES)}
    if (place := tokenizer_place(folder)) not in (None, folder):
        names |= {f"tokenizer/{n}": place / n for n in TOKENIZER_FILES if (place / n).is_file()}
    for name, path in sorted(names.items()):
        h.update(f"{name}\0{known_digest(path)}\n".encode())
    return h.hexdigest()


def known_digest(path):
    """SHA-256 of a file; that of a large one is `remembered`."""
    path = path.resolve()
    return remembered(path, hub.file_digest) if path.stat().st_size >= LARGE else hub.file_digest(path)


def remembered(path, tell):
    """What tell(path) says of a file, JSON; kept under results/ for as long as the file's size and times stay."""
    state, memory = path.stat(), results_dir() / "digests.json"
    now, name = [state.st_size, state.st_mtime_ns, state.st_ctime_ns], str(path.resolve())

    def kept():
        with suppress(OSError, ValueError, TypeError):
            return dict(json.loads(memory.read_text(encoding="utf-8")))
        return {}

    *was, said = kept().get(name, [None])
    if was != now:
        said = tell(path)
        if time.time_ns() - state.st_ctime_ns > JUST_NOW:  # written again at once, the times might not tell
            with suppress(InputError):  # a folder that cannot be written costs only time
                write_text(memory, json.dumps(kept() | {name: [*now, said]}))
    return said


def tokenizer_place(folder):
    """Where the tokenizer of a model is: in its folder, or in `tokenizer/` in, beside or above that; None: nowhere."""
    places = (folder, *(p / "tokenizer" for p in (folder, folder.parent, folder.parent.parent)))
    return next((p for p in places if any((p / n).is_file() for n in TOKENIZER_FILES if n != "vocab.txt")), None)


def fetch_model(repo, trust_remote_code, weights):
    """The folder with a Repo's configuration, tokenizer and weights, and its code if that is trusted."""
    if "config.json" not in repo.files:
        raise InputError(f"model {repo.id!r} has no config.json: it is not in the format transformers reads.")
    names = ["config.json", *(n for n in repo.files if n in (*TOKENIZER_FILES, "generation_config.json"))]
    if trust_remote_code:
        names += [n for n in repo.files if n.endswith(".py")]
    if weights:
        names += weight_files(repo.files, repo.id, repo)
    return hub.fetch(repo, *names)


def weight_files(files, model_id, repo=None):
    """Names of those of the files that hold the weights: safetensors before anything else, shards by their index.

    repo: None for a folder, whose index transformers reads.
    """
    for single in ("model.safetensors", "pytorch_model.bin"):
        if single in files:
            return [single]
        index = f"{single}.index.json"
        if index in files:
            return [index, *(shards(index, repo) if repo else ())]
    kinds = [f for f in files if f.endswith((".msgpack", ".h5", ".ckpt.index", ".gguf", ".onnx", ".pt", ".pth"))]
    also = f" (it has {kinds[0]}, which cannot be read here)" if kinds else ""
    raise InputError(f"model {model_id!r} has no model.safetensors or pytorch_model.bin{also}: convert or complete it.")


def shards(index, repo):
    """Names of the weight files that an index lists."""
    path = hub.fetch(repo, index) / index
    try:
        listed = set(json.loads(path.read_text(encoding="utf-8"))["weight_map"].values())
    except (ValueError, KeyError, AttributeError):
        raise InputError(f"{index} of model {repo.id!r} is not readable: the repository is damaged.") from None
    if missing := sorted(listed - set(repo.files)):
        raise InputError(f"model {repo.id!r} lacks the weight file {missing[0]!r} in its repository.")
    return sorted(listed)
