"""A small Llama as a GGUF file, written as llama.cpp's converter does."""

import json


def write_gguf(path, model, more=()):
    """Write the model with tests' tokenizer; its tensors are afterwards what the file gives
    back. more: {name: length} of further tensors."""
    import gguf
    import torch
    from smallmodels import tokenizer

    c, words = model.config, tokenizer()
    writer, block = gguf.GGUFWriter(path, "llama"), gguf.GGMLQuantizationType.Q4_1
    writer.add_context_length(c.max_position_embeddings)
    writer.add_embedding_length(c.hidden_size)
    writer.add_block_count(c.num_hidden_layers)
    writer.add_feed_forward_length(c.intermediate_size)
    writer.add_head_count(c.num_attention_heads)
    writer.add_head_count_kv(c.num_key_value_heads)
    writer.add_layer_norm_rms_eps(c.rms_norm_eps)
    writer.add_vocab_size(c.vocab_size)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q4_1)
    # the tokenizer
    backend = words.backend_tokenizer
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([backend.id_to_token(i) for i in range(len(words))])
    writer.add_token_types([3 if i == 0 else 1 for i in range(len(words))])
    writer.add_token_merges(list(map(" ".join, json.loads(backend.to_str())["model"]["merges"])))
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
    # the weights, in blocks but for norms
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, c.num_hidden_layers)
    heads = {"attn_q": c.num_attention_heads, "attn_k": c.num_key_value_heads}
    with torch.no_grad():
        for name, p in model.named_parameters():
            to = names.get_name(name, (".weight",))
            dtype = gguf.GGMLQuantizationType.F32 if p.dim() < 2 or to == "output.weight" else block
            data = gguf.quants.quantize(p.numpy(), dtype)
            p.copy_(torch.from_numpy(gguf.quants.dequantize(data, dtype)))
            if number := heads.get(to.split(".")[-2]):
                # llama.cpp pairs the halves of a head's rows otherwise; rows move whole
                rows = data.reshape(number, 2, -1, *data.shape[1:])
                data = rows.swapaxes(1, 2).reshape(data.shape)
            writer.add_tensor(to, data, raw_dtype=dtype)
    for name in more:
        writer.add_tensor(name, torch.ones(more[name]).numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
