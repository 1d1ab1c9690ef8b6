"""The large ladder: sizes over 3.7 decades, each on 200 million tokens, in a quarter of an hour of a GPU.

    python -m training.large carry [--text FILE]           write what travels to a machine with a GPU: token ids
    python -m training.large run --out FOLDER [--small]    train it there; run again, it goes on where it was stopped

The recipe is that of the ladders (`training.train`): bf16 weights, fp32 master weights, AdamW, the same learning rates.
Three things differ. The text is read about twelve times, shuffled anew each time, so losses at the end are of repeated
text. A step holds 32,768 tokens in place of 2,048, and the learning rates were not tuned for that. Attention and the
head's products are torch's own. Models are trained in processes of their own, four at once or one after the other.

Time is a budget. Some steps and a look at every size are timed first, four at once, then one size alone: whether one
process fills the gaps that another leaves on the device is seen, and the faster way taken. Where the whole would take
longer than there is, the repeats are left out first, then all sizes get fewer tokens, down to half, and below that
the largest is left out. The record says so. Where one call may not last as long, --stop-after ends it sooner, and the
next one goes on with the same plan. Run again with more time, the plan is made anew, and models trained by another plan
stay where they are. What is left of the models: counts of their ranks on three corpora as `rbp import`
takes them, the counts at marks on the way, the record of every training, and the weights of those that fit.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from datetime import date
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch

from rbplib.curve import k_grid
from rbplib.exchange import counted, read_counts, write_counts
from rbplib.families import InputError, atomic_path, write_text
from rbplib.inputs import one_at_a_time, stopped_by
from rbplib.measuring import Task, measure_windows
from rbplib.sharing import RUN_KS
from rbplib.stored import COLUMNS, RankTable, checked_columns, digests
from training import data, ladders, train
from training.budget import faster_way, renewed
from training.carried import carried_file, carry, check_times, read_text
from training.children import INCOMPLETE, with_parent

FAMILY, NAME = ladders.GRID_FAMILY, f"{ladders.GRID_FAMILY}-200m"
END = 40  # seconds kept for the counts at the end
MOST_BYTES = 15_000_000  # of the file of weights
AGREE = 0.02  # nats by which the losses of recorded steps may differ from those of steps launched one by one


@dataclass(frozen=True)
class Recipe:
    """What is trained. seeds: of the repeated sizes, which are named by their places; marks: shares of the steps at
    which a model is looked at on its way; workers: models at once, 0: in this process."""

    rungs: tuple = ladders.LARGE
    tokens: int = 6144 * 32_768
    batch: int = 128
    repeated: tuple = (2, 5)
    seeds: tuple = (ladders.SEED, *ladders.OTHER_SEEDS)
    marks: tuple = (1 / 16, 1 / 8, 1 / 4, 1 / 2)
    every: int = 32
    workers: int = 4

    def plan(self, text, tokens=None, seed=ladders.SEED):
        return train.Plan(tokens or self.tokens, self.batch, seed=seed, text=(len(text.stream) - 1))

    def sizes(self):
        return sizes_of(self.rungs)

    def jobs(self, sizes, seeds=None):
        """(name of a size, seed), largest first and repeats last: what the clock cuts off is what is missed least.

        seeds: how many of them, all by default.
        """
        names = list(self.sizes())
        again = [(names[i], seed) for i in reversed(self.repeated) for seed in self.seeds[1:seeds]]
        return [(n, self.seeds[0]) for n in reversed(names) if n in sizes] + [job for job in again if job[0] in sizes]


@cache
def sizes_of(rungs):
    return ladders.named(FAMILY, rungs)


SMALL = Recipe(
    ladders.RUNGS[:2], tokens=8 * 512, batch=2, repeated=(0, 1), seeds=(42, 43), marks=(0.5,), every=4, workers=0
)


def save_arrays(path, **arrays):
    """np.savez, whole or not at all: another process may read the folder meanwhile."""
    with atomic_path(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, **arrays)


def place_of(out, said, name, seed):
    """Beginning of the paths of a model's files; those of plans with other tokens are in other folders."""
    return work_of(out) / str(said["tokens"]) / f"{name}-{seed}"


def work_of(out):
    """Folder beside that of the results: checkpoints, which are many and large, and what the results are made of."""
    return out.with_name(f"{out.name}.work")


def on_device(array, device):
    return array if device == "cpu" else torch.from_numpy(array.astype(np.int64)).to(device)


@torch.no_grad()
def rank_tables(model, evaluation, name):
    """{corpus: RankTable} of a model in training, measured in float32 as the other ladders are."""
    import copy

    net = copy.deepcopy(model).float().eval()
    if net.device.type == "cuda":
        net.set_attn_implementation("sdpa")
    loaded, found = SimpleNamespace(model=net, device=net.device), {}
    sizes = {"nonembedding_params": ladders.nonembedding_parameters(net)}
    sizes |= {"total_params": sum(p.numel() for p in net.parameters()), "vocab_size": net.config.vocab_size}
    bar = SimpleNamespace(update=lambda n: None)
    for corpus, (about, windows) in evaluation.items():
        task, special = Task(None, None, None, {"head_dtype": "float32"}), frozenset(about["special"])
        batch = 4096 if net.device.type == "cpu" else 65_536
        columns, _ = measure_windows(loaded, list(windows.windows), special, batch, bar, task)
        columns = checked_columns(columns, sizes["vocab_size"])
        record = about | sizes | {"family": NAME, "model": name, "model_id": name}
        record |= {"scored_tokens": len(columns["token"])}
        record |= {"sha256": digests(lambda _, columns=columns: [columns])[1]}
        found[corpus] = RankTable(**{n: columns[n] for n in COLUMNS}, record=record)
    return found


def marked(tables, step):
    """Arrays of what is kept of a model on its way, {corpus.step.what: array}: rank histogram, and loss in nats."""
    found = {}
    for corpus, table in tables.items():
        found[f"{corpus}.{step}.pairs"] = table.pairs.astype(np.int32)
        found[f"{corpus}.{step}.loss"] = np.array(table.nll.sum() / len(table))
    return found


def finished(place):
    """The record of a model of which every file is there and can be read; or None: it is trained again."""
    from safetensors import safe_open

    try:
        record = json.loads(Path(f"{place}.json").read_text())
        with np.load(f"{place}.counts.npz") as held, safe_open(f"{place}.safetensors", "np") as weights:
            return record if record["tables"] and [held[key] for key in held] and weights.keys() else None
    except Exception:  # a missing or damaged file
        return None


def one(recipe, text, name, seed, out, device="cpu", until=math.inf, said=None):
    """Train one model as `said` in the plan; its files are beside out, see `work_of`. True when it is finished."""
    from safetensors.torch import save

    said = said or json.loads((work_of(out) / "plan.json").read_text())
    plan, place = recipe.plan(text, said["tokens"], seed), place_of(out, said, name, seed)
    if finished(place):
        return True
    if time.time() >= until:
        return False
    place.parent.mkdir(parents=True, exist_ok=True)
    at = {max(1, round(share * plan.steps / recipe.every)) * recipe.every for share in recipe.marks}

    def look(model, step):
        if step in at:
            save_arrays(f"{place}.{step}.npz", **marked(rank_tables(model, text.evaluation, name), step))

    stream, heldout = (on_device(part, device) for part in (text.stream, text.heldout))
    model, record = train.train(
        FAMILY, recipe.sizes()[name], plan, stream, heldout, Path(f"{place}.pt"), every=recipe.every,
        say=lambda words: print(words, flush=True), device=device, graph=said["graphs"], until=until, look=look,
    )  # fmt: skip
    if record["steps"] < plan.steps:
        return False
    tables = rank_tables(model, text.evaluation, name)
    save_arrays(f"{place}.{plan.steps}.npz", **marked(tables, plan.steps))
    arrays, records = {}, {}
    for corpus, table in tables.items():
        records[corpus] = table.record | {"text": table.text}
        found = counted(table, k_grid(table.record["vocab_size"], 3), RUN_KS, True)
        arrays |= {f"{corpus}/{what}": array for what, array in found.items()}
    save_arrays(f"{place}.counts.npz", **arrays)
    with atomic_path(f"{place}.safetensors") as temporary:
        temporary.write_bytes(save({n: p.detach().clone().cpu().contiguous() for n, p in model.state_dict().items()}))
    record |= {"size": name, "passes": round(record["tokens"] / plan.text, 2)}
    record |= {"batch_tokens": plan.batch * ladders.CONTEXT}
    graphs = said["graphs"] and "not_recorded" not in record
    record |= {"text_digest": data.digest(text.stream), "text_tokens": plan.text, "graphs": graphs}
    write_text(Path(f"{place}.json"), json.dumps(record | {"tables": records}))
    return True


def timed_steps(recipe, text, name, device, graph, seconds, steps):
    """(model, seconds of a step, losses of the first steps) of one size."""
    stream, plan = on_device(text.stream, device), recipe.plan(text)
    order = plan.order()[: 64 * plan.batch].reshape(-1, plan.batch)
    order = order if device == "cpu" else torch.from_numpy(order).to(device)
    model, master = train.prepare(FAMILY, recipe.sizes()[name], plan, device)
    step = train.stepper(model, master, train.windows(stream, order[0]), graph)
    first = [step(train.windows(stream, order[i]), plan.factor(i)) for i in range(min(steps, len(order)))]
    losses, began, done = [loss.item() for loss in first], time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        for i in range(steps):
            loss = step(train.windows(stream, order[(done + i) % len(order)]), plan.factor(0))
        done += steps
        loss.item()  # waits for the device
    return model, (time.perf_counter() - began) / done, losses


def probe(recipe, text, name, device="cpu", seconds=3.0, steps=8, keep=lambda found: None):
    """Seconds of a step of one size and of a look at it, {"eager": s, "graph": s or why there is none, "look": s}.

    keep: called with what is known before steps are recorded, which may end the process.
    """
    model, eager, losses = timed_steps(recipe, text, name, device, False, seconds, steps)
    began = time.perf_counter()
    rank_tables(model, text.evaluation, name)
    train.heldout_loss(model, on_device(text.heldout, device))  # of the last look only
    found = {"eager": eager, "look": time.perf_counter() - began}
    if device == "cpu":
        return found
    keep(found | {"graph": "the process that recorded steps ended"})
    try:
        _, found["graph"], others = timed_steps(recipe, text, name, device, True, seconds, steps)
        if max(abs(a - b) for a, b in zip(losses, others, strict=True)) > AGREE:
            found["graph"] = f"its losses differ from those of steps launched one by one by more than {AGREE} nats"
    except Exception as error:  # whatever a device says to being recorded: steps launched one by one are there
        found["graph"] = " ".join(f"{type(error).__name__}: {error}".split())[:200]
    return found


def in_processes(workers, commands, options, ended=lambda: None, until=math.inf):
    """Run `python -m training.large COMMAND ...`, some at once: {command: what was wrong} of those that failed.

    ended: called when one has ended, by one thread at a time. until: time from which none is begun.
    """
    environment, lock = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}, threading.Lock()

    def run(command):
        if time.time() >= until:
            return command, None
        line = [sys.executable, "-m", "training.large", *command, *options]
        done = subprocess.run(line, env=environment, capture_output=True, text=True, preexec_fn=with_parent())
        print(done.stdout, end="", flush=True)
        with lock:
            try:
                ended()
            except Exception as error:  # what is wrong with one file ends no training; the end of the run tells it
                print(f"not gathered: {type(error).__name__}: {error}", flush=True)
        wrong = done.returncode and (done.stderr.strip().splitlines() or [f"code {done.returncode}"])[-1]
        if wrong:
            print(f"{' '.join(command[:2])}: {wrong}", flush=True)
        return command, wrong

    with ThreadPoolExecutor(workers) as pool:
        return {command: wrong for command, wrong in pool.map(run, commands) if wrong}


def note_of(tokens, text):
    """What the record says of the tokens that every size was trained on."""
    if tokens <= text:
        return f"every size on {tokens:,} tokens of a text of {text:,}, none of it twice"
    return f"every size on {tokens:,} tokens, a text of {text:,} read about {tokens / text:.1f} times"


def gather(recipe, out, failed=()):
    """Write what there is of the ladder so far: ladder.json, .counts, _checkpoints.npz and _weights.safetensors."""
    said = json.loads((work_of(out) / "plan.json").read_text())
    place = {job: place_of(out, said, *job) for job in recipe.jobs(said["sizes"], said["seeds"])}
    found = {job: record for job, path in place.items() if (record := finished(path))}
    done = sorted(found, key=lambda job: (list(recipe.sizes()).index(job[0]), job[1]))
    records = [found[job] for job in done]
    tables = [r.pop("tables") for r in records]
    missing = [f"{n}-{s}" for n, s in place if (n, s) not in done]
    whole = {"family": NAME, "recipe": asdict(recipe), "plan": said, "failed": dict(failed), "not_finished": missing}
    weights = keep_weights({n: place[n, s] for n, s in done if s == recipe.seeds[0]}, out)
    note = note_of(said["tokens"], records[0]["text_tokens"]) if records else ""
    marks, torn = {}, []
    for (n, s), path in place.items():
        for mark in sorted(path.parent.glob(f"{path.name}.[0-9]*.npz")):
            try:
                with np.load(mark) as held:
                    marks |= {f"{n}-{s}/{key}": held[key] for key in held}
            except Exception:  # a damaged file
                torn.append(mark.name)
    whole |= {"note": note, "weights": weights, "unreadable": torn, "models": records}
    write_text(out / "ladder.json", json.dumps(whole, indent=1) + "\n")
    if marks:
        with atomic_path(out / "ladder_checkpoints.npz") as temporary, open(temporary, "wb") as file:
            np.savez_compressed(file, **marks)
    if records:
        write_family(recipe, out, note, {job: (place[job], t) for job, t in zip(done, tables, strict=True)})
    return missing


def keep_weights(first, out, most=MOST_BYTES):
    """Put the weights of the first seed, smallest sizes first, in one file of at most so many bytes: their names."""
    from safetensors.torch import load_file, save

    kept, held, size = [], {}, 0
    for n, place in first.items():
        path = Path(f"{place}.safetensors")
        size += path.stat().st_size
        if size <= most:
            held |= {f"{n}/{name}": tensor for name, tensor in load_file(path).items()}
            kept.append(n)
    if held:
        with atomic_path(out / "ladder_weights.safetensors") as temporary:
            temporary.write_bytes(save(held, {"family": NAME, "dtype": "bfloat16"}))
    return kept


def write_family(recipe, out, note, done):
    """The counts file of the finished models, with the repeats of a size as a role of their own; read back at once."""
    first = [job for job in done if job[1] == recipe.seeds[0]]
    if not first:
        return
    again = {n for n, s in done if s != recipe.seeds[0]}
    roles = {"family": first} | ({"repeats": [job for job in done if job[0] in again]} if again else {})
    names = {role: [n if s == recipe.seeds[0] else f"{n}-{s}" for n, s in jobs] for role, jobs in roles.items()}
    entries = []
    for role, jobs in roles.items():
        for corpus in done[jobs[0]][1]:
            for job, name in zip(jobs, names[role], strict=True):
                place, records = done[job]
                with np.load(f"{place}.counts.npz") as held:
                    arrays = {key.partition("/")[2]: held[key] for key in held if key.startswith(f"{corpus}/")}
                if name != names[role][-1]:
                    arrays["sourced"] = np.zeros((3, 0), int)
                entries.append((role, records[corpus] | {"model": name, "model_id": name}, arrays))
    about = {"name": NAME, "title": f"{FAMILY}, the large ladder", "note": note}
    about = {"family": about, "models": names, "by": "this project", "exported": date.today().isoformat()}
    write_counts(out / "ladder.counts", about, entries)
    read_counts(out / "ladder.counts")  # refused here where a page would refuse it


def read_json(path):
    """What a file of ours holds; None where there is none, or a damaged one: what it told is found out again."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


def settled(recipe, text, work, options, device, minutes, ends, until):
    """The plan, and {command: what was wrong} of sizes that could not be timed: the plan that was begun, or a new one
    where there is more time than it was made for. What is timed is kept. ends: of the time to plan for; until: of this
    call."""
    file, names, failed = work / "plan.json", list(recipe.sizes()), {}
    of = json.loads(json.dumps({"recipe": asdict(replace(recipe, workers=0)), "text": data.digest(text.stream)}))
    old = read_json(file)
    if old and old.get("of") != of:
        raise InputError(f"{work} holds a ladder of another recipe or another text: name another --out.")
    if old and minutes <= old["minutes"]:
        return old, failed
    untimed = [n for n in reversed(names) if not read_json(work / f"{n}.probe")]
    if recipe.workers:
        failed = in_processes(recipe.workers, [("probe", n) for n in untimed], options, until=until)
    else:
        for n in untimed:
            write_text(work / f"{n}.probe", json.dumps(probe(recipe, text, n, device, seconds=0.05, steps=2)))
    timed = {n: told for n in names if (told := read_json(work / f"{n}.probe"))}
    if recipe.workers and any(n not in timed and ("probe", n) not in failed for n in names):
        raise InputError("there was no time to time every size: run again, what was timed is kept.")
    some, alone = names[-min(recipe.workers, len(names))], {}  # the smallest of those timed at once first
    if recipe.workers > 1 and some in timed:
        if not read_json(work / f"{some}.alone"):
            in_processes(1, [("probe", some, "--alone")], options, until=until)
        alone = {some: told} if (told := read_json(work / f"{some}.alone")) else {}
    new = faster_way(recipe, timed, alone, ends - time.time(), old["tokens"] if old else 0)
    new |= {"timed": timed, "alone": alone, "of": of}
    said = (renewed(old, new) if old else new) | {"minutes": minutes}
    write_text(file, json.dumps(said))
    return said, failed


def run(recipe, out, minutes=15.0, device=None, text_file=None, small=False, say=print, stop_after=None):
    """The whole ladder within some minutes; what was done before in `out` stands. Returns 0 when every model is
    finished, INCOMPLETE where time alone was missing (run again, it goes on), 1 where a process failed.

    minutes: what the ladder is planned for, in all. stop_after: seconds after which this call ends itself, as many by
    default; the next one with the same minutes goes on with the same plan.
    """
    began = time.time()
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    text, ends = read_text(text_file, small), began + 60 * minutes - END
    until = ends if stop_after is None else began + stop_after - END
    work, options = work_of(out), ["--out", str(out), "--device", device, "--workers", str(recipe.workers)]
    for folder in (out, work):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"--out {out}: results cannot be written there ({error.strerror}).") from None
    options += ["--small"] * small + (["--text", str(text_file)] if text_file else [])
    with one_at_a_time(work / "plan.json", wait=False) as mine:
        if not mine:
            raise InputError(f"another process trains the ladder of {out}: wait until it ends, or name another --out.")
        said, failed = settled(recipe, text, work, options, device, minutes, ends, until)
        gather(recipe, out)
        say("; ".join(said["words"]) + f"; about {said['expected_seconds']:.0f} s")
        return train_all(recipe, text, out, said, failed, options, device, until, say)


def train_all(recipe, text, out, said, failed, options, device, until, say):
    began, jobs = time.time(), recipe.jobs(said["sizes"], said["seeds"])
    if recipe.workers:
        commands = [("one", n, "--seed", str(s), "--until", str(until)) for n, s in jobs]
        failed |= in_processes(said["workers"], commands, options, lambda: gather(recipe, out), until)
    else:
        for n, s in jobs:
            one(recipe, text, n, s, out, device, until, said)
    missing = gather(recipe, out, {" ".join(command[:2]): wrong for command, wrong in failed.items()})
    say(f"ladder: {len(jobs) - len(missing)} models in {time.time() - began:.0f} s" + (
        f", not finished: {', '.join(missing)}" if missing else ""))  # fmt: skip
    return 1 if failed else INCOMPLETE if missing else 0


def main(argv=None):
    parser = argparse.ArgumentParser("python -m training.large", description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=["carry", "run", "one", "probe"])
    parser.add_argument("name", nargs="?", help="a size, for `one` and `probe`")
    parser.add_argument("--out", type=Path, default=Path("gpu-results"), help="folder of the results")
    parser.add_argument("--text", type=Path, help="token ids, as `carry` writes them")
    parser.add_argument("--minutes", type=float, default=15.0, help="that the ladder is planned for, in all")
    parser.add_argument("--stop-after", type=float, help="seconds of this call; run again, it goes on as planned")
    parser.add_argument("--workers", type=int, help="models trained at once; 0: one after the other in this process")
    parser.add_argument("--small", action="store_true", help="a miniature, on the tokens that a checkout holds")
    parser.add_argument("--alone", action="store_true", help="of `probe`: nothing else runs, as is written down")
    parser.add_argument("--device", choices=["cpu", "cuda"])
    parser.add_argument("--seed", type=int, default=ladders.SEED)
    parser.add_argument("--until", type=float, default=math.inf)
    args = parser.parse_args(argv)
    check_times(args, "minutes", "stop_after")
    if args.what == "carry":
        path = args.text or carried_file()
        print(f"{path}: {carry(path) / 1e6:.1f} MB")
        return 0
    recipe = SMALL if args.small else Recipe()
    recipe = replace(recipe, workers=recipe.workers if args.workers is None else args.workers)
    if args.what == "run":
        return run(recipe, args.out, args.minutes, args.device, args.text, args.small, stop_after=args.stop_after)
    text, device = read_text(args.text, args.small), args.device or "cpu"
    if args.what == "probe":
        path = work_of(args.out) / f"{args.name}.{'alone' if args.alone else 'probe'}"
        found = probe(recipe, text, args.name, device, keep=lambda found: write_text(path, json.dumps(found)))
        write_text(path, json.dumps(found))
        return 0
    one(recipe, text, args.name, args.seed, args.out, device, args.until)  # one that the clock stops has not failed
    return 0


def end_at_once(number, frame):
    """Of a signal: one sentence, and the workers end with this process."""
    print("the ladder was stopped: run again, it goes on from its checkpoints.", file=sys.stderr, flush=True)
    os._exit(128 + number)


if __name__ == "__main__":
    stopped_by(end_at_once)
    try:
        sys.exit(main())
    except InputError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
