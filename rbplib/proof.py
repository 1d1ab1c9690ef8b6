"""Whether a loaded model is what it says: all its weights and no others, all of them numbers, blind to what comes."""

import re

import torch

from rbplib.families import InputError
from rbplib.network import first_line

LENGTH = 8  # tokens of the input on which causality is proven: few, so that one token's part in a leak is large
MOVE = 1e-3  # of the scores' spread that rounding may move them by; half precision: its own unit of rounding
KEPT = re.compile(
    r"(^|\.)(masked_bias|(attn|attention)\.bias|causal_mask|inv_freq|position_ids|positions\.weights|pooler\..*)$"
)


def check_keys(report, net, model_id):
    """Refuse weights that lack tensors of the model, or hold some that it has no place for: another model would be
    measured under their name. Buffers that older versions saved, and whole other heads or towers, may be there."""
    if lost := sorted({*report.get("missing_keys", ()), *(str(k) for k in report.get("mismatched_keys", ()))}):
        raise InputError(
            f"the weights of {model_id!r} lack {len(lost)} tensors of the model ({lost[0]}, ...): "
            "they belong to another configuration."
        )
    parts = {name for module in (net, net.base_model) for name, _ in module.named_children()}
    keys = sorted(report.get("unexpected_keys", ()))
    if more := [k for k in keys if k.partition(".")[0] in parts and not re.search(KEPT, k)]:
        raise InputError(
            f"the weights of {model_id!r} hold {len(more)} tensors that its configuration has no place for ({more[0]}, "
            "...): correct config.json, or give the weights that belong to it."
        )


def check_finite(net, model_id):
    """Refuse weights that hold a NaN or an infinity, as a broken training or a cast beyond float16's range leaves."""
    for name, p in net.named_parameters():
        if p.numel() and p.is_floating_point() and p.device.type != "meta":
            if not all(end.isfinite() for end in torch.aminmax(p)):
                raise InputError(
                    f"the weights of {model_id!r} hold a NaN or an infinite number in {name}, read as {p.dtype}: "
                    "give an unbroken copy, or --dtype float32 if its own numbers are finite."
                )


def check_causal(net, model_id, special=()):
    """Refuse a model whose scores at a position depend on later tokens, proven on two inputs that differ in the last.

        w0 w1 ... w6 w7      both rows in one batch, so that equal tokens meet equal products: on a processor and
        w0 w1 ... w6 x7      in most kernels the scores of the first seven are then equal bit for bit

    net: in evaluation mode, on its device. special: ids that stand for no text. Raises InputError also where it cannot
    be run on token ids alone, or its scores hold a NaN. Cost: one forward pass over (2, 8) ids.
    """
    table = getattr(net.get_input_embeddings(), "num_embeddings", net.config.get_text_config().vocab_size)
    ids = torch.tensor([i for i in range(table) if i not in set(special)] or range(table))
    ids = ids[torch.linspace(0, len(ids) - 1, LENGTH + 1).long()].to(net.get_input_embeddings().weight.device)
    rows = torch.stack([ids[:-1], torch.cat([ids[:-2], ids[-1:]])])  # (2, LENGTH)
    try:
        with torch.inference_mode():
            scores = net(rows, use_cache=False).logits.float()  # (2, LENGTH, V)
    except Exception as error:  # a forward pass may raise anything
        raise InputError(f"model {model_id!r} cannot be run on tokens alone: {first_line(error)}") from None
    if scores.isnan().any():
        raise InputError(f"the scores of {model_id!r} hold a NaN in {net.dtype}: use --dtype float32, or another copy.")
    moved = (scores[0, :-1] - scores[1, :-1]).nan_to_num(0.0).abs().max().item()
    spread = scores[0].nan_to_num(neginf=0.0, posinf=0.0).std(-1).mean().item()
    if moved > max(MOVE, torch.finfo(net.dtype).eps) * spread:
        raise InputError(
            f"model {model_id!r} ({type(net).__name__}) sees the future: another last token moves the scores before it "
            f"(by {moved / spread:.1%} of their spread), so its ranks predict nothing; use a causal language model."
        )
