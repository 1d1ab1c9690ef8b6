"""From a causal language model to what ranks need: final hidden states, and the head that reads
them.

The head is the model's output embedding and whatever the model does to its scores afterwards. Few
shapes cover the known architectures (`candidates`). None is believed: each is compared, bit for
bit, with the model's own logits on a few tokens before it is used. A model that none fits is asked
for its own logits.
"""

import warnings
import weakref
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

PROBE_TOKENS = 16
_SHARED = {}  # "states": those that forward passes made, by weights and ids, within `shared_states`
# what a head does to its scores, in this order, by the names that configurations have for it
CHANGES = {
    "logit_scale": "mul_",  # Cohere
    "lm_head_multiplier": "mul_",  # Falcon-H1
    "logits_scaling": "div_",  # Granite
    "final_logit_softcapping": "cap",  # Gemma 2
    "logits_soft_cap": "cap",  # RecurrentGemma
}


@dataclass(frozen=True)
class Head:
    """Scores = after(hidden @ weight.T + bias)."""

    weight: Tensor  # (V, d)
    bias: Tensor | None = None  # (V,)
    changes: tuple = ()  # (of CHANGES, by what) of each
    dtype: torch.dtype | None = None  # of `product`

    def after(self, scores):
        """The model's own operations on the product, in place."""
        for change, value in self.changes:
            if change == "cap":
                scores.div_(value).tanh_().mul_(value)
            else:
                getattr(scores, change)(value)
        return scores

    def __call__(self, hidden):
        """Scores (..., V) of hidden states (..., d), in the weight's dtype."""
        return self.after(F.linear(hidden.to(self.weight), self.weight, self.bias))

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
        made = torch.float32 if dtype == torch.float16 and weight.device.type == "cpu" else dtype
        states, weight = states.to(made), weight.to(made)
        if bias is None:
            scores = torch.mm(states, weight.T, out=out)
        else:
            scores = torch.addmm(bias.to(made), states, weight.T, out=out)
        return self.after(scores.to(dtype))


class _HeadReached(Exception):
    """Ends a model's forward pass before its head."""


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
    """
    states = _SHARED.get("states", {})
    key = model.name_or_path, model.dtype, input_ids.cpu().numpy().tobytes()
    if key not in states:
        states[key] = _forward(model, input_ids)[0][0]
    return states[key]


def _forward(model, input_ids, whole=False):
    """([what the output embedding is given], logits); without `whole` the forward pass ends where
    the head would begin."""
    weight, states, logits, hook = _output_weight(model), [], None, nullcontext()

    def keep(module, inputs):
        states.append(inputs[0].to(weight.device))
        if not whole:
            raise _HeadReached

    if weight is not None:
        hook = model.get_output_embeddings().register_forward_pre_hook(keep)
    with hook, suppress(_HeadReached):
        logits = model(input_ids, use_cache=False).logits
    return states, logits


def _output_weight(model):
    """The table (V, d) of a model's output embedding, or None."""
    embedding = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None
    weight = getattr(embedding, "weight", None)
    is_table = weight is not None and weight.dim() == 2 and weight.device.type != "meta"
    return weight if is_table else None


def candidates(model):
    """Heads a model may have, from its output embedding and the names known configurations use."""
    embedding = model.get_output_embeddings()
    bias = getattr(embedding, "bias", None)
    values = [(change, getattr(model.config, name, None)) for name, change in CHANGES.items()]
    changes = [(change, v) for change, v in values if isinstance(v, int | float) and v]
    # the second where a model's forward pass ignores its own settings
    return [Head(embedding.weight, bias, tuple(changes)), Head(embedding.weight, bias)]


_heads = weakref.WeakKeyDictionary()  # model: its output embedding's weight, and its Head or None


def head_of(model, input_ids):
    """The head whose scores equal the model's own bit for bit, proven on the first ids; or None.

    Cost: on a model's first call a forward pass over PROBE_TOKENS ids, then nothing.
    """
    # looked for once, and again where the output embedding was replaced
    if model not in _heads or _heads[model][0] is not _output_weight(model):
        prove_head(model, input_ids[:1, :PROBE_TOKENS])
    return _heads[model][1]


def prove_head(model, ids):
    """The model's own logits (B, T, V) of ids (B, T), by which its head is known from then on: the
    first candidate that gives them, or none, which is told."""
    states, logits = _forward(model, ids, whole=True)
    same = (h for h in candidates(model) if torch.equal(h(states[0]).to(logits), logits))
    head = next(same, None) if states else None
    if head is None:
        warnings.warn(
            f"{type(model).__name__}: its head is unknown: "
            "its own logits are taken, one sequence at a time",
            RuntimeWarning,
            stacklevel=4,
        )
    _heads[model] = _output_weight(model), head
    return logits
