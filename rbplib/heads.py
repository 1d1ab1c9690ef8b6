"""From a causal language model to what its ranks need: final hidden states, and the head that reads them.

The head is the model's output embedding and whatever the model does to its scores afterwards. Few shapes cover the
known architectures (`recipes`). None is believed: each is compared, bit for bit, with the model's own logits on
a few rows before it is used, and a model that none fits is asked for its own logits, a sequence at a time.
"""

import contextlib
import warnings
import weakref
from collections.abc import Iterator
from dataclasses import dataclass

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
    """Ends a model's forward pass once its body has returned: the body's output."""


def run_body(model: nn.Module, input_ids: Tensor) -> Tensor:
    """Final hidden states (B, T, d) of a causal language model, run without its head on ids, int64 (B, T).

    Its body is the base model, or the decoder inside it (OPT calls that).

    Raises LookupError: the model calls neither, or it returns no hidden states.
    """
    bodies = [model.base_model] if hasattr(model, "base_model") else []
    bodies += [model.get_decoder()] if hasattr(model, "get_decoder") else []
    entered = []

    def enter(module, args):
        entered.append(module)

    def leave(module, args, output):
        if module is entered[0]:  # the outermost: an inner decoder's output may still be worked on
            raise _BodyDone(output)

    with contextlib.ExitStack() as hooks:
        for module in {id(m): m for m in bodies if m not in (None, model)}.values():
            hooks.callback(module.register_forward_pre_hook(enter).remove)
            hooks.callback(module.register_forward_hook(leave).remove)
        try:
            model(input_ids, use_cache=False)
        except _BodyDone as done:
            (output,) = done.args
        else:
            raise LookupError("the model's forward pass calls no module that could be its body")
    states = output[0] if isinstance(output, tuple) else getattr(output, "last_hidden_state", None)
    if not isinstance(states, Tensor) or states.dim() != 3:
        raise LookupError("the model's body returns no final hidden states")
    return states


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


_keys: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # model: what its head is known by, None: it has none


def head_of(model: nn.Module, input_ids: Tensor) -> Head | None:
    """The head whose scores equal the model's own bit for bit, proven on a short window of its own input; or None."""
    candidates = {_key(head): head for head in recipes(model) if head.weight.device.type != "meta"}
    key = _keys.get(model, "not looked for")
    if key is not None and key not in candidates:  # also where its head was replaced since
        key = _keys[model] = _proven(model, input_ids[:1, :PROBE_TOKENS], candidates)
        if key is None:
            said = "its head is unknown, so its own logits are taken whole, one sequence at a time"
            warnings.warn(f"{type(model).__name__}: {said}", RuntimeWarning, stacklevel=3)
    return candidates.get(key)


def _proven(model: nn.Module, ids: Tensor, candidates: dict[tuple, Head]) -> tuple | None:
    """Key of the first head that gives the model's own logits on ids (1, n)."""
    truth = model(ids, use_cache=False).logits[0]  # (n, V)
    with contextlib.suppress(LookupError):
        states = run_body(model, ids)[0]  # (n, d)
        for key, head in candidates.items():
            if head.weight.device == states.device:
                scores = head(states.to(head.weight.dtype))
                if scores.shape == truth.shape and torch.equal(scores.to(truth.dtype), truth):
                    return key
    return None


def _key(head: Head) -> tuple:
    return (id(head.weight), head.weight.data_ptr(), id(head.bias), head.multiply, head.divide, head.softcap)


def final_hidden(model: nn.Module, input_ids: Tensor) -> tuple[Tensor, Head | None]:
    """Final hidden states (B, T, d) and the head that reads them; the model's own logits (B, T, V) and None where its
    head is unknown."""
    if (head := head_of(model, input_ids)) is None:
        return model(input_ids, use_cache=False).logits, None
    return run_body(model, input_ids), head
