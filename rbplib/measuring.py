"""Measure: every model of a family over its corpora, each model loaded once, into rank tables.

A measurement killed at any instant leaves no table or a whole one, and finished parts; run again, it goes on from the
parts and gives the same bytes in the data columns. Processes that measure at once share the tables: each is made
by one, others make those that nobody has and then wait for the rest.
"""

import platform
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from importlib.metadata import version
from itertools import zip_longest
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

import rbplib
from rbplib import models as loading
from rbplib.devices import choose_threads
from rbplib.families import results_dir
from rbplib.identity import asked, expected, ranks_path
from rbplib.inputs import InputError, complain, digest, one_at_a_time, remove_left, sweep
from rbplib.ranks import sequence_ranks
from rbplib.stored import COLUMNS, join_ranks, open_ranks, read_ranks, taken_over, write_ranks
from rbplib.texts import load_documents
from rbplib.windows import batches, encode, make_windows, scored_rows

LIBRARIES = ("torch", "transformers", "tokenizers", "numpy")
PART_TOKENS = 65_536  # tokens a part holds: what a killed run loses at most


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
    samples=None,
    head_dtype="float32",
):
    """Measure what is missing and return the paths of all tables asked for.

    Args:
        family: a name, a YAML path, or a settings.Family.
        models: names of some of its models; all when None.
        corpora: names, paths or settings.Corpus; the family's default ones when None.
        protocol: "paper" or "full", see windows.
        device, dtype: chosen by load_model when None.
        batch_tokens: tokens of one forward pass; found against memory when None.
        samples: text.corpora.Documents to read in place of the corpora's own.
        head_dtype: name, of the product with the head and the comparisons.
    Returns:
        list of paths, one per (model, corpus).
    Raises:
        InputError: unknown names, an empty corpus, a model that cannot be had, or a folder that cannot be written.
    Cost: one forward pass over every window; the head is walked in chunks, so logits are never held.
    """
    if batch_tokens is not None and batch_tokens < 1:
        raise InputError(f"a batch of {batch_tokens} tokens holds none: give 1 or more, or leave it out.")
    family, models, corpora = asked(family, models, corpora, protocol)
    family.need_models()
    samples = samples or [load_documents(c) for c in corpora]
    expect = expected(family, models, corpora, protocol, samples, dtype, head_dtype)
    options = {"device": device, "dtype": dtype, "trust_remote_code": trust_remote_code}
    where = {m: [ranks_path(entries, results) for entries in expect[m.name]] for m in models}
    missing = {m: list(map(Task, corpora, samples, paths, expect[m.name])) for m, paths in where.items()}
    sweep({results_dir(), *(path.parent for paths in where.values() for path in paths)})
    for wait in (False, True):
        for model, tasks in missing.items():
            missing[model] = measure_free(model, tasks, wait, options, progress, batch_tokens)
    return [path for paths in where.values() for path in paths]


def measure_free(model, tasks, wait, options, progress, batch_tokens):
    """Measure what is missing of a model's tables that nobody else measures, or `wait` for those; returns the rest."""
    tasks = sorted((t for t in tasks if whole_table(t.path, t.expect) is None), key=lambda t: t.path)
    with ExitStack() as held:  # taken in one order by all, so that no two wait for each other
        mine = [held.enter_context(one_at_a_time(t.path, wait)) for t in tasks]
        free = [t for t, is_mine in zip(tasks, mine, strict=True) if is_mine]
        free = [t for t in free if whole_table(t.path, t.expect) is None]  # not made while it was waited for
        if free := [t for t in free if not taken_over(t.path, t.expect, model.id)]:
            measure_model(model, free, options, progress, batch_tokens)
    return [t for t, is_mine in zip(tasks, mine, strict=True) if not is_mine]


def whole_table(path, expect=None, read=open_ranks):
    """The table at a path, or None where none is there that can be used; why not, where there is another, is told."""
    if path.is_file():
        try:
            return read(path, expect)
        except InputError as error:
            complain(f"{str(error).rpartition(': ')[0]}: measuring it again")
    return None


def measure_model(model, tasks, options, progress=True, batch_tokens=None):
    """All tables of one model in one load; the next corpus is tokenised while this one is measured.

    options: of load_model. Raises InputError as `measure`.
    """
    loaded, length = loading.load_model(model, **options), tasks[0].expect["window"]
    choose_threads(loaded.record["total_params"])
    most = getattr(loaded.model.config.get_text_config(), "max_position_embeddings", None)
    if most is not None and most < length:  # cutting the window for one model would unpair the family's tokens
        raise InputError(
            f"{model.name} reads at most {most} tokens, not the window of {length}: "
            f"write 'context: {most}' into its family file."
        )

    def windows_of(task):
        protocol = task.expect["protocol"]
        ids, read = encode(loaded.tokenizer, task.documents.texts, length if protocol == "paper" else None)
        return make_windows(ids, loaded.tokenizer.all_special_ids, length, protocol, read)

    with ThreadPoolExecutor(1) as pool:
        ahead = pool.submit(windows_of, tasks[0])
        for task, following in zip_longest(tasks, tasks[1:]):
            windows, ahead = ahead.result(), following and pool.submit(windows_of, following)
            _measure_table(loaded, task, windows, progress, batch_tokens)


def _measure_table(loaded, task, windows, progress, batch_tokens):
    start, expect = time.perf_counter(), task.expect
    vocab, largest = int(loaded.record["vocab_size"]), max((int(w.ids.max()) for w in windows.windows), default=0)
    if largest >= vocab:
        raise InputError(
            f"token id {largest} of {task.corpus.name!r} is outside the vocabulary of {expect['model']} "
            f"({vocab}): its tokenizer does not belong to it."
        )
    batch_tokens = batch_tokens or choose_batch_tokens(loaded, windows.length)
    folder = task.path.with_name(f".{task.path.name}.parts-{digest(expect)[:16]}")
    parts, record = [], provenance(loaded, task, windows)
    if ranks_path(record).name != task.path.name:
        raise InputError(f"the files of {expect['model']} were changed while it was read: run again.")
    label = f"{expect['family']}/{expect['model']} on {task.corpus.name}"
    with tqdm(total=windows.tokens, desc=label, unit="tok", unit_scale=True, disable=not progress, leave=False) as bar:
        for number, group in enumerate(groups(windows.windows, PART_TOKENS)):
            path = folder / f"{number:05d}.parquet"
            if (part := whole_table(path, read=read_ranks)) is None:
                columns, batch_tokens = measure_windows(loaded, group, windows.special, batch_tokens, bar, task)
                write_ranks(path, columns, record | {"batch_tokens": batch_tokens})
                part = read_ranks(path)
            else:
                bar.update(sum(len(w.ids) for w in group))
            parts.append(path)
            batch_tokens = part.record["batch_tokens"]  # a resumed run cuts batches as the killed one did
    spent = {"batch_tokens": batch_tokens, "wall_time_s": round(time.perf_counter() - start, 3)}
    join_ranks(task.path, parts, record | spent)
    remove_left(task.path)


def groups(windows, tokens):
    """Windows in order, cut into runs of about `tokens` tokens."""
    group, size = [], 0
    for w in windows:
        group.append(w)
        size += len(w.ids)
        if size >= tokens:
            yield group
            group, size = [], 0
    if group:
        yield group


def provenance(loaded, task, windows):
    """The record of a table: what was asked for, and what it was made with."""
    source = {k: v for k, v in asdict(task.corpus).items() if isinstance(v, str | int) and k != "path"}
    return {
        **task.expect,
        **loaded.record,
        "corpus_source": source,
        "corpus_revision": task.documents.source.get("revision"),
        "corpus_file": task.documents.source.get("file"),
        "documents": windows.documents,
        "empty_documents": windows.empty,
        "single_token_documents": windows.single,
        "read_tokens": windows.tokens,
        "characters": sum(map(len, task.documents.texts)),
        "read_characters": windows.read,
        "code_version": rbplib.__version__,
        "libraries": {name: version(name) for name in LIBRARIES},
        "platform": f"{platform.system()} {platform.machine()}",
        "threads": torch.get_num_threads(),
    }


def measure_windows(loaded, windows, special, batch_tokens, bar, task):
    """(columns of the rank table for some windows, tokens of a batch); the batch is halved when memory runs out."""
    queue = [[windows[i] for i in group] for group in batches(windows, batch_tokens)]
    found, dtype = [], getattr(torch, task.expect["head_dtype"])
    while queue:
        group = queue.pop(0)
        try:
            found.append(batch_ranks(loaded, group, special, dtype))
            bar.update(sum(len(w.ids) for w in group))
            continue
        except torch.OutOfMemoryError:
            if len(group) == 1:
                raise InputError(
                    f"one window of {len(group[0].ids)} tokens does not fit the memory of {loaded.device}: "
                    "use a larger device, a smaller dtype or a smaller model."
                ) from None
        torch.cuda.empty_cache()  # here, where the error no longer holds the frames that hold the batch
        half, batch_tokens = len(group) // 2, max(1, batch_tokens // 2)
        queue[:0] = [group[:half], group[half:]]
    columns = {name: np.concatenate([columns[name] for columns in found]) for name in COLUMNS}
    order = np.lexsort((columns["position"], columns["document"]))
    return {name: values[order] for name, values in columns.items()}, batch_tokens


def batch_ranks(loaded, group, special, dtype):
    """Columns for one batch of windows, padded on the right: a causal model never sees the padding."""
    longest = max(len(w.ids) for w in group)
    ids = np.zeros((len(group), longest), dtype=np.int64)
    scored = np.zeros((len(group), longest - 1), dtype=bool)
    for row, w in enumerate(group):
        ids[row, : len(w.ids)] = w.ids
        scored[row, scored_rows(w, special) - 1] = True
    inputs, mask = torch.from_numpy(ids), torch.from_numpy(scored)
    found = sequence_ranks(loaded.model, inputs, scored=mask, dtype=dtype, device=loaded.device)
    row, column = np.nonzero(scored)
    return {
        "document": np.array([w.document for w in group])[row],
        "position": np.array([w.start for w in group])[row] + column + 1,
        "token": ids[row, column + 1],
        **{name: values.numpy()[row, column] for name, values in found._asdict().items()},
    }


def choose_batch_tokens(loaded, length):
    """Tokens of one forward pass: large on a GPU against its free memory, cache-sized on a CPU."""
    if loaded.device.type != "cuda":
        return max(length, 4096)
    free, _ = torch.cuda.mem_get_info(loaded.device)
    config = loaded.model.config
    width = max(getattr(config, "hidden_size", 1024), getattr(config, "intermediate_size", 0) or 0)
    per_token = 40 * width * loaded.model.dtype.itemsize  # a block's live activations, with room to spare
    return int(max(length, min(1 << 17, free * 0.5 / per_token)))
