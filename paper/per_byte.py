"""Cross-entropy per byte: a ladder and a model with another tokenizer,
on the same bytes of the same documents."""

import numpy as np

from rbplib.families import InputError, load_corpus, load_family
from rbplib.losses import Loss, check_models, measured_on
from rbplib.models import load_tokenizer, model_folder
from rbplib.table import by_size, family_tables
from rbplib.texts import load_documents
from rbplib.windows import encode, special_ids


def compared(ladders, real, families=(), corpora=()):
    """The largest model of a family beside ladders, on the same bytes.

    Args:
        ladders: {(family, corpus): Ladder}. real: name or path of the family.
        families, corpora: as given for the ladders, names or paths.
    Returns:
        (record of the model's table, {} where it is not here; {place: Loss of `byte_loss`};
        {place: why there is none}).
    """
    paths = {load_family(family).name: family for family in families}
    names = corpora or dict.fromkeys(corpus for _, corpus in ladders)
    texts = {load_corpus(name).name: name for name in names}
    record, losses, refused = {}, {}, {}
    for (family, corpus), ladder in ladders.items():
        try:
            other = by_size(family_tables(real, texts[corpus])[0])[-1]
        except InputError:  # not here, or not measured on this text
            continue
        record = other.record
        try:
            pair = tokenizer_of(paths.get(family, family), ladder[-1]), tokenizer_of(real, other)
            loss = byte_loss(ladder, other, load_documents(texts[corpus]).texts, pair)
            check_models(loss.split()[0])
            losses[family, corpus] = loss
        except InputError as error:
            refused[family, corpus] = str(error)
    return record, losses, refused


def tokenizer_of(family, table):
    """The tokenizer that a rank table was measured with. family: a name or the path of its file."""
    model = load_family(family).model(table.record["model"])
    return load_tokenizer(model_folder(model, weights=False)[0], model.id)


def token_ends(tokenizer, texts):
    """[(ids, ends)] of the tokens of each document, int64 (n,): ends in bytes of the text.

    In a byte-level vocabulary each character of a token's name stands for a byte. Where that does
    not add up to the text (another kind of vocabulary, a special token within the text), all ends
    are 0: no byte of the document counts.
    """
    # bytes of each token of the vocabulary
    vocabulary = tokenizer.get_vocab()
    special = set(special_ids(tokenizer))
    length = np.zeros(max(vocabulary.values()) + 1, np.int64)
    for name, number in vocabulary.items():
        length[number] = 0 if number in special else len(name)

    # where tokens end, if they add up
    documents, _ = encode(tokenizer, texts)
    tokens = []
    for ids, text in zip(documents, texts, strict=True):
        ends = length[ids].cumsum()
        size = len(text.encode("utf-8", "surrogatepass"))
        if not len(ends) or ends[-1] != size:
            ends = 0 * ends
        tokens.append((ids, ends))
    return tokens


def byte_loss(tables, other, texts, tokenizers):
    """Cross-entropy in bits per byte: a Loss of a ladder's models and, last, of a larger one.

    Of a document counts what scored tokens of both cover whole.

    Args:
        tables, other: RankTables of the ladder, smallest first, and of the other model.
        texts: their documents, in order. tokenizers: the ladder's, the other's.
    Raises:
        InputError: the other is no larger, of other text, or shares no byte.
    """
    models, D = [*tables, other], len(texts)
    sides = [token_ends(tokenizer, texts) for tokenizer in tokenizers]

    # first and end, in bytes, of each row's token; of each document the ends that were read
    spans = []
    read = np.zeros((2, D), int)
    for table in models:
        side = int(table is other)
        documents = [ids for ids, _ in sides[side]]
        ids = np.concatenate(documents)
        ends = np.concatenate([ends for _, ends in sides[side]])
        starts = np.cumsum([0, *map(len, documents)])
        at = starts[np.minimum(table.document, D)] + table.position
        fits = table.documents == D and (at < len(ids)).all()
        if not fits or (ids[at] != table.token).any():
            why = f"{table.path} is of other text, or of another tokenizer"
            raise InputError(f"{why}: run `rbp measure` again.")
        spans.append((ends[at - 1], ends[at]))
        np.maximum.at(read[side], table.document, table.position + 1)

    # of each document the bytes from the first to the last place where tokens of both end
    span = np.zeros((D, 2), int)
    for d in range(D):
        ours, theirs = (side[d][1][:last] for side, last in zip(sides, read[:, d], strict=True))
        shared = np.intersect1d(ours, theirs)
        if len(shared):
            span[d] = shared[0], shared[-1]

    # refuse what cannot be compared
    totals = span[:, 1] - span[:, 0]
    about = measured_on(models) | {"totals": totals, "hits": False}
    *ladder, largest = about["S"]
    if largest <= max(ladder) or not totals.any():
        why = f"{about['models'][-1]} is no larger than the ladder, or has no byte in common"
        raise InputError(f"{why}: give another.")

    # bits of the tokens within
    columns = []
    for table, (first, end) in zip(models, spans, strict=True):
        low, high = span[table.document].T
        inside = (first >= low) & (end <= high) & (end > first)
        bits = -table.logprob / np.log(2) * inside
        columns.append(np.bincount(table.document, bits, D))
    return Loss(sums=np.transpose(columns), name="bits per byte", **about)
