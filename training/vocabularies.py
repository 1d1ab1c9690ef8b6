"""`python -m training vocabularies`: one ladder with tokenizers of several sizes on the same bytes.

Does an exponent follow k, or k's share of the vocabulary? The text is what `TOKENS` tokens of the
embedded tokenizer hold; sizes, rates and windows are those of the ladders. Counts of what was
measured are kept in `published/vocabularies.csv`; its note is `published/vocabularies.md`.
"""

from functools import cache

import numpy as np

from paper.per_byte import token_ends
from rbplib.families import root, write_text
from rbplib.measuring import measured
from rbplib.models import load_tokenizer
from rbplib.texts import load_documents
from training import data, ladders, train
from training.tokenizer import VOCABULARY, cut, save_tokenizer, train_tokenizer

SIZES = (512, 1024, 2048, VOCABULARY, 8192, 16384)  # of the vocabularies
TOKENS = ladders.BUDGETS["1m"]  # of the embedded tokenizer, whose bytes all ladders read
CORPORA = ("docs", "code", "descriptions")
COLUMNS = ("vocabulary", "size", "seed", "corpus", "k", "value", "total", "bytes")


def runs():
    """(vocabulary, name of a size, seed): every vocabulary once, then the embedded one again."""
    repeated = [(VOCABULARY, seed) for seed in ladders.OTHER_SEEDS]
    ladders_to_train = [*((vocabulary, ladders.SEED) for vocabulary in SIZES), *repeated]
    names = list(ladders.sizes(ladders.GRID_FAMILY))
    return [(*ladder, name) for ladder in ladders_to_train for name in names]


def folder(vocabulary, seed=ladders.SEED):
    """Where the tokenizer and the models of a vocabulary are left, which are not committed."""
    return data.folder() / "vocabularies" / f"{vocabulary}-{seed}"


@cache
def tokenizers():
    """{vocabulary: its tokenizer}: one training of the largest, whose first merges the others are.

    Cost: a minute on the first call, which leaves the largest in `folder()`.
    """
    from tokenizers import Tokenizer

    file = data.folder() / "vocabularies" / "tokenizer.json"
    if not file.is_file():
        largest = train_tokenizer(data.training_text(data.CHARACTERS)[data.HELDOUT :], SIZES[-1])
        write_text(file, largest.to_str())
    largest = Tokenizer.from_file(str(file))
    return {vocabulary: cut(largest, vocabulary) for vocabulary in SIZES}


def stream_in(tokenizer, stream):
    """Documents of a stream of the embedded tokens, read by another tokenizer: uint16 (n,)."""
    documents = np.split(stream, np.flatnonzero(stream == 0))
    embedded = data.load_tokenizer()
    texts = [embedded.decode(ids[ids != 0].tolist()) for ids in documents]
    return data.token_stream(tokenizer, filter(None, texts))


def train_run(vocabulary, seed, name):
    """Train one model where it is not there yet; a stopped one goes on from its checkpoint."""
    path = folder(vocabulary, seed) / name
    if (path / "training.json").is_file():
        return
    # The tokenizer lies beside its models, where measuring finds it.
    tokenizer = tokenizers()[vocabulary]
    save_tokenizer(tokenizer, path.parent / "tokenizer", ladders.CONTEXT)
    stream, heldout = data.training_streams(TOKENS)
    stream = stream_in(tokenizer, stream[: TOKENS + 1])
    plan = train.Plan(len(stream) - 1, seed=seed, vocabulary=vocabulary)
    size = ladders.sizes(ladders.GRID_FAMILY)[name]
    checkpoint = path.parent / f"{name}.pt"
    model, record = train.train(
        ladders.GRID_FAMILY, size, plan, stream, stream_in(tokenizer, heldout), checkpoint
    )
    train.save_model(model, record, path)
    spent = record["wall_seconds"]
    print(f"vocabulary {vocabulary}, {name}: {record['heldout_loss']}, {spent} s", flush=True)


def family_file(vocabulary, seed):
    """Write the family file of a vocabulary's ladder: its path; none where a size is missing."""
    path = folder(vocabulary, seed)
    names = list(ladders.sizes(ladders.GRID_FAMILY))
    if not all((path / name / "training.json").is_file() for name in names):
        return None
    lines = [f"name: {path.name}", "context: 256", "dtype: float32", "models:"]
    lines += [f"  - {{name: {name}, id: {path / name}}}" for name in names]
    write_text(path / "family.yml", "\n".join(lines) + "\n")
    return path / "family.yml"


def rows_in_bytes(table, tokens):
    """First and last byte of each row's token in its document, int64 (2, n)."""
    starts = np.cumsum([0, *(len(ids) for ids, _ in tokens)])
    ends = np.concatenate([ends for _, ends in tokens])
    at = starts[table.document] + table.position
    return np.stack([ends[at - 1], ends[at]])


def shared(sides):
    """First and last byte of each document that all tokenizers scored, int64 (2, documents).

    sides: a list of (tables, tokens) of each ladder; tokens as `token_ends` gives them.
    """
    span = []
    for tables, tokens in sides:
        first, end = rows_in_bytes(tables[0], tokens)
        # Where scoring starts and ends; a document without a scored token has no bytes.
        starts, ends = np.full(len(tokens), np.iinfo(int).max), np.zeros(len(tokens), int)
        np.minimum.at(starts, tables[0].document, first)
        np.maximum.at(ends, tables[0].document, end)
        span.append((starts, ends))
    starts, ends = np.moveaxis(span, 1, 0)
    return np.stack([starts.max(axis=0), ends.min(axis=0)])


def counted(table, bytes_of_rows, span):
    """(k or "", value, tokens, bytes) of one table on the shared bytes.

    Values are hits at k = 1, 2, 4, ... below the vocabulary, and of no k the summed loss in nats.
    bytes_of_rows: of `rows_in_bytes`. span: int64 (2, documents), of `shared`.
    """
    first, end = bytes_of_rows
    low, high = span[:, table.document]
    inside = (first >= low) & (end <= high)
    total, length = int(inside.sum()), int((end - first)[inside].sum())
    yield "", round(float(-table.logprob[inside].sum(dtype=np.float64)), 3), total, length
    rank = table.rank()[inside]
    for power in range(int(table.record["vocab_size"]).bit_length() - 1):
        yield 2**power, int((rank <= 2**power).sum()), total, length


def write():
    """Measure every whole ladder, and write what is counted of it to `published/`."""
    ladders_here = {}
    # ladders of which every model is there
    for vocabulary, seed in dict.fromkeys(run[:2] for run in runs()):
        if file := family_file(vocabulary, seed):
            tokenizer = load_tokenizer(folder(vocabulary, seed) / "tokenizer", str(vocabulary))
            tables = measured(file, CORPORA, progress=False)
            ladders_here[vocabulary, seed] = tokenizer, tables
    # on the bytes that all tokenizers cut alike
    lines = [",".join(COLUMNS)]
    for corpus in CORPORA:
        texts, sides = load_documents(corpus).texts, {}
        for ladder, (tokenizer, tables) in ladders_here.items():
            sides[ladder] = tables[corpus], token_ends(tokenizer, texts)
        span = shared(list(sides.values()))
        for (vocabulary, seed), (tables, tokens) in sides.items():
            bytes_of_rows = rows_in_bytes(tables[0], tokens)
            for table in tables:
                key = (vocabulary, table.record["nonembedding_params"], seed, corpus)
                for row in counted(table, bytes_of_rows, span):
                    lines.append(",".join(map(str, (*key, *row))))
    write_text(root() / "published" / "vocabularies.csv", "\n".join(lines) + "\n")


def every():
    """Train all that is missing, one after another, then measure and count it.

    Cost: about a quarter of an hour of one core.
    """
    for run in runs():
        train_run(*run)
    write()
