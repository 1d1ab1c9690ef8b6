"""The tokenizer of all embedded families: byte-level BPE with one special token."""

import json

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

END = "<|endoftext|>"  # id 0: between documents, and the only special token
VOCABULARY = 4096


def train_tokenizer(texts, vocabulary=VOCABULARY):
    """Byte-level BPE as GPT-2's, digits one by one."""
    tokenizer = Tokenizer(models.BPE())
    # bytes, and each digit a piece
    digits = pre_tokenizers.Digits(individual_digits=True)
    pieces = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, pieces])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    # merges
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[END],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def cut(tokenizer, vocabulary):
    """The tokenizer of a smaller vocabulary: its first merges, as training to it gives."""
    record = json.loads(tokenizer.to_str())
    model = record["model"]
    merges = vocabulary - (len(model["vocab"]) - len(model["merges"]))
    model["merges"] = model["merges"][:merges]
    words = model["vocab"].items()
    model["vocab"] = {word: number for word, number in words if number < vocabulary}
    return Tokenizer.from_str(json.dumps(record))


def save_tokenizer(tokenizer, folder, context=256):
    """Write the files that `AutoTokenizer.from_pretrained(folder)` reads."""
    from transformers import PreTrainedTokenizerFast

    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=END,
        eos_token=END,
        unk_token=END,
        model_max_length=context,
    )
    fast.save_pretrained(folder)
