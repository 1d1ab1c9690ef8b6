"""From a causal language model to what ranks need: final hidden states, and the head that reads
them.

The head is the model's output embedding and whatever the model does to its scores afterwards. Few
shapes cover the known architectures (`candidates`). None is believed: each is compared, bit for
bit, with the model's own logits on a few tokens before it is used. A model that none fits is asked
for its own logits.
"""

import warnings
import weakref
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

PROBE_TOKENS = 16
_SHARED = {}  # "states": those that forward passes made, by weights and ids, within `shared_states`
MULTIPLIERS = ("logit_scale", "lm_head_multiplier")  # Cohere; Falcon-H1
DIVISORS = ("logits_scaling",)  # Granite
CAPS = ("final_logit_softcapping", "logits_soft_cap")  # Gemma 2; RecurrentGemma


@dataclass(frozen=True)
class Head:
    """Scores = after(hidden @ weight.T + bias).

    `after` multiplies, divides and soft-caps, in this order.
    """

    weight: Tensor  # (V, d)
    bias: Tensor | None = None  # (V,)
    multiplier: float = 1.0
    divisor: float = 1.0
    cap: float | None = None
    dtype: torch.dtype | None = None  # of `product`

    def after(self, scores):
        """The model's own operations on the product, in place."""
        if self.multiplier != 1.0:
            scores.mul_(self.multiplier)
        if self.divisor != 1.0:
            scores.div_(self.divisor)
        if self.cap is not None:
            scores.div_(self.cap).tanh_().mul_(self.cap)
        return scores

    def __call__(self, hidden):
        """Scores (..., V) of hidden states (..., d) of the weight's dtype."""
        return self.after(F.linear(hidden, self.weight, self.bias))

    def product(self, states, columns=slice(None), out=None):
        """Scores (n, b) of states (n, d) for some candidates, multiplied in `dtype`.

        A half-precision weight meets float32 exactly: on CUDA inside the product, elsewhere, and on
        ROCm, by widening what is taken of it. A float16 product on a processor is made in float32
        and rounded once. out: scratch (n, b) of that dtype, on a processor.
        """
        dtype, weight = self.dtype, self.weight[columns]
        # inside the product, where the device can
        bias = None if self.bias is None else self.bias[columns].to(dtype)
        able = weight.is_cuda and torch.version.hip is None
        if able and states.dtype == weight.dtype != dtype == torch.float32:
            scores = torch.mm(states, weight.T, out_dtype=dtype)
            if bias is not None:
                scores.add_(bias)
            return self.after(scores)
        # or widened before it; few processors multiply float16
        rounded = dtype == torch.float16 and weight.device.type == "cpu"
        made = torch.float32 if rounded else dtype
        states, weight = states.to(made), weight.to(made)
        if bias is None:
            scores = torch.mm(states, weight.T, out=out)
        else:
            scores = torch.addmm(bias.to(made), states, weight.T, out=out)
        return self.after(scores.to(dtype))


class _HeadReached(Exception):
    """Ends a model's forward pass before its head; holds what the head would have been given."""


@contextmanager
def shared_states():
    """Within it the same weights read the same ids once, for heads of several precisions.

    Cost: the memory of all states, B T d numbers for each batch.
    """
    _SHARED["states"] = {}
    try:
        yield
    finally:
        del _SHARED["states"]


def final_hidden(model, input_ids):
    """Final hidden states (B, T, d) of a causal language model on ids, int64 (B, T).

    They are what the model hands to its output embedding, where its forward pass is ended, on the
    device of that embedding.

    Raises LookupError: the model never calls its output embedding as a module.
    """
    states = _SHARED.get("states")
    if states is None:
        return _forward(model, input_ids)
    key = model.name_or_path, model.dtype, input_ids.cpu().numpy().tobytes()
    if key not in states:
        states[key] = _forward(model, input_ids)
    return states[key]


def _forward(model, input_ids):
    # end the forward pass where the head would begin
    def stop(module, inputs):
        raise _HeadReached(inputs[0])

    embedding = model.get_output_embeddings()
    hook = embedding.register_forward_pre_hook(stop)
    try:
        model(input_ids, use_cache=False)
    except _HeadReached as reached:
        return reached.args[0].to(embedding.weight.device)
    finally:
        hook.remove()
    raise LookupError("the model's forward pass does not call its output embedding")


def candidates(model):
    """Heads a model may have, from its output embedding and the names known configurations use."""
    embedding = model.get_output_embeddings()
    bias = getattr(embedding, "bias", None)

    def setting(names, default):
        values = (getattr(model.config, name, None) for name in names)
        return next((float(v) for v in values if isinstance(v, int | float) and v), default)

    changes = setting(MULTIPLIERS, 1.0), setting(DIVISORS, 1.0), setting(CAPS, None)
    # the second where a model's forward pass ignores its own settings
    return [Head(embedding.weight, bias, *changes), Head(embedding.weight, bias)]


_heads = weakref.WeakKeyDictionary()  # model: its output embedding's weight, and its Head or None


def head_of(model, input_ids):
    """The head whose scores equal the model's own bit for bit, proven on the first ids; or None.

    Cost: on a model's first call two forward passes over PROBE_TOKENS ids, then nothing.
    """
    embedding = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None
    weight = getattr(embedding, "weight", None)
    # a head is looked for once, and again where the output embedding was replaced
    if model not in _heads or _heads[model][0] is not weight:
        head = None
        if weight is not None and weight.dim() == 2 and weight.device.type != "meta":
            head = _proven_head(model, input_ids[:1, :PROBE_TOKENS])
        if head is None:
            warnings.warn(
                f"{type(model).__name__}: its head is unknown: "
                "its own logits are taken, one sequence at a time",
                RuntimeWarning,
                stacklevel=3,
            )
        _heads[model] = weight, head
    return _heads[model][1]


def _proven_head(model, ids):
    """The first candidate that gives the model's own logits on ids (1, n)."""
    logits = model(ids, use_cache=False).logits
    try:
        states = final_hidden(model, ids)
    except LookupError:
        return None
    for head in candidates(model):
        scores = head(states.to(head.weight))
        if torch.equal(scores.to(logits), logits):
            return head
    return None
