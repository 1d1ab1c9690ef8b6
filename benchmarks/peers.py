"""Whole models, and ways to score a batch of windows with them: this library and what people use.

Models have the real architecture (GPT-NeoX) and shape with random weights, and ids are random,
since neither changes the arithmetic. A way is a function of (model, ids); tokenisation is left out.
"""

import torch

from benchmarks import common, heads
from rbplib.ranks import sequence_ranks

TOP = 10_000  # candidates that the paper's own code sorts
SHAPES = {  # hidden, layers, heads, vocabulary, as in Pythia's configurations
    "tiny": (16, 1, 2, 11_000),
    "14m": (128, 6, 4, 50_304),
    "70m": (512, 6, 8, 50_304),
    "410m": (1024, 24, 16, 50_304),
    "1.4b": (2048, 24, 16, 50_304),
}


def make_model(shape, device="cpu", dtype=torch.float32):
    from transformers import AutoModelForCausalLM, GPTNeoXConfig

    hidden, layers, attention, vocab = SHAPES[shape]
    config = GPTNeoXConfig(
        vocab_size=vocab,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=attention,
        intermediate_size=4 * hidden,
        max_position_embeddings=2048,
        bos_token_id=0,
        eos_token_id=0,
    )
    torch.manual_seed(0)
    with torch.device(device):
        return AutoModelForCausalLM.from_config(config, dtype=dtype).eval()


def make_ids(model, batch, length):
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(1, model.config.vocab_size, (batch, length), generator=generator)
    return ids.to(model.device)


def rbplib(model, ids):
    return sequence_ranks(model, ids)


def body_only(model, ids):
    return model.base_model(ids, use_cache=False).last_hidden_state


def full_logits(model, ids):
    return model(ids, use_cache=False).logits


def by_head(way):
    """The body's hidden states, then one of the ways of `benchmarks.heads`."""

    def run(model, ids):
        hidden = body_only(model, ids)[:, :-1].flatten(0, 1)
        return way(hidden, model.get_output_embeddings().weight, ids[:, 1:].flatten())

    return run


def paper(model, ids):
    """The paper's algorithm, written anew from its description.

    Softmax over all positions, the 10,000 likeliest candidates sorted, then a pass in Python that
    reads each value out of its tensor.
    """
    probabilities = model(ids).logits.softmax(-1)
    best = probabilities.topk(TOP, dim=-1).indices
    ranks, logprobs = [], []
    for b, row in enumerate(ids.tolist()):
        for t in range(1, len(row)):
            rank = (best[b, t - 1] == row[t]).nonzero()
            ranks.append(rank[0].item() + 1 if len(rank) else TOP + 1)
            logprobs.append(probabilities[b, t - 1, row[t]].log().item())
    return ranks, logprobs


def word_tokenizer(vocab):
    """A tokenizer of the right size, which the peers ask for; ids go past it."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(WordLevel({f"w{i}": i for i in range(vocab)}, unk_token="w0"))
    words.pre_tokenizer = WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="w0", eos_token="w0", bos_token="w0"
    )


CONTENDERS = {  # what is timed, and what it gives
    common.OURS: (rbplib, "rank, ties, logprob"),
    "body only": (body_only, "nothing: the floor without a head"),
    "full logits": (full_logits, "logits: the floor with a head"),
    "linear_cross_entropy, chunked": (by_head(heads.cross_entropy_chunked), "logprob"),
    "compare and log-softmax": (by_head(heads.compare), "rank, logprob"),
    "the paper's algorithm": (paper, "rank up to 10,000, logprob"),
}
