"""Tiny configurations of many architectures: what a matrix of tests walks over. None is pretrained,
none is fetched."""

# V makes four blocks of the vocabulary. Both are primes: a tensor whose first side is V, CONTEXT
# or CONTEXT + 2 is a table, and no other is
V, CONTEXT = 2309, 61
IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
GPT = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": CONTEXT}
SMALL = {"hidden_size": 32, "num_hidden_layers": 2}
SHAPE = SMALL | {"num_attention_heads": 4, "intermediate_size": 48}
SHAPE |= {"max_position_embeddings": CONTEXT}
GROUPED = SHAPE | {"num_key_value_heads": 2}
HEADED = GROUPED | {"head_dim": 8}
LOCAL = {"num_local_experts": 4, "num_experts_per_tok": 2}
STATE = SMALL | {"state_size": 4}
HYBRID = {"mamba_d_state": 4, "mamba_n_heads": 4, "mamba_d_head": 16}
HYBRID |= {"mamba_n_groups": 1, "mamba_chunk_size": 16}
LATENT = {"kv_lora_rank": 8, "q_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8}
LATENT |= {"v_head_dim": 8, "n_routed_experts": 4, "n_shared_experts": 1, "topk_group": 1}
LATENT |= {"num_experts_per_tok": 2, "moe_intermediate_size": 16, "n_group": 1}
LATENT |= {"num_key_value_heads": 4, "first_k_dense_replace": 1}
ALTERNATING = {"num_layers": 2, "num_heads": 4, "window_size": 8}
ALTERNATING |= {"attention_types": [[["global", "local"], 1]]}

ARCHITECTURES = {  # model_type: settings
    "gpt2": GPT,
    "gpt_neo": SHAPE | ALTERNATING,
    "gpt_neox": SHAPE,
    "gptj": GPT | {"rotary_dim": 4},
    "opt": SHAPE | {"ffn_dim": 48, "word_embed_proj_dim": 16, "do_layer_norm_before": False},
    "bloom": {"hidden_size": 32, "n_layer": 2, "n_head": 4},
    "llama": GROUPED,
    "mixtral": GROUPED | LOCAL,
    "qwen2": GROUPED,
    "gemma2": HEADED | {"sliding_window": 8, "final_logit_softcapping": 0.3},
    "falcon": SHAPE | {"new_decoder_architecture": False, "multi_query": True},
    "cohere": GROUPED | {"logit_scale": 0.25},
    "olmo2": GROUPED,
    "granite": GROUPED | {"logits_scaling": 3.0},
    "openai-gpt": GPT,
    "rwkv": SMALL | {"context_length": CONTEXT},
    "mamba": STATE,
    "mamba2": STATE | {"num_heads": 8, "head_dim": 8, "n_groups": 1, "chunk_size": 16},
    "falcon_mamba": STATE,
    "falcon_h1": HEADED | HYBRID | {"mamba_d_ssm": 64, "lm_head_multiplier": 0.5},
    "recurrent_gemma": HEADED
    | {"num_hidden_layers": 3, "lru_width": 32, "attention_window_size": 16},
    "deepseek_v3": SHAPE | LATENT,
    "bert": SHAPE | {"is_decoder": True},
    "gpt_oss": HEADED | LOCAL | {"sliding_window": 8},
    "lfm2": GROUPED | {"full_attn_idxs": [1], "block_ff_dim": 48},
}


def made(kind, **changes):
    """A random model of a kind, its weights spread as a trained model's: scores are neither all
    equal nor one-sided."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(0)
    settings = {"vocab_size": V} | IDS | ARCHITECTURES.get(kind, {}) | changes
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **settings)).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p), alpha=0.2 if p.dim() > 1 else 0.05)
    return model
