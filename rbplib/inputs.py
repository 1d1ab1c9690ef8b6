"""What people give, checked: names, choices, YAML files, places to write; each refusal is one sentence."""

import difflib
import functools
import glob
import json
import os
import platform
import re
import shutil
import signal
import sys
import time
import uuid
from contextlib import contextmanager, suppress
from dataclasses import fields
from hashlib import sha256
from pathlib import Path

import filelock
import yaml

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")  # what may become a file or folder name
BESIDE = re.compile(r"\.(.+)\.(lock|[0-9a-f]{8}\.tmp|parts-[0-9a-f]+)")  # hidden, beside the file that is being made
ABANDONED = 7 * 86_400  # seconds after which nobody goes on from finished parts


class InputError(ValueError):
    """Bad input from a person: one sentence that names what is wrong and the mend."""

    def _render_traceback_(self):  # what IPython shows in a notebook in place of a traceback
        return [f"rbp: {self}"]


@functools.cache
def complain(sentence):
    """Print a sentence on standard error, once."""
    print(f"rbp: {sentence}", file=sys.stderr)


def write_error(path, error):
    reason = error.strerror or error
    return InputError(f"{path} could not be written ({reason}): free space or fix permissions, then run again.")


def check_name(name, what):
    """Refuse a name that could leave its folder once it becomes a path."""
    if not isinstance(name, str) or not NAME.match(name) or ".." in name:
        said = "begin with a letter or digit, go on with these, '.', '_' and '-', without '..'"
        raise InputError(f"{what} {name!r} is not a usable name: {said}.")
    return name


def check_choice(value, choices, what):
    if value not in choices:
        raise InputError(f"{what} {value!r} is not known: {nearest(value, choices)}")
    return value


def nearest(name, names):
    """A hint for an unknown name: the nearest known one, or the list."""
    close = difflib.get_close_matches(str(name), [str(n) for n in names], n=1, cutoff=0.5)
    apart = "; " if any("," in str(n) for n in names) else ", "
    return f"did you mean {close[0]!r}?" if close else f"choose one of {apart.join(map(str, names))}."


class Reader(yaml.SafeLoader):
    """YAML in which a key given twice is an error: the first of them would be lost without a word."""

    def construct_mapping(self, node, deep=False):
        keys = [key.value for key, _ in node.value]
        if twice := next((k for k in keys if keys.count(k) > 1), None):
            raise yaml.YAMLError(f"the key {twice!r} is there twice")
        return super().construct_mapping(node, deep)


def read_yaml(path):
    """The mapping in a YAML file, or one sentence why there is none."""
    try:
        data = yaml.load(Path(path).read_text(encoding="utf-8"), Reader)
    except (OSError, yaml.YAMLError, ValueError, RecursionError) as error:
        first = str(error).splitlines()[0]
        raise InputError(f"{path} is not readable YAML ({first}): correct it or its permissions.") from None
    if not isinstance(data, dict):
        raise InputError(f"{path} holds no mapping: it needs lines like 'name: value'.")
    return data


def given(data, record, path, what, **others):
    """The entries of a mapping that have a value; each must be a field of `record`, or one of `others`, of its type."""
    kinds = {f.name: f.type for f in fields(record)} | {"name": object} | others
    for key, value in data.items():
        if key not in kinds:
            raise InputError(f"{path} has an unknown key {key!r} in {what}: {nearest(key, kinds)}")
        kind = kinds[key]
        fits = isinstance(value, kind) and (kind in (bool, object) or not isinstance(value, bool))
        if value is not None and not fits:
            said = getattr(kind, "__name__", kind)
            raise InputError(f"{path}: {key!r} of {what} must be of type {said}, not {value!r}.")
    return {key: value for key, value in data.items() if value is not None}


def digest(value):
    """SHA-256 of what JSON holds, whatever the order of its keys."""
    return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


@contextmanager
def atomic_path(path):
    """A temporary path beside `path`, renamed to it when the block ends well and removed when it does not."""
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        with open(temporary, "rb+") as f:
            os.fsync(f.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise write_error(path, error) from None
    finally:
        with suppress(OSError):
            temporary.unlink()


def write_text(path, text):
    """Write a small text file whole or not at all."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextmanager
def one_at_a_time(path, wait=True):
    """Make `path`, which may not be there yet, in one process at a time; yields whether it is this one.

    The system's lock on a file beside it ends with its process, however that ends; who gets it removes what a killed
    one left. wait: for another process, which is named on standard error after some seconds. Raises InputError: the
    folder cannot be written.
    """
    lock = filelock.FileLock(path.with_name(f".{path.name}.lock"), mode=0o664, is_singleton=True)
    file, further_in = Path(lock.lock_file), lock.is_locked
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(filelock.Timeout):
            lock.acquire(timeout=3 if wait else 0)
        if wait and not lock.is_locked:
            with suppress(OSError):
                owner = file.read_text(encoding="utf-8") or "another process"
                print(f"rbp: {owner} is at work on {path}: waiting until it ends.", file=sys.stderr, flush=True)
            lock.acquire()
    except OSError as error:
        raise write_error(path, error) from None
    mine = lock.is_locked
    first = mine and not further_in
    named = first and type(lock) is filelock.FileLock  # without flock the file is the lock, and says whose
    try:
        with suppress(OSError):  # a full disk
            file.write_text(f"process {os.getpid()} on {platform.node()}", encoding="utf-8") if named else None
        remove_left(path) if first else None
        yield mine
    finally:
        with suppress(OSError):
            file.unlink() if named else None
        lock.release() if mine else None


def remove_left(path):
    """Remove what is hidden beside a file by its name: temporary files, and parts, older than it or given up."""
    since = max(path.stat().st_mtime if path.exists() else 0, time.time() - ABANDONED)
    for left in path.parent.glob(f".{glob.escape(path.name)}.*"):
        with suppress(OSError):
            if left.suffix == ".tmp":
                left.unlink()
            elif left.is_dir() and all(part.stat().st_mtime <= since for part in left.iterdir()):
                shutil.rmtree(left)


def sweep(folders):
    """Remove from folders what killed processes left of files that nobody makes now, as far as this one may."""
    for left in [entry for folder in folders for entry in folder.glob(".*")]:
        if found := BESIDE.fullmatch(left.name):
            with suppress(InputError), one_at_a_time(left.with_name(found[1]), wait=False):
                pass


def interrupt(*_):
    """End as Ctrl-C does; once is enough."""
    stopped_by(lambda *_: None)
    raise KeyboardInterrupt


def stopped_by(stop):
    """Let the signals that end a process call `stop`, but for those it was started to ignore, as nohup does."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        with suppress(AttributeError, ValueError):  # a system without it; not the main thread
            if signal.getsignal(number := getattr(signal, name)) != signal.SIG_IGN:
                signal.signal(number, stop)
