"""`python -m training FAMILY SIZE`, `--all`, `check`, `table` or `tokenizer`: makes what `models/` holds."""

import argparse
import os
import sys
from pathlib import Path

from rbplib.settings import InputError, nearest, root

# One thread per model; freed blocks are kept, since returning each to the system costs a tenth of the time (glibc).
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "MALLOC_MMAP_THRESHOLD_": "2000000000",
    "MALLOC_TRIM_THRESHOLD_": "4000000000",
}


def one(family, name, plan, out):
    from training import data, ladders, train

    size = ladders.sizes(family)[name]
    stream, heldout = data.streams()
    if len(stream) <= plan.tokens:
        raise InputError(f"the training text has {len(stream)} tokens: ask for fewer than that with --tokens.")
    checkpoint = data.folder() / family / f"{name}-{plan.tokens}-{plan.seed}.pt"
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    say = lambda text: print(text, flush=True)  # noqa: E731
    model, record = train.train(family, size, plan, stream, heldout, checkpoint, say=say)
    record["text_digest"] = data.digest(stream[: plan.tokens + 1])
    train.save_model(model, record, out.joinpath(*ladders.place(family, name, plan.seed)))
    say(f"{family} {name}: loss {record['train_loss']}, held out {record['heldout_loss']}, {record['wall_seconds']} s")


def every(families, args):
    """All sizes of the families, the largest of a family first, `--workers` models at a time, one thread each.

    With `--all` the repeated seeds too.
    Each model goes on from its checkpoint, so that a finished one is only written again.
    """
    import subprocess

    from training import data, ladders

    data.streams()
    jobs = [(f, n, args.seed) for f in families for n in reversed(ladders.sizes(f))]
    jobs += ladders.repeated() if args.all else []
    running = []
    while jobs or running:
        while jobs and len(running) < args.workers:
            family, name, seed = jobs.pop(0)
            command = [sys.executable, "-m", "training", family, name, "--out", str(args.out)]
            command += ["--tokens", str(args.tokens), "--seed", str(seed)]
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
        "what", nargs="*", metavar="FAMILY SIZE", help="one model, a family, `check`, `table` or `tokenizer`"
    )
    parser.add_argument("--all", action="store_true", help="every family and size")
    parser.add_argument("--tokens", type=int, default=Plan.tokens, help="tokens that each model sees")
    seeds = "of the initial weights and the text's order; others than the ladders' go to FAMILY-seeds"
    parser.add_argument("--seed", type=int, default=SEED, help=seeds)
    parser.add_argument("--out", type=Path, default=root() / "models", help="folder of the models")
    parser.add_argument("--workers", type=int, default=2, help="models trained at once")
    return parser.parse_args()


def main():
    from training import data, ladders, train

    args = arguments()
    if args.all:
        return every(list(ladders.FAMILIES), args)
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
        return every([family], args)
    if args.what[1] not in ladders.sizes(family):
        names = list(ladders.sizes(family))
        raise InputError(f"{family} has no size {args.what[1]!r}: {nearest(args.what[1], names)}")
    plan = train.Plan(args.tokens, seed=args.seed)
    return one(family, args.what[1], plan, args.out)


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
