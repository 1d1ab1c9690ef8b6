"""Train one model: bf16 arithmetic, fp32 master weights, AdamW, warm-up and linear decay; checkpoints and resumes."""

import copy
import io
import json
import math
import os
import platform
import time
from dataclasses import dataclass

import numpy as np
import torch

import training.attention  # noqa: F401  registers the attention used below
from rbplib.families import write_error
from training import data, ladders, scan
from training.loss import head_loss


@dataclass(frozen=True)
class Plan:
    """What all sizes of all families share."""

    tokens: int = ladders.TOKENS  # seen by every size of a family, each once
    batch: int = 8  # windows of CONTEXT tokens per step
    warmup: float = 0.04  # share of the steps
    decay: float = 0.1  # weight decay of matrices
    betas: tuple = (0.9, 0.95)
    clip: float = 1.0
    seed: int = ladders.SEED
    rate: float = 1.0  # factor on the blocks' learning rate, for checks
    table_rate: float = 1.0  # factor on the token tables' learning rate, for checks
    text: int | None = None  # tokens of the text where it is read more than once; all are new where None

    def __str__(self):
        return repr(self).replace(", text=None", "")  # as checkpoints named it before text was read twice

    @property
    def steps(self):
        return self.tokens // (self.batch * ladders.CONTEXT)

    def order(self):
        """Which window comes when, int64 (windows,): shuffled by the seed, so that a batch is of many documents; text
        that is read again is shuffled anew each time."""
        rng, wanted = np.random.default_rng(self.seed), self.steps * self.batch
        once = min(wanted, self.text // ladders.CONTEXT) if self.text else wanted
        return np.concatenate([rng.permutation(once) for _ in range(-(-wanted // max(1, once)))] or [[]])[:wanted]

    def factor(self, step):
        """Learning rate of a step, as a share of the peak: linear warm-up, then linear to 0."""
        warm = max(1, round(self.warmup * self.steps))
        return min((step + 1) / warm, (self.steps - step) / (self.steps - warm))


def kind_of(model, name, parameter):
    """Kind of a parameter: a table of tokens, a matrix, or a vector (norms, biases, positions, time constants)."""
    if parameter is model.get_input_embeddings().weight or parameter is model.get_output_embeddings().weight:
        return "table"
    small = ladders.is_position(name) or name.endswith("A_log")
    return "matrix" if parameter.dim() >= 2 and not small else "vector"


class Master:
    """fp32 master weights and AdamW over all parameters laid end to end; the model holds bf16 views of one vector."""

    def __init__(self, model, plan, width):
        blocks, tables = ladders.learning_rates(width)
        blocks, tables = plan.rate * blocks, plan.table_rate * tables
        kinds = {name: kind_of(model, name, p) for name, p in model.named_parameters()}
        self.groups, settings = [], []
        for kind, decay, rate in (
            ("matrix", plan.decay, blocks),
            ("vector", 0.0, blocks),
            ("table", plan.decay, tables),
        ):
            members = [p for name, p in model.named_parameters() if kinds[name] == kind]
            if not members:
                continue
            full = torch.cat([p.detach().float().reshape(-1) for p in members])
            half, grad = full.bfloat16(), torch.zeros_like(full, dtype=torch.bfloat16)
            at = 0
            for p in members:
                p.data = half[at : at + p.numel()].view(p.shape)
                p.grad = grad[at : at + p.numel()].view(p.shape)
                at += p.numel()
            full = torch.nn.Parameter(full)
            self.groups.append((full, half, grad))
            lr = torch.tensor(rate, device=full.device) if full.is_cuda else rate
            settings.append({"params": [full], "weight_decay": decay, "lr": lr, "peak": rate})
        on_device = self.groups[0][0].is_cuda  # then nothing of a step is read back, and a graph may hold it
        self.optimizer = torch.optim.AdamW(settings, betas=plan.betas, eps=1e-8, fused=True, capturable=on_device)
        self.clip = plan.clip

    def step(self, factor):
        self.set_rates(factor)
        self.update()

    def set_rates(self, factor):
        for group in self.optimizer.param_groups:
            if isinstance(group["lr"], torch.Tensor):
                group["lr"].fill_(group["peak"] * factor)
            else:
                group["lr"] = group["peak"] * factor

    def update(self):
        for full, _, grad in self.groups:
            full.grad = grad.float()
        torch.nn.utils.clip_grad_norm_([full for full, _, _ in self.groups], self.clip)
        self.optimizer.step()
        for full, half, grad in self.groups:
            half.copy_(full.detach())
            grad.zero_()

    def state(self):
        return {"master": [full.detach() for full, _, _ in self.groups], "optimizer": self.optimizer.state_dict()}

    def load(self, state):
        for (full, half, _), saved in zip(self.groups, state["master"], strict=True):
            full.data.copy_(saved)
            half.copy_(saved)
        self.optimizer.load_state_dict(state["optimizer"])

    def put_back(self, state):
        """`load` into the same memory, which a graph goes on reading; a state without moments sets them to 0."""
        with torch.no_grad():
            for (full, half, _), saved in zip(self.groups, state["master"], strict=True):
                full.copy_(saved)
                half.copy_(saved)
            for i, (full, _, _) in enumerate(self.groups):
                for name, value in self.optimizer.state[full].items():
                    saved = state["optimizer"]["state"].get(i, {})
                    value.copy_(saved[name]) if name in saved else value.zero_()


def loss_of(model, ids):
    """Mean loss of windows (B, T + 1), nats per token."""
    body = model.base_model
    hidden = body(input_ids=ids[:, :-1], use_cache=False)[0]  # (B, T, d)
    weight = model.get_output_embeddings().weight
    return head_loss(hidden.reshape(-1, hidden.shape[-1]), weight, ids[:, 1:].reshape(-1))


def windows(stream, numbers):
    """Windows by their place in the stream, int64 (B, T + 1), where the stream is: an array, or a tensor on a GPU."""
    length = ladders.CONTEXT
    if isinstance(stream, torch.Tensor):
        return stream[numbers[:, None] * length + torch.arange(length + 1, device=stream.device)]
    rows = [stream[i * length : (i + 1) * length + 1] for i in numbers]
    return torch.from_numpy(np.stack(rows).astype(np.int64))


@torch.no_grad()
def heldout_loss(model, stream, batch=8):
    steps = (len(stream) - 1) // (batch * ladders.CONTEXT)
    order = np.arange(steps * batch).reshape(steps, batch)
    order = torch.from_numpy(order).to(stream.device) if isinstance(stream, torch.Tensor) else order
    return sum(loss_of(model, windows(stream, numbers)).item() for numbers in order) / steps


def prepare(family, size, plan, device="cpu"):
    torch.manual_seed(plan.seed)
    model = ladders.build(family, size).train().to(device)
    if family == "nano-mamba":
        scan.use_in_training()
    else:
        model.set_attn_implementation("training")
    return model, Master(model, plan, size.width)


def stepper(model, master, ids, graph=False):
    """A function (ids, factor) -> loss of one step, a tensor on the model's device.

    graph: record the step once, for windows of the shape of `ids`, and replay it: one launch for a step's thousand.
    """

    def one(ids):
        loss = loss_of(model, ids)
        loss.backward()
        master.update()
        return loss.detach()

    def eager(ids, factor):
        master.set_rates(factor)
        return one(ids)

    if not graph:
        return eager
    kept = {name: copy.deepcopy(part) for name, part in master.state().items()}
    held, side = ids.clone(), torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    try:
        with torch.cuda.stream(side):
            for _ in range(3):
                eager(held, 1e-6)
        torch.cuda.current_stream().wait_stream(side)
        recorded = torch.cuda.CUDAGraph()
        with torch.cuda.graph(recorded):
            loss = one(held)
    finally:
        master.put_back(kept)

    def replay(ids, factor):
        held.copy_(ids)
        master.set_rates(factor)
        recorded.replay()
        return loss.clone()

    return replay


def train(
    family, size, plan, stream, heldout=None, checkpoint=None, stop=None, every=20, say=print,
    device="cpu", graph=False, until=math.inf, look=None,
):  # fmt: skip
    """Train and return (model in bf16, record). Resumes from `checkpoint` (a path) and writes to it each minute.

    device, graph: on a GPU, see `stepper`. until: time at which it is left as it is, in its checkpoint. look: called
    with (model, step) after every `every` steps.
    """
    torch.set_num_threads(1)
    model, master = prepare(family, size, plan, device)
    step, curve, spent, order = 0, [], 0.0, plan.order()
    if checkpoint and checkpoint.is_file():
        try:
            saved = torch.load(checkpoint, weights_only=True, map_location=device)
        except Exception as error:
            saved = {"plan": None}
            say(f"{checkpoint} is damaged ({type(error).__name__}): training begins anew")
        if saved["plan"] == str(plan):
            master.load(saved["state"])
            step, curve, spent = saved["step"], saved["curve"], saved["spent"]
    if device != "cpu":
        order = torch.from_numpy(order).to(device)
    began = written = time.time()
    losses = []
    stop = plan.steps if stop is None else min(stop, plan.steps)
    some, not_recorded = windows(stream, order[: plan.batch]), {}
    try:
        one = stepper(model, master, some, graph and step < stop)
    except Exception as error:
        if not graph:
            raise
        not_recorded = {"not_recorded": " ".join(f"{type(error).__name__}: {error}".split())[:200]}
        one = stepper(model, master, some)
    while step < stop and time.time() < until:
        losses.append(one(windows(stream, order[step * plan.batch : (step + 1) * plan.batch]), plan.factor(step)))
        step += 1
        if step % every == 0:
            curve.append([step, round(_mean(losses, family, step), 4)])
            losses = []
            if look:
                look(model, step)
            if checkpoint and time.time() - written > 60:
                written = time.time()
                _save(checkpoint, plan, master, step, curve, spent + written - began)
                say(f"{family} {size.width}x{size.layers} step {step}/{plan.steps} loss {curve[-1][1]}")
    _mean(losses, family, step)
    spent += time.time() - began
    tail = [loss for at, loss in curve if at > 0.95 * stop] or [curve[-1][1]] if curve else [float("nan")]
    record = {
        "family": family,
        "layers": size.layers,
        "width": size.width,
        "heads": size.heads,
        "nonembedding_params": ladders.nonembedding_parameters(model),
        "total_params": sum(p.numel() for p in model.parameters()),
        "tokens": step * plan.batch * ladders.CONTEXT,
        "steps": step,
        "peak_rate_blocks": plan.rate * ladders.learning_rates(size.width)[0],
        "peak_rate_tables": plan.table_rate * ladders.learning_rates(size.width)[1],
        "seed": plan.seed,
        "train_loss": round(sum(tail) / len(tail), 4),
        "heldout_loss": None if heldout is None else round(heldout_loss(model, heldout), 4),
        "wall_seconds": round(spent, 1),
        "hardware": hardware(device),
        "torch": torch.__version__,
        "curve": curve,
        **not_recorded,
    }
    if checkpoint:
        _save(checkpoint, plan, master, step, curve, spent)
    return model, record


def _mean(losses, family, step):
    """Mean of some steps' losses, read back from the device at once."""
    values = [loss.item() for loss in losses] if not losses or not losses[0].is_cuda else torch.stack(losses).tolist()
    if not all(map(math.isfinite, values)):
        raise RuntimeError(f"{family}: the loss is no longer finite at step {step}; lower the learning rate.")
    return sum(values) / len(values) if values else math.nan


def hardware(device="cpu"):
    if device != "cpu":
        return f"{torch.cuda.get_device_name(device)}, bf16"
    name = platform.processor() or platform.machine()
    try:
        lines = open("/proc/cpuinfo").read().splitlines()
        name = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return f"1 core of {name}, bf16"


def _save(path, plan, master, step, curve, spent):
    held = {"plan": str(plan), "state": master.state(), "step": step, "curve": curve, "spent": spent}
    torch.save(held, whole := io.BytesIO())  # torch's own words for a full disk are of its archive
    part = path.with_suffix(".part")
    try:
        part.write_bytes(whole.getbuffer())
        os.replace(part, path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise write_error(path, error) from None


def save_model(model, record, folder):
    """Weights, configuration, training record, and the tokenizer where none is above: as a model of the hub looks."""
    from tokenizers import Tokenizer

    from rbplib.model_files import tokenizer_place
    from training.tokenizer import save_tokenizer

    folder.mkdir(parents=True, exist_ok=True)
    for parameter in model.parameters():
        parameter.data = parameter.data.clone()  # views of one vector until here
    if model.config.model_type != "mamba":
        model.set_attn_implementation("sdpa")
    model.config.dtype = torch.bfloat16
    model.save_pretrained(folder)
    (folder / "model.safetensors").chmod(0o644)
    if tokenizer_place(folder) is None:  # `models/` holds one for all
        save_tokenizer(Tokenizer.from_file(str(data.tokenizer_file())), folder, ladders.CONTEXT)
    (folder / "training.json").write_text(
        json.dumps(record, indent=1).replace("\n   ", " ").replace("\n  ]", "]") + "\n"
    )
