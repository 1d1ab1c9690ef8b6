"""`python -m training check`: is the learning-rate rule right at both ends of a ladder? -> `models/checks.json`."""

import json
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

from rbplib.families import write_text
from training import data, ladders, train

FACTORS = ((1.0, 1.0), (0.5, 1.0), (2.0, 1.0), (1.0, 0.5), (1.0, 2.0))  # on the rates of (blocks, token tables)
CHECKED = (ladders.GRID_FAMILY,)


def ends(family):
    """Names of the smallest and the largest size."""
    names = list(ladders.sizes(family))
    return names[0], names[-1]


def one(family, name, blocks, tables):
    """A whole run of the ladder's length: its held-out loss, nats per token; None where it diverged."""
    plan = train.Plan(rate=blocks, table_rate=tables)
    stream, heldout = data.streams()
    checkpoint = data.folder() / family / f"{name}-{blocks:g}-{tables:g}.pt"
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    try:
        _, record = train.train(
            family, ladders.sizes(family)[name], plan, stream, heldout, checkpoint, say=lambda _: None
        )
        return record["heldout_loss"]
    except RuntimeError:  # the loss was no longer finite
        return None


def every(path, workers=2):
    """All runs that the file does not hold yet; each is written as it ends, so that a stopped check goes on.

    Cost: about twenty-five minutes of one core; a stopped run goes on from its checkpoint.
    """
    data.streams()
    tokens = train.Plan.tokens
    found = json.loads(path.read_text()) if path.is_file() else {}
    if found.get("tokens") != tokens:
        found = {"tokens": tokens, "runs": []}
    done = {(r["family"], r["size"], r["blocks"], r["tables"]) for r in found["runs"]}
    wanted = [(family, name, *pair) for family in CHECKED for name in ends(family) for pair in FACTORS]
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        running = {pool.submit(one, *run): run for run in wanted if run not in done}
        for future in as_completed(running):
            family, name, blocks, tables = running[future]
            run = {"family": family, "size": name, "blocks": blocks, "tables": tables, "heldout_loss": future.result()}
            found["runs"] = sorted([*found["runs"], run], key=lambda r: wanted.index(tuple(r.values())[:4]))
            lines = ",\n  ".join(json.dumps(r) for r in found["runs"])
            write_text(path, f'{{"tokens": {tokens}, "runs": [\n  {lines}\n]}}\n')
            print(f"{family} {name}: blocks x{blocks:g}, tables x{tables:g}: {run['heldout_loss']}", flush=True)


def largest_gain(found):
    """The most that another pair of rates lowers the held-out loss of a size, in nats; 0 where the rule is best."""
    losses = {(r["family"], r["size"], r["blocks"], r["tables"]): r["heldout_loss"] for r in found["runs"]}
    gains = [losses[(*key[:2], 1.0, 1.0)] - loss for key, loss in losses.items() if loss]
    return max(gains, default=0.0)


def rows(found):
    """Lines of the README's table: a line per family and end, a column per pair of factors."""
    losses = {(r["family"], r["size"], r["blocks"], r["tables"]): r["heldout_loss"] for r in found["runs"]}
    for family in CHECKED:
        for name in ends(family):
            cells = [losses.get((family, name, *pair), "") for pair in FACTORS]
            if any(c != "" for c in cells):
                shown = ("" if c == "" else "diverged" if c is None else f"{c:.3f}" for c in cells)
                yield f"| {family} | {name} | " + " | ".join(shown) + " |"
