"""The models of the paper in an evening: `make paper`, or `python -m paper.evening`.

    look      every configuration, tokenizer, context and gate, before the first weight
    plan      weights, text and disk of each family
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
import zipfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd

from rbplib.cli import ended, names
from rbplib.doors import export_family
from rbplib.families import InputError, argument, load_family, one_each, results_dir, write_text
from rbplib.measuring import plan
from rbplib.models import load_tokenizer, model_context, model_folder, sizes_of, window_length
from rbplib.table import columns_digest, family_tables, read_table
from rbplib.texts import load_documents

FAMILIES = ("gpt2", "opt", "pythia", "qwen2.5")  # of the paper
CORPORA = ("wikipedia", "humaneval", "hotpotqa", "auslegal")
PROBE = "On 3 May, the café's 1,204 guests said:\n\n    return x**2  # naïve"
RANKS = ("document", "position", "greater", "ties", "logprob")  # columns that are sent


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
                folder, _ = model_folder(model, weights=False)
                ids = load_tokenizer(folder, model.id)(PROBE)["input_ids"]
                if ids != (first := first or ids):
                    raise InputError(
                        f"{model.name} cuts text otherwise than the first: leave it out."
                    )
                if (context := model_context(model) or window) < window:
                    raise InputError(
                        f"{model.name} reads {context} tokens, not the window of {window}: "
                        f"write 'context: {context}' into {family.path}."
                    )
            except InputError as error:
                faults[f"{family.name}/{model.name}"] = str(error)
    return faults


def measure(family, model, corpora, options):
    """Measure one model in a process of its own, which fetches it; why it failed, or None."""
    words = [f"--{name}={getattr(options, name)}" for name in ("device", "dtype")]
    words = [word for word in words if not word.endswith("=None")]
    words += [f"--corpus={argument(corpus)}" for corpus in corpora]
    words += [f"--family={argument(family)}", f"--model={model.name}"]
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
    # models with a table of each text
    ladders, whole = [], []
    with suppress(InputError):  # of a text none is here
        for corpus in corpora:
            ladders.append(family_tables(family, corpus, partial=True, counts=False))
        absent = {name for _, missing in ladders for name in missing}
        whole = [model for model in family.models if model.name not in absent]
    if not whole:
        return None
    path = folder / f"{family.name}.ranks"
    path.unlink(missing_ok=True)
    export_family(replace(family, models=tuple(whole)), path, corpora)

    # read back
    with TemporaryDirectory() as unpacked, zipfile.ZipFile(path) as file:
        file.extractall(unpacked)
        for table in (table for ladder, _ in ladders for table in ladder):
            name = f"family/{table.record['model']}/{table.record['corpus']}.parquet"
            if table.record["model"] in absent:
                continue
            sent = read_table(Path(unpacked, name)).columns
            if columns_digest(sent, RANKS) != columns_digest(table.columns, RANKS):
                raise InputError(f"{path} does not hold the ranks of {table.path}: export again.")
    return path


def evening(families, corpora, options):
    """All of it: {"FAMILY/MODEL": why it failed}."""
    folder, lock = results_dir() / "paper", results_dir() / "paper.lock"
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["RBP_LOCK"] = str(lock)
    families = one_each(map(load_family, families), "families")

    # before the first weight
    faults = look(families)
    plans = {family.name: plan(family, corpora, dtype=options.dtype) for family in families}
    for name, whole in plans.items():
        print(f"{name}\n{pd.DataFrame(whole['models'])}\n{pd.Series(whole['total'])}")
        print(*whole["notes"], sep="\n")
    write_text(folder / "plan.json", json.dumps(plans, indent=1) + "\n")
    if options.plan or (faults and not options.go_on):
        return faults

    # the texts, then one model after the other
    for corpus in corpora:
        load_documents(corpus)
    for family in families:
        for model in family.models:
            name = f"{family.name}/{model.name}"
            if name not in faults and (reason := measure(family, model, corpora, options)):
                faults[name] = reason
            print(f"{name}: {faults.get(name, 'measured')}", flush=True)

    # one file to send
    paths = [export(family, corpora, folder) for family in families]
    write_text(folder / "failed.json", json.dumps(faults, indent=1) + "\n")
    archive = results_dir() / "paper.tar"
    with tarfile.open(archive, "w") as file:
        for path in (*paths, folder / "plan.json", folder / "failed.json", lock):
            if path and path.is_file():
                file.add(path, path.name)
    print(
        f"{archive}: {archive.stat().st_size:,} bytes to send, without tokens; "
        "whoever has a model can read the text back from ranks in order"
    )
    return faults


def main(argv=None):
    parser = argparse.ArgumentParser(prog="python -m paper.evening", description=__doc__[:80])
    for name, default in (("--family", FAMILIES), ("--corpus", CORPORA)):
        about = f"names, paths (default: {', '.join(default)})"
        parser.add_argument(name, action="extend", type=names, help=about)
    parser.add_argument("--device", help="cpu, cuda, or auto: spread over all GPUs")
    parser.add_argument("--dtype", help="in place of what the family files say, float32")
    parser.add_argument("--plan", action="store_true", help="look and plan, and measure nothing")
    parser.add_argument("--go-on", action="store_true", help="without models that cannot be had")
    parser.add_argument("--delete-weights", action="store_true", help="of each model once measured")
    options = parser.parse_args(argv)
    # a scheduler's stop reaches the model being measured too
    signal.signal(signal.SIGTERM, signal.default_int_handler)

    def run():
        faults = evening(options.family or FAMILIES, options.corpus or CORPORA, options)
        for name, reason in faults.items():
            print(f"rbp: {name}: {reason}", file=sys.stderr)
        return bool(faults)

    return ended(run)


if __name__ == "__main__":
    raise SystemExit(main())
