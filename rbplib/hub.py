"""Files of the hub: fetched, resumed, checked against their hash, and every failure told in one sentence.

Models and datasets come through here, so both survive the same faults: a line cut in mid-file is resumed, a busy
server is asked again, a file whose content does not match its hash is thrown away and fetched once more, and with
no network the cache answers. Tokens of gated repositories are left to huggingface_hub: this module never sees one.
"""

import hashlib
import io
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

from rbplib.settings import REPO_ID, InputError

TRIES = 4  # of one file; the library itself already resumes and retries inside each
WAIT = 1.0  # seconds before the second try, doubled each time
SHA1, SHA256 = re.compile(r"[0-9a-f]{40}\Z"), re.compile(r"[0-9a-f]{64}\Z")


@dataclass(frozen=True)
class Repo:
    """One repository at one commit. files: every path in it, or what the cache holds when there is no network."""

    id: str
    kind: str  # "model" or "dataset"
    revision: str  # the commit
    files: tuple[str, ...]
    online: bool


def open_repo(repo_id, revision=None, kind="model"):
    """Resolve a revision to its commit and list the files there.

    Args:
        repo_id: OWNER/NAME. revision: branch, tag or commit; None is the main branch.
    Raises:
        InputError: no such repository or revision, gated, or neither network nor cache.
    """
    from huggingface_hub import HfApi

    check_repo_id(repo_id, kind)
    try:
        info = patiently(lambda: HfApi().repo_info(repo_id, revision=revision, repo_type=kind, timeout=30))
    except Exception as error:
        if not is_offline(error):
            raise sentence(error, repo_id, kind, revision) from None
        folder = cached_snapshot(repo_id, revision, kind)
        if folder is None:
            raise sentence(error, repo_id, kind, revision) from None
        files = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
        return Repo(repo_id, kind, folder.name, tuple(files), online=False)
    return Repo(repo_id, kind, info.sha, tuple(s.rfilename for s in info.siblings or ()), online=True)


def check_repo_id(repo_id, kind="model"):
    """Refuse an id before it becomes part of an address or a path."""
    if not isinstance(repo_id, str) or not REPO_ID.match(repo_id) or ".." in repo_id or "--" in repo_id:
        raise InputError(f"{repo_id!r} is not a {kind} id of the hub: write it as 'owner/name'.")
    return repo_id


def cached_snapshot(repo_id, revision=None, kind="model"):
    """The cache's folder of a repository at a revision, or None."""
    folder, name = cache_folder(repo_id, kind), revision or "main"
    if not SHA1.match(name):
        ref = folder / "refs" / name
        if not ref.is_file():
            return None
        name = ref.read_text().strip()
    found = folder / "snapshots" / name
    return found if found.is_dir() else None


def cache_folder(repo_id, kind):
    from huggingface_hub import constants
    from huggingface_hub.file_download import repo_folder_name

    return Path(constants.HF_HUB_CACHE) / repo_folder_name(repo_id=repo_id, repo_type=kind)


def fetch(repo, name):
    """The local path of one file of a repository, downloaded if need be and verified against its hash.

    Args:
        repo: from `open_repo`. name: path in the repository.
    Raises:
        InputError: the file is absent, refused, keeps failing, or fails its hash twice.
    Cost: the download, and one reading of the file to hash it.
    """
    from huggingface_hub import hf_hub_download

    if name not in repo.files:
        raise InputError(f"{repo.kind} {repo.id!r} has no file {name!r} at revision {repo.revision[:12]}: check it.")
    options = {"repo_id": repo.id, "filename": name, "repo_type": repo.kind, "local_files_only": not repo.online}
    for attempt in (1, 2):
        try:
            path = Path(patiently(lambda: hf_hub_download(revision=repo.revision, **options)))
        except Exception as error:
            raise sentence(error, repo.id, repo.kind, repo.revision) from None
        if intact(path):
            return path
        for link in {path, blob_of(path), path.resolve()}:
            link.unlink(missing_ok=True)
        if not repo.online:
            raise InputError(
                f"the cached {name} of {repo.kind} {repo.id!r} is damaged and was removed: connect and run again."
            )
        if attempt == 2:
            raise InputError(
                f"{name} of {repo.kind} {repo.id!r} does not match its published hash, twice: "
                "nothing was kept; try again later or from another network."
            )
    raise AssertionError("unreachable")


def remember(repo, revision):
    """Note in the cache which commit a branch or tag name stood for, so that the name works without a network."""
    name = revision or "main"
    if SHA1.match(name) or not re.fullmatch(r"[A-Za-z0-9._-]+", name) or ".." in name:
        return
    folder = cache_folder(repo.id, repo.kind) / "refs"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(repo.revision)
    except OSError:
        pass  # a read-only cache still serves this run


class Short(OSError):
    """Fewer bytes came than were asked for."""


def read_range(repo, name, start, stop):
    """Bytes start..stop of a file of a repository, without fetching the rest of it.

    They cannot be checked against the file's hash; Parquet and JSON notice most damage when they are parsed.
    """
    from huggingface_hub import hf_hub_url
    from huggingface_hub.utils import build_hf_headers, hf_raise_for_status, http_backoff

    url = hf_hub_url(repo.id, name, repo_type=repo.kind, revision=repo.revision)
    headers = {**build_hf_headers(), "Range": f"bytes={start}-{stop - 1}", "Accept-Encoding": "identity"}

    def call():
        response = http_backoff("GET", url, headers=headers, timeout=30, max_retries=2, follow_redirects=True)
        hf_raise_for_status(response)
        data = response.content if response.status_code == 206 else response.content[start:stop]
        if len(data) != stop - start:
            raise Short(f"{len(data)} bytes of {stop - start}")
        return data

    try:
        return patiently(call)
    except Exception as error:
        raise sentence(error, repo.id, repo.kind, repo.revision) from None


def file_size(repo, name):
    """Size in bytes of a file of a repository."""
    from huggingface_hub import get_hf_file_metadata, hf_hub_url

    url = hf_hub_url(repo.id, name, repo_type=repo.kind, revision=repo.revision)
    try:
        return int(patiently(lambda: get_hf_file_metadata(url, timeout=30)).size)
    except Exception as error:
        raise sentence(error, repo.id, repo.kind, repo.revision) from None


class RemoteFile(io.RawIOBase):
    """A file of the hub that is read where it is asked, by ranges; for readers that seek, as Parquet's does."""

    def __init__(self, repo, name):
        super().__init__()
        self.repo, self.label, self.place = repo, name, 0
        self.size = file_size(repo, name)

    def readable(self):
        return True

    def seekable(self):
        return True

    def tell(self):
        return self.place

    def seek(self, offset, whence=io.SEEK_SET):
        self.place = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self.place, io.SEEK_END: self.size}[whence]
        return self.place

    def read(self, size=-1):
        stop = self.size if size is None or size < 0 else min(self.size, self.place + size)
        if stop <= self.place:
            return b""
        data = read_range(self.repo, self.label, self.place, stop)
        self.place = stop
        return data


def intact(path):
    """Whether a cached file has the content its name in the cache promises (a SHA-256, or git's SHA-1 of a blob)."""
    name = blob_of(path).name
    if SHA256.match(name):
        return file_digest(path) == name
    if SHA1.match(name):
        head = b"blob %d\0" % path.stat().st_size
        return file_digest(path, hashlib.sha1(head)) == name
    return True  # a cache without links keeps no hash


def blob_of(path):
    """What a file of the cache links to: the blob named by its hash (which may itself link into a shared store)."""
    return Path(os.path.normpath(path.parent / os.readlink(path))) if path.is_symlink() else path


def file_digest(path, h=None):
    """Hex digest of a file's bytes, SHA-256 unless another hash object is given."""
    h = hashlib.sha256() if h is None else h
    with open(path, "rb") as f:
        while block := f.read(1 << 22):
            h.update(block)
    return h.hexdigest()


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
    names = {type(e).__name__ for e in chain(error)}
    broken = {"RemoteProtocolError", "ReadError", "ReadTimeout", "Short"}
    return bool(names & broken) or any("Consistency check failed" in str(e) for e in chain(error))


def is_offline(error):
    """Whether an error means that the hub could not be reached or could not answer at all."""
    if status(error) is not None:
        return status(error) in BUSY
    names = {c.__name__ for e in chain(error) for c in type(e).__mro__}
    return bool(
        names & {"OfflineModeIsEnabled", "ConnectError", "ConnectTimeout", "TimeoutException", "NetworkError"}
        or names & {"TransportError", "ConnectionError", "LocalEntryNotFoundError", "TimeoutError"}
    )


def sentence(error, repo_id, kind="model", revision=None):
    """The InputError that says in one sentence what went wrong with a repository and what to do."""
    if isinstance(error, InputError):
        return error
    names = {c.__name__ for e in chain(error) for c in type(e).__mro__}
    code = status(error)
    if "GatedRepoError" in names or code == 403:
        return InputError(
            f"{kind} {repo_id!r} is gated: accept its terms on its page of the hub, log in with `hf auth login`, "
            "and run again."
        )
    if "RevisionNotFoundError" in names:
        return InputError(f"{kind} {repo_id!r} has no revision {revision!r}: check the name of the branch or commit.")
    if "RepositoryNotFoundError" in names or code == 401:
        return InputError(
            f"{kind} {repo_id!r} does not exist on the hub, or is private: check its spelling, "
            "or log in with `hf auth login`."
        )
    if "EntryNotFoundError" in names and "LocalEntryNotFoundError" not in names:
        return InputError(f"{kind} {repo_id!r} lacks a file that was asked for: {first_line(error)}")
    if code in BUSY:
        return InputError(f"the hub answers {code} for {kind} {repo_id!r}: try again in a few minutes.")
    if is_offline(error):
        return InputError(
            f"the hub cannot be reached and {kind} {repo_id!r} is not wholly in the cache: connect and run again."
        )
    if passing(error):
        return InputError(f"the download of {kind} {repo_id!r} kept breaking off: run again, and it goes on.")
    if any(isinstance(e, OSError) and e.errno == 28 for e in chain(error)) or "free disk space" in str(error):
        return InputError(f"the disk is too full for {kind} {repo_id!r}: free space, or set HF_HOME to another disk.")
    return InputError(f"{kind} {repo_id!r} could not be fetched: {first_line(error)}")


def first_line(error):
    """First line of an error's message, cut to a readable length."""
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__)[:200]
