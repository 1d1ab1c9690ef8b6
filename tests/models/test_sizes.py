"""S from configurations alone: the paper's 24 models, every family of the hub, and odd shapes."""

import json

import pytest
import torch

from rbplib.families import InputError, load_family
from rbplib.model_sizes import family_sizes, known_configs, model_sizes, read_json
from rbplib.models import load_model

PUBLISHED = {  # non-embedding parameters: the suites' own tables and the authors' repository
    "gpt2": [85_056_000, 302_311_424, 708_390_400, 1_475_561_600],
    "opt": [85_056_000, 303_357_952, 1_208_602_624, 2_517_652_480, 6_444_163_072],
    "pythia": [
        *(1_189_888, 4_739_072, 18_915_328, 85_056_000, 302_311_424),
        *(805_736_448, 1_208_602_624, 2_517_652_480, 6_444_163_072, 11_327_027_200),
    ],
    "qwen2.5": [357_898_112, 1_310_340_608, 2_774_773_760, 6_525_621_760, 13_212_898_304],
}
BEYOND = ("opt-to-66b", "pythia-deduped", "qwen2.5-to-72b", "qwen3", "cerebras-gpt", "mamba")


@pytest.fixture(autouse=True)
def no_network(monkeypatch, tmp_path_factory):
    """A size that needed the hub fails here; what an earlier run kept is not looked at."""
    monkeypatch.setenv("RBP_RESULTS", str(tmp_path_factory.getbasetemp() / "sizes"))

    def refuse(*args, **kwargs):
        raise AssertionError("asked the network")

    monkeypatch.setattr("rbplib.hub.open_repo", refuse)


@pytest.mark.parametrize("family", PUBLISHED)
def test_published_sizes(family):
    assert [r["nonembedding_params"] for r in family_sizes(family)] == PUBLISHED[family]


def test_the_paper_has_24_models():
    assert sum(len(load_family(f).models) for f in PUBLISHED) == 24


@pytest.mark.parametrize("family", BEYOND)
def test_families_beyond_the_paper(family):
    rows = family_sizes(family)
    sizes = [r["nonembedding_params"] for r in rows]
    assert len(rows) >= 5 and sizes == sorted(set(sizes))
    assert all(r["total_params"] > r["nonembedding_params"] for r in rows)


def test_totals_of_tied_and_untied_models():
    totals = {r["model"]: (r["total_params"], r["vocab_size"]) for f in ("gpt2", "pythia") for r in family_sizes(f)}
    assert totals["gpt2"] == (124_439_808, 50_257)  # tied: the table counts once
    assert totals["gpt2-xl"] == (1_557_611_200, 50_257)
    assert totals["pythia-14m"] == (14_067_712, 50_304)  # untied: two tables, neither in S
    assert totals["pythia-12b"] == (11_846_072_320, 50_688)


def test_entries_say_what_is_needed():
    for family in (*PUBLISHED, *BEYOND):
        for model in load_family(family).models:
            assert model.revision and model.dtype == "auto" and model.context and model.nonembedding_params


def test_every_hub_model_has_a_configuration():
    assert {m.id for f in (*PUBLISHED, *BEYOND) for m in load_family(f).models} == set(known_configs())


@pytest.mark.parametrize(
    "config, left_out",
    [
        ({"model_type": "gptj", "n_embd": 32, "n_layer": 2, "n_head": 2, "rotary_dim": 8, "vocab_size": 90}, 90 * 65),
        ({"model_type": "gpt_neo", "hidden_size": 32, "num_layers": 2, "attention_types": [[["global"], 2]],
          "num_heads": 2, "vocab_size": 90, "max_position_embeddings": 40}, 130 * 32),
        ({"model_type": "llama", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
          "intermediate_size": 64, "vocab_size": 90}, 2 * 90 * 32),
    ],
    ids=lambda v: v["model_type"] if isinstance(v, dict) else "",
)  # fmt: skip
def test_what_is_left_out(config, left_out):
    sizes = model_sizes(config)  # gptj: two tables and the head's bias; gpt_neo: tied table and positions
    assert sizes.total - sizes.nonembedding == left_out and sizes.vocab == 90


BROKEN = [{"model_type": "t5"}, {"model_type": "no-such"}, {}, {"model_type": "gpt2", "n_embd": "x"}]


@pytest.mark.parametrize("config", BROKEN)
def test_bad_configurations(config):
    with pytest.raises(InputError):
        model_sizes(config)


def test_damaged_file(tmp_path):
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(InputError, match="not a readable configuration"):
        read_json(tmp_path / "config.json")


def test_wrong_size_in_a_family_file(tmp_path):
    path = tmp_path / "mine.yml"
    path.write_text("models:\n  - {id: openai-community/gpt2, nonembedding_params: 7}\n")
    with pytest.raises(InputError, match="correct the family file"):
        family_sizes(path)


def test_sizes_are_kept_and_a_damaged_record_is_not_believed(tmp_path, monkeypatch):
    monkeypatch.setenv("RBP_RESULTS", str(tmp_path))
    first = family_sizes("gpt2")
    monkeypatch.setattr("rbplib.model_sizes.model_sizes", lambda config: pytest.fail("counted again"))
    assert family_sizes("gpt2") == first
    monkeypatch.undo()
    monkeypatch.setenv("RBP_RESULTS", str(tmp_path))
    for damage in ("{", "[]", json.dumps(dict.fromkeys(json.loads((tmp_path / "sizes.json").read_text()), "x"))):
        (tmp_path / "sizes.json").write_text(damage)
        assert family_sizes("gpt2") == first


def test_a_folder_without_configuration(tmp_path):
    (tmp_path / "m").mkdir()
    (tmp_path / "mine.yml").write_text("models: [m]\n")
    with pytest.raises(InputError, match="not a readable configuration"):
        family_sizes(tmp_path / "mine.yml")


MIXTURE = {"model_type": "mixtral", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
           "vocab_size": 320, "intermediate_size": 48, "num_local_experts": 8, "num_experts_per_tok": 2,
           "num_key_value_heads": 2}  # fmt: skip
EXPERT = 3 * 32 * 48


def mixture(folder, **fields):
    from smallmodels import tokenizer
    from transformers import AutoModelForCausalLM

    from rbplib.model_sizes import as_config

    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(as_config(MIXTURE)).save_pretrained(folder / "m")
    tokenizer().save_pretrained(folder / "m")
    said = "".join(f"{key}: {value}\n" for key, value in fields.items())
    (folder / "mine.yml").write_text(f"{said}context: 32\nmodels: [{{id: {folder}/m}}]\n")
    return folder / "mine.yml"


@pytest.mark.parametrize("experts", ["all", "active"])
def test_a_family_says_which_experts_count(experts, tmp_path, recwarn):
    (model,) = load_family(mixture(tmp_path, experts=experts)).models
    loaded = load_model(model, device="cpu")
    assert not recwarn.list
    both = loaded.record["params_by_experts"]
    assert both["all"] - both["active"] == 2 * 6 * EXPERT  # two layers, six experts that a token does not meet
    assert (
        loaded.record["nonembedding_params"]
        == both[experts]
        == family_sizes(tmp_path / "mine.yml")[0]["nonembedding_params"]
    )


def test_a_mixture_whose_family_does_not_say_is_told_once(tmp_path):
    (model,) = load_family(mixture(tmp_path)).models
    with pytest.warns(UserWarning, match="mixture of experts: S is .* 'experts: all' or 'experts: active'") as said:
        loaded = load_model(model, device="cpu")
    assert len(said) == 1 and loaded.record["nonembedding_params"] == loaded.record["params_by_experts"]["all"]


def test_another_choice_of_experts_is_another_table(tmp_path, monkeypatch):
    from rbplib.measuring import measure
    from rbplib.stored import read_ranks

    (tmp_path / "text.txt").write_text("the quick brown fox jumps over the lazy dog\n" * 5)
    sizes = []
    for experts in ("all", "active", "all"):
        paths = measure(mixture(tmp_path, experts=experts), corpora=[str(tmp_path / "text.txt")], progress=False,
                        results=tmp_path / "results")  # fmt: skip
        sizes.append(read_ranks(paths[0]).record["nonembedding_params"])
    assert sizes[0] == sizes[2] == sizes[1] + 2 * 6 * EXPERT


def test_experts_are_all_or_active(tmp_path):
    with pytest.raises(InputError, match="experts 'some' is not known: choose one of all, active"):
        load_family(mixture(tmp_path, experts="some"))


@pytest.mark.parametrize("kind", ["mamba2", "bamba", "falcon_h1"])
def test_a_configuration_with_an_infinity_as_the_hub_writes_it(kind, tmp_path):
    from transformers import AutoConfig

    AutoConfig.for_model(kind).save_pretrained(tmp_path)
    assert '"__float__": "Infinity"' in (tmp_path / "config.json").read_text()
    assert model_sizes(read_json(tmp_path / "config.json")).nonembedding > 1e6


def test_the_position_table_of_the_first_gpt_is_none_of_s():
    sizes = model_sizes({"model_type": "openai-gpt"})
    assert sizes.nonembedding == 12 * (12 * 768**2 + 13 * 768)  # matrices, their biases and two norms of each layer
    assert sizes.total - sizes.nonembedding == (40_478 + 512) * 768
