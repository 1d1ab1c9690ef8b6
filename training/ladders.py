"""The ladders: configurations of every size of every family, their learning rates and budgets."""

from dataclasses import dataclass

from rbplib.families import InputError, nearest
from training.tokenizer import VOCABULARY

CONTEXT = 256


@dataclass(frozen=True)
class Size:
    """Depth, width and heads of one rung; they grow together."""

    layers: int
    width: int
    heads: int


RUNGS = (
    Size(1, 12, 1),
    Size(2, 16, 1),
    Size(3, 24, 1),
    Size(4, 40, 1),
    Size(4, 64, 2),
    Size(5, 104, 2),
)
# Two rungs more, of the grid and of the probes: their weights would outweigh a whole ladder's.
TOP, LARGEST = Size(6, 160, 2), Size(8, 224, 4)
# A Mamba block has half the parameters of a transformer's layer, and a scan that costs as much as
# the rest.
MAMBA_RUNGS = (
    Size(1, 12, 0),
    Size(2, 16, 0),
    Size(3, 24, 0),
    Size(4, 40, 0),
    Size(5, 64, 0),
    Size(6, 112, 0),
)
TABLE_RATE = 0.03
BLOCK_RATE, BASE_WIDTH = 0.016, 16


def learning_rates(width):
    """Peak rates of AdamW, (blocks, token tables): 0.016 at width 16, falling as 1/width; and 0.03.

    Adam moves every entry of a matrix by about the rate whatever the matrix's size; what a block
    adds then grows with its number of inputs, so its rate falls with the width. A row of a table
    has one input, so its rate does not.
    """
    return BLOCK_RATE * BASE_WIDTH / width, TABLE_RATE


def _common(size):
    return {
        "hidden_size": size.width,
        "num_hidden_layers": size.layers,
        "vocab_size": VOCABULARY,
        "initializer_range": 0.4 / size.width**0.5,  # 0.02 of the real families is 0.4 / sqrt(400)
        "bos_token_id": 0,
        "eos_token_id": 0,
        "tie_word_embeddings": True,
    }


def _transformer(size):
    heads = {"num_attention_heads": size.heads, "max_position_embeddings": CONTEXT}
    return _common(size) | heads


def nano_pythia(size):
    from transformers import GPTNeoXConfig

    # untied as Pythia; half of each head is rotated, there a quarter
    settings = _transformer(size) | {"tie_word_embeddings": False}
    rope = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}
    return GPTNeoXConfig(
        intermediate_size=4 * size.width,
        rope_parameters=rope,
        use_parallel_residual=True,
        **settings,
    )


def nano_gpt2(size):
    from transformers import GPT2Config

    return GPT2Config(
        activation_function="gelu_pytorch_tanh",  # the same function as gelu_new, in one kernel
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        **_transformer(size),
    )


def nano_opt(size):
    from transformers import OPTConfig

    # its own names of what all transformers have
    settings = _transformer(size)
    return OPTConfig(
        init_std=settings.pop("initializer_range"),
        word_embed_proj_dim=size.width,
        ffn_dim=4 * size.width,
        dropout=0.0,
        attention_dropout=0.0,
        pad_token_id=None,
        **settings,
    )


def nano_qwen(size):
    from transformers import Qwen2Config

    return Qwen2Config(
        num_key_value_heads=max(1, size.heads // 2),
        intermediate_size=round(size.width * 8 / 3 / 16) * 16,
        **_transformer(size),
    )


def nano_mamba(size):
    from transformers import MambaConfig

    return MambaConfig(state_size=4, expand=2, residual_in_fp32=False, **_common(size))


FAMILIES = {
    "nano-pythia": nano_pythia,
    "nano-gpt2": nano_gpt2,
    "nano-qwen2.5": nano_qwen,
    "nano-opt": nano_opt,
    "nano-mamba": nano_mamba,
}

# Repeated with other initial weights and the text in another order: the scatter of trainings.
REPEATED_FAMILY, OTHER_SEEDS = "nano-pythia", (43, 44)
SEED = 42
# The law in tokens: every size of one family, and one rung more, on so many tokens, each with its
# own decay.
GRID_FAMILY, MILLION = "nano-pythia", 1_024_000
BUDGETS = {f"{n}m": n * MILLION for n in (1, 2, 4, 8, 16)}
TOKENS = BUDGETS["4m"]  # of the ladders
# Probed on their way through training: four sizes with every seed, and one larger with one seed.
PROBED_FAMILY, PROBED_TOKENS = GRID_FAMILY, BUDGETS["16m"]
PROBED = (*RUNGS[3:], TOP, LARGEST)


def folder_names(family, name, seed=SEED):
    """(family, model): folder below `models/`. Other seeds have a family of their own."""
    if seed == SEED:
        return family, name
    return f"{family}-seeds", f"{name}-{seed}"


def grid_folder_names(family, name, seed, tokens):
    """Folder of a model of the grid: (family of the budget, model)."""
    (budget,) = (word for word, n in BUDGETS.items() if n == tokens)
    if seed == SEED:
        return f"{family}-{budget}", name
    return f"{family}-{budget}.repeats", f"{name}-{seed}"


def nonembedding_parameters(model):
    """All parameters less the tables of tokens and positions and an untied output embedding."""
    tables = {id(model.get_output_embeddings().weight)}
    for module in model.modules():
        if type(module).__name__.endswith("Embedding"):
            tables.update(id(p) for p in module.parameters())
    return sum(p.numel() for p in model.parameters() if id(p) not in tables)


def is_position(name):
    """Whether a parameter is a table of learned positions."""
    return "wpe" in name or "embed_positions" in name


def build(family, size, vocabulary=VOCABULARY):
    """A freshly initialised model; call `torch.manual_seed` before."""
    import torch
    from transformers import AutoModelForCausalLM

    config = FAMILIES[family](size)
    config.vocab_size = vocabulary
    model = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        # Tokens start larger than the blocks' matrices, so that what the first blocks add does not
        # drown them; a tied table makes the scores too, and starts in between.
        tied = model.config.tie_word_embeddings
        model.get_input_embeddings().weight.mul_(2.0 if tied else 4.0)
        for name, parameter in model.named_parameters():
            # Positions must not drown tokens before they are learned.
            if is_position(name):
                parameter.mul_(0.25)
            # As OPT was trained; GPT-2's class does it itself.
            if family == "nano-opt" and name.endswith(("out_proj.weight", "fc2.weight")):
                parameter.div_((2 * size.layers) ** 0.5)
    return model


def named(family, rungs):
    """Name -> Size of some rungs; a size is named by its non-embedding parameters."""
    import torch

    names = {}
    with torch.device("meta"):
        # counted without weights
        for size in rungs:
            count = nonembedding_parameters(build(family, size))
            if count < 10_000:
                name = f"{count / 1000:.1f}k"
            elif count < 1_000_000:
                name = f"{count / 1000:.0f}k"
            else:
                name = f"{count / 1e6:.1f}M"
            names[name] = size
    return names


def sizes(family, top=False):
    """Name -> Size, smallest first; InputError: no such family. top: with the rung of the grid."""
    if family not in FAMILIES:
        raise InputError(f"there is no recipe for {family!r}: {nearest(family, list(FAMILIES))}")
    if family == "nano-mamba":
        return named(family, MAMBA_RUNGS)
    return named(family, (*RUNGS, TOP) if top else RUNGS)


def repeated():
    """(family, size, seed) of every repeated training."""
    names = list(reversed(sizes(REPEATED_FAMILY)))
    return [(REPEATED_FAMILY, name, seed) for seed in OTHER_SEEDS for name in names]


def grid():
    """(family, size, seed, tokens) of every training of the grid, the most tokens first."""
    names = list(sizes(GRID_FAMILY, top=True))
    runs = [(GRID_FAMILY, name, SEED, n) for n in BUDGETS.values() for name in names]
    runs += [(*run, TOKENS) for run in repeated()]
    return sorted(runs, key=lambda run: -run[3])


def sizes_to_probe():
    """Name -> Size, smallest first."""
    return named(PROBED_FAMILY, PROBED)


def probed():
    """(family, size, seed) of every probed training."""
    *names, largest = sizes_to_probe()
    runs = [(name, seed) for seed in (SEED, *OTHER_SEEDS) for name in names]
    runs.append((largest, SEED))
    return [(PROBED_FAMILY, *run) for run in runs]
