"""A small ladder trained in a minute or two, for the page that trains its own."""

import json
from hashlib import sha256
from pathlib import Path

import numpy as np

from rbplib.families import InputError, results_dir, write_text
from rbplib.texts import load_documents
from training import data, ladders, train

SHARE = 0.2  # of the documents, kept out of training and measured on


def split_documents(corpora=("docs", "code", "doctests"), seed=42):
    """(training texts, held-out texts): documents of the embedded corpora, shuffled and parted."""
    texts = []
    for name in corpora:
        texts += load_documents(name).texts
    order = np.random.default_rng(seed).permutation(len(texts))
    heldout = round(SHARE * len(texts))
    return [texts[i] for i in order[heldout:]], [texts[i] for i in order[:heldout]]


def train_ladder(family="nano-pythia", rungs=4, tokens=300_000, seed=42, show=True):
    """Train the smallest sizes of a family and leave a family file that every page can run on.

    Args:
        family: one of the embedded families; its architecture and learning-rate rule are used.
        rungs: how many sizes, smallest first; a fit needs three.
        tokens: seen by every size, the same in the same order; text that ends sooner is read again.
        seed: of the split, and of the initial weights.
    Returns:
        (path of the family file, path of the held-out text, records as `training.train` gives).
    Raises:
        InputError: fewer than three sizes, or more than the family has.
    Cost: about rungs x tokens / 20,000 seconds on one core.
    """
    from tqdm import tqdm

    sizes = ladders.sizes(family)
    names = list(sizes)
    if not 3 <= rungs <= len(names):
        raise InputError(
            f"a ladder of {rungs} sizes cannot be fitted: "
            f"choose 3 to {len(names)}, a fit needs three."
        )
    names = names[:rungs]
    # The text, read again where it ends too soon.
    texts, heldout = split_documents(seed=seed)
    stream = data.token_stream(data.load_tokenizer(), texts)
    plan = train.Plan(tokens=tokens, seed=seed)
    stream = np.tile(stream, -(-(tokens + 1) // len(stream)))
    # A folder for this recipe and text: what was trained before is there.
    recipe = b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))
    digest = sha256(recipe + stream.tobytes()).hexdigest()[:8]
    folder = results_dir() / "live" / f"{family}-{tokens}-{seed}-{digest}"
    records = []
    for name in tqdm(names, desc="training", unit="model", disable=not show):
        file = folder / name / "training.json"
        if not file.is_file():
            model, record = train.train(family, sizes[name], plan, stream, say=str)
            train.save_model(model, record, folder / name)
        records.append(json.loads(file.read_text(encoding="utf-8")))
    # The family and the text to measure it on.
    lines = ["name: live", f"context: {ladders.CONTEXT}", "models:"]
    lines += [f"  - id: {folder / name}" for name in names]
    write_text(folder / "live.yml", "\n".join(lines) + "\n")
    documents = [json.dumps({"text": text}) + "\n" for text in heldout]
    write_text(folder / "held-out.jsonl", "".join(documents))
    return folder / "live.yml", folder / "held-out.jsonl", records
