"""S from configurations alone: the paper's 24 models, every family of the hub, and odd shapes."""

import json

import pytest
from commands import ROOT, answers, refusal
from smallmodels import save_model

from rbplib import InputError, load_family
from rbplib.families import digest
from rbplib.models import configuration, load_model, model_sizes, window_length

PUBLISHED = {  # non-embedding parameters: the suites' own tables and the authors' repository
    "gpt2": [85_056_000, 302_311_424, 708_390_400, 1_475_561_600],
    "opt": [85_056_000, 303_357_952, 1_208_602_624, 2_517_652_480, 6_444_163_072],
    "pythia": [
        *(1_189_888, 4_739_072, 18_915_328, 85_056_000, 302_311_424),
        *(805_736_448, 1_208_602_624, 2_517_652_480, 6_444_163_072, 11_327_027_200),
    ],
    "qwen2.5": [357_898_112, 1_310_340_608, 2_774_773_760, 6_525_621_760, 13_212_898_304],
}
TOTALS = {  # parameters in all, and candidates
    "gpt2": (124_439_808, 50_257),  # tied: the table counts once
    "pythia-14m": (14_067_712, 50_304),  # untied: two tables, neither in S
    "pythia-12b": (11_846_072_320, 50_688),
}


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    def ask(*_, **__):
        pytest.fail("asked the network")

    monkeypatch.setattr("huggingface_hub.snapshot_download", ask)


def test_sizes_that_are_kept_are_those_of_the_modules():
    """Written anew by this test where they are none: remove families/sizes.json, then run it."""
    path, computed = ROOT / "families/sizes.json", {}
    for family in sorted((ROOT / "families").glob("*.yml")):
        for model in load_family(family.stem).models:
            fields = configuration(model)
            computed[digest(fields)] = model_sizes(fields)
    if not path.exists():
        path.write_text(json.dumps(computed, indent=0, sort_keys=True) + "\n")
    assert json.loads(path.read_text()) == computed


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_sizes(name):
    rows, family = answers(f"families {name}"), load_family(name)
    assert [row["nonembedding_params"] for row in rows] == PUBLISHED[name]
    for row in rows:
        if row["model"] in TOTALS:
            assert (row["total_params"], row["vocab_size"]) == TOTALS[row["model"]]
    assert window_length(family) == 512 and all(model.revision for model in family.models)


GPTJ = {"model_type": "gptj", "n_embd": "x", "n_layer": 2, "n_head": 2, "rotary_dim": 8}


@pytest.mark.parametrize("config", [{"model_type": "t5"}, {"n_embd": 8}, GPTJ])
def test_a_configuration_of_no_language_model(config, empty_root):
    (empty_root / "families/configs").mkdir()
    (empty_root / "families/configs/odd.json").write_text(json.dumps({"a/b": config}))
    (empty_root / "families/odd.yml").write_text("models: [a/b]\n")
    assert "describes no causal language model" in refusal("families odd")


def test_another_size_in_the_family_file_is_refused(tmp_path):
    save_model(tmp_path / "m")
    path = tmp_path / "mine.yml"
    path.write_text(f"models: [{{id: {tmp_path}/m, nonembedding_params: 7}}]\n")
    assert "correct the family file" in refusal(f"families {path}")
    with pytest.raises(InputError, match="gives 7 .* correct the family file"):
        load_model(load_family(path).models[0])
