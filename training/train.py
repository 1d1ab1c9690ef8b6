"""Train one model: bf16 arithmetic, fp32 master weights, AdamW; checkpoints and resumes."""

import io
import json
import math
import platform
import re
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

import numpy as np
import torch

import training.attention  # noqa: F401  registers the attention used below
from rbplib.families import atomic_path, write_text
from training import data, ladders, scan
from training.loss import head_loss


@dataclass(frozen=True)
class Plan:
    """What all sizes of all families share. Its `repr` names it in checkpoints."""

    tokens: int = ladders.TOKENS  # seen by every size of a family, each once
    batch: int = 8  # windows of CONTEXT tokens per step
    warmup: float = 0.04  # share of the steps
    decay: float = 0.1  # weight decay of matrices
    betas: tuple = (0.9, 0.95)
    clip: float = 1.0
    seed: int = ladders.SEED
    rate: float = 1.0  # factor on the blocks' learning rate, for checks
    table_rate: float = 1.0  # factor on the token tables' learning rate, for checks
    vocabulary: int = ladders.VOCABULARY

    @property
    def steps(self):
        return self.tokens // (self.batch * ladders.CONTEXT)

    def order(self):
        """Which window comes when, int64 (steps * batch,): shuffled by the seed, so that a batch
        is of many documents."""
        return np.random.default_rng(self.seed).permutation(self.steps * self.batch)

    def factor(self, step):
        """Learning rate of a step, as a share of the peak: linear warm-up, then linear to 0."""
        warm = max(1, round(self.warmup * self.steps))
        return min((step + 1) / warm, (self.steps - step) / (self.steps - warm))


@dataclass
class Progress:
    """How far a training is; with the weights and the moments, all that its checkpoint holds."""

    step: int = 0
    curve: list = field(default_factory=list)  # [step, mean loss since the last entry, nats]
    spent: float = 0.0  # seconds
    looks: list = field(default_factory=list)  # rows that `look` returned


def kind_of(model, name, parameter):
    """Kind of a parameter: a table of tokens, a matrix, or a vector (norms, biases, positions)."""
    tables = (model.get_input_embeddings().weight, model.get_output_embeddings().weight)
    if any(parameter is table for table in tables):
        return "table"
    if parameter.dim() < 2 or ladders.is_position(name) or name.endswith("A_log"):
        return "vector"
    return "matrix"


class Master:
    """fp32 master weights and AdamW; the model's parameters become bf16 views of one vector a kind.

    groups: per kind the weights in fp32, in bf16, and their gradient in bf16, each (n,).
    """

    def __init__(self, model, plan, width):
        blocks, tables = ladders.learning_rates(width)
        rates = {"matrix": plan.rate * blocks, "vector": plan.rate * blocks}
        rates["table"] = plan.table_rate * tables
        members = {kind: [] for kind in rates}
        for name, parameter in model.named_parameters():
            members[kind_of(model, name, parameter)].append(parameter)
        self.groups, settings, self.clip = [], [], plan.clip
        for kind, parameters in members.items():
            # Lay the parameters of a kind end to end.
            full = torch.cat([p.detach().float().reshape(-1) for p in parameters])
            half = full.bfloat16()
            gradient = torch.zeros_like(half)
            # Let the model read and write parts of these vectors.
            start = 0
            for p in parameters:
                part = slice(start, start + p.numel())
                p.data = half[part].view(p.shape)
                p.grad = gradient[part].view(p.shape)
                start += p.numel()
            full = torch.nn.Parameter(full)
            self.groups.append((full, half, gradient))
            decay = 0.0 if kind == "vector" else plan.decay
            rate = rates[kind]
            settings.append({"params": [full], "weight_decay": decay, "lr": rate, "peak": rate})
        self.optimizer = torch.optim.AdamW(settings, betas=plan.betas, eps=1e-8, fused=True)

    def step(self, factor):
        """One step of AdamW on the gradients, at `factor` times the peak rates."""
        for group in self.optimizer.param_groups:
            group["lr"] = group["peak"] * factor
        for full, _, gradient in self.groups:
            full.grad = gradient.float()
        torch.nn.utils.clip_grad_norm_([full for full, _, _ in self.groups], self.clip)
        self.optimizer.step()
        # Hand the new weights to the model.
        for full, half, gradient in self.groups:
            half.copy_(full.detach())
            gradient.zero_()

    def state(self):
        weights = [full.detach() for full, _, _ in self.groups]
        return {"master": weights, "optimizer": self.optimizer.state_dict()}

    def load(self, state):
        for (full, half, _), saved in zip(self.groups, state["master"], strict=True):
            full.data.copy_(saved)
            half.copy_(saved)
        self.optimizer.load_state_dict(state["optimizer"])


def loss_of(model, ids):
    """Mean loss of windows, int64 (B, T + 1), in nats per token."""
    hidden = model.base_model(input_ids=ids[:, :-1], use_cache=False)[0]  # (B, T, d)
    weight = model.get_output_embeddings().weight
    return head_loss(hidden.reshape(-1, hidden.shape[-1]), weight, ids[:, 1:].reshape(-1))


def windows(stream, numbers):
    """Windows by their place in the stream: int64 (B, T + 1)."""
    length = ladders.CONTEXT
    rows = [stream[i * length : (i + 1) * length + 1] for i in numbers]
    return torch.from_numpy(np.stack(rows).astype(np.int64))


@torch.no_grad()
def heldout_loss(model, stream, batch=8):
    """Mean loss in nats per token of a stream's whole batches."""
    steps = (len(stream) - 1) // (batch * ladders.CONTEXT)
    order = np.arange(steps * batch).reshape(steps, batch)
    return sum(loss_of(model, windows(stream, numbers)).item() for numbers in order) / steps


def prepare(family, size, plan):
    """(model, its Master) before the first step."""
    torch.manual_seed(plan.seed)
    model = ladders.build(family, size, plan.vocabulary).train()
    if family == "nano-mamba":
        scan.use_in_training()
    else:
        model.set_attn_implementation("training")
    return model, Master(model, plan, size.width)


def train_step(model, master, ids, factor):
    """One step on windows (B, T + 1): its loss before the step, nats per token."""
    loss = loss_of(model, ids)
    loss.backward()
    master.step(factor)
    if not math.isfinite(loss.item()):
        raise RuntimeError("the loss is no longer finite: lower the learning rate.")
    return loss.item()


def train(
    family,
    size,
    plan,
    stream,
    heldout=None,
    checkpoint=None,
    stop=None,
    every=20,
    say=print,
    look=None,
):
    """Train one model on a stream of tokens, from its checkpoint where there is one.

    Args:
        size: a `ladders.Size`.
        stream, heldout: uint16 (n,), tokens to train on and to measure the loss on at the end.
        checkpoint: path, written each minute and at the end; one of another plan is not read.
        stop: step to end at, the plan's last by default.
        every: steps between two entries of the loss curve.
        say: called with a line of text at each checkpoint.
        look: called with (model, step) before the first step and after every `every` steps; the
            rows that it returns are the record's "looks", and where it is `done`, training ends.
    Returns:
        (model in bf16, record): the record is a dict that JSON can hold.
    Raises:
        RuntimeError: the loss is no longer finite.
    """
    torch.set_num_threads(1)
    model, master = prepare(family, size, plan)
    progress = read_checkpoint(checkpoint, plan, master, say)
    order, losses = plan.order(), []
    stop = plan.steps if stop is None else min(stop, plan.steps)
    written = time.time()
    began = written - progress.spent
    if look and not (progress.step or progress.looks):
        progress.looks += look(model, 0)
    while progress.step < stop and not getattr(look, "done", False):
        # One step.
        first = progress.step * plan.batch
        ids = windows(stream, order[first : first + plan.batch])
        losses.append(train_step(model, master, ids, plan.factor(progress.step)))
        progress.step += 1
        if progress.step % every:
            continue
        # The loss curve, and a look at the model.
        progress.curve.append([progress.step, round(sum(losses) / len(losses), 4)])
        losses = []
        if look:
            progress.looks += look(model, progress.step)
        # A checkpoint each minute.
        if checkpoint and time.time() - written > 60:
            written = time.time()
            progress.spent = written - began
            write_checkpoint(checkpoint, plan, master, progress)
            loss = progress.curve[-1][1]
            say(f"{family} {size.width}x{size.layers} {progress.step}/{plan.steps} loss {loss}")
    progress.spent = time.time() - began
    if checkpoint:
        write_checkpoint(checkpoint, plan, master, progress)
    record = record_of(model, family, size, plan, progress, progress.step)
    if heldout is not None:
        record["heldout_loss"] = round(heldout_loss(model, heldout), 4)
    if look:
        record["looks"] = progress.looks
    return model, record


def record_of(model, family, size, plan, progress, stop):
    """What `training.json` says of a training; its training loss is of the last 5% of the steps."""
    # the training loss, of the last steps
    last = [loss for step, loss in progress.curve if step > 0.95 * stop]
    last = last or [loss for _, loss in progress.curve[-1:]] or [math.nan]
    blocks, tables = ladders.learning_rates(size.width)
    # sizes, the plan, how it went
    return {
        "family": family,
        "layers": size.layers,
        "width": size.width,
        "heads": size.heads,
        "nonembedding_params": ladders.nonembedding_parameters(model),
        "total_params": sum(p.numel() for p in model.parameters()),
        "tokens": progress.step * plan.batch * ladders.CONTEXT,
        "steps": progress.step,
        "peak_rate_blocks": plan.rate * blocks,
        "peak_rate_tables": plan.table_rate * tables,
        "seed": plan.seed,
        "train_loss": round(sum(last) / len(last), 4),
        "heldout_loss": None,
        "wall_seconds": round(progress.spent, 1),
        "hardware": hardware(),
        "torch": torch.__version__,
        "curve": progress.curve,
    }


def hardware():
    """Name of the processor."""
    names = [platform.processor() or platform.machine()]
    with suppress(OSError):
        names = re.findall(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text()) or names
    return f"1 core of {names[0]}, bf16"


def read_checkpoint(path, plan, master, say):
    """Progress of a plan's checkpoint, whose weights and moments go to `master`; else none."""
    if path is None or not path.is_file():
        return Progress()
    # a damaged one, or one of another plan, is none
    try:
        saved = torch.load(path, weights_only=True)
    except Exception as error:
        say(f"{path} is damaged ({type(error).__name__}): training begins anew")
        return Progress()
    if saved["plan"] != repr(plan):
        return Progress()
    master.load(saved["state"])
    return Progress(**{f.name: saved[f.name] for f in fields(Progress) if f.name in saved})


def write_checkpoint(path, plan, master, progress):
    """Write a checkpoint, whole or not at all."""
    # Through memory, since torch's own words for a full disk are of its archive.
    whole = io.BytesIO()
    torch.save({"plan": repr(plan), "state": master.state(), **asdict(progress)}, whole)
    with atomic_path(path) as part:
        part.write_bytes(whole.getbuffer())


def save_model(model, record, folder):
    """Weights, configuration, record, and the tokenizer where none is above, as on the hub."""
    from rbplib.models import tokenizer_place
    from training.tokenizer import save_tokenizer

    folder.mkdir(parents=True, exist_ok=True)
    # Parameters were views of one vector until here.
    for parameter in model.parameters():
        parameter.data = parameter.data.clone()
    if model.config.model_type != "mamba":
        model.set_attn_implementation("sdpa")
    model.config.dtype = torch.bfloat16
    model.save_pretrained(folder)
    (folder / "model.safetensors").chmod(0o644)
    # `models/` holds one tokenizer for all.
    if tokenizer_place(folder) is None:
        save_tokenizer(data.load_tokenizer(), folder, ladders.CONTEXT)
    # The curve has a line of its own for each entry.
    text = json.dumps(record, indent=1).replace("\n   ", " ").replace("\n  ]", "]")
    write_text(folder / "training.json", text + "\n")
