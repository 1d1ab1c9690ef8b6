"""Measure: every model of a family over its corpora, each model loaded once, into rank tables.

A measurement killed at any instant leaves no table or a whole one, and finished parts; run again, it goes on from the
parts and gives the same bytes in the data columns.
"""

import platform
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

import rbplib
from rbplib.models import load as loading
from rbplib.models.sizes import window_length
from rbplib.ranks.engine import sequence_ranks
from rbplib.ranks.parts import PART_TOKENS, Parts, say
from rbplib.ranks.table import (
    COLUMNS,
    MissingTable,
    expected,
    mismatches,
    ranks_path,
    read_ranks,
    read_record,
    write_ranks,
)
from rbplib.settings import (
    PROTOCOLS,
    InputError,
    check_choice,
    default_corpora,
    load_corpus,
    load_family,
    write_text,
)
from rbplib.text import corpora as corpora_module
from rbplib.text.windows import batches, encode, make_windows, scored_rows

LIBRARIES = ("torch", "transformers", "tokenizers", "datasets", "numpy")


@dataclass(frozen=True)
class Task:
    """One table to measure: its corpus, where it goes, and what its record must say."""

    corpus: object
    documents: object
    path: Path
    expect: dict


def measure(
    family,
    models=None,
    corpora=None,
    protocol="paper",
    *,
    device=None,
    dtype=None,
    results=None,
    trust_remote_code=False,
    progress=True,
    batch_tokens=None,
):
    """Measure what is missing and return the paths of all tables asked for.

    Args:
        family: a name, a YAML path, or a settings.Family.
        models: names of some of its models; all when None.
        corpora: names, paths or settings.Corpus; the family's default ones when None.
        protocol: "paper" or "full", see windows.
        device, dtype: chosen by loading.load_model when None.
        batch_tokens: tokens of one forward pass; found against memory when None.
    Returns:
        list of paths, one per (model, corpus).
    Raises:
        InputError: unknown names, an empty corpus, a model that cannot be had, or a folder that cannot be written.
    Cost: one forward pass over every window; the head is walked in chunks, so logits are never held.
    """
    family = load_family(family)
    check_choice(protocol, PROTOCOLS, "protocol")
    chosen = [family.model(m) for m in models] if models else family.models
    corpora = [load_corpus(c) for c in (corpora or default_corpora(family))]
    if not corpora:
        raise InputError(f"{family.name} has no corpus to be measured on: name one with --corpus.")
    documents = [corpora_module.load_documents(c) for c in corpora]
    for corpus, docs in zip(corpora, documents, strict=True):
        if not any(t.strip() for t in docs.texts):
            raise InputError(f"corpus {corpus.name!r} holds no text: check its source, split and fields.")
    expect = expected(family, chosen, corpora, protocol, documents, dtype)
    paths, waiting = [], []
    for model in chosen:
        tasks = [
            Task(c, d, ranks_path(family.name, model.name, c.name, protocol, results), e)
            for c, d, e in zip(corpora, documents, expect[model.name], strict=True)
        ]
        paths += [t.path for t in tasks]
        if todo := [t for t in tasks if not is_measured(t.path, t.expect)]:
            waiting.append((model, todo))
    for model, todo in waiting:
        _measure_model(family, model, todo, protocol, device, dtype, trust_remote_code, progress, batch_tokens)
    return paths


def check_context(loaded, model, length):
    """Refuse a window the model cannot read whole: cutting it for one model would unpair the family's tokens."""
    most = getattr(loaded.model.config.get_text_config(), "max_position_embeddings", None)
    if most is not None and most < length:
        raise InputError(
            f"{model.name} reads at most {most} tokens, not the window of {length}: "
            f"write 'context: {most}' into its family file."
        )


def is_measured(path, expect):
    """Whether a whole table with a matching record is there; a damaged or other one is removed, with a word why."""
    try:
        record = read_record(path)
        if differ := mismatches(record, expect):
            say(f"{path} was measured with another {' and '.join(differ)}: measuring again")
            return False
        read_ranks(path)
    except MissingTable:
        return False
    except InputError as error:
        say(f"{error} Measuring again.")
        return False
    return True


def _measure_model(family, model, tasks, protocol, device, dtype, trust_remote_code, progress, batch_tokens):
    """All tables of one model in one load; the next corpus is tokenised while this one is measured."""
    for task in tasks:
        probe_writable(task.path)
    loaded = loading.load_model(model, device=device, dtype=dtype, trust_remote_code=trust_remote_code)
    length = window_length(family)
    check_context(loaded, model, length)

    def prepare(task):
        ids = encode(loaded.tokenizer, task.documents.texts)
        return make_windows(ids, loaded.tokenizer.all_special_ids, length, protocol)

    with ThreadPoolExecutor(1) as pool:
        ahead = iter([pool.submit(prepare, t) for t in tasks])
        for task, future in zip(tasks, ahead, strict=True):
            _measure_table(loaded, task, future.result(), family, progress, batch_tokens)


def probe_writable(path):
    """Fail before the model is loaded where the result could not be written."""
    probe = path.parent / f".{path.name}.probe"
    write_text(probe, "")
    probe.unlink()


def _measure_table(loaded, task, windows, family, progress, batch_tokens):
    start = time.perf_counter()
    vocab = int(loaded.record["vocab_size"])
    largest = max((int(w.ids.max()) for w in windows.windows), default=0)
    if largest >= vocab:
        raise InputError(
            f"token id {largest} of {task.corpus.name!r} is outside the vocabulary of {task.expect['model']} "
            f"({vocab}): its tokenizer does not belong to it."
        )
    parts = Parts(task, windows, batch_tokens or choose_batch_tokens(loaded, windows.length), PART_TOKENS)
    total = windows.tokens
    label = f"{family.name}/{task.expect['model']} on {task.corpus.name}"
    with tqdm(total=total, desc=label, unit="tok", unit_scale=True, disable=not progress, leave=False) as bar:
        for number, group in enumerate(parts.groups):
            if not parts.is_done(number):
                parts.write(number, measure_windows(loaded, group, windows.special, parts, bar))
            else:
                bar.update(sum(len(w.ids) for w in group))
    columns = parts.gather()
    record = {
        **task.expect,
        **loaded.record,
        "corpus_source": {k: v for k, v in asdict(task.corpus).items() if isinstance(v, str | int) and k != "file"},
        "corpus_revision": task.documents.source.get("revision"),
        "documents": windows.documents,
        "empty_documents": windows.empty,
        "single_token_documents": windows.single,
        "read_tokens": total,
        "head_dtype": "float32",
        "batch_tokens": parts.batch_tokens,
        "code_version": rbplib.__version__,
        "libraries": {name: version(name) for name in LIBRARIES},
        "platform": f"{platform.system()} {platform.machine()}",
        "wall_time_s": round(time.perf_counter() - start, 3),
        "threads": torch.get_num_threads(),
    }
    record["corpus_source"].pop("path", None)
    write_ranks(task.path, columns, record)
    parts.remove()


def measure_windows(loaded, windows, special, parts, bar=None):
    """Columns of the rank table for some windows, in the order of (document, position).

    Halves the batch when memory runs out, without losing what is done.
    """
    queue = [[windows[i] for i in group] for group in batches(windows, parts.batch_tokens)]
    rows = {name: [] for name in COLUMNS}
    while queue:
        group = queue.pop(0)
        try:
            found = batch_ranks(loaded, group, special)
        except torch.OutOfMemoryError:
            if len(group) == 1:
                raise InputError(
                    f"one window of {len(group[0].ids)} tokens does not fit the memory of {loaded.device}: "
                    "use a larger device, a smaller dtype or a smaller model."
                ) from None
            torch.cuda.empty_cache()
            half = len(group) // 2
            parts.batch_tokens = max(1, parts.batch_tokens // 2)
            queue[:0] = [group[:half], group[half:]]
            continue
        for name, values in found.items():
            rows[name].append(values)
        if bar is not None:
            bar.update(sum(len(w.ids) for w in group))
    return {name: np.concatenate(v) if v else np.empty(0, COLUMNS[name]) for name, v in rows.items()}


def batch_ranks(loaded, group, special, dtype=torch.float32):
    """Columns for one batch of windows, padded on the right: a causal model never sees the padding.

    dtype: of the head's product, None for that of the weights.
    """
    longest = max(len(w.ids) for w in group)
    ids = np.zeros((len(group), longest), dtype=np.int64)
    scored = np.zeros((len(group), longest - 1), dtype=bool)
    for row, w in enumerate(group):
        ids[row, : len(w.ids)] = w.ids
        scored[row, scored_rows(w, special) - 1] = True
    if not scored.any():
        return {name: np.empty(0, dtype) for name, dtype in COLUMNS.items()}
    found = sequence_ranks(
        loaded.model,
        torch.from_numpy(ids).to(loaded.device),
        scored=torch.from_numpy(scored).to(loaded.device),
        dtype=dtype,
    )
    row, column = np.nonzero(scored)
    return {
        "document": np.array([w.document for w in group])[row],
        "position": np.array([w.start for w in group])[row] + column + 1,
        "token": ids[row, column + 1],
        "greater": found.greater.cpu().numpy()[row, column],
        "ties": found.ties.cpu().numpy()[row, column],
        "logprob": found.logprob.float().cpu().numpy()[row, column],
    }


def choose_batch_tokens(loaded, length):
    """Tokens of one forward pass: large on a GPU against its free memory, cache-sized on a CPU."""
    if loaded.device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(loaded.device)
        config = loaded.model.config
        width = max(getattr(config, "hidden_size", 1024), getattr(config, "intermediate_size", 0) or 0)
        per_token = 40 * width * loaded.model.dtype.itemsize  # a block's live activations, with room to spare
        return int(max(length, min(1 << 17, free * 0.5 / per_token)))
    return max(length, 4096)


def best_candidates(family, model, corpus, places, n=5):
    """What a model would have said at some places of a corpus.

    Args:
        places: list of (document, position), position as in the rank table.
    Returns:
        list of (context: token texts before the place, id and text of the true token, [(text, probability), ...]).
    """
    loaded = loading.load_model(model)
    texts = corpora_module.load_documents(corpus).texts
    length, out = window_length(family), []

    def text(ident):
        return loaded.tokenizer.decode([int(ident)])

    for document, position in places:
        (ids,) = encode(loaded.tokenizer, [texts[document]])
        start = max(0, position + 1 - length)
        with torch.inference_mode():
            logits = loaded.model(torch.from_numpy(ids[start:position])[None].to(loaded.device)).logits[0, -1].float()
        p, best = logits.softmax(-1).topk(n)
        pairs = [(text(i), float(x)) for i, x in zip(best.tolist(), p.tolist(), strict=True)]
        out.append(([text(i) for i in ids[start:position]], int(ids[position]), text(ids[position]), pairs))
    return out
