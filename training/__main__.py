"""`python -m training FAMILY SIZE`, `--all`, `grid`, `check`, `table` or `tokenizer`: makes what `models/` holds."""

import argparse
import os
import sys
from pathlib import Path

from rbplib.families import InputError, nearest, root

# One thread per model; freed blocks are kept, since returning each to the system costs a tenth of the time (glibc).
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "MALLOC_MMAP_THRESHOLD_": "2000000000",
    "MALLOC_TRIM_THRESHOLD_": "4000000000",
}


def one(family, name, plan, out, of_grid=False):
    from training import data, grid, ladders, train

    size = ladders.sizes(family, top=True)[name]
    stream, heldout = data.streams()
    if len(stream) <= plan.tokens:
        raise InputError(f"the training text has {len(stream)} tokens: ask for fewer than that with --tokens.")
    checkpoint = data.folder() / family / f"{name}-{plan.tokens}-{plan.seed}.pt"
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    say = lambda text: print(text, flush=True)  # noqa: E731
    model, record = train.train(family, size, plan, stream, heldout, checkpoint, say=say)
    record["text_digest"] = data.digest(stream[: plan.tokens + 1])
    if of_grid:
        place = grid.folder().joinpath(*ladders.grid_place(family, name, plan.seed, plan.tokens))
    else:
        place = out.joinpath(*ladders.place(family, name, plan.seed))
    train.save_model(model, record, place)
    say(f"{family} {name}: loss {record['train_loss']}, held out {record['heldout_loss']}, {record['wall_seconds']} s")


def every(jobs, args, of_grid=False):
    """Train (family, size, seed, tokens) in turn, `--workers` models at a time, one thread each.

    Each model goes on from its checkpoint, so that a finished one is only written again.
    """
    import subprocess

    from training import data

    data.streams()
    jobs, running = list(jobs), []
    while jobs or running:
        while jobs and len(running) < args.workers:
            family, name, seed, tokens = jobs.pop(0)
            command = [sys.executable, "-m", "training", family, name, "--out", str(args.out)] + ["--grid"] * of_grid
            command += ["--tokens", str(tokens), "--seed", str(seed)]
            environment = {**os.environ, **ENVIRONMENT}
            running.append((family, name, subprocess.Popen(command, env=environment)))
        family, name, process = running[0]
        try:
            process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            running.append(running.pop(0))
            continue
        running.pop(0)
        if process.returncode:
            for _, _, other in running:
                other.terminate()
            raise InputError(f"training {family} {name} stopped with code {process.returncode}; run again to resume.")


def arguments():
    from training.ladders import SEED
    from training.train import Plan

    parser = argparse.ArgumentParser("python -m training", description="Train the embedded models.")
    parser.add_argument(
        "what", nargs="*", metavar="FAMILY SIZE", help="one model, a family, `grid`, `check`, `table` or `tokenizer`"
    )
    parser.add_argument("--all", action="store_true", help="every family and size, and the repeated seeds")
    parser.add_argument("--tokens", type=int, default=Plan.tokens, help="tokens that each model sees")
    seeds = "of the initial weights and the text's order; others than the ladders' go to FAMILY-seeds"
    parser.add_argument("--seed", type=int, default=SEED, help=seeds)
    parser.add_argument("--out", type=Path, default=root() / "models", help="folder of the models")
    parser.add_argument("--grid", action="store_true", help="a model of the grid: written to results/, not to models/")
    parser.add_argument("--workers", type=int, default=2, help="models trained at once")
    return parser.parse_args()


def main():
    from training import data, ladders, train

    args = arguments()
    ladder = lambda f: [(f, n, args.seed, args.tokens) for n in reversed(ladders.sizes(f))]  # noqa: E731
    if args.all:
        again = [(*run, args.tokens) for run in ladders.repeated()]
        return every([run for f in ladders.FAMILIES for run in ladder(f)] + again, args)
    if args.what == ["grid"]:
        from training import grid

        every(ladders.grid(), args, of_grid=True)
        return grid.write()
    if args.what == ["table"]:
        from training import families, table

        families.write(args.out)
        return table.write(args.out)
    if args.what == ["check"]:
        from training import checks

        os.environ.update(ENVIRONMENT)
        return checks.every(args.out / "checks.json", args.workers)
    if args.what == ["tokenizer"]:
        data.make_tokenizer()
        return None
    if not 1 <= len(args.what) <= 2:
        raise InputError("name a family and a size, or give --all.")
    family = args.what[0]
    if family not in ladders.FAMILIES:
        raise InputError(f"there is no family {family!r}: {nearest(family, list(ladders.FAMILIES))}")
    if len(args.what) == 1:
        return every(ladder(family), args)
    if args.what[1] not in (names := list(ladders.sizes(family, top=True))):
        raise InputError(f"{family} has no size {args.what[1]!r}: {nearest(args.what[1], names)}")
    plan = train.Plan(args.tokens, seed=args.seed)
    return one(family, args.what[1], plan, args.out, args.grid)


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
