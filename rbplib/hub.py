"""Files of the hub: found, fetched, checked against their hash, and every failure told in one sentence.

huggingface_hub finds, fetches, resumes and keeps; with no network its cache answers. By hand: a file's hash is computed
after its download, as the library compares sizes alone; `network` tells its errors and bounds its waits.
Tokens of gated repositories are left to the library: this module never sees one.
"""

import glob
import hashlib
import re
import shutil
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from rbplib.families import REPO_ID, InputError, write_text
from rbplib.network import is_offline, patiently, sentence, watched


@dataclass(frozen=True)
class Repo:
    """One repository at one commit. files: every path in it, or what the cache holds where it has no listing."""

    id: str
    kind: str  # "model" or "dataset"
    name: str  # branch, tag or commit that was asked for
    revision: str  # the commit
    files: tuple[str, ...]
    online: bool


def open_repo(repo_id, revision=None, kind="model"):
    """The Repo at a branch, tag or commit; None is the main branch.

    Raises InputError: no such repository or revision, gated, or neither network nor cache.
    """
    from huggingface_hub import HfApi, errors, get_cached_repo_tree

    check_repo_id(repo_id, kind)
    try:
        with watched():
            info = patiently(lambda: HfApi().repo_info(repo_id, revision=revision, repo_type=kind))
        return Repo(repo_id, kind, revision or "main", info.sha, tuple(s.rfilename for s in info.siblings or ()), True)
    except Exception as error:
        folder = cached_snapshot(repo_id, revision, kind) if is_offline(error) else None
        if folder is None:
            raise sentence(error, repo_id, kind, revision) from None
    try:
        files = [f.path for f in get_cached_repo_tree(repo_id, repo_type=kind, revision=folder.name)]
    except errors.CachedRepoTreeNotFoundError:  # another program filled the cache
        files = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
    return Repo(repo_id, kind, revision or "main", folder.name, tuple(files), False)


def check_repo_id(repo_id, kind="model"):
    """Refuse an id before it becomes part of an address or a path."""
    if not isinstance(repo_id, str) or not REPO_ID.match(repo_id) or ".." in repo_id or "--" in repo_id:
        raise InputError(f"{repo_id!r} is not a {kind} id of the hub: write it as 'owner/name'.")
    return repo_id


def cached_snapshot(repo_id, revision=None, kind="model"):
    """The cache's folder of a repository at a revision, whatever it holds, or None; no network is used."""
    from huggingface_hub import errors, snapshot_download

    here = {"revision": revision, "local_files_only": True, "allow_patterns": []}
    with suppress(errors.LocalEntryNotFoundError):
        return Path(snapshot_download(repo_id, repo_type=kind, **here))


def free_disk():
    """Bytes free where the hub's cache is, or will be."""
    from huggingface_hub import constants

    place = Path(constants.HF_HUB_CACHE)
    return shutil.disk_usage(next(p for p in (place, *place.parents) if p.exists())).free


def fetch(repo, *names):
    """The local folder of a Repo, with the files of these paths downloaded if need be and verified by their hashes.

    Raises InputError: a file is absent, refused, keeps failing, or fails its hash twice.
    Cost: the download, and one reading of each file to hash it.
    """
    from huggingface_hub import snapshot_download

    it = f"{repo.kind} {repo.id!r}"
    if absent := [n for n in names if n not in repo.files]:
        raise InputError(f"{it} has no file {absent[0]!r} at revision {repo.revision[:12]}: check it.")
    options = {"repo_type": repo.kind, "revision": repo.revision, "allow_patterns": [glob.escape(n) for n in names]}
    options["local_files_only"] = not repo.online
    for _ in range(2):
        with telling(repo):
            folder = Path(patiently(lambda: snapshot_download(repo.id, **options)))
        damaged = [n for n in names if not intact(folder / n)]
        for path in (folder / n for n in damaged):
            path.resolve().unlink(missing_ok=True)
            path.unlink(missing_ok=True)
        if not damaged:
            for said in filter(None, (hollow(folder / n) for n in names)):
                raise InputError(f"{it}: {said} at its source: name another revision, or tell its owner.")
            remember(repo, folder)
            return folder
        if not repo.online:
            raise InputError(f"the cached {damaged[0]} of {it} is damaged and was removed: connect and run again.")
    raise InputError(
        f"{damaged[0]} of {it} does not match its published hash, twice: nothing was kept; try again later or from "
        "another network."
    )


def hollow(path):
    """Why a file that ought to hold something does not, or None."""
    with open(path, "rb") as f:
        start = f.read(40)
    if start.startswith(b"version https://git-lfs"):
        return f"{path.name} is a pointer of Git LFS, not the file itself,"
    return None if start or path.suffix in (".py", ".txt") else f"{path.name} is empty"


def remember(repo, folder):
    """Note the commit of a branch or tag in the cache, as the library does where it resolves the name itself."""
    if repo.online and repo.name != folder.name and ".." not in repo.name:
        with suppress(InputError):  # a read-only cache still serves this run
            write_text(folder.parents[1] / "refs" / repo.name, folder.name)


def intact(path):
    """Whether a cached file has the content that the blob it links to is named by: a SHA-256, or git's SHA-1."""
    promised = path.readlink().name if path.is_symlink() else ""
    if not re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", promised):
        return True  # a cache without links keeps no hash
    git = hashlib.sha1(b"blob %d\0" % path.stat().st_size)
    return file_digest(path, "sha256" if len(promised) == 64 else lambda: git) == promised


def file_digest(path, kind="sha256"):
    """Hex digest of a file's bytes."""
    with open(path, "rb") as f:
        return hashlib.file_digest(f, kind).hexdigest()


def open_remote(repo, name):
    """A file of a Repo read where it is asked, by ranges, for readers that seek; Parquet itself notices most damage."""
    from huggingface_hub import HfFileSystem

    path = f"{repo.kind}s/{repo.id}@{repo.revision}/{name}".removeprefix("models/")
    return patiently(lambda: HfFileSystem().open(path, cache_type="none"))


@contextmanager
def telling(repo):
    """Whatever fails inside is told in one sentence about the Repo."""
    try:
        with watched():
            yield
    except Exception as error:
        raise sentence(error, repo.id, repo.kind, repo.name) from None
