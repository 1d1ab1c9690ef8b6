"""What a model would have said at some places of a corpus."""

import torch

from rbplib.model_sizes import window_length
from rbplib.models import load_model
from rbplib.texts import load_documents
from rbplib.windows import encode


def best_candidates(family, model, corpus, places, n=5):
    """The n likeliest next tokens at some places, (document, position) as in the rank table.

    Yields (context: token texts before the place, id and text of the true token, [(text, probability), ...]).
    """
    loaded, texts, length = load_model(model), load_documents(corpus).texts, window_length(family)

    def text(ident):
        return loaded.tokenizer.decode([int(ident)])

    for document, position in places:
        (ids,), _ = encode(loaded.tokenizer, [texts[document]], position + 1)
        start = max(0, position + 1 - length)
        with torch.inference_mode():
            read = torch.from_numpy(ids[start:position].astype("int64"))[None].to(loaded.device)
            logits = loaded.model(read).logits[0, -1].float()
        best = torch.topk(logits.softmax(-1), n)
        pairs = [(text(i), p) for i, p in zip(best.indices.tolist(), best.values.tolist(), strict=True)]
        yield [text(i) for i in ids[start:position]], int(ids[position]), text(ids[position]), pairs
