# Tests: generation/colocate.py
"""One vLLM engine in the training process plays every role with that role's weights, exactly."""

import json
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from countdown_selfplay.countdown import generate_problems
from countdown_selfplay.errors import ConfigError, GenerationError
from countdown_selfplay.generation.vllm_sampler import VLLMSampler
from countdown_selfplay.tiny import TINY_MODEL_PATH
from tests.distributed.two_processes import launched_under
from tests.probe_games import TRAINED, probe
from tests.trainer.conftest import equal, held, make_trainer, ran, rounds, weights
from tests.trainer.test_generation_backends import watch_differences
from tests.trainer.test_round import LORA

from .conftest import VLLM

pytestmark = pytest.mark.vllm

WORKER = Path(__file__).parent / "worker.py"


def build(folder, sharing="full", **changes):
    extra = {"peft_config": LORA} if sharing == "lora" else {}
    return make_trainer(folder, policy_sharing=sharing, trainer=extra, **{**VLLM, **changes})


@pytest.mark.parametrize("sharing, pushes", [("full", (1, 1)), ("lora", (1, 1)), ("tied", (1, 0))])
def test_the_samplers_log_probs_are_the_trainers_for_each_role_after_several_updates(tmp_path, sharing, pushes):
    """In float32 and at temperature 0.7. `pushes`: of the conjecturer's turn and of the prover's, which comes second
    and finds its weights there under `tied`."""
    trainer = build(tmp_path, sharing, temperature=0.7)
    differences, before, engine = watch_differences(trainer), weights(trainer), trainer.sampler.generation.llm
    trainer.train()
    assert all(len(d) == 3 and max(d) < 1e-4 for d in differences.values()), differences
    assert trainer.sampler.generation.llm is engine  # it stays resident
    after = weights(trainer)
    for name in trainer.policies.weight_names:
        assert any(not torch.equal(before[k], after[k]) for k in before if k.startswith(f"{name}:")), name
    for line in rounds(tmp_path):
        assert (line["conjecturer/weights_pushed"], line["prover/weights_pushed"]) == pushes
        for role in ("prover", "conjecturer"):
            assert line[f"{role}/sampler_logp_difference_max"] < 1e-4
            assert line[f"{role}/sampler_weight"] == pytest.approx(1.0, abs=1e-3)


def test_an_adapter_that_did_not_change_is_not_sent_again(tmp_path):
    """Both adapters start at zero; the conjecturer's stays there, and is sent once."""
    ran(build(tmp_path, "lora", conjecturer_learning_rate=0.0))
    lines = rounds(tmp_path)
    assert [line["conjecturer/weights_pushed"] for line in lines] == [1, 0, 0]
    assert [line["prover/weights_pushed"] for line in lines] == [1, 1, 1]


@pytest.mark.parametrize("game, sharing", [("pool", "lora"), ("pool", "full"), ("frozen", "lora"), ("frozen", "full"),
                                           ("debate", "lora"), ("symbolic", "lora")])  # fmt: skip
def test_each_player_of_a_probe_game_samples_with_its_own_weights_and_a_resume_is_exact(tmp_path, game, sharing):
    """Two provers over one base; a role that plays the base itself under `lora`, and has nothing to push; under
    `full` its weights are pushed like any other's, for the engine held the prover's in between."""
    extra = {"peft_config": LORA} if sharing == "lora" else {}
    settings = {**VLLM, "save_strategy": "steps", "save_steps": 2}

    def player(folder):
        return make_trainer(folder, **probe(game, policy_sharing=sharing, trainer=extra, **settings))

    straight = player(tmp_path / "straight")
    differences = watch_differences(straight)
    start = weights(straight)
    straight.train()
    assert set(differences) == set(straight.roles)
    assert max(gap for found in differences.values() for gap in found) < 1e-4, differences
    after = weights(straight)
    assert {key.split(":")[0] for key in after if not torch.equal(start[key], after[key])} == set(TRAINED[game])
    lines = rounds(tmp_path / "straight")
    for player_name in TRAINED[game]:  # the debate's second turn finds the weights of its first there
        first = 0.5 if game == "debate" and player_name == "prover" else 1
        assert lines[0][f"{player_name}/weights_pushed"] == first
    if game == "frozen":
        pushed = [line["conjecturer/weights_pushed"] for line in lines]
        assert pushed == ([0, 0, 0] if sharing == "lora" else [1, 1, 1])
    resumed = ran(player(tmp_path / "resumed"), str(tmp_path / "straight" / "checkpoint-2"))
    assert equal(weights(straight), weights(resumed)) and held(straight) == held(resumed)


def test_without_the_push_the_metric_shows_that_the_second_role_has_the_first_ones_weights(tmp_path, monkeypatch):
    """The fault that nothing else shows: the same run, with an engine that believes that it holds every role."""
    trainer = build(tmp_path, max_steps=2)
    monkeypatch.setattr(VLLMSampler, "renew", lambda self, place, name, send: False)
    trainer.train()
    last = rounds(tmp_path)[-1]
    assert last["prover/sampler_logp_difference"] > 1e-3 and last["prover/weights_pushed"] == 0


def test_models_that_were_passed_as_objects_are_the_ones_that_sample(tmp_path):
    """Not what lies at the path of the same name: under `lora` the base is never pushed, so the engine must start
    from it."""
    model = AutoModelForCausalLM.from_pretrained(str(TINY_MODEL_PATH), dtype="float32")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.1)
    trainer = build(tmp_path, "lora", max_steps=1)
    other = make_trainer(
        tmp_path / "object", model=model, policy_sharing="lora",
        trainer={"peft_config": LORA, "processing_class": trainer.processing_class}, **{**VLLM, "max_steps": 1},
    )  # fmt: skip
    differences = watch_differences(other)
    other.train()
    assert max(differences["prover"] + differences["conjecturer"]) < 1e-4


def test_stop_strings_end_tokens_and_the_length_are_the_roles_own(tmp_path):
    trainer = build(tmp_path, max_steps=1, conjecturer_max_completion_length=3)
    domain = trainer.domain
    stops = {"prover": ["*"], "conjecturer": None}
    object.__setattr__(trainer.sampler.context, "stops", stops.get)
    problems = generate_problems(4, domain.spec, seed=1)
    played = trainer.round_loop.begin([])
    texts = played.sample("prover", [domain.prove_row(p) for p in problems], 4, problems).texts
    assert all("*" not in text[:-1] for text in texts) and any(text.endswith("*") for text in texts)
    proposals = played.sample("conjecturer", [domain.propose_row(3)], 16)
    assert proposals.tensors["completion_ids"].size(1) == 3


def test_a_prompt_that_does_not_fit_is_refused_before_vllm_cuts_its_completion(tmp_path):
    trainer = build(tmp_path, vllm_max_model_length=18)
    with pytest.raises(GenerationError, match="tokens, which with 16 for the completion is more than the 18"):
        trainer.train()


def test_what_one_engine_cannot_hold_is_refused(tmp_path):
    small = AutoModelForCausalLM.from_pretrained(str(TINY_MODEL_PATH), num_hidden_layers=1, dtype="float32")
    models = {"prover": str(TINY_MODEL_PATH), "conjecturer": small}
    tokenizer = {"processing_class": AutoTokenizer.from_pretrained(str(TINY_MODEL_PATH))}
    with pytest.raises(ConfigError, match="differ in their tensors, and one vLLM engine holds one architecture"):
        make_trainer(tmp_path, model=models, trainer=tokenizer, **VLLM)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["ddp", "zero3", "fsdp2"])
@pytest.mark.parametrize("sharing", ["full", "lora"])
def test_two_processes_each_with_an_engine_agree_and_are_exact(tmp_path, sharing, engine):
    """Under ZeRO-3 and FSDP2 no process holds whole weights, and a push gathers them."""
    if engine == "zero3":
        pytest.importorskip("deepspeed")
    found = two_processes(tmp_path, {**VLLM, "policy_sharing": sharing, "max_steps": 2}, engine)
    assert found[0]["weights"] == found[1]["weights"]
    assert found[0]["texts"] != found[1]["texts"]  # the processes draw their own samples
    for rank in found:
        assert rank["processes"] == 2 and rank["engine"] == engine
        assert all(len(d) == 2 and max(d) < 1e-4 for d in rank["differences"].values()), rank["differences"]


@pytest.mark.slow
@pytest.mark.parametrize("sharing", ["full", "lora"])
def test_two_processes_that_hold_one_engine_together_draw_the_same_tokens(tmp_path, sharing):
    """Each half samples every completion by itself: with different draws the halves would go on with different
    texts."""
    settings = {**VLLM, "policy_sharing": sharing, "max_steps": 2, "vllm_tensor_parallel_size": 2}
    found = two_processes(tmp_path, settings)
    assert found[0]["weights"] == found[1]["weights"] and found[0]["texts"] != found[1]["texts"]
    for rank in found:
        assert all(len(d) == 2 and max(d) < 1e-4 for d in rank["differences"].values()), rank["differences"]


def two_processes(output, config, engine="ddp"):
    output.mkdir(parents=True, exist_ok=True)
    process = launched_under(engine, WORKER, json.dumps({"output": str(output), "config": config}))
    assert process.returncode == 0, process.stderr[-3000:]
    return [json.loads((output / f"rank{r}.json").read_text()) for r in (0, 1)]
