"""`python -m training`: makes what `models/`, `published/ranks/` and `published/probes/` hold."""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from rbplib.cli import Parser
from rbplib.families import InputError, check_choice, one_at_a_time, root

# One thread per model; freed blocks are kept, since returning each to the system costs a tenth of
# the time (glibc).
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "MALLOC_MMAP_THRESHOLD_": "2000000000",
    "MALLOC_TRIM_THRESHOLD_": "4000000000",
}
WHAT = "one model, a family, `grid`, `check`, `vocabularies`, `table` or `tokenizer`"
EPILOG = """
RBP_TRAINING names the folder of the text, the checkpoints and what else a run leaves (by default
results/training). The first run makes the text: two minutes of a core, 2.6 GB of memory. Sizes that
are probed, of nano-pythia: 79k, 200k, 656k, 1.9M and 4.8M; `--probe 79k --seed 45` takes seven
minutes, and to try it out, with `--tokens 409600 --out /tmp/try` as well, half a minute.
"""


def at_least(least):
    """A type of `argparse`: a whole number, at least so large."""

    def number(text):
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number of {least:,} or above")
        return int(text)

    return number


def arguments():
    from training.ladders import CONTEXT, PROBED_TOKENS, SEED
    from training.train import Plan

    parser = Parser(prog="python -m training", description="Train models.", epilog=EPILOG)
    add, kind = parser.add_argument, parser.add_mutually_exclusive_group().add_argument
    add("what", nargs="*", const=[], metavar="FAMILY SIZE", help=WHAT)
    kind("--all", action="store_true", help="every family and size, and the repeated seeds")
    kind("--grid", action="store_true", help="a model of the grid: to results/, not to models/")
    kind("--probe", action="store_true", help="train and probe one size, or all that are probed")
    add(
        "--tokens",
        type=at_least(Plan.batch * CONTEXT),
        help=f"seen by each model (default: {Plan.tokens:,}; probed: {PROBED_TOKENS:,})",
    )
    add("--batch", type=at_least(1), default=Plan.batch, help="windows a step, if probed")
    add("--seed", type=at_least(0), default=SEED, help="of the initial weights, the text's order")
    add("--out", type=Path, help="folder of the models, or of the probes' records")
    add("--workers", type=at_least(1), default=2, help="models trained at once")
    args = parser.parse_args()
    # what hangs on another option: where whole trainings are kept no trial goes
    kept, tokens = "models/", Plan.tokens
    if args.probe:
        kept, tokens = "published/probes/", PROBED_TOKENS
    if not (args.out or args.grid) and args.tokens not in (None, tokens):
        raise InputError(
            f"{kept} keeps trainings of {tokens:,} tokens: "
            "for fewer or more, name a folder of its own with --out."
        )
    args.out, args.tokens = args.out or root() / kept, args.tokens or tokens
    return args


def train_one(family, name, args):
    """Train one model and write it to its folder in `args.out`, or in the grid."""
    from training import data, grid, ladders, train

    # trained from where a stopped run was
    plan = train.Plan(args.tokens, seed=args.seed)
    stream, heldout = data.training_streams(plan.tokens)
    checkpoint = data.folder() / family / f"{name}-{plan.tokens}-{plan.seed}.pt"
    size = ladders.sizes(family, top=True)[name]
    # its folder, which can be written
    if args.grid:
        names = ladders.grid_folder_names(family, name, plan.seed, plan.tokens)
        path = grid.folder().joinpath(*names)
    else:
        path = args.out.joinpath(*ladders.folder_names(family, name, plan.seed))
    with one_at_a_time(path):
        model, record = train.train(family, size, plan, stream, heldout, checkpoint)
        record["text_digest"] = data.digest(stream[: plan.tokens + 1])
        train.save_model(model, record, path)
    losses = f"loss {record['train_loss']}, held out {record['heldout_loss']}"
    print(f"{family} {name}: {losses}, {record['wall_seconds']} s", flush=True)


def train_all(jobs, args, flags=()):
    """Train (family, size, seed, tokens) in turn, `--workers` at a time, each in its own process.

    Each goes on from its checkpoint, so that a finished one is only written again.
    """
    from training import data

    data.streams()
    jobs, running = list(jobs), []
    while jobs or running:
        # Begin as many as may run.
        while jobs and len(running) < args.workers:
            family, name, seed, tokens = jobs.pop(0)
            command = [sys.executable, "-m", "training", family, name, "--out", str(args.out)]
            command += ["--tokens", str(tokens), "--seed", str(seed), *flags]
            process = subprocess.Popen(command, env={**os.environ, **ENVIRONMENT})
            running.append((f"{family} {name}", process))
        time.sleep(1)
        # Go on where one has ended; a failed one ends all.
        for job in [job for job in running if job[1].poll() is not None]:
            running.remove(job)
            if job[1].returncode:
                for _, other in running:
                    other.terminate()
                raise InputError(
                    f"training {job[0]} stopped with code {job[1].returncode}; run again to resume."
                )


def train_named(words, args):
    """A family, or one model of it."""
    from training import ladders

    # which family
    if not 1 <= len(words) <= 2:
        raise InputError("name a family and a size, or give --all.")
    family = words[0]
    # all its sizes, or the one that is named
    if len(words) == 1:
        return train_all(ladder(family, args), args)
    check_choice(words[1], list(ladders.sizes(family, top=True)), f"size of {family}")
    return train_one(family, words[1], args)


def ladder(family, args):
    """Jobs of a family's sizes, largest first."""
    from training import ladders

    names = reversed(ladders.sizes(family))
    return [(family, name, args.seed, args.tokens) for name in names]


def train_everything(args):
    from training import ladders

    jobs = []
    for family in ladders.FAMILIES:
        jobs += ladder(family, args)
    jobs += [(*run, args.tokens) for run in ladders.repeated()]
    train_all(jobs, args)


def train_probed(words, args):
    """Every run that is probed, or the one whose size is named."""
    from training import ladders, probe, train

    # all of them
    if not words:
        jobs = [(*run, args.tokens) for run in ladders.probed()]
        return train_all(jobs, args, ["--probe", "--batch", str(args.batch)])
    # the one that is named
    names = list(ladders.sizes_to_probe())
    if words[:-1] not in ([], [ladders.PROBED_FAMILY]) or words[-1] not in names:
        raise InputError(
            f"{' '.join(words)!r} is not probed: "
            f"name a size of {ladders.PROBED_FAMILY}, {', '.join(names)}."
        )
    return probe.run(words[-1], train.Plan(args.tokens, args.batch, seed=args.seed), args.out)


def make_grid(args):
    from training import grid, ladders

    train_all(ladders.grid(), args, ["--grid"])
    grid.write()


def make_checks(args):
    from training import checks

    os.environ.update(ENVIRONMENT)
    checks.every(args.out / "checks.json", args.workers)


def make_vocabularies(args):
    from training import vocabularies

    vocabularies.every()


def make_table(args):
    from training import families, table

    families.write(args.out)
    table.write(args.out)


def make_tokenizer(args):
    from training import data

    data.make_tokenizer()


PARTS = {
    "grid": make_grid,
    "check": make_checks,
    "vocabularies": make_vocabularies,
    "table": make_table,
    "tokenizer": make_tokenizer,
}


def main():
    args = arguments()
    if args.probe:
        train_probed(args.what, args)
    elif args.all:
        train_everything(args)
    elif len(args.what) == 1 and args.what[0] in PARTS:
        PARTS[args.what[0]](args)
    else:
        train_named(args.what, args)


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
