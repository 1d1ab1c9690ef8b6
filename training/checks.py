"""`python -m training check`: is the learning-rate rule right?

Asked at both ends of a ladder, and at the largest sizes of the grid on its longest texts. Written
to `models/checks.json`.
"""

import json
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from operator import itemgetter

from rbplib.families import write_text
from training import data, grid, ladders, probe, train

FAMILY = ladders.GRID_FAMILY
RULE = (1.0, 1.0)  # factors on the rates of (blocks, token tables)
FACTORS = (RULE, (0.5, 1.0), (2.0, 1.0), (1.0, 0.5), (1.0, 2.0))
# Where a verdict on the longest trainings depends on the rate: (size, tokens), shortest first.
LONGER = [(name, ladders.BUDGETS[n]) for n in ("8m", "16m") for name in ("656k", "1.9M")]
FIELDS = ("size", "tokens", "blocks", "tables")
key_of = itemgetter(*FIELDS)  # of a record of a run


def ends():
    """Names of the smallest and the largest size."""
    names = list(ladders.sizes(FAMILY))
    return names[0], names[-1]


def wanted():
    """(size, tokens, blocks, tables) of every run."""
    runs = [(name, train.Plan.tokens, *factors) for name in ends() for factors in FACTORS]
    return runs + [(*run, *factors) for run in LONGER for factors in (RULE, (2.0, 1.0))]


def of_grid(name, tokens):
    """Held-out loss of a training of the grid, which kept the rule."""
    for _, record in grid.records():
        if (record["size"], record["tokens"], record["seed"]) == (name, tokens, ladders.SEED):
            return record["heldout_loss"]


def run(name, tokens, blocks, tables):
    """A whole run: what is kept of it. Its held-out loss in nats is None where it diverged.

    Of a longer run also the copying of shuffled strings and both parts of the held-out loss, as
    `training.probe` has them.
    """
    record = {"family": FAMILY, "size": name, "tokens": tokens, "blocks": blocks, "tables": tables}
    # a run of the grid itself is there already
    if (name, tokens) in LONGER and (blocks, tables) == RULE:
        return record | {"heldout_loss": of_grid(name, tokens)}
    # any other is trained
    plan = train.Plan(tokens, rate=blocks, table_rate=tables)
    stream, heldout = data.training_streams(tokens)
    checkpoint = data.folder() / FAMILY / f"{name}-{tokens}-{blocks:g}-{tables:g}.pt"
    size = ladders.sizes(FAMILY, top=True)[name]
    try:
        model, trained = train.train(FAMILY, size, plan, stream, heldout, checkpoint)
    except RuntimeError:  # the loss was no longer finite
        return record | {"heldout_loss": None}
    record["heldout_loss"] = trained["heldout_loss"]
    # copying, and both parts of the text
    if (name, tokens) in LONGER:
        for _, what, part, _, value, *_ in probe.Probe(heldout)(model, 0):
            if (what, part) in (("copying", "shuffled"), ("loss", "copyable"), ("loss", "other")):
                record["copying" if what == "copying" else part] = round(value, 4)
    return record


def losses(checked):
    """{(size, tokens, blocks, tables): held-out loss} of the file's contents."""
    return {key_of(r): r["heldout_loss"] for r in checked["runs"]}


def every(path, workers=2):
    """All runs that the file does not hold yet; each is written as it ends.

    Cost: about twenty-five minutes of one core for the ends of a ladder and fifty for the longer
    runs; a stopped run goes on from its checkpoint.
    """
    data.streams()
    checked = json.loads(path.read_text()) if path.is_file() else {"runs": []}
    done = list(map(key_of, checked["runs"]))
    missing = [key for key in wanted() if key not in done]
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for future in as_completed([pool.submit(run, *key) for key in missing]):
            # Keep the runs in one order, whichever ended first.
            checked["runs"].append(future.result())
            checked["runs"].sort(key=lambda r: wanted().index(key_of(r)))
            lines = ",\n  ".join(json.dumps(r) for r in checked["runs"])
            write_text(path, f'{{"runs": [\n  {lines}\n]}}\n')
            print(future.result(), flush=True)


def largest_gain(checked):
    """The most that other rates lower the loss of a run, in nats; 0 where the rule is best."""
    by_run = losses(checked)
    gains = [by_run[*key[:2], *RULE] - loss for key, loss in by_run.items() if loss]
    return max(gains, default=0.0)


def rows(checked):
    """Lines of the README's table: a line per size and tokens, a column per pair of factors."""
    by_run = losses(checked)
    for name, tokens in dict.fromkeys(key[:2] for key in wanted()):
        cells = [FAMILY, name, f"{tokens:,}"]
        for factors in FACTORS:
            loss = by_run.get((name, tokens, *factors), "")
            if loss is None:
                loss = "diverged"
            cells.append(f"{loss:.3f}" if isinstance(loss, float) else loss)
        yield "| " + " | ".join(cells) + " |"
