"""`python -m training --probe`: what models can do on their way through training, kept as numbers
in `published/probes/`.

Before the first step and then every EVERY steps a model in training is asked two things:

* copying: a string of tokens is read twice; how much less is lost on the second reading?
* text: loss and ranks on held-out text, apart for the tokens that could be copied from their window
  and the others.

Probes only read the model: the weights at the end are those of a run without them.
"""

import numpy as np
import torch

from rbplib.families import InputError, one_at_a_time, write_text
from rbplib.ranks import sequence_ranks
from training import data, ladders, train

LINES = 10  # of the loss curve from one probe to the next
EVERY = 200  # steps from one probe to the next: 409,600 tokens
STRINGS, LENGTH = 32, 64  # strings of each kind, and tokens of a string
KS = (1, 10, 100)
DEEP = -0.5  # nats of copying, below which a training of another batch has shown its onset
SEED = 42  # of the strings, the same for every run
COLUMNS = ("size", "seed", "tokens", "probe", "part", "k", "value", "se", "total")


def copyable(windows):
    """Whether a token could be copied: its bigram (token before it, token) stood in its window.

        window     a  b  c  a  b  d
        entry         0  0  0  1  0      the second b: "a b" stood before

    Args:
        windows: int64 (B, T + 1), ids of the embedded vocabulary.
    Returns:
        bool (B, T): entry t is of token t + 1.
    """
    bigrams = windows[:, :-1] * ladders.VOCABULARY + windows[:, 1:]  # (B, T)
    # A stable sort puts equal bigrams side by side, the earliest first: the others are repeated.
    ordered, order = bigrams.sort(dim=1, stable=True)
    repeated = torch.zeros_like(bigrams, dtype=torch.bool)
    repeated[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
    return torch.zeros_like(repeated).scatter_(1, order, repeated)


def strings(heldout):
    """{kind: int64 (STRINGS, LENGTH)}: strings to be read twice, none with the separator, id 0.

    random: ids drawn uniformly, none twice in a string. shuffled: tokens of held-out text out of
    their order. excerpt: held-out text as it stands.
    """
    rng = np.random.default_rng(SEED)
    random = [1 + rng.permutation(ladders.VOCABULARY - 1)[:LENGTH] for _ in range(STRINGS)]
    shuffled = rng.permutation(heldout[heldout != 0])[: STRINGS * LENGTH]
    # Excerpts are drawn from pieces of held-out text in which no document ends.
    pieces = heldout[: len(heldout) // LENGTH * LENGTH].reshape(-1, LENGTH)
    pieces = pieces[(pieces != 0).all(1)]
    excerpt = pieces[rng.permutation(len(pieces))[:STRINGS]]
    kinds = {
        "random": np.stack(random),
        "shuffled": shuffled.reshape(STRINGS, LENGTH),
        "excerpt": excerpt,
    }
    return {kind: torch.from_numpy(ids.astype(np.int64)) for kind, ids in kinds.items()}


def mean_of_groups(sums, counts):
    """Mean per token over groups of tokens, and its standard error from the groups' scatter.

    sums, counts: float64 (G,), sum over a group and its number of tokens.
    """
    mean = sums.sum() / counts.sum()
    residuals = sums - mean * counts
    variance = len(sums) / (len(sums) - 1) * (residuals**2).sum()
    return mean.item(), variance.sqrt().item() / counts.sum().item()


class Probe:
    """What a model in training is asked: `look` of `training.train.train`.

    Args:
        heldout: uint16 (n,), held-out tokens; whole windows of CONTEXT tokens are read.
        every: steps from one probe to the next.
        deep: nats; training ends once copying of shuffled strings is below.
    """

    def __init__(self, heldout, every=EVERY, deep=-np.inf):
        numbers = range((len(heldout) - 1) // ladders.CONTEXT)
        self.windows = train.windows(heldout, numbers)  # (B, T + 1)
        self.strings = strings(heldout)
        self.every, self.deep = every, deep

    def __call__(self, model, step):
        """Rows (step, probe, part, k, value, se, total) of a step that is probed, else none."""
        if step % self.every:
            return []
        # Ranks are of the 16-bit weights in 32-bit arithmetic, as finished models are measured.
        twin = type(model)(type(model.config).from_dict(model.config.to_dict())).eval()
        twin.load_state_dict(model.state_dict())
        copying = list(self.copying(twin))
        self.done = {row[:2]: row[3] for row in copying}["copying", "shuffled"] < self.deep
        return [(step, *row) for row in [*copying, *self.text(twin)]]

    def copying(self, model):
        """Rows of strings read twice: loss of both readings, and the second's less the first's.

        Nats per token. The first token of a reading is left out: nothing says that the string
        begins again.
        """
        counts = torch.full((STRINGS,), LENGTH - 1.0, dtype=torch.float64)
        for kind, ids in self.strings.items():
            ranks = sequence_ranks(model, torch.cat([ids, ids], 1))
            losses = -ranks.logprob.double()  # (STRINGS, 2 LENGTH - 1)
            first, second = losses[:, : LENGTH - 1], losses[:, LENGTH:]
            readings = {"first_reading": first, "second_reading": second, "copying": second - first}
            for probe, values in readings.items():
                mean, se = mean_of_groups(values.sum(1), counts)
                yield probe, kind, "", mean, se, values.numel()

    def text(self, model):
        """Rows of held-out text: loss in nats per token, and hits, greater + ties <= k.

        Separators are not scored.
        """
        ranks = sequence_ranks(model, self.windows)
        losses, rank = -ranks.logprob.double(), ranks.greater + ranks.ties  # (B, T)
        scored, repeated = self.windows[:, 1:] != 0, copyable(self.windows)
        for part, chosen in (("copyable", scored & repeated), ("other", scored & ~repeated)):
            total = chosen.sum().item()
            mean, se = mean_of_groups((losses * chosen).sum(1), chosen.sum(1).double())
            yield "loss", part, "", mean, se, total
            for k in KS:
                hits = (chosen & (rank <= k)).sum().item()
                yield "hits", part, k, hits, "", total


def as_csv(rows, record, batch):
    """Text of a run's file: a line per row; numbers that are no counts have six decimals."""
    lines = [",".join(COLUMNS)]
    for step, *values in rows:
        tokens = step * batch * ladders.CONTEXT
        columns = [record["nonembedding_params"], record["seed"], tokens]
        for value in values:
            columns.append(f"{value:.6f}" if isinstance(value, float) else value)
        lines.append(",".join(map(str, columns)))
    return "\n".join(lines) + "\n"


def run(name, plan, out):
    """Train and probe a size of PROBED_FAMILY: `out`/FAMILY-NAME-SEED.csv, written at the end.

    A run that was stopped goes on from its checkpoint and gives the same file; one whose file is
    there is not done again. Another batch than the recipe's is probed after as many tokens, has a
    folder of its own, and ends once copying is below DEEP. The model is left in `data.folder()`.
    """
    family, folder = ladders.PROBED_FAMILY, ""
    every, spare = divmod(EVERY * train.Plan.batch, plan.batch)
    if spare or every % LINES:
        raise InputError(f"--batch cannot be {plan.batch}: its steps miss the probes.")
    deep = -np.inf
    if plan.batch != train.Plan.batch:
        folder, deep = f"batch-{plan.batch}", DEEP
    file = out / folder / f"{family}-{name}-{plan.seed}.csv"
    # done already, or in a folder that cannot be written
    with one_at_a_time(file):
        if file.is_file():
            print(f"{file} is there: remove it to train this size again.")
            return
    # train, looking at the model on the way
    stream, heldout = data.training_streams(plan.tokens)
    path = data.folder() / "probes" / folder / f"{name}-{plan.tokens}-{plan.seed}"
    look = Probe(heldout, every, deep)
    model, record = train.train(
        family,
        ladders.sizes_to_probe()[name],
        plan,
        stream,
        heldout,
        checkpoint=path.with_name(f"{path.name}.pt"),
        every=every // LINES,
        look=look,
    )
    # keep the looks and the model
    text = as_csv(record.pop("looks"), record, plan.batch)
    record["text_digest"] = data.digest(stream[: plan.tokens + 1])
    train.save_model(model, record, path)
    write_text(file, text)
    print(f"{file}: held-out loss {record['heldout_loss']}", flush=True)
