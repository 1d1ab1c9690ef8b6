"""A small Llama as a GGUF file, written as llama.cpp's converter does."""

QUANTISED = (
    "attn",
    "ffn",
    "token_embd",
)  # names of the tensors that are stored in blocks, unless they are norms


def write_gguf(path, model, more=()):
    """Write the model with tests' tokenizer; its tensors are afterwards what the file gives
    back. more: {name: length} of further tensors."""
    import json

    import gguf
    import torch
    from smallmodels import tokenizer

    c, words = model.config, tokenizer()
    writer, block = gguf.GGUFWriter(path, "llama"), gguf.GGMLQuantizationType.Q4_1
    writer.add_name("small")
    writer.add_context_length(c.max_position_embeddings)
    writer.add_embedding_length(c.hidden_size)
    writer.add_block_count(c.num_hidden_layers)
    writer.add_feed_forward_length(c.intermediate_size)
    writer.add_head_count(c.num_attention_heads)
    writer.add_head_count_kv(c.num_key_value_heads)
    writer.add_layer_norm_rms_eps(c.rms_norm_eps)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(c.vocab_size)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q4_1)
    backend = words.backend_tokenizer
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([backend.id_to_token(i) for i in range(len(words))])
    writer.add_token_types([3 if i == 0 else 1 for i in range(len(words))])
    writer.add_token_merges(
        [" ".join(pair) for pair in json.loads(backend.to_str())["model"]["merges"]]
    )
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, c.num_hidden_layers)
    with torch.no_grad():
        for name, p in model.named_parameters():
            values, to = p.numpy(), names.get_name(name, (".weight",))
            in_blocks = any(q in to for q in QUANTISED) and "norm" not in to
            dtype = block if in_blocks else gguf.GGMLQuantizationType.F32
            data = gguf.quants.quantize(values, dtype)
            p.copy_(
                torch.from_numpy(gguf.quants.dequantize(data, dtype))
            )  # rows move whole below: blocks do not change
            heads = {"attn_q": c.num_attention_heads, "attn_k": c.num_key_value_heads}.get(
                to.split(".")[-2]
            )
            if heads:  # llama.cpp pairs the halves of a head's rows otherwise
                data = (
                    data.reshape(heads, 2, -1, *data.shape[1:]).swapaxes(1, 2).reshape(data.shape)
                )
            writer.add_tensor(to, data, raw_dtype=dtype)
    for name in more:
        writer.add_tensor(name, torch.ones(more[name]).numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
