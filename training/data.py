"""Training text: documents of the training packages, without repeats and without anything near the
evaluation text."""

import hashlib
import json
import os
from pathlib import Path

import numpy as np

from corpora import make
from corpora.shingles import shingles
from rbplib.families import InputError, atomic_path, results_dir, root, write_text

SHARE = {"docs": 0.30, "code": 0.63, "doctests": 0.07}  # of the characters
OVERLAP = 0.05  # share of a training document's shingles in evaluation text, above which it goes
EVALUATION_OVERLAP = 0.25  # share of one evaluation document's shingles that it may hold
REPEATED = 0.5  # share of a training document's shingles already seen, above which it goes
SEED = 42
CHARACTERS = 53_000_000  # of the training text; `train.Plan` says how many of its tokens are used
LONGEST = 25_000  # tokens at which a document is cut, or one would be 9% of four million tokens
HELDOUT = 250  # documents at the start of the training order that are not trained on
HELDOUT_TOKENS = 65_537  # of these documents
# first_tokens.npz holds the start of the stream, 411,649 tokens, and the windows (n, T + 1) of the
# first steps of a ladder, for tests.
FIRST_STEPS = 60


def folder():
    """Where the text, its tokens and checkpoints lie: RBP_TRAINING, or `results/training/`."""
    path = Path(os.environ.get("RBP_TRAINING") or results_dir() / "training")
    path.mkdir(parents=True, exist_ok=True)
    return path


def evaluation_pool():
    """Every document that an evaluation sample may draw, of all kinds."""
    pool = []
    for kind in make.KINDS:
        for texts in make.evaluation_sources(kind).values():
            pool += texts
    return pool


class Overlaps:
    """Shingles of the evaluation text, each with the documents that hold it."""

    def __init__(self, texts):
        self.documents, self.sizes = {}, []
        for number, text in enumerate(texts):
            codes = shingles(text).tolist()
            self.sizes.append(len(codes))
            for code in codes:
                self.documents.setdefault(code, []).append(number)

    def shares(self, text):
        """(share of the text's shingles found in evaluation text, largest share of the shingles of
        one evaluation document found in the text)."""
        codes = shingles(text).tolist()
        hits = [self.documents[code] for code in codes if code in self.documents]
        if not hits:
            return 0.0, 0.0
        documents, counts = np.unique(np.concatenate(hits), return_counts=True)
        parts = [count / self.sizes[d] for d, count in zip(documents, counts, strict=True)]
        return len(hits) / len(codes), max(parts)

    def near(self, text):
        """Whether a text is too near the evaluation text to be trained on."""
        share, part = self.shares(text)
        return share > OVERLAP or part > EVALUATION_OVERLAP


def without_repeats(texts):
    """Documents in order, less those of which more than REPEATED of the shingles came before."""
    seen, distinct = set(), []
    for text in texts:
        codes = shingles(text).tolist()
        if sum(code in seen for code in codes) <= REPEATED * len(codes):
            distinct.append(text)
            seen.update(codes)
    return distinct


def training_documents():
    """Training documents by kind in file order, apart from the evaluation pool; and how many were
    dropped for what."""
    overlaps = Overlaps(evaluation_pool())
    documents, counts = {}, {}
    for kind in make.TRAINED:
        # all documents of a kind
        texts = []
        for package in make.TRAINING:
            texts += make.package_documents(package, kind)[package]
        # those that repeat none of the evaluation, and each once
        distinct = [text for text in texts if not overlaps.near(text)]
        documents[kind] = without_repeats(distinct)
        counts[kind] = {
            "found": len(texts),
            "near evaluation": len(texts) - len(distinct),
            "kept": len(documents[kind]),
            "characters": sum(map(len, documents[kind])),
        }
    return documents, counts


def training_text(characters):
    """Documents in training order, about `characters` in all, mixed by SHARE; always the same."""
    path = folder() / "documents.json"
    if path.is_file():
        documents = json.loads(path.read_text())
    else:
        print("the training text is made, once: some minutes", flush=True)
        documents, counts = training_documents()
        print(json.dumps(counts, indent=1))
        write_text(path, json.dumps(documents))
    # Draw from each kind until its share is full, then shuffle all together.
    rng = np.random.default_rng(SEED)
    chosen = []
    for kind in make.TRAINED:
        texts, wanted = documents[kind], SHARE[kind] * characters
        for i in rng.permutation(len(texts)):
            if wanted <= 0:
                break
            chosen.append(texts[i])
            wanted -= len(texts[i])
    return [chosen[i] for i in rng.permutation(len(chosen))]


def tokenizer_file():
    return root() / "models" / "tokenizer" / "tokenizer.json"


def make_tokenizer():
    """Train the tokenizer of all families and write it to `models/`."""
    from training.tokenizer import save_tokenizer, train_tokenizer

    tokenizer = train_tokenizer(training_text(CHARACTERS)[HELDOUT:])
    save_tokenizer(tokenizer, tokenizer_file().parent)
    return tokenizer


def load_tokenizer():
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(tokenizer_file()))


def token_stream(tokenizer, texts, longest=None):
    """Documents end to end, uint16 (n,): each cut at so many tokens and ended by id 0."""
    encodings = tokenizer.encode_batch(list(texts))
    return np.concatenate([np.array([*e.ids[:longest], 0], np.uint16) for e in encodings])


def streams():
    """(training tokens, held-out tokens), uint16: documents in order, each ended by id 0.

    Cost: some minutes on the first call, which leaves them in `folder()`.
    """
    path = folder() / "tokens.npz"
    if not path.is_file():
        # tokens of all documents, kept for the next call
        texts = training_text(CHARACTERS)
        tokenizer = load_tokenizer() if tokenizer_file().is_file() else make_tokenizer()
        heldout = token_stream(tokenizer, texts[:HELDOUT], LONGEST)[:HELDOUT_TOKENS]
        training = token_stream(tokenizer, texts[HELDOUT:], LONGEST)
        with atomic_path(path) as part, part.open("wb") as file:
            np.savez(file, training=training, heldout=heldout)
    # what is kept
    with np.load(path) as arrays:
        return arrays["training"], arrays["heldout"]


def training_streams(tokens):
    """`streams()`, of which the first must hold more than `tokens`."""
    stream, heldout = streams()
    if len(stream) <= tokens:
        raise InputError(
            f"the training text has {len(stream)} tokens: ask for fewer than that with --tokens."
        )
    return stream, heldout


def digest(stream):
    """SHA-256 of tokens as little-endian 16-bit numbers."""
    return hashlib.sha256(stream.astype("<u2").tobytes()).hexdigest()
