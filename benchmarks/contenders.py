"""Everything that is timed: the floors, this library, and what people use now, each over one batch of windows.

A contender is a function (model, ids) -> something; what it gives is said in GIVES. Models have the real architecture
and shape with random weights, and ids are random, since neither changes the arithmetic.
"""

import warnings

import torch

SHAPES = {  # GPT-NeoX: hidden, layers, heads, vocabulary, as in Pythia's configurations
    "14m": (128, 6, 4, 50_304),
    "70m": (512, 6, 8, 50_304),
    "410m": (1024, 24, 16, 50_304),
    "1.4b": (2048, 24, 16, 50_304),
    "6.9b": (4096, 32, 32, 50_432),
    "qwen": (1536, 28, 12, 151_936),  # a small model with the vocabulary of the Qwen2.5 family
}
GIVES = {
    "body only": "nothing: the floor without a head",
    "full logits": "logits: the floor with a head",
    "rbplib": "rank, ties, logprob",
    "compare and log-softmax": "rank, logprob",
    "argsort": "rank, logprob",
    "the paper's algorithm": "rank up to 10,000, logprob",
    "lm-evaluation-harness": "logprob, greedy flag",
    "minicons": "rank, logprob",
}


def make_model(shape, device="cpu", dtype=torch.float32, dims=None):
    from transformers import AutoModelForCausalLM, GPTNeoXConfig

    hidden, layers, heads, vocab = dims or SHAPES[shape]
    config = GPTNeoXConfig(
        vocab_size=vocab, hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads,
        intermediate_size=4 * hidden, max_position_embeddings=2048, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    torch.manual_seed(0)
    with torch.device(device):
        return AutoModelForCausalLM.from_config(config, dtype=dtype).eval()


def make_ids(model, batch, length=512):
    return torch.randint(1, model.config.vocab_size, (batch, length), generator=torch.Generator().manual_seed(1)).to(
        model.device
    )


def body_only(model, ids):
    return model.base_model(ids, use_cache=False).last_hidden_state


def full_logits(model, ids):
    return model(ids, use_cache=False).logits


def rbplib(model, ids):
    from rbplib.ranks import sequence_ranks

    return sequence_ranks(model, ids, device=model.device)


def compare(model, ids):
    logits = model(ids, use_cache=False).logits[:, :-1]
    wanted = ids[:, 1:, None]
    rank = (logits >= logits.gather(2, wanted)).sum(-1)
    return rank, logits.log_softmax(-1).gather(2, wanted)[..., 0]


def argsort(model, ids):
    logits = model(ids, use_cache=False).logits[:, :-1]
    order = logits.argsort(-1, descending=True)
    rank = (order == ids[:, 1:, None]).float().argmax(-1) + 1
    return rank, logits.log_softmax(-1).gather(2, ids[:, 1:, None])[..., 0]


def paper(model, ids, most=10_000):
    """The algorithm of the paper's own loop, written anew: softmax over all positions, the 10,000 likeliest
    candidates sorted, then one pass in Python over the tokens, reading each value out of its tensor."""
    probabilities = model(ids).logits.softmax(-1)
    best = probabilities.topk(most, dim=-1).indices
    ranks, logprobs = [], []
    for b, row in enumerate(ids.tolist()):
        for t in range(1, len(row)):
            place = (best[b, t - 1] == row[t]).nonzero()
            ranks.append(place[0].item() + 1 if len(place) else most + 1)
            logprobs.append(probabilities[b, t - 1, row[t]].log().item())
    return ranks, logprobs


def word_tokenizer(vocab):
    """A tokenizer object of the right size, which the peers ask for; ids go past it."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(WordLevel({f"w{i}": i for i in range(vocab)}, unk_token="w0"))
    words.pre_tokenizer = Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=words, pad_token="w0", eos_token="w0", bos_token="w0")


def kept(make):
    """The peers wrap a model once; only their scoring is timed."""
    wrapped = {}

    def once(model, ids):
        key = (id(model), len(ids))
        if key not in wrapped:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                wrapped[key] = make(model, len(ids))
        return wrapped[key](ids)

    return once


@kept
def lm_eval(model, batch):
    """What rolling loglikelihood runs per batch of windows, tokens given: log-softmax of all logits, then gather."""
    from lm_eval.models.huggingface import HFLM

    harness = HFLM(pretrained=model, tokenizer=word_tokenizer(model.config.vocab_size), batch_size=batch)

    def score(ids):
        requests = [(("", ""), row[:1], row[1:]) for row in ids.tolist()]
        return harness._loglikelihood_tokens(requests, disable_tqdm=True)

    return score


@kept
def minicons(model, batch):
    """compute_stats with rank=True, what token_score(rank=True) runs, tokens given."""
    from minicons.scorer import IncrementalLMScorer
    from transformers import BatchEncoding

    scorer = IncrementalLMScorer(model, str(model.device), tokenizer=word_tokenizer(model.config.vocab_size))

    def score(ids):
        encoded = BatchEncoding({"input_ids": ids, "attention_mask": torch.ones_like(ids)})
        return scorer.compute_stats(scorer.prepare_text(encoded), rank=True)

    return score


CONTENDERS = {
    "rbplib": rbplib,
    "body only": body_only,
    "full logits": full_logits,
    "lm-evaluation-harness": lm_eval,
    "compare and log-softmax": compare,
    "the paper's algorithm": paper,
    "argsort": argsort,
    "minicons": minicons,
}
