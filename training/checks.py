"""`python -m training check`: is the learning-rate rule right at both ends of a ladder?

Written to `models/checks.json`.
"""

import json
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

from rbplib.families import write_text
from training import data, ladders, train

FAMILY = ladders.GRID_FAMILY
RULE = (1.0, 1.0)  # factors on the rates of (blocks, token tables)
FACTORS = (RULE, (0.5, 1.0), (2.0, 1.0), (1.0, 0.5), (1.0, 2.0))


def ends():
    """Names of the smallest and the largest size."""
    names = list(ladders.sizes(FAMILY))
    return names[0], names[-1]


def run(name, blocks, tables):
    """A whole run of the ladder's length: its held-out loss in nats; None where it diverged."""
    plan = train.Plan(rate=blocks, table_rate=tables)
    stream, heldout = data.streams()
    checkpoint = data.folder() / FAMILY / f"{name}-{blocks:g}-{tables:g}.pt"
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    size = ladders.sizes(FAMILY)[name]
    try:
        _, record = train.train(FAMILY, size, plan, stream, heldout, checkpoint, say=str)
    except RuntimeError:  # the loss was no longer finite
        return None
    return record["heldout_loss"]


def losses(checked):
    """{(size, blocks, tables): held-out loss} of the file's contents."""
    return {(r["size"], r["blocks"], r["tables"]): r["heldout_loss"] for r in checked["runs"]}


def every(path, workers=2):
    """All runs that the file does not hold yet; each is written as it ends.

    Cost: about twenty-five minutes of one core; a stopped run goes on from its checkpoint.
    """
    data.streams()
    checked = json.loads(path.read_text()) if path.is_file() else {}
    if checked.get("tokens") != train.Plan.tokens:
        checked = {"tokens": train.Plan.tokens, "runs": []}
    wanted = [(name, *factors) for name in ends() for factors in FACTORS]
    missing = [key for key in wanted if key not in losses(checked)]
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        running = {pool.submit(run, *key): key for key in missing}
        for future in as_completed(running):
            name, blocks, tables = running[future]
            record = {"family": FAMILY, "size": name, "blocks": blocks, "tables": tables}
            record["heldout_loss"] = future.result()
            # Keep the runs in one order, whichever ended first.
            checked["runs"].append(record)
            checked["runs"].sort(key=lambda r: wanted.index((r["size"], r["blocks"], r["tables"])))
            lines = ",\n  ".join(json.dumps(r) for r in checked["runs"])
            write_text(path, f'{{"tokens": {checked["tokens"]}, "runs": [\n  {lines}\n]}}\n')
            loss = record["heldout_loss"]
            print(f"{FAMILY} {name}: blocks x{blocks:g}, tables x{tables:g}: {loss}", flush=True)


def largest_gain(checked):
    """The most that other rates lower the loss of a size, in nats; 0 where the rule is best."""
    by_run = losses(checked)
    gains = [by_run[name, *RULE] - loss for (name, *_), loss in by_run.items() if loss]
    return max(gains, default=0.0)


def rows(checked):
    """Lines of the README's table: a line per end of the ladder, a column per pair of factors."""
    by_run = losses(checked)
    for name in ends():
        cells = [FAMILY, name]
        for factors in FACTORS:
            loss = by_run.get((name, *factors), "")
            if loss is None:
                loss = "diverged"
            cells.append(f"{loss:.3f}" if isinstance(loss, float) else loss)
        yield "| " + " | ".join(cells) + " |"
