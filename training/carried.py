"""What is carried to a machine with a GPU: the file of token ids, written and read; and what is refused at once."""

import json
import math
from types import SimpleNamespace
from zipfile import BadZipFile

import numpy as np

from rbplib.families import InputError, results_dir, root
from rbplib.identity import MEASURING
from rbplib.windows import encode, make_windows
from training import data, ladders


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


def fragment(corpus, windows, units, **more):
    """What the record of any model on some windows says of the text."""
    found = {"corpus": corpus, "protocol": "paper", "window": ladders.CONTEXT, "measuring": MEASURING}
    found |= {"documents": windows.documents, "empty_documents": windows.empty, "read_tokens": windows.tokens}
    return found | {"head_dtype": "float32", "weights_dtype": "float32", "units": list(units)} | more


def evaluation_text():
    """{corpus: (record of the text, ids of its documents)} of the corpora that the grid is measured on."""
    from rbplib.families import load_corpus
    from rbplib.models import load_tokenizer
    from rbplib.texts import load_documents, text_known
    from training.grid import CORPORA

    tokenizer, found = load_tokenizer(data.tokenizer_file().parent, "the embedded models"), {}
    for name in CORPORA:
        corpus, sample = load_corpus(name), load_documents(name)
        ids, read = encode(tokenizer, sample.texts, ladders.CONTEXT)
        windows = make_windows(ids, tokenizer.all_special_ids, ladders.CONTEXT, "paper", read)
        more = text_known(corpus, sample) | {"read_characters": windows.read, "characters": sum(map(len, sample.texts))}
        units = more.pop("units")
        found[name] = fragment(name, windows, units, special=sorted(windows.special), **more), ids
    return found


def carry(path):
    """Write the token ids that travel: the text, the held-out text, and the evaluation corpora. Returns its bytes."""
    stream, heldout = data.streams()
    arrays, said = {"training": stream, "heldout": heldout}, {}
    for name, (record, ids) in evaluation_text().items():
        said[name] = record
        arrays[f"{name}.ids"] = np.concatenate(ids).astype(np.uint16)
        arrays[f"{name}.lengths"] = np.array([len(row) for row in ids], np.uint16)
    arrays["record"] = np.frombuffer(json.dumps(said).encode(), np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, **arrays)
    return path.stat().st_size


def read_text(path=None, small=False):
    """stream and heldout, uint16; evaluation: {corpus: (record, windows)}. small: of the tokens in the checkout."""
    if small and path:
        raise InputError("--small trains on the tokens that a checkout holds: leave --text out.")
    if small:
        return small_text()
    with np.load(check_text(path)) as held:
        said, found = json.loads(bytes(held["record"])), {}
        for name, record in said.items():
            ids = np.split(held[f"{name}.ids"].astype(np.int64), held[f"{name}.lengths"].cumsum(dtype=np.int64)[:-1])
            found[name] = record, make_windows(ids, record["special"], ladders.CONTEXT)
        return SimpleNamespace(stream=held["training"], heldout=held["heldout"], evaluation=found)


def small_text(tokens=4096, documents=12):
    """The first tokens, and some documents from the end of those that a checkout holds, to be measured on."""
    with np.load(root() / "training" / "first_tokens.npz") as held:
        stream = held["training"]
    ids = [
        row[row != 0].astype(np.int64) for row in np.split(stream, np.flatnonzero(stream == 0) + 1)[-documents - 1 : -1]
    ]
    windows = make_windows(ids, (0,), ladders.CONTEXT)
    record = fragment("first", windows, [f"document {i}" for i in range(documents)], special=[0], corpus_digest="")
    return SimpleNamespace(stream=stream[: tokens + 1], heldout=stream[-4097:], evaluation={"first": (record, windows)})
