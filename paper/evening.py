"""The models of the paper in an evening: `make paper`, or `python -m paper.evening`.

    look      every configuration, tokenizer, context and gate, before the first weight
    plan      weights, text, disk, and how long at least
    measure   a model at a time, smallest first; one that fails is told at the end
    export    each family without text, read back and compared
    archive   results/paper.tar: the exports, the lock of commits, the plan, what failed

The same command goes on from what is there. `main` of each model is resolved when it is first asked
for, and kept in results/paper.lock: what moves on the hub meanwhile moves nothing here.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd

from rbplib.cli import names
from rbplib.doors import export_family
from rbplib.families import InputError, argument, load_family, one_each, results_dir, write_text
from rbplib.measuring import plan
from rbplib.models import load_tokenizer, model_context, model_folder, sizes_of, window_length
from rbplib.table import asked, columns_digest, expected, ranks_path, read_table, record_here
from rbplib.texts import load_documents

FAMILIES = ("gpt2", "opt", "pythia", "qwen2.5")  # of the paper
CORPORA = ("wikipedia", "humaneval", "hotpotqa", "auslegal")
PROBE = "On 3 May, the café's 1,204 guests said:\n\n    return x**2  # naïve"
RANKS = ("document", "position", "greater", "ties", "logprob")  # columns that are sent
LINE = 1e9 / 8  # bytes a second of the line that a plan reckons with


def look(families):
    """{"FAMILY/MODEL": sentence} of the models that cannot be measured,
    by all but their weights."""
    faults = {}
    for family in families:
        window, first = window_length(family), None
        for model in family.models:
            # sizes, tokenizer and context, in that order
            try:
                sizes_of(model)
                place, _ = model_folder(model, weights=False)
                ids = load_tokenizer(place, model.id)(PROBE)["input_ids"]
                first = first or ids
                if ids != first:
                    message = f"{model.name} cuts text otherwise than the first: leave it out."
                    raise InputError(message)
                context = model_context(model) or window
                if context < window:
                    raise InputError(
                        f"{model.name} reads {context} tokens, not the window of {window}: "
                        f"write 'context: {context}' into {family.path}."
                    )
            except InputError as error:
                faults[f"{family.name}/{model.name}"] = str(error)
    return faults


def rate(device, dtype):
    """Multiplications and additions a second of large products, measured here: float."""
    import torch

    from rbplib.models import choose_device, choose_dtype

    # something to multiply
    device = choose_device(device)
    a = torch.ones(2048, 2048, device=device, dtype=choose_dtype(dtype or "auto", device))
    (a @ a)[0, 0].item()  # so that what is loaded for it is loaded
    # as often as half a second allows
    began, times = time.perf_counter(), 0
    while time.perf_counter() - began < 0.5:
        (a @ a)[0, 0].item()
        times += 1
    return 2 * times * 2048**3 / (time.perf_counter() - began)


def planned(families, corpora, dtype, speed):
    """The plan of all families, as JSON can hold it: a row a model, sums, and what is not here."""
    rows, texts, notes, tables = [], {}, {}, 0
    for family in families:
        # text and tables of the family
        whole = plan(family, corpora, dtype=dtype)
        texts |= {text["corpus"]: text["download_bytes"] or 0 for text in whole["corpora"]}
        tokens = sum(text["tokens"] for text in whole["corpora"]) / len(whole["corpora"])
        tables += whole["total"]["disk_bytes"] - whole["total"]["download_bytes"]
        notes |= dict.fromkeys(whole["notes"])
        # its models, and how long each computes at least
        for row in whole["models"]:
            products = 2 * (row["nonembedding_params"] or 0) * tokens * row["tables_to_measure"]
            minutes = round(products / speed / 60, 1)
            rows.append({"family": family.name} | row | {"minutes_at_least": minutes})
    # all families together
    weights = [row["download_bytes"] or 0 for row in rows if row["tables_to_measure"]]
    download = sum(weights) + sum(texts.values())
    total = {
        "weights_bytes": sum(weights),
        "largest_bytes": max(weights, default=0),
        "text_bytes": sum(texts.values()),
        "tables_bytes": tables,
        "minutes_of_download_at_1_gbit": round(download / LINE / 60, 1),
        "minutes_at_least": round(sum(row["minutes_at_least"] for row in rows), 1),
    }
    return {"models": rows, "total": total, "notes": list(notes)}


def measure(family, model, corpora, options):
    """Measure one model in a process of its own, which fetches it; why it failed, or None."""
    # nothing to do where all its tables are here
    _, (model,), texts = asked(family, [model], corpora)
    records = expected(family, [model], texts, dtype=options.dtype)[model.name]
    if all(record_here(ranks_path(record), record) for record in records):
        return None
    # in a process of its own
    words = [f"--family={argument(family)}", f"--model={model.name}"]
    words += [f"--corpus={argument(corpus)}" for corpus in texts]
    words += [f"--device={options.device}"] if options.device else []
    words += [f"--dtype={options.dtype}"] if options.dtype else []
    command = [sys.executable, "-m", "rbplib", "measure", *words]
    run = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    if run.returncode:
        lines = [line for line in run.stderr.splitlines() if line.startswith("rbp: ")]
        return lines[-1].removeprefix("rbp: ") if lines else f"killed, with code {run.returncode}"
    if options.delete_weights and not model.local:
        delete(model)
    return None


def delete(model):
    """Remove a model's snapshots from the hub's cache."""
    from huggingface_hub import scan_cache_dir

    cache = scan_cache_dir()
    commits = []
    for repo in cache.repos:
        if repo.repo_id == model.id:
            commits += [revision.commit_hash for revision in repo.revisions]
    cache.delete_revisions(*commits).execute()


def export(family, corpora, folder):
    """Export the models of a family that are measured, and compare the file with their tables.

    Returns its path; None where no model is. Raises InputError: it does not hold what they do.
    """
    family, models, texts = asked(family, None, corpora)
    paths = {}
    for model, records in expected(family, models, texts).items():
        places = [ranks_path(record) for record in records]
        if all(place.is_file() for place in places):
            paths[model] = places
    if not paths:
        return None
    path = folder / f"{family.name}.ranks"
    path.unlink(missing_ok=True)
    whole = tuple(model for model in models if model.name in paths)
    export_family(replace(family, models=whole), path, texts)

    # read back
    with TemporaryDirectory() as place, zipfile.ZipFile(path) as file:
        file.extractall(place)
        for table in map(read_table, sum(paths.values(), [])):
            name = f"family/{table.record['model']}/{table.record['corpus']}.parquet"
            sent = read_table(Path(place, name))
            if columns_digest(sent.columns, RANKS) != columns_digest(table.columns, RANKS):
                raise InputError(f"{path} does not hold the ranks of {table.path}: export again.")
    return path


def evening(families, corpora, options):
    """All of it: {"FAMILY/MODEL": why it failed}."""
    place = results_dir() / "paper"
    place.mkdir(parents=True, exist_ok=True)
    os.environ["RBP_LOCK"] = str(results_dir() / "paper.lock")
    families = one_each(map(load_family, families), "families")

    # before the first weight
    faults = look(families)
    whole = planned(families, corpora, options.dtype, rate(options.device, options.dtype))
    write_text(place / "plan.json", json.dumps(whole, indent=1) + "\n")
    print(pd.DataFrame(whole["models"]).to_string(index=False))
    for name, value in whole["total"].items():
        print(f"{name:32} {value:,}")
    for note in whole["notes"]:
        print(f"rbp: {note}", file=sys.stderr)
    if options.plan or (faults and not options.go_on):
        return faults

    # the texts, then one model after the other
    for corpus in corpora:
        load_documents(corpus)
    for family in families:
        for model in family.models:
            name = f"{family.name}/{model.name}"
            if name not in faults and (reason := measure(family, model.name, corpora, options)):
                faults[name] = reason
            print(f"{name}: {faults.get(name, 'measured')}", flush=True)

    # one file to send
    paths = [export(family, corpora, place) for family in families]
    write_text(place / "failed.json", json.dumps(faults, indent=1) + "\n")
    paths += [place / "plan.json", place / "failed.json", Path(os.environ["RBP_LOCK"])]
    archive = results_dir() / "paper.tar"
    with tarfile.open(archive, "w") as file:
        for path in filter(None, paths):
            if path.is_file():
                file.add(path, path.name)
    print(
        f"{archive}: {archive.stat().st_size:,} bytes to send, without tokens; "
        "whoever has a model can read the text back from ranks in order"
    )
    return faults


def main(argv=None):
    about = __doc__.split("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m paper.evening", description=about)
    for name in ("--family", "--corpus"):
        parser.add_argument(
            name, action="extend", type=names, help="names, paths (default: the paper's)"
        )
    parser.add_argument("--device", help="cpu, cuda, or auto: spread over all GPUs")
    parser.add_argument("--dtype", help="in place of what the family files say, float32")
    parser.add_argument("--plan", action="store_true", help="look and plan, and measure nothing")
    parser.add_argument("--go-on", action="store_true", help="without models that cannot be had")
    parser.add_argument("--delete-weights", action="store_true", help="of each model once measured")
    options = parser.parse_args(argv)
    # all of it, or why not; a scheduler's stop reaches the model being measured too
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        faults = evening(options.family or FAMILIES, options.corpus or CORPORA, options)
    except InputError as error:
        print(f"rbp: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("rbp: stopped; run the same command again to go on from here.", file=sys.stderr)
        return 130
    for name, reason in faults.items():
        print(f"rbp: {name}: {reason}", file=sys.stderr)
    return int(bool(faults))


if __name__ == "__main__":
    raise SystemExit(main())
