"""`python -m training --probe`: what models can do on their way through training -> `published/probes/`.

Every EVERY steps, and before the first, a model in training is asked two things (`Probe`):

* copying: a string of STRING tokens is read twice, and the loss of the second reading compared with the first's.
* text: loss and ranks on held-out text, apart for the tokens that could be copied from their window and the others.

Probes only read the model: the weights at the end are those of a run without them.
"""

import time

import numpy as np
import torch

from rbplib.ranks.engine import sequence_ranks
from rbplib.settings import write_text
from training import data, ladders, train

EVERY = 200  # steps from one probe to the next: 409,600 tokens
STRINGS, STRING = 32, 64  # strings of each kind, and tokens of a string
KS = (1, 10, 100)
SEED = 42  # of the strings, the same for every run
COLUMNS = ("size", "seed", "tokens", "probe", "part", "k", "value", "se", "total")


def copyable(windows):
    """Whether a token could be copied: its bigram (token before it, token) stood earlier in its window.

        window     a  b  c  a  b  d
        entry         0  0  0  1  0      the second b: "a b" stood before

    Args:
        windows: int64 (B, T + 1), ids of the embedded vocabulary.
    Returns:
        bool (B, T): entry t is of token t + 1.
    """
    bigrams = windows[:, :-1] * ladders.VOCABULARY + windows[:, 1:]  # (B, T)
    # A stable sort puts equal bigrams side by side, the earliest first: all but that one are repeated.
    in_order, places = bigrams.sort(dim=1, stable=True)
    repeated = torch.zeros_like(bigrams, dtype=torch.bool)
    repeated[:, 1:] = in_order[:, 1:] == in_order[:, :-1]
    return torch.zeros_like(repeated).scatter_(1, places, repeated)


def strings(heldout):
    """{kind: int64 (STRINGS, STRING)}: strings to be read twice, none with the separator, id 0.

    random: ids drawn uniformly, none twice in a string. shuffled: tokens of held-out text out of their order.
    excerpt: held-out text as it stands.
    """
    rng = np.random.default_rng(SEED)
    random = [1 + rng.permutation(ladders.VOCABULARY - 1)[:STRING] for _ in range(STRINGS)]
    shuffled = rng.permutation(heldout[heldout != 0])[: STRINGS * STRING].reshape(STRINGS, STRING)
    # Excerpts are drawn from pieces of held-out text that hold no end of a document.
    pieces = heldout[: len(heldout) // STRING * STRING].reshape(-1, STRING)
    pieces = pieces[(pieces != 0).all(1)]
    excerpt = pieces[rng.permutation(len(pieces))[:STRINGS]]
    kinds = {"random": np.stack(random), "shuffled": shuffled, "excerpt": excerpt}
    return {kind: torch.from_numpy(ids.astype(np.int64)) for kind, ids in kinds.items()}


def mean_of_groups(sums, counts):
    """Mean per token of groups of unequal size, float64 (G,), and its standard error over the groups."""
    mean = sums.sum() / counts.sum()
    residuals = sums - mean * counts
    spread = len(sums) / (len(sums) - 1) * (residuals**2).sum()
    return (mean.item(), spread.sqrt().item() / counts.sum().item())


class Probe:
    """What is asked of a model in training; called as `look` of `training.train.train`.

    heldout: uint16 (n,), held-out tokens. every: steps between two probes. pause: a path; training waits while there
    is a file.
    """

    def __init__(self, heldout, every=EVERY, pause=None):
        numbers = np.arange((len(heldout) - 1) // ladders.CONTEXT)
        self.windows = train.windows(heldout, numbers)  # (B, T + 1)
        self.read_twice = {kind: torch.cat([ids, ids], 1) for kind, ids in strings(heldout).items()}
        self.every, self.pause = every, pause

    def __call__(self, model, step):
        """Rows (step, probe, part, k, value, se, total) of the steps that are probed, else none."""
        while self.pause is not None and self.pause.exists():
            time.sleep(2)
        if step % self.every:
            return []
        # Ranks are of the 16-bit weights in 32-bit arithmetic, as the finished models are measured.
        config = type(model.config).from_dict(model.config.to_dict())
        twin = type(model)(config).eval()
        twin.load_state_dict(model.state_dict())
        rows = [*self.copying(twin), *self.text(twin)]
        return [(step, *row) for row in rows]

    def copying(self, model):
        """Rows of strings read twice: loss of both readings and the second less the first, nats per token.

        The first token of a reading is left out: nothing says that the string begins again.
        """
        for kind, windows in self.read_twice.items():
            losses = -sequence_ranks(model, windows).logprob.double()  # (STRINGS, 2 STRING - 1)
            first, second = losses[:, : STRING - 1], losses[:, STRING:]
            values = {"first_reading": first, "second_reading": second, "copying": second - first}
            counts = torch.full((STRINGS,), STRING - 1.0, dtype=torch.float64)
            for probe, losses_of in values.items():
                mean, se = mean_of_groups(losses_of.sum(1), counts)
                yield probe, kind, "", mean, se, losses_of.numel()

    def text(self, model):
        """Rows of held-out text: loss in nats per token, and whole numbers of hits, rank = greater + ties <= k."""
        ranks = sequence_ranks(model, self.windows)
        losses, rank = -ranks.logprob.double(), ranks.greater + ranks.ties  # (B, T)
        scored, repeated = self.windows[:, 1:] != 0, copyable(self.windows)
        for part, chosen in (("copyable", scored & repeated), ("other", scored & ~repeated)):
            total = chosen.sum().item()
            mean, se = mean_of_groups((losses * chosen).sum(1), chosen.sum(1).double())
            yield "loss", part, "", mean, se, total
            for k in KS:
                yield "hits", part, k, (chosen & (rank <= k)).sum().item(), "", total


def as_csv(rows, record):
    """Text of a run's file: a line per row, numbers that are no counts with six decimals."""
    lines = [",".join(COLUMNS)]
    for step, *values in rows:
        values = [f"{value:.6f}" if isinstance(value, float) else value for value in values]
        tokens = step * train.Plan.batch * ladders.CONTEXT
        run = (record["nonembedding_params"], record["seed"], tokens)
        lines.append(",".join(map(str, (*run, *values))))
    return "\n".join(lines) + "\n"


def one(name, plan, out):
    """Train and probe one size of PROBED_FAMILY: `out`/FAMILY-NAME-SEED.csv, written at its end.

    A run that was stopped goes on from its checkpoint and gives the same file; one whose file is there is not done
    again. The trained model is left in `data.folder()`.
    """
    family = ladders.PROBED_FAMILY
    file = out / f"{family}-{name}-{plan.seed}.csv"
    if file.is_file():
        print(f"{file} is there: remove it to train this size again.")
        return
    stream, heldout = data.training_streams(plan)
    folder = data.folder() / "probes"
    folder.mkdir(parents=True, exist_ok=True)
    look = Probe(heldout, pause=data.folder() / "pause")
    checkpoint = folder / f"{name}-{plan.tokens}-{plan.seed}.pt"
    size = ladders.sizes_to_probe()[name]
    model, record = train.train(family, size, plan, stream, heldout, checkpoint, look=look)
    text = as_csv(record.pop("looks"), record)
    record["text_digest"] = data.digest(stream[: plan.tokens + 1])
    train.save_model(model, record, folder / f"{name}-{plan.tokens}-{plan.seed}")
    out.mkdir(parents=True, exist_ok=True)
    write_text(file, text)
    print(f"{file}: held-out loss {record['heldout_loss']}", flush=True)
