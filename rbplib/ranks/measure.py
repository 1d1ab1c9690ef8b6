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
from rbplib.ranks.columns import COLUMNS
from rbplib.ranks.engine import sequence_ranks
from rbplib.ranks.parts import Parts, groups, tell
from rbplib.ranks.table import MissingTable, expected, ranks_path, read_ranks, write_ranks
from rbplib.settings import PROTOCOLS, InputError, check_choice, default_corpora, load_corpus, load_family, write_text
from rbplib.text.corpora import load_documents
from rbplib.text.windows import batches, encode, make_windows, scored_rows

LIBRARIES = ("torch", "transformers", "tokenizers", "datasets", "numpy")
PART_TOKENS = 65_536  # tokens a part holds: what a killed run loses at most


@dataclass(frozen=True)
class Task:
    """One table to measure: its corpus, where it goes, what its record must say, and the dtype of the head's product
    (None: that of the weights)."""

    corpus: object
    documents: object
    path: Path
    expect: dict
    head: torch.dtype | None = torch.float32


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
        device, dtype: chosen by load_model when None.
        batch_tokens: tokens of one forward pass; found against memory when None.
    Returns:
        list of paths, one per (model, corpus).
    Raises:
        InputError: unknown names, an empty corpus, a model that cannot be had, or a folder that cannot be written.
    Cost: one forward pass over every window; the head is walked in chunks, so logits are never held.
    """
    family = load_family(family)
    check_choice(protocol, PROTOCOLS, "protocol")
    models = [family.model(m) for m in models] if models else family.models
    corpora = [load_corpus(c) for c in (corpora or default_corpora(family))]
    if not corpora:
        raise InputError(f"{family.name} has no corpus to be measured on: name one with --corpus.")
    samples = [load_documents(c) for c in corpora]
    for corpus, sample in zip(corpora, samples, strict=True):
        if not any(t.strip() for t in sample.texts):
            raise InputError(f"corpus {corpus.name!r} holds no text: check its source, split and fields.")
    expect, paths, waiting = expected(family, models, corpora, protocol, samples, dtype), [], []
    for model in models:
        where = [ranks_path(family.name, model.name, c.name, protocol, results) for c in corpora]
        tasks = map(Task, corpora, samples, where, expect[model.name])
        waiting.append((model, [t for t in tasks if not is_measured(t.path, t.expect)]))
        paths += where
    options = {"device": device, "dtype": dtype, "trust_remote_code": trust_remote_code}
    for model, tasks in waiting:
        measure_model(family, model, tasks, protocol, options, progress, batch_tokens)
    return paths


def is_measured(path, expect):
    """Whether a whole table with a matching record is there; why not, where there is another, is told."""
    try:
        read_ranks(path, expect)
    except MissingTable:
        return False
    except InputError as error:
        tell(f"{str(error).rpartition(': ')[0]}: measuring it again")
        return False
    return True


def measure_model(family, model, tasks, protocol="paper", options=None, progress=True, batch_tokens=None):
    """All tables of one model in one load; the next corpus is tokenised while this one is measured.

    options: of load_model. Raises InputError as `measure`, before the model is loaded where a table cannot be written.
    """
    if not tasks:
        return
    for task in tasks:
        probe = task.path.with_name(f".{task.path.name}.probe")
        write_text(probe, "")
        probe.unlink()
    loaded, length = loading.load_model(model, **(options or {})), window_length(family)
    most = getattr(loaded.model.config.get_text_config(), "max_position_embeddings", None)
    if most is not None and most < length:  # cutting the window for one model would unpair the family's tokens
        raise InputError(
            f"{model.name} reads at most {most} tokens, not the window of {length}: "
            f"write 'context: {most}' into its family file."
        )

    def windows_of(task):
        ids = encode(loaded.tokenizer, task.documents.texts)
        return make_windows(ids, loaded.tokenizer.all_special_ids, length, protocol)

    with ThreadPoolExecutor(1) as pool:
        for task, windows in zip(tasks, pool.map(windows_of, tasks), strict=True):
            _measure_table(loaded, task, windows, progress, batch_tokens)


def _measure_table(loaded, task, windows, progress, batch_tokens):
    start, expect = time.perf_counter(), task.expect
    vocab, largest = int(loaded.record["vocab_size"]), max((int(w.ids.max()) for w in windows.windows), default=0)
    if largest >= vocab:
        raise InputError(
            f"token id {largest} of {task.corpus.name!r} is outside the vocabulary of {expect['model']} "
            f"({vocab}): its tokenizer does not belong to it."
        )
    parts = Parts(task.path, expect, batch_tokens or choose_batch_tokens(loaded, windows.length))
    found = [{name: np.empty(0, dtype) for name, dtype in COLUMNS.items()}]
    label = f"{expect['family']}/{expect['model']} on {task.corpus.name}"
    with tqdm(total=windows.tokens, desc=label, unit="tok", unit_scale=True, disable=not progress, leave=False) as bar:
        for number, group in enumerate(groups(windows.windows, PART_TOKENS)):
            columns = parts.read(number)
            if columns is None:
                columns = parts.write(number, measure_windows(loaded, group, windows.special, parts, bar, task.head))
            else:
                bar.update(sum(len(w.ids) for w in group))
            found.append(columns)
    columns = {name: np.concatenate([part[name] for part in found]) for name in COLUMNS}
    order = np.lexsort((columns["position"], columns["document"]))
    record = provenance(loaded, task, windows)
    record |= {"batch_tokens": parts.batch_tokens, "wall_time_s": round(time.perf_counter() - start, 3)}
    write_ranks(task.path, {name: values[order] for name, values in columns.items()}, record)
    parts.remove()


def provenance(loaded, task, windows):
    """The record of a table: what was asked for, and what it was made with."""
    source = {k: v for k, v in asdict(task.corpus).items() if isinstance(v, str | int) and k != "path"}
    return {
        **task.expect,
        **loaded.record,
        "corpus_source": source,
        "corpus_revision": task.documents.source.get("revision"),
        "documents": windows.documents,
        "empty_documents": windows.empty,
        "single_token_documents": windows.single,
        "read_tokens": windows.tokens,
        "head_dtype": str(task.head or loaded.model.dtype).removeprefix("torch."),
        "code_version": rbplib.__version__,
        "libraries": {name: version(name) for name in LIBRARIES},
        "platform": f"{platform.system()} {platform.machine()}",
        "threads": torch.get_num_threads(),
    }


def measure_windows(loaded, windows, special, parts, bar, head=torch.float32):
    """Columns of the rank table for some windows, in the order of the batches: longest windows first.

    Halves the batch when memory runs out, without losing what is done.
    """
    queue = [[windows[i] for i in group] for group in batches(windows, parts.batch_tokens)]
    found = []
    while queue:
        group = queue.pop(0)
        try:
            found.append(batch_ranks(loaded, group, special, head))
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
        bar.update(sum(len(w.ids) for w in group))
    return {name: np.concatenate([columns[name] for columns in found]) for name in COLUMNS}


def batch_ranks(loaded, group, special, head):
    """Columns for one batch of windows, padded on the right: a causal model never sees the padding."""
    longest = max(len(w.ids) for w in group)
    ids = np.zeros((len(group), longest), dtype=np.int64)
    scored = np.zeros((len(group), longest - 1), dtype=bool)
    for row, w in enumerate(group):
        ids[row, : len(w.ids)] = w.ids
        scored[row, scored_rows(w, special) - 1] = True
    if not scored.any():
        return {name: np.empty(0, dtype) for name, dtype in COLUMNS.items()}
    inputs, mask = (torch.from_numpy(a).to(loaded.device) for a in (ids, scored))
    found = sequence_ranks(loaded.model, inputs, scored=mask, dtype=head)
    row, column = np.nonzero(scored)
    return {
        "document": np.array([w.document for w in group])[row],
        "position": np.array([w.start for w in group])[row] + column + 1,
        "token": ids[row, column + 1],
        **{name: values.cpu().numpy()[row, column] for name, values in found._asdict().items()},
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
