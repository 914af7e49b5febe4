# Tests: tiny/__init__.py, cli/eval.py, evaluation/model.py, evaluation/sampling.py, evaluation/setting.py
"""The ladder's three models as they are shipped: files, sizes, tokenizer, what they can do."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tools.make_tiny_model.ladder.figures import answer_requests, measure, play, propose
from tools.make_tiny_model.tokenizer import RESERVED
from transformers import AutoModelForCausalLM, AutoTokenizer

from countdown_selfplay.cli.eval import parse
from countdown_selfplay.countdown import CountdownDomain, Problem, ProblemSpec
from countdown_selfplay.evaluation.model import folder_of
from countdown_selfplay.evaluation.sampling import sample_completions
from countdown_selfplay.evaluation.setting import setting_of
from countdown_selfplay.tiny import (
    LADDER_ASKED_PATH,
    LADDER_MODEL_PATHS,
    LADDER_SPEC,
    TINY_MODEL_PATH,
    TINY_SPEC,
    load_tiny_model,
    resolve_model,
)

PATHS = {**LADDER_MODEL_PATHS, "asked": LADDER_ASKED_PATH}
SHAPES = [("prover", 64, 4, 192), ("conjecturer", 48, 2, 128), ("asked", 48, 2, 128)]


@pytest.fixture(scope="module")
def models():
    return {role: load_tiny_model(path) for role, path in PATHS.items()}


def test_the_spec_is_the_tiny_models_with_three_to_twenty_numbers():
    assert replace(TINY_SPEC, operands=tuple(range(3, 21))) == LADDER_SPEC == ProblemSpec(range(3, 21), 1, 12, 1, 99)


def test_the_name_leads_to_the_prover_and_others_to_themselves():
    assert resolve_model("tiny-ladder") == str(LADDER_MODEL_PATHS["prover"])
    assert resolve_model("tiny") == resolve_model(None) == str(TINY_MODEL_PATH)
    assert resolve_model("some/model") == "some/model"


@pytest.mark.parametrize("role", PATHS)
def test_the_folder_is_a_whole_model_with_the_tiny_models_tokenizer(role):
    folder = PATHS[role]
    assert {path.name for path in folder.iterdir()} == {path.name for path in TINY_MODEL_PATH.iterdir()}
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        assert (folder / name).read_bytes() == (TINY_MODEL_PATH / name).read_bytes(), name
    assert json.loads((folder / "config.json").read_text())["architectures"] == ["Qwen3ForCausalLM"]


def test_all_files_together_take_less_than_one_and_a_half_megabytes():
    assert sum(path.stat().st_size for folder in PATHS.values() for path in folder.iterdir()) < 1_500_000


@pytest.mark.parametrize(("role", "width", "layers", "inner"), SHAPES)
def test_the_weights_load_offline_in_float32_and_have_the_size_that_is_documented(role, width, layers, inner):
    model = AutoModelForCausalLM.from_pretrained(str(PATHS[role]), local_files_only=True)
    # Embedding of 129 words, tied; a layer: 4 square projections, 3 of the MLP, norms 2 x width and 2 x 16; last norm.
    layer = 4 * width**2 + 3 * width * inner + 2 * width + 2 * 16
    assert model.num_parameters() == 129 * width + layers * layer + width
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert (model.config.head_dim, model.config.num_attention_heads) == (16, width // 16)
    assert model.config.max_position_embeddings == 64
    assert AutoTokenizer.from_pretrained(str(PATHS[role]))("3 4 : 7")["input_ids"][0] == 1


def test_two_numbers_are_solved_three_sometimes_and_five_hardly_ever(models):
    # Measured on 24 and 64 held-out problems x 16 episodes (docs/tiny_model.md): .80 [.66, .91], .42 [.34, .49] and
    # .01; the bounds are these intervals, wider by the noise of 4 episodes a problem (.04 and .03).
    two, three, five = measure(*models["prover"], problems=64, samples=4, seed=1, sizes=(2, 3, 5))
    assert 0.60 < two.pass_at[1].value < 0.96
    assert 0.30 < three.pass_at[1].value < 0.54
    assert five.pass_at[1].value < 0.05


def test_an_episode_depends_on_the_seed_alone(models):
    problems = [Problem((3, 4, 5), 12)] * 32
    torch.manual_seed(3)
    first = play(*models["prover"], problems, seed=5)
    assert first == play(*models["prover"], problems, seed=5)
    assert 0 < sum(first) < 32


def test_proposals_are_well_formed_and_of_all_sizes(models):
    proposals = propose(*models["conjecturer"], 256)
    # Measured over 2,048: .745 and .628; of 256 the standard deviation is .03.
    assert 0.65 < proposals.parseable.value < 0.84
    assert 0.53 < proposals.new.value < 0.73
    assert min(proposals.sizes) <= 4
    assert max(proposals.sizes) >= 18


def test_each_request_is_answered_with_a_problem_most_of_the_time(models):
    # Measured over 2,048 each (docs/tiny_model.md): .937, .914, .811, .932, .915; of 256 the standard deviation is at
    # most .025, and the bounds are four of them below. A named size is met by chance in one of 18.
    found = answer_requests(*models["asked"], 256)
    least = {"any: parseable": 0.87, "size: parseable": 0.84, "size: parseable, of that size": 0.71}
    least |= {"help: parseable": 0.86, "help: playable": 0.84}
    assert {name for name, low in least.items() if found[name].value < low} == set()


def test_words_that_were_never_met_are_rare(models):
    # Of the tokens that it samples: .0007 for the prover, .003 for the conjecturer.
    asked = ["propose :", "propose 5 :", "propose like 3 5 7 9 = 22 :"]
    for role, prompts in (
        ("prover", ["3 4 5 : 12", "7 2 9 11 : 36"]),
        ("conjecturer", ["propose :"]),
        ("asked", asked),
    ):
        model, tokenizer = models[role]
        written = sample_completions(model, tokenizer, prompts, 128, max_new_tokens=24, seed=0)
        words = [word for row in written for completion in row for word in completion.text.split()]
        assert sum(word in RESERVED for word in words) < 0.01 * len(words)


@pytest.mark.parametrize(
    "model", ["tiny-ladder", "tiny-ladder-conjecturer", "tiny-ladder-asked", str(LADDER_MODEL_PATHS["prover"])]
)
def test_eval_scores_them_in_their_own_game(model):
    setting = setting_of(parse(["--model", model]))
    assert setting.domain == CountdownDomain.ladder()
    assert setting.domain.spec == LADDER_SPEC
    assert folder_of(model) == Path(resolve_model(model))
