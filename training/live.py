"""A small ladder trained in a minute or two, for the page that trains its own: text, models and family file."""

import json
from hashlib import sha256
from pathlib import Path

import numpy as np

from rbplib.families import InputError, results_dir, write_text
from rbplib.texts import load_documents
from training import ladders, train

SHARE = 0.2  # of the documents, kept out of training and measured on


def split_documents(corpora=("docs", "code", "doctests"), seed=42):
    """(training texts, held-out texts): documents of the embedded corpora, shuffled and parted."""
    texts = [text for name in corpora for text in load_documents(name).texts]
    order = np.random.default_rng(seed).permutation(len(texts))
    held = round(SHARE * len(texts))
    return [texts[i] for i in order[held:]], [texts[i] for i in order[:held]]


def token_stream(texts):
    """Documents end to end as uint16 ids, each closed by the separator (id 0)."""
    from tokenizers import Tokenizer

    from training.data import tokenizer_file

    tokenizer = Tokenizer.from_file(str(tokenizer_file()))
    return np.concatenate([np.array([*e.ids, 0], np.uint16) for e in tokenizer.encode_batch(list(texts))])


def train_ladder(family="nano-pythia", rungs=4, tokens=300_000, seed=42, show=True):
    """Train the smallest sizes of a family from scratch and leave a family file that every page can run on.

    Args:
        family: one of the embedded families; its architecture and learning-rate rule are used.
        rungs: how many sizes, smallest first; a fit needs three.
        tokens: seen by every size, the same ones in the same order; text that ends sooner is read again.
        seed: of the split, and of the initial weights.
    Returns:
        (path of the family file, path of the held-out text, records): records as training.train gives them.
    Raises:
        InputError: fewer than three sizes, or more than the family has.
    Cost: about rungs x tokens / 20,000 seconds on one core.
    """
    from tqdm import tqdm

    names = list(ladders.sizes(family))
    if not 3 <= rungs <= len(names):
        raise InputError(f"a ladder of {rungs} sizes cannot be fitted: choose 3 to {len(names)}, a fit needs three.")
    texts, held = split_documents(seed=seed)
    stream = token_stream(texts)
    plan = train.Plan(tokens=tokens, seed=seed)
    stream = np.tile(stream, -(-(tokens + 1) // len(stream)))
    made_of = b"".join(p.read_bytes() for p in sorted(Path(__file__).parent.glob("*.py"))) + stream.tobytes()
    folder = results_dir() / "live" / f"{family}-{tokens}-{seed}-{sha256(made_of).hexdigest()[:8]}"
    records = []
    for name in tqdm(names[:rungs], desc="training", unit="model", disable=not show):
        record = folder / name / "training.json"
        if record.is_file():
            records.append(json.loads(record.read_text(encoding="utf-8")))
            continue
        model, found = train.train(family, ladders.sizes(family)[name], plan, stream, say=lambda text: None)
        train.save_model(model, found, folder / name)
        records.append(found)
    lines = ["name: live", f"context: {ladders.CONTEXT}", "models:", *(f"  - id: {folder / n}" for n in names[:rungs])]
    write_text(folder / "live.yml", "\n".join(lines) + "\n")
    write_text(folder / "held-out.jsonl", "".join(json.dumps({"text": text}) + "\n" for text in held))
    return folder / "live.yml", folder / "held-out.jsonl", records
