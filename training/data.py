"""Training text: documents of the training packages, without repeats and without anything near the evaluation text."""

import hashlib
import json

import numpy as np

from corpora import make as embedded
from corpora.shingles import shingles
from rbplib.families import results_dir, root

SHARE = {"docs": 0.30, "code": 0.63, "doctests": 0.07}  # of the characters: nearly all of the first and the last
OVERLAP = 0.05  # a training document with more than this share of its shingles in evaluation text is dropped
EVALUATION_OVERLAP = 0.25  # nor may it hold more than this share of the shingles of any one evaluation document
REPEATED = 0.5  # a training document with more than this share of its shingles already seen is dropped
SEED = 42
CHARACTERS = 53_000_000  # of the training text; the plan in `train.py` says how many of its tokens are used
LONGEST = 25_000  # tokens: a longer document is cut, or one polynomial would be 9% of four million tokens
HELDOUT = 250  # documents at the start of the training order that are not trained on


def folder():
    path = results_dir() / "training"
    path.mkdir(parents=True, exist_ok=True)
    return path


def evaluation_pool():
    """Every document that an evaluation sample may draw, of all kinds."""
    pool = []
    for kind in embedded.KINDS:
        for texts in embedded.evaluation_sources(kind).values():
            pool += texts
    return pool


class Held:
    """Shingles of the evaluation text, each with the documents that hold it."""

    def __init__(self, texts):
        self.where, self.size = {}, []
        for number, text in enumerate(texts):
            codes = shingles(text).tolist()
            self.size.append(len(codes))
            for code in codes:
                self.where.setdefault(code, []).append(number)

    def overlaps(self, text):
        """Share of the text's shingles found in evaluation text; largest share of one evaluation document it holds."""
        codes = shingles(text).tolist()
        hits = [self.where[code] for code in codes if code in self.where]
        if not hits:
            return 0.0, 0.0
        documents, counts = np.unique(np.concatenate(hits), return_counts=True)
        return len(hits) / len(codes), max(c / self.size[d] for d, c in zip(documents, counts, strict=True))


def near(held, text):
    share, part = held.overlaps(text)
    return share > OVERLAP or part > EVALUATION_OVERLAP


def without_repeats(texts):
    """Documents in order, less those of which more than REPEATED of the shingles came in those before."""
    seen, kept = set(), []
    for text in texts:
        codes = shingles(text).tolist()
        if sum(code in seen for code in codes) <= REPEATED * len(codes):
            kept.append(text)
            seen.update(codes)
    return kept


def training_documents():
    """Training documents by kind in file order, disjoint from the evaluation pool; and how many were dropped why."""
    held = Held(evaluation_pool())
    kept, counts = {}, {}
    for kind in embedded.TRAINED:
        texts = [text for package in embedded.TRAINING for text in embedded.package_documents(package, kind)[package]]
        clean = [text for text in texts if not near(held, text)]
        kept[kind] = without_repeats(clean)
        counts[kind] = {"found": len(texts), "near evaluation": len(texts) - len(clean), "kept": len(kept[kind])}
        counts[kind]["characters"] = sum(map(len, kept[kind]))
    return kept, counts


def training_text(characters):
    """Documents in training order, about `characters` of them in all, mixed by SHARE; the same on every call."""
    path = folder() / "documents.json"
    if path.is_file():
        kept = json.loads(path.read_text())
    else:
        kept, counts = training_documents()
        print(json.dumps(counts, indent=1))
        path.write_text(json.dumps(kept))
    rng = np.random.default_rng(SEED)
    chosen = []
    for kind in embedded.TRAINED:
        texts, budget = kept[kind], SHARE[kind] * characters
        for i in rng.permutation(len(texts)):
            if budget <= 0:
                break
            chosen.append(texts[i])
            budget -= len(texts[i])
    return [chosen[i] for i in rng.permutation(len(chosen))]


def tokenizer_file():
    return root() / "models" / "tokenizer" / "tokenizer.json"


def make_tokenizer():
    from training.tokenizer import save_tokenizer, train_tokenizer

    tokenizer = train_tokenizer(training_text(CHARACTERS)[HELDOUT:])
    save_tokenizer(tokenizer, tokenizer_file().parent)
    return tokenizer


def streams():
    """(training tokens, held-out tokens), uint16: documents in order, cut at LONGEST, ended by id 0."""
    path = folder() / "tokens.npz"
    if not path.is_file():
        from tokenizers import Tokenizer

        texts = training_text(CHARACTERS)
        tokenizer = Tokenizer.from_file(str(tokenizer_file())) if tokenizer_file().is_file() else make_tokenizer()
        ids = [np.array([*encoding.ids[:LONGEST], 0], np.uint16) for encoding in tokenizer.encode_batch(texts)]
        np.savez(path, training=np.concatenate(ids[HELDOUT:]), heldout=np.concatenate(ids[:HELDOUT])[:65537])
    with np.load(path) as held:
        return held["training"], held["heldout"]


FIRST_STEPS, FIRST_TOKENS = 60, 411_648  # what a checkout holds of the stream, for tests


def write_first():
    """`training/first_tokens.npz`: the start of the stream, and the windows (n, T + 1) of a ladder's first steps."""
    from training import train

    stream, plan = streams()[0], train.Plan()
    first = train.windows(stream, plan.order()[: FIRST_STEPS * plan.batch]).numpy().astype(np.uint16)
    np.savez_compressed(root() / "training" / "first_tokens.npz", training=stream[: FIRST_TOKENS + 1], windows=first)


def digest(stream):
    return hashlib.sha256(np.ascontiguousarray(stream, np.dtype("<u2")).tobytes()).hexdigest()
