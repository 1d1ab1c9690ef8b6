"""Files of the hub: found, fetched, checked against their hash, and every failure told in one sentence.

huggingface_hub finds, fetches, resumes and keeps; with no network its cache answers. By hand: a file's hash is computed
after its download, as the library compares sizes alone, and each of its errors becomes one sentence with its mend.
Tokens of gated repositories are left to the library: this module never sees one.
"""

import errno
import glob
import hashlib
import re
import shutil
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from rbplib.settings import REPO_ID, InputError, write_error, write_text

TRIES = 4  # of one call; the library itself already resumes and retries inside each
WAIT = 1.0  # seconds before the second try, doubled each time


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
        info = patiently(lambda: HfApi().repo_info(repo_id, revision=revision, repo_type=kind, timeout=30))
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
    for _ in range(2):
        held = cached_snapshot(repo.id, repo.revision, repo.kind)
        options["local_files_only"] = not repo.online or bool(held and all((held / n).is_file() for n in names))
        with telling(repo):
            folder = Path(patiently(lambda: snapshot_download(repo.id, **options)))
        damaged = [n for n in names if not intact(folder / n)]
        for path in (folder / n for n in damaged):
            path.resolve().unlink(missing_ok=True)
            path.unlink(missing_ok=True)
        if not damaged:
            remember(repo, folder)
            return folder
        if not repo.online:
            raise InputError(f"the cached {damaged[0]} of {it} is damaged and was removed: connect and run again.")
    raise InputError(
        f"{damaged[0]} of {it} does not match its published hash, twice: nothing was kept; try again later or from "
        "another network."
    )


def remember(repo, folder):
    """Note the commit of a branch or tag in the cache, as the library does where it resolves the name itself."""
    if repo.online and repo.name != folder.name and ".." not in repo.name:
        with suppress(InputError):  # a read-only cache still serves this run
            write_text(folder.parents[1] / "refs" / repo.name, folder.name)


def one_at_a_time(path):
    """A lock beside `path`, which may not be there yet, for what only one process shall make."""
    from huggingface_hub.utils import WeakFileLock

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_error(path, error) from None
    return WeakFileLock(path.with_name(f".{path.stem}.lock"))


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


def patiently(call):
    """Call again, after a growing pause, while the server is busy or the line breaks; the last error is raised."""
    for attempt in range(TRIES):
        try:
            return call()
        except Exception as error:
            if attempt + 1 == TRIES or not passing(error):
                raise
            time.sleep(WAIT * 2**attempt)


# Errors are known by their classes' names, so that no library is loaded to ask.
BUSY = (408, 429, 500, 502, 503, 504)  # a server that may answer later
BROKEN = {"RemoteProtocolError", "ReadError", "ReadTimeout"}  # a line that had been there
AWAY = {"TransportError", "ConnectionError", "TimeoutError", "LocalEntryNotFoundError"}  # no line, nor a kept file


def chain(error):
    """An error and what caused it, outermost first."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def class_names(error):
    """Names of the classes in the chain of an error."""
    return {c.__name__ for e in chain(error) for c in type(e).__mro__}


def status(error):
    """HTTP status behind an error, or None."""
    answers = (getattr(e, "response", None) for e in chain(error))
    return next((int(a.status_code) for a in answers if a is not None), None)


def passing(error):
    """Whether trying again may help: a busy server, or a line that broke after it had been there."""
    if (code := status(error)) is not None:
        return code in BUSY
    return bool(class_names(error) & BROKEN) or any("Consistency check failed" in str(e) for e in chain(error))


def is_offline(error):
    """Whether an error means that the hub could not be reached or could not answer at all."""
    return status(error) in BUSY if status(error) is not None else bool(class_names(error) & AWAY)


@contextmanager
def telling(repo):
    """Whatever fails inside is told in one sentence about the Repo."""
    try:
        yield
    except Exception as error:
        raise sentence(error, repo.id, repo.kind, repo.name) from None


def sentence(error, repo_id, kind="model", revision=None):
    """The InputError that says in one sentence what went wrong with a repository and what to do."""
    if isinstance(error, InputError):
        return error
    names, code, it = class_names(error), status(error), f"{kind} {repo_id!r}"
    reasons = {  # the first that holds is told
        f"{it} is gated: accept its terms on its page of the hub, log in with `hf auth login`, and run again.": (
            "GatedRepoError" in names or code == 403
        ),
        f"{it} has no revision {revision!r}: check the name of the branch or commit.": "RevisionNotFoundError" in names,
        f"{it} does not exist on the hub, or is private: check its spelling, or log in with `hf auth login`.": (
            "RepositoryNotFoundError" in names or code == 401
        ),
        f"{it} lacks a file that was asked for: {first_line(error)}": "RemoteEntryNotFoundError" in names,
        f"the hub answers {code} for {it}: try again in a few minutes.": code in BUSY,
        f"the hub cannot be reached and {it} is not wholly in the cache: connect and run again.": is_offline(error),
        f"the download of {it} kept breaking off: run again, and it goes on.": passing(error),
        f"the disk is too full for {it}: free space, or set HF_HOME to another disk.": (
            any(getattr(e, "errno", None) == errno.ENOSPC for e in chain(error)) or "free disk space" in str(error)
        ),
        f"{it} could not be fetched: {first_line(error)}": True,
    }
    return InputError(next(said for said, holds in reasons.items() if holds))


def first_line(error):
    """First line of an error's message, cut to a readable length."""
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__)[:200]
