"""Measure: every model of a family over its corpora, each loaded once, into rank tables; a plan.

A measuring that is stopped at any instant leaves whole tables, and of one that takes longer than a
minute the rows so far; the same command goes on from there and gives the same bytes. Processes that
measure one model take turns.
"""

import os
import platform
import shutil
import time
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path

import numpy as np
from tqdm import tqdm

import rbplib
from rbplib.families import (
    PRECISIONS,
    Corpus,
    InputError,
    NoAnswer,
    WriteError,
    complain,
    one_at_a_time,
    root,
    telling,
)
from rbplib.models import (
    SMALL,
    check_tokenizers,
    check_window,
    choose_device,
    choose_dtype,
    model_folder,
    sizes_of,
    tokenizer_place,
    window_length,
)
from rbplib.table import (
    COLUMNS,
    Ladder,
    expected,
    measuring,
    ranks_path,
    read_table,
    repeated,
    resolve,
    tables_here,
    tell_candidates,
    write_table,
)
from rbplib.texts import Documents, load_documents, make_texts, sample_here
from rbplib.windows import batches, by_length, text_windows

LIBRARIES = ("torch", "transformers", "tokenizers", "numpy")
GROUP = 65_536  # tokens of a group of windows: batches are cut within one
SAVED = 50  # seconds of work, and those of a batch, that a stopped measuring may lose
DOUBTFUL = 0.01  # of the tokens, from which on it is told that they are unscored, or tie with most
PROGRESS = ("windows_done", "tokens_done", "batch_tokens")  # of a part
# what a plan reckons with, about
CHARACTERS = 4.0  # of a token of English
PROCESS, ROW = 600_000_000, 9  # bytes of the process, and of a row of a table on disk


@dataclass(frozen=True)
class Task:
    """One table to measure."""

    corpus: Corpus
    documents: Documents
    path: Path  # where it goes
    record: dict  # what its record must hold


def measure(family, corpus, protocol="paper", **options):
    """Rank tables of a family's models on one corpus, measured where they are missing.

    Args:
        corpus: a name, a path or a Corpus. The rest, errors and cost as of `ladders`.
    Returns:
        list of RankTable, smallest model first, without repeats.
    """
    check_options(options)
    (tables,) = measured(family, [corpus], protocol, **options).values()
    return tables


def ladders(family, corpora=None, protocol="paper", *, results=None, **options):
    """Rank tables of a family on its texts, measured where they are missing, with those of the
    repeats that its file names.

        ladders = rbp.ladders("nano-pythia", ["docs"])
        law = rbp.fit(rbp.rbp_loss(ladders["docs"], k=1))

    Args:
        family: a name, a YAML path, or a Family. corpora: names, paths or Corpus; the family's
            default ones where none are given, and one as text alone.
        protocol: "paper" (the first window of each document) or "full" (every token).
        results: folder of rank tables; by default RBP_RESULTS, or `results/` in the checkout or,
            without one, here.
        options: `progress` (False: no bars); of the family alone, not its repeats, `models` (names
            of some), `replace` (True: measure over tables of something else), `device`, `dtype`
            and `batch_tokens`.
    Returns:
        {corpus name: Ladder}, in the order of corpora.
    Raises:
        InputError: unknown names, an empty corpus, a folder that cannot be written, a table of
            something else, models of several tokenizers, a model that cannot be had or measured.
        TypeError: an option that is none.
    Cost: one reading of each table; a forward pass over the text for each that is missing.
    """
    check_options(options)
    family, _, corpora = resolve(family, None, corpora or None, protocol, results)
    tables = measured(family, corpora, protocol, results=results, **options)
    others, texts = repeated(family, corpora)
    quiet = {"progress": options.get("progress", True)}
    repeats = measured(others, texts, protocol, results=results, **quiet) if texts else {}
    return {name: Ladder(ranks, repeats.get(name, ())) for name, ranks in tables.items()}


def check_options(options):
    """Raise TypeError for an option that `measured` does not take."""
    takes = measured.__kwdefaults__
    if unknown := [name for name in options if name not in takes]:
        raise TypeError(f"no option is called {unknown[0]!r}; there are {', '.join(takes)}")


def measured(
    family,
    corpora=None,
    protocol="paper",
    *,
    models=None,
    results=None,
    replace=False,
    samples=None,
    dtype=None,
    head_dtype="float32",
    device=None,
    progress=True,
    batch_tokens=None,
    counts=True,
    cut=None,
):
    """Rank tables of a family, measured where they are missing.

    Args:
        family: a name, a YAML path, or a Family.
        corpora: names, paths or Corpus; the family's default ones when None.
        protocol: "paper" or "full", see windows.
        models: names of some of its models; all when None.
        results: their folder.
        replace: measure over tables of something else; without, they are refused.
        device: of `load_model`.
        progress: whether to show bars; or, in their place, a function that is given the path of
            each table to measure and returns a context to measure it in.
        batch_tokens: tokens of one forward pass; found against memory when None.
        counts: whether counts from the family's file stand for tables, see `table.tables_here`.
        cut: windows of text that are cut already, see `cut_text`.
        samples, dtype, head_dtype: of `table.expected`.
    Returns:
        {corpus name: list of RankTable, smallest model first}.
    Raises:
        InputError: unknown names, an empty corpus, a folder that cannot be written, a table of
            something else, models of several tokenizers; at the end, after the other models, where
            one cannot be had or measured.
    Cost: where nothing is missing one reading of each table; else one forward pass over every
        window as well.
    """
    wanted = resolve(family, models, corpora, protocol, results)
    family, models, corpora = wanted
    if replace:
        family.need_models()
    here = partial(tables_here, *wanted, protocol, results, counts=counts)
    compared = {"samples": samples, "dtype": dtype, "head_dtype": head_dtype}
    try:
        tables, missing = here(replace=replace, **compared)
    except InputError:
        far = [c for c in corpora if c.source == "hub" and sample_here(c) is None]
        if samples or not far:
            raise
        # sources alone may have changed, which only the hub's rows tell
        compared["samples"] = list(map(load_documents, corpora))
        tables, missing = here(**compared)
    if not missing:
        return tables
    family.need_models()
    check_tokenizers(family)

    # one model after the other, each in one process at a time
    if not compared["samples"]:
        make_texts(corpora)  # all by one reading
        compared["samples"] = list(map(load_documents, corpora))
    wanted = expected(*wanted, protocol, **compared)
    failed, cut = {}, {} if cut is None else cut
    for model, records in wanted.items():
        paths = [ranks_path(record, results) for record in records]
        tasks = list(map(Task, corpora, compared["samples"], paths, records))
        with one_at_a_time(paths[0].parent):
            for left in paths[0].parent.glob(".*.tmp"):  # of a killed one
                with suppress(OSError):
                    left.unlink()
            try:
                tasks = [t for t in tasks if (model, t.corpus.name) in missing]
                if tasks := [task for task in tasks if is_missing(task, replace)]:
                    loading = family.model(model), device, dtype
                    measure_model(loading, tasks, cut, progress, batch_tokens)
            except InputError as error:
                if len(wanted) == 1 or isinstance(error, WriteError):
                    raise
                if NoAnswer not in failed.values() or type(error) is not NoAnswer:  # told once
                    complain(str(error))
                failed[model] = type(error)
    if failed:
        others = ", the other models were" if len(failed) < len(wanted) else ""
        raise InputError(
            f"of {family.name} {', '.join(failed)} could not be measured{others}: mend what is "
            f"named above, run `{measuring(family, corpora, protocol, results)}` again."
        )
    return here(**compared)[0]


def is_missing(task, replace):
    """Whether a table is to be measured, still; InputError for another one that may not be
    replaced."""
    with suppress(InputError) if replace or not task.path.is_file() else nullcontext():
        read_table(task.path, task.record)
        return False
    return True


def measure_model(loading, tasks, cut, progress, batch_tokens):
    """Measure tables of one model in one load.

    Args:
        loading: (Model, device, dtype), of `load_model`.
        cut: of `cut_text`.
        progress, batch_tokens: as of `measured`.
    """
    from rbplib.models import choose_threads, load_model

    length = tasks[0].record["window"]
    check_window(loading[0], length)
    loaded = load_model(*loading)
    choose_threads(loaded.record["total_params"])

    # cache-sized on a processor, of a large model below what malloc gives back to the system at
    # each layer; elsewhere halved until it fits
    many = 4096 if loaded.record["total_params"] < SMALL else 1024
    many = 1 << 16 if loaded.device.type == "cuda" else many
    batch_tokens = int(batch_tokens or max(length, many))
    for task in tasks:
        protocol = task.record["protocol"]
        by = loaded.tokenizer, loaded.record["tokenizer_digest"]
        windows = cut_text(*by, task.documents, length, protocol, cut)
        with progress(task.path) if callable(progress) else nullcontext():
            measure_table(loaded, task, windows, progress is True, batch_tokens)


def cut_text(tokenizer, tokenizer_digest, documents, length, protocol, cut):
    """Windows of a text; `cut` keeps those of each tokenizer, text, length and protocol."""
    text = tokenizer_digest, documents.digest, length, protocol
    if text not in cut:
        cut[text] = text_windows(tokenizer, documents.texts, length, protocol)
    return cut[text]


def measure_table(loaded, task, windows, progress, batch_tokens):
    """Measure one table and write it; the rows so far are kept beside it every SAVED seconds."""
    record = provenance(loaded, task, windows)
    # go on from the rows that a stopped run left, and cut batches as it did
    part = task.path.with_name(f".{task.path.name}.part")
    rows, done, tokens = [], 0, 0
    with suppress(InputError, KeyError):  # none, or damaged ones
        begun = read_table(part, record)
        done, tokens, batch_tokens = (begun.record[name] for name in PROGRESS)
        rows.append(begun.columns)

    # batch by batch
    saved = time.monotonic()
    label = f"{record['family']}/{record['model']} on {task.corpus.name}"
    look = {"desc": label, "unit": "tok", "unit_scale": True, "leave": False, "initial": tokens}
    with tqdm(total=windows.tokens, disable=not progress, **look) as bar:
        ranked = measure_windows(loaded, windows.windows, done, batch_tokens, record["head_dtype"])
        for batch, columns, batch_tokens in ranked:
            rows.append(columns)
            read = sum(len(window.ids) for window in batch)
            done, tokens = done + len(batch), tokens + read
            bar.update(read)
            if time.monotonic() - saved > SAVED:
                now = dict(zip(PROGRESS, (done, tokens, batch_tokens), strict=True))
                write_table(part, joined(rows), record | now)
                saved = time.monotonic()
    if not any(len(part["token"]) for part in rows):
        raise InputError(
            f"no token of {task.corpus.name!r} is scored: its documents are empty or too short."
        )
    write_table(task.path, joined(rows), record | {"batch_tokens": batch_tokens})
    part.unlink(missing_ok=True)


def joined(rows):
    """One table's columns of those of its parts, sorted by document and position."""
    columns = {}
    for name in COLUMNS:
        columns[name] = np.concatenate([part[name] for part in rows])
    order = np.lexsort((columns["position"], columns["document"]))
    return {name: values[order] for name, values in columns.items()}


def groups(windows):
    """Windows in runs of about GROUP tokens, in order; in each the longest first."""
    group, size = [], 0
    for window in windows:
        group.append(window)
        size += len(window.ids)
        if size >= GROUP:
            yield by_length(group)
            group, size = [], 0
    yield by_length(group)


def provenance(loaded, task, windows):
    """The record of a table: what was asked for, and what it was made with."""
    # special tokens, by how often each is a word of the text, and so not scored
    corpus, names = task.corpus, loaded.tokenizer.convert_ids_to_tokens([*windows.unscored])
    # later entries win
    return {
        **task.record,
        **loaded.record,
        "corpus_source": {"source": corpus.source, "licence": corpus.licence, "note": corpus.note},
        "corpus_revision": task.documents.source.get("revision"),
        "documents": windows.documents,
        "read_tokens": windows.tokens,
        "characters": sum(map(len, task.documents.texts)),
        "read_characters": windows.read,
        "rows": task.documents.rows,
        "unfit_rows": task.documents.unfit,
        "passed_over": task.documents.passed_over,
        "unscored": dict(zip(names, windows.unscored.values(), strict=True)),
        "code_version": rbplib.__version__,
        "libraries": {name: version(name) for name in LIBRARIES},
        "platform": f"{platform.system()} {platform.machine()}",
    }


def what_was_read(table):
    """In words, how much of a text a table is of: documents, characters, files."""
    record = table.record
    documents, read = record["documents"], record.get("read_characters")
    words = f"documents {documents:,}"
    if record.get("rows"):
        words += f" drawn of {record['rows']:,}"
    if record.get("unfit_rows"):
        words += f" ({record['unfit_rows']:,} more too short, or not wanted)"
    if empty := documents - int((table.totals > 0).sum()):
        words += f", {empty:,} without a scored token"
    if read is not None and record.get("characters"):  # an imported table may not say
        words += f", {read / record['characters']:.0%} of their characters read"
    over = record.get("passed_over") or {}
    files = ", ".join(f"{number:,} {ending}" for ending, number in sorted(over.items()))
    return f"{words}; passed over: {files}" if files else words


def tell_doubts(table):
    """Say on standard error where special tokens are many words of a text, or candidates are equal,
    as those of a head of zeros are."""
    ties = (table.ties > table.record["vocab_size"] / 2).mean()
    if ties > DOUBTFUL:
        complain(
            f"{ties:.1%} of the tokens tie with more than half of all candidates in "
            f"{table.record['model']}, so their ranks say nothing: give it whole weights, with a "
            "head that is not zero."
        )
    unscored = table.record.get("unscored") or {}
    share = sum(unscored.values()) / max(1, sum(unscored.values()) + len(table))
    if share > DOUBTFUL:
        names = ", ".join(map(repr, sorted(unscored, key=unscored.get, reverse=True)[:5]))
        complain(
            f"{share:.1%} of the tokens of {table.record['corpus']} are not scored, as special "
            f"ones of the tokenizer ({names}): give the models the tokenizer that they were "
            "trained with, or text in its language."
        )


def measure_windows(loaded, windows, done, batch_tokens, head_dtype):
    """Yield (batch, columns of its rows, tokens of a batch, halved when memory is out) of windows.

    Args:
        windows: of Window. done: how many need no more ranks. batch_tokens: of a forward pass.
        head_dtype: name of that of the head's product.
    Raises:
        InputError: memory runs out with a single window; the model has too few positions, another's
            tokenizer, or scores that hold a NaN.
    """
    import torch

    for group in groups(windows):
        left = group[done:]
        done -= len(group) - len(left)
        # batch by batch, each as large as memory allows
        queue = list(batches(left, batch_tokens))
        while queue:
            batch, columns = queue.pop(0), None
            with telling(
                f"a window of {len(batch[0].ids)} tokens cannot be ranked, give the model its own "
                "tokenizer, whole weights, a smaller 'context:', or --dtype float32"
            ):
                try:
                    columns = batch_ranks(loaded, batch, getattr(torch, head_dtype))
                except torch.OutOfMemoryError:
                    if len(batch) == 1:
                        raise InputError(
                            f"a window of {len(batch[0].ids)} tokens does not fit {loaded.device}: "
                            "use a larger device, a smaller dtype or a smaller model."
                        ) from None
            if columns:
                yield batch, columns, batch_tokens
                continue
            # here, where the error no longer holds the frames that hold the batch
            torch.cuda.empty_cache()
            half = len(batch) // 2
            batch_tokens = max(1, batch_tokens // 2)
            queue[:0] = [batch[:half], batch[half:]]


def batch_ranks(loaded, batch, dtype):
    """Columns for one batch of windows, padded on the right: a causal model never sees that."""
    import torch

    from rbplib.ranks import sequence_ranks

    # ids of the windows, and which are scored
    longest = max(len(window.ids) for window in batch)
    ids = np.zeros((len(batch), longest), np.int64)
    scored = np.zeros_like(ids, bool)
    for row, window in enumerate(batch):
        ids[row, : len(window.ids)] = window.ids
        scored[row, window.scored] = True
    # ranks of the scored ones, as columns
    inputs, mask = torch.from_numpy(ids).to(loaded.device), torch.from_numpy(scored[:, 1:])
    ranks = sequence_ranks(loaded.model, inputs, mask, dtype)._asdict().items()
    row, column = np.nonzero(scored)
    document, start = np.array([(window.document, window.start) for window in batch])[row].T
    return {
        "document": document,
        "position": start + column,
        "token": ids[row, column],
        **{name: values.cpu().numpy()[row, column - 1] for name, values in ranks},
    }


def fetch(family, corpora=None, models=None):
    """Fetch what a measuring reads from the hub, for where there is no network.

    Args: as of `measured`. Returns {model name: where its files are}; those of a folder stay there.
    Raises InputError: one cannot be had. Cost: the download of what the hub's cache lacks.
    """
    family, models, corpora = resolve(family, models, corpora)
    family.need_models()
    for corpus in corpora:
        load_documents(corpus)
    return {model.name: model_folder(model)[0] for model in models}


# --- What a measuring will take


def plan(family, corpora=None, protocol="paper", *, models=None, dtype=None, results=None):
    """What a measuring will take, before anything of it starts, as JSON can hold it.

    Memory is that of the weights and the process, disk that of what is fetched and measured; beside
    both stands what this machine has. Download is that of all weights, in the hub's cache or not;
    bytes of data sets, and what else cannot be known without the network, are None, and `notes` say
    what lacks. Time is not told: nothing here knows it.

    Args: as of `measured`. Raises InputError: unknown names, several tokenizers, a context that a
    model does not have, a table of something else. Cost: the configurations and tokenizers, and one
    reading of text that is here.
    """
    import torch

    wanted = resolve(family, models, corpora, protocol, results)
    family, models, corpora = wanted
    family.need_models()
    check_tokenizers(family)
    length, notes = window_length(family), []
    here = tables_here(*wanted, protocol, results, counts=False, rows=False, dtype=dtype)
    absent = [model for model, _ in here[1]]
    texts = [plan_text(corpus, length, protocol, notes) for corpus in corpora]
    rows = []
    for model in models:
        check_window(model, length)
        row = plan_model(model, notes, dtype)
        rows.append(row | {"tables_to_measure": absent.count(model.name)})
    tell_candidates({row["model"]: row["vocab_size"] for row in rows}, notes.append)

    # what is still to be fetched and measured, beside what there is room for
    ahead = [row for row in rows if row["tables_to_measure"]]
    download = sum(row["download_bytes"] or 0 for row in ahead)
    tokens = sum(text["tokens"] for text in texts)
    total = {
        "memory_bytes": PROCESS + max((row["weights_bytes"] or 0 for row in ahead), default=0),
        "memory_here_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "download_bytes": download,
        "disk_bytes": download + ROW * tokens * len(ahead),
        "disk_here_bytes": shutil.disk_usage(root(writing=True)).free,
    }
    if torch.cuda.is_available():
        total["memory_here_bytes"] = torch.cuda.get_device_properties(0).total_memory
    for name in ("memory", "disk"):
        if total[f"{name}_bytes"] > total[f"{name}_here_bytes"]:
            notes.append(f"{name} for {total[f'{name}_bytes']:,} bytes is not here.")
    return {"models": rows, "corpora": texts, "total": total, "notes": notes}


def plan_text(corpus, length, protocol, notes):
    """About how many tokens of a corpus are read: told by its text where that is here, else by its
    file, else as many as fit a window of each document."""
    sample, download = sample_here(corpus), 0
    most = length if protocol == "paper" else np.inf
    tokens = corpus.tokens or corpus.documents * length
    if sample:
        tokens = round(sum(min(most, len(text) / CHARACTERS) for text in sample.texts))
    elif corpus.source == "hub":
        download = None
        notes.append(f"the bytes of {corpus.id} to download are not known before it is fetched.")
    return {"corpus": corpus.name, "tokens": tokens, "download_bytes": download}


def plan_model(model, notes, dtype):
    """S, candidates, bytes of the weights in memory and to download; where model and tokenizer are,
    and the precision. None where its size is unknown."""
    precision = str(choose_dtype(dtype or model.dtype, choose_device())).removeprefix("torch.")
    sizes = dict.fromkeys(("nonembedding_params", "vocab_size", "total_params"))
    try:
        sizes |= sizes_of(model)
    except InputError as error:
        notes.append(str(error))
    total = sizes.pop("total_params") or sizes["nonembedding_params"]
    source = model.local or f"{model.id} at {model.revision or 'main'}"
    return {
        "model": model.name,
        **sizes,
        "weights_bytes": total and total * PRECISIONS[precision],
        "download_bytes": 0 if model.local else total and total * PRECISIONS["bfloat16"],
        "dtype": precision,
        "folder": str(source),
        "tokenizer": str(tokenizer_place(source) or source) if model.local else source,
    }
