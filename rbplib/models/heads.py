"""From a causal language model to what its ranks need: final hidden states, and the head that reads them.

The head is the model's output embedding and whatever the model does to its scores afterwards. Few shapes cover the
known architectures (`recipes`). None is believed: each is compared, bit for bit, with the model's own logits on
a few rows before it is used, and a model that none fits is asked for its own logits, a slice at a time.
"""

import contextlib
import warnings
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from unittest import mock

import torch
from torch import Tensor, nn
from torch.nn import functional as F

PROBE_TOKENS = 16


@dataclass(frozen=True)
class Head:
    """Scores = after(hidden @ weight.T + bias), where `after` multiplies, divides or soft-caps, in this order."""

    weight: Tensor  # (V, d)
    bias: Tensor | None = None  # (V,)
    multiply: float = 1.0
    divide: float = 1.0
    softcap: float | None = None

    def after(self, scores: Tensor) -> Tensor:
        """The model's own operations on the product, in place and in the model's order."""
        if self.multiply != 1.0:
            scores.mul_(self.multiply)
        if self.divide != 1.0:
            scores.div_(self.divide)
        if self.softcap is not None:
            scores.div_(self.softcap).tanh_().mul_(self.softcap)
        return scores

    def __call__(self, hidden: Tensor) -> Tensor:
        return self.after(F.linear(hidden, self.weight, self.bias))


class _BodyDone(Exception):
    """Ends a model's forward pass once its body has returned: (body, output)."""


def bodies(model: nn.Module) -> list[nn.Module]:
    """The modules whose output the head may read: the base model, or the decoder inside it (OPT calls that)."""
    found = [getattr(model, "base_model", None)]
    if hasattr(model, "get_decoder"):
        found.append(model.get_decoder())
    return [m for i, m in enumerate(found) if m is not None and m is not model and m not in found[:i]]


def run_body(model: nn.Module, input_ids: Tensor) -> tuple[nn.Module, object]:
    """Run a causal language model without its head: the body module that ran, and what it returned.

    Args:
        input_ids: int64 (B, T).
    Raises:
        LookupError: the model called none of the modules that could be its body.
    """
    entered = []

    def enter(module, args):
        entered.append(module)

    def leave(module, args, output):
        if module is entered[0]:  # the outermost: an inner decoder's output may still be worked on
            raise _BodyDone(module, output)

    with contextlib.ExitStack() as hooks:
        for module in bodies(model):
            hooks.callback(module.register_forward_pre_hook(enter).remove)
            hooks.callback(module.register_forward_hook(leave).remove)
        try:
            model(input_ids, use_cache=False)
        except _BodyDone as done:
            return done.args
    raise LookupError("the model's forward pass calls no module that could be its body")


def hidden_of(output) -> Tensor:
    """The final hidden states (B, T, d) in a body's output."""
    states = output[0] if isinstance(output, tuple) else getattr(output, "last_hidden_state", None)
    if not isinstance(states, Tensor) or states.dim() != 3:
        raise LookupError("the model's body returns no final hidden states")
    return states


def own_logits(model: nn.Module, body: nn.Module, output, hidden: Tensor, input_ids: Tensor) -> Tensor:
    """The model's own logits (n, V) for given final hidden states: its forward pass with the body's work already done.

    hidden: (n, d) any rows of the body's output. input_ids: int64 (1, 1); only its presence matters.
    """
    states = hidden[None]  # (1, n, d)
    ready = (states,) if isinstance(output, tuple) else type(output)(last_hidden_state=states)
    with mock.patch.object(body, "forward", lambda *args, **kwargs: ready):
        return model(input_ids, use_cache=False).logits[0]


def recipes(model: nn.Module) -> Iterator[Head]:
    """Heads this model may have, from its output embedding and the names known configurations use."""
    module = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None
    weight = getattr(module, "weight", None)
    if weight is None or weight.dim() != 2:
        return
    bias = getattr(module, "bias", None)
    config = getattr(model, "config", None)

    def setting(*names):
        values = (getattr(config, name, None) for name in names)
        return next((float(v) for v in values if isinstance(v, int | float) and v), None)

    multiply = setting("logit_scale", "lm_head_multiplier")  # Cohere; Falcon-H1
    divide = setting("logits_scaling")  # Granite
    softcap = setting("final_logit_softcapping", "logits_soft_cap")  # Gemma 2; RecurrentGemma
    yield Head(weight, bias, multiply or 1.0, divide or 1.0, softcap)
    if (multiply or 1.0) != 1.0 or (divide or 1.0) != 1.0 or softcap is not None:
        yield Head(weight, bias)  # a setting that this model's forward pass ignores


KNOWN, REPLAYED, UNSPLIT = "known", "replayed", "unsplit"
_ways: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # model: (way, key of its head)
SAYINGS = {
    REPLAYED: "its head is unknown, so its own logits are taken, a few rows at a time",
    UNSPLIT: "its head cannot be told from its body, so its own logits are taken whole, one sequence at a time",
}


def way_of(model: nn.Module, input_ids: Tensor) -> tuple[str, Head | None]:
    """How this model's scores are had without holding them all, proven on a short window of its own input: KNOWN and
    the head whose scores equal the model's own bit for bit; or REPLAYED, where the model's forward pass over given
    hidden states does; or UNSPLIT."""
    candidates = {_key(head): head for head in recipes(model) if head.weight.device.type != "meta"}
    way, key = _ways.get(model, (None, None))
    if way is None or (way == KNOWN and key not in candidates):  # the second: its head was replaced since
        way, key = _ways[model] = _proven(model, input_ids[:1, :PROBE_TOKENS], candidates)
        if way != KNOWN:
            warnings.warn(f"{type(model).__name__}: {SAYINGS[way]}", RuntimeWarning, stacklevel=3)
    return way, candidates.get(key)


def _proven(model: nn.Module, ids: Tensor, candidates: dict[tuple, Head]) -> tuple[str, tuple | None]:
    """The first way that gives the model's own logits on ids (1, n), and the key of its head."""
    truth = model(ids, use_cache=False).logits[0]  # (n, V)
    try:
        body, output = run_body(model, ids)
        states = hidden_of(output)[0]  # (n, d)
    except LookupError:
        return UNSPLIT, None
    for key, head in candidates.items():
        if head.weight.device == states.device and _same(head(states.to(head.weight.dtype)), truth):
            return KNOWN, key
    with contextlib.suppress(RuntimeError, TypeError, AttributeError, LookupError):
        if _same(own_logits(model, body, output, states, ids[:1, :1]), truth):
            return REPLAYED, None
    return UNSPLIT, None


def _same(scores: Tensor, truth: Tensor) -> bool:
    return scores.shape == truth.shape and torch.equal(scores.to(truth.dtype), truth)


def _key(head: Head) -> tuple:
    return (id(head.weight), head.weight.data_ptr(), id(head.bias), head.multiply, head.divide, head.softcap)


def final_hidden(model: nn.Module, input_ids: Tensor) -> tuple[Tensor, Head | Callable[[Tensor], Tensor]]:
    """Final hidden states (B, T, d) and what turns their rows into scores; for an unsplit model, its own logits
    (B, T, V) and a function that leaves them as they are."""
    way, head = way_of(model, input_ids)
    if way == UNSPLIT:
        return model(input_ids, use_cache=False).logits, lambda rows: rows
    body, output = run_body(model, input_ids)
    if way == KNOWN:
        return hidden_of(output), head
    return hidden_of(output), lambda rows: own_logits(model, body, output, rows, input_ids[:1, :1])
