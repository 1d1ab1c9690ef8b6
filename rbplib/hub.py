"""Files of the hub: found, fetched, checked against their hash, and every failure told in one sentence.

huggingface_hub finds, fetches, resumes and keeps; with no network its cache answers. Two things are by hand: the hash
of a file is computed after its download, as the library compares sizes alone, and each of its errors becomes one
sentence with its mend. Tokens of gated repositories are left to the library: this module never sees one.
"""

import glob
import hashlib
import json
import os
import re
import shutil
import time
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rbplib.settings import REPO_ID, InputError

TRIES = 4  # of one call; the library itself already resumes and retries inside each
WAIT = 1.0  # seconds before the second try, doubled each time
TOKENIZER_FILES = (
    "tokenizer.json tokenizer_config.json special_tokens_map.json added_tokens.json vocab.json merges.txt vocab.txt "
    "tokenizer.model spiece.model sentencepiece.bpe.model"
).split()


@dataclass(frozen=True)
class Repo:
    """One repository at one commit. files: every path in it, or what the cache holds where it has no listing."""

    id: str
    kind: str  # "model" or "dataset"
    revision: str  # the commit
    files: tuple[str, ...]


def open_repo(repo_id, revision=None, kind="model"):
    """Resolve a revision to its commit and list the files there.

    Args:
        repo_id: OWNER/NAME. revision: branch, tag or commit; None is the main branch.
    Raises:
        InputError: no such repository or revision, gated, or neither network nor cache.
    """
    from huggingface_hub import get_cached_repo_tree
    from huggingface_hub.errors import CachedRepoTreeNotFoundError

    check_repo_id(repo_id, kind)
    small = [
        "config.json" if kind == "model" else "README.md"
    ]  # with a first file the library keeps commit and listing
    folder = snapshot(repo_id, revision, kind, small)
    try:
        files = [f.path for f in get_cached_repo_tree(repo_id, repo_type=kind, revision=folder.name)]
    except CachedRepoTreeNotFoundError:  # no network, and a cache that another program filled
        files = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
    return Repo(repo_id, kind, folder.name, tuple(files))


def snapshot(repo_id, revision, kind, names):
    """The cache's folder of a repository at a revision, with these files of it."""
    from huggingface_hub import snapshot_download
    from tqdm import tqdm

    held = cached_snapshot(repo_id, revision, kind)
    complete = held is not None and all((held / n).is_file() for n in names)
    if complete and held.name == revision:  # a commit never changes
        return held
    options = {"repo_type": kind, "revision": revision, "allow_patterns": [glob.escape(n) for n in names]}
    options |= {"tqdm_class": partial(tqdm, disable=True)} if len(names) == 1 else {}
    try:
        return Path(patiently(lambda: snapshot_download(repo_id, **options)))
    except Exception as error:
        if complete and is_offline(error):
            return held
        raise sentence(error, repo_id, kind, revision) from None


def check_repo_id(repo_id, kind="model"):
    """Refuse an id before it becomes part of an address or a path."""
    if not isinstance(repo_id, str) or not REPO_ID.match(repo_id) or ".." in repo_id or "--" in repo_id:
        raise InputError(f"{repo_id!r} is not a {kind} id of the hub: write it as 'owner/name'.")
    return repo_id


def cached_snapshot(repo_id, revision=None, kind="model"):
    """The cache's folder of a repository at a revision, whatever it holds, or None; no network is used."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    options = {"repo_type": kind, "revision": revision, "allow_patterns": []}
    try:
        return Path(snapshot_download(repo_id, local_files_only=True, **options))
    except LocalEntryNotFoundError:
        return None


def free_disk():
    """Bytes free where the hub's cache is, or will be."""
    from huggingface_hub import constants

    place = Path(constants.HF_HUB_CACHE)
    return shutil.disk_usage(next(p for p in (place, *place.parents) if p.exists())).free


def fetch(repo, *names):
    """The local folder of a repository, with these files downloaded if need be and verified against their hashes.

    Args:
        repo: from `open_repo`. names: paths in the repository.
    Raises:
        InputError: a file is absent, refused, keeps failing, or fails its hash twice.
    Cost: the download, and one reading of each file to hash it.
    """
    what = f"{repo.kind} {repo.id!r}"
    if absent := [n for n in names if n not in repo.files]:
        raise InputError(f"{what} has no file {absent[0]!r} at revision {repo.revision[:12]}: check it.")
    folder = snapshot(repo.id, repo.revision, repo.kind, names)
    damaged = removed(folder, names)
    if not damaged:
        return folder
    try:
        snapshot(repo.id, repo.revision, repo.kind, names)
    except InputError:
        raise InputError(
            f"the cached {damaged[0]} of {what} is damaged and was removed: connect and run again."
        ) from None
    if damaged := removed(folder, names):
        raise InputError(
            f"{damaged[0]} of {what} does not match its published hash, twice: "
            "nothing was kept; try again later or from another network."
        )
    return folder


def removed(folder, names):
    """Those of the files whose content is not what their hash says, taken out of the cache."""
    damaged = [n for n in names if not intact(folder / n)]
    for path in (folder / n for n in damaged):
        for link in {path, blob_of(path), path.resolve()}:
            link.unlink(missing_ok=True)
    return damaged


def intact(path):
    """Whether a cached file has the content its name in the cache promises (a SHA-256, or git's SHA-1 of a blob)."""
    name = blob_of(path).name
    if not re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", name):
        return True  # a cache without links keeps no hash
    git = hashlib.sha1(b"blob %d\0" % path.stat().st_size)
    return file_digest(path, git if len(name) == 40 else hashlib.sha256()) == name


def blob_of(path):
    """What a file of the cache links to: the blob named by its hash (which may itself link into a shared store)."""
    return Path(os.path.normpath(path.parent / os.readlink(path))) if path.is_symlink() else path


def file_digest(path, h=None):
    """Hex digest of a file's bytes, SHA-256 unless another hash object is given."""
    with open(path, "rb") as f:
        return hashlib.file_digest(f, lambda: h or hashlib.sha256()).hexdigest()


def open_remote(repo, name):
    """A file of a repository that is read where it is asked, by ranges; for readers that seek, as Parquet's does.

    What comes cannot be checked against the file's hash; Parquet notices most damage when it is parsed.
    """
    from huggingface_hub import HfFileSystem
    from huggingface_hub.hf_file_system import HfFileSystemFile

    class Told(HfFileSystemFile):
        def _fetch_range(self, start, end):
            with telling(repo.id, repo.kind, repo.revision):
                return patiently(lambda: super(Told, self)._fetch_range(start, end))

    path = f"{repo.kind}s/{repo.id}@{repo.revision}/{name}".removeprefix("models/")
    with telling(repo.id, repo.kind, repo.revision):
        return patiently(lambda: Told(HfFileSystem(), path, mode="rb", cache_type="none"))


def fetch_model(model_id, revision=None, trust_remote_code=False, weights=True):
    """(folder, commit) of a model: its configuration, tokenizer and weights, and its code if that is trusted."""
    repo = open_repo(model_id, revision)
    if "config.json" not in repo.files:
        raise InputError(f"model {model_id!r} has no config.json: it is not in the format transformers reads.")
    names = ["config.json", *(n for n in repo.files if n in (*TOKENIZER_FILES, "generation_config.json"))]
    if trust_remote_code:
        names += [n for n in repo.files if n.endswith(".py")]
    if weights:
        names += weight_files(repo.files, model_id, repo)
    return fetch(repo, *names), repo.revision


def weight_files(files, model_id, repo=None):
    """Names of the files that hold the weights: safetensors before anything else, shards by their index.

    Args:
        files: names at the top of the repository or folder. repo: None for a folder, whose index transformers reads.
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
    try:
        listed = json.loads((fetch(repo, index) / index).read_text(encoding="utf-8"))["weight_map"].values()
    except (ValueError, KeyError, AttributeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{index} of model {repo.id!r} is not readable: the repository is damaged.") from None
    if missing := sorted(set(listed) - set(repo.files)):
        raise InputError(f"model {repo.id!r} lacks the weight file {missing[0]!r} in its repository.")
    return sorted(set(listed))


def patiently(call):
    """Call again, after a growing pause, while the server is busy or the line breaks; the last error is raised."""
    for attempt in range(TRIES):
        try:
            return call()
        except Exception as error:
            if attempt == TRIES - 1 or not passing(error):
                raise
            time.sleep(WAIT * 2**attempt)
    raise AssertionError("unreachable")


BUSY = (408, 429, 500, 502, 503, 504)  # a server that may answer later


def chain(error):
    """An error and what caused it, outermost first."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def class_names(error):
    """Names of the classes of an error and of what caused it; by names, so that no library is loaded to ask."""
    return {c.__name__ for e in chain(error) for c in type(e).__mro__}


def status(error):
    """HTTP status behind an error, or None."""
    for e in chain(error):
        if (code := getattr(getattr(e, "response", None), "status_code", None)) is not None:
            return int(code)
    return None


def passing(error):
    """Whether trying again may help: a busy server, or a line that broke after it had been there."""
    if status(error) is not None:
        return status(error) in BUSY
    names = class_names(error)
    broken = {"RemoteProtocolError", "ReadError", "ReadTimeout"}
    return bool(names & broken) or any("Consistency check failed" in str(e) for e in chain(error))


def is_offline(error):
    """Whether an error means that the hub could not be reached or could not answer at all."""
    if status(error) is not None:
        return status(error) in BUSY
    names = class_names(error)
    return bool(
        names & {"OfflineModeIsEnabled", "ConnectError", "ConnectTimeout", "TimeoutException", "NetworkError"}
        or names & {"TransportError", "ConnectionError", "LocalEntryNotFoundError", "TimeoutError"}
    )


@contextmanager
def telling(repo_id, kind="model", revision=None):
    """Whatever fails inside is told in one sentence about the repository."""
    try:
        yield
    except Exception as error:
        raise sentence(error, repo_id, kind, revision) from None


def sentence(error, repo_id, kind="model", revision=None):
    """The InputError that says in one sentence what went wrong with a repository and what to do."""
    if isinstance(error, InputError):
        return error
    names, code, it = class_names(error), status(error), f"{kind} {repo_id!r}"
    lacks = "EntryNotFoundError" in names and "LocalEntryNotFoundError" not in names
    full = any(isinstance(e, OSError) and e.errno == 28 for e in chain(error)) or "free disk space" in str(error)
    reasons = {  # the first that holds is told
        f"{it} is gated: accept its terms on its page of the hub, log in with `hf auth login`, and run again.": (
            "GatedRepoError" in names or code == 403
        ),
        f"{it} has no revision {revision!r}: check the name of the branch or commit.": "RevisionNotFoundError" in names,
        f"{it} does not exist on the hub, or is private: check its spelling, or log in with `hf auth login`.": (
            "RepositoryNotFoundError" in names or code == 401
        ),
        f"{it} lacks a file that was asked for: {first_line(error)}": lacks,
        f"the hub answers {code} for {it}: try again in a few minutes.": code in BUSY,
        f"the hub cannot be reached and {it} is not wholly in the cache: connect and run again.": is_offline(error),
        f"the download of {it} kept breaking off: run again, and it goes on.": passing(error),
        f"the disk is too full for {it}: free space, or set HF_HOME to another disk.": full,
    }
    return InputError(
        next((s for s, holds in reasons.items() if holds), f"{it} could not be fetched: {first_line(error)}")
    )


def first_line(error):
    """First line of an error's message, cut to a readable length."""
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__)[:200]
