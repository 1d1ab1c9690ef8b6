"""What is given to the steps on a GPU, refused before anything is begun: times, and the file of token ids."""

import math
from zipfile import BadZipFile

import numpy as np

from rbplib.settings import InputError, results_dir


def check_times(args, *names):
    """Refuse options that are no finite numbers above 0, where they are given."""
    for name in names:
        if (value := getattr(args, name)) is not None and not 0 < value < math.inf:
            raise InputError(f"--{name.replace('_', '-')} {value:g}: it takes a number above 0, and a finite one.")


def carried_file():
    return results_dir() / "training" / "carried.npz"


def check_text(path=None):
    """Refuse a file of token ids that is missing or is none, before anything is begun; returns its path."""
    path = path or carried_file()
    if not path.is_file():
        raise InputError(f"there are no token ids in {path}: write them with `python -m training.large carry`.")
    try:
        with np.load(path) as held:
            whole = {"training", "heldout", "record"} <= set(held)
    except (OSError, ValueError, TypeError, BadZipFile):
        whole = False
    if not whole:
        raise InputError(f"{path} holds no token ids as `python -m training.large carry` writes them.")
    return path
