# Tests: proposers/tiers.py, policies/full.py
"""A pool in the trainer: two conjecturers with tiers and two provers by expert iteration."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from countdown_selfplay.countdown import Problem, verify
from countdown_selfplay.countdown.problem import Rules
from countdown_selfplay.errors import CheckpointError, CollapseError
from countdown_selfplay.tiny import TINY_MODEL_PATH, load_tiny_model
from tests.probe_games import POOL

from .conftest import goes_on, make_trainer, on_sample, rounds

SAVED = {"save_strategy": "steps", "save_steps": 2}


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    """A run of four rounds with checkpoints, and what its players wrote."""
    folder, texts = tmp_path_factory.mktemp("pool"), []
    trainer = make_trainer(folder / "straight", **POOL, **SAVED)
    on_sample(trainer, lambda role, rollout: texts.append((trainer.counts.rounds, rollout)))
    trainer.train()
    return trainer, texts, folder


def tier_config(folder):
    return json.loads((folder / "tier_config.json").read_text())


def test_all_players_are_trained_and_each_round_on_its_own_samples_alone(straight):
    trainer, texts, folder = straight
    start, logged = load_tiny_model()[0].state_dict(), rounds(folder / "straight")
    for name in trainer.policies.weight_names:
        moved = [not torch.equal(p, start[key]) for key, p in trainer.policies.named_parameters(name)]
        assert any(moved), name
    for done, line in enumerate(logged):
        assert line["mean_prover_pass_rate"] == pytest.approx(line["round/solve_rate_mean"], abs=0.2)
        for rollout in (one for at, one in texts if at == done):
            kept = line[f"{rollout.role}/trained_samples"]
            assert line[f"{rollout.role}/replay_samples"] == kept
            if rollout.role.startswith("prover"):
                assert kept == sum(v.correct for v in rollout.verdicts)  # its own right answers, all of them
            else:
                assert kept <= 16
        assert line["round/frontier_share"] <= 1 and 0 <= line["round/unsolvable_share"] <= 1
        assert line["prover/0/token_accuracy"] > 0.5


def test_the_tiers_follow_the_rates_by_the_papers_rule(straight):
    _, _, folder = straight
    count = {0: 3, 1: 3}
    for line in rounds(folder / "straight"):
        for tier in count:
            rate = line.get(f"prover_pass_rate_tier_{tier}")
            if rate is not None:
                count[tier] = min(max(count[tier] + (rate > 0.7) - (rate < 0.2), 2), 4)
            assert line[f"tier_{tier}_operand_count"] == count[tier]
    assert tier_config(folder / "straight" / "checkpoint-4")["tiers"] == [count[0], count[1]]


def test_a_resume_is_the_straight_run_bit_for_bit(straight):
    trainer, _, folder = straight
    goes_on(trainer, make_trainer(folder / "again", **POOL, **SAVED), 2)


def players(**counts):
    return dict(roles={kind: {**role, "players": counts.get(kind, 2)} for kind, role in POOL["roles"].items()})


HIGHER = {**POOL["proposer_kwargs"], "start": [3, 4], "floor": 3}


@pytest.mark.parametrize(
    "changes, words",
    [
        (players(prover=3), r"its roles is .*'prover/1'.* and this run's is .*'prover/2'"),
        (
            dict(proposer_kwargs={**POOL["proposer_kwargs"], "ceiling": 3}),
            r"in proposer_kwargs \({\"ceiling\": 4} there, {\"ceiling\": 3} here\)",
        ),
        (
            dict(proposer_kwargs=HIGHER, allow_changed="proposer_kwargs"),
            r"are at \[{'operands': .*axis operands\); this run has 2 tiers and the rungs \[3, 4\] .* keep the number",
        ),
    ],
)
def test_another_pool_cannot_resume_it_and_is_told_the_difference(straight, build, changes, words):
    _, _, folder = straight
    with pytest.raises(CheckpointError, match=words):
        build(**{**POOL, **changes}).train(resume_from_checkpoint=str(folder / "straight" / "checkpoint-2"))


def test_the_guard_names_the_agent_that_collapsed_among_healthy_ones(build):
    guarded = dict(guard=True, guard_window=1, guard_max_rollbacks=0, learning_rate=1e-5,
                   guard_trips={"round/solve_rate_mean": [None, None]})  # fmt: skip
    trainer = build(**{**POOL, **guarded})
    with torch.no_grad():
        for _, parameter in trainer.policies.named_parameters("conjecturer/1"):
            parameter.normal_(0, 1)
    with pytest.raises(CollapseError, match=r"conjecturer/1/parseable_rate is 0, under 0\.5"):
        trainer.train()


def test_each_agent_has_a_folder_per_exported_round_that_loads(straight):
    trainer, _, folder = straight
    for agent in ("prover_0", "prover_1", "conjecturer_0", "conjecturer_1"):
        places = sorted(path.name for path in (folder / "straight" / agent).iterdir())
        assert places == ["round_2", "round_4"]  # save_steps 2
        assert (
            tier_config(folder / "straight" / agent / "round_4") == trainer.game.proposer.files()["tier_config.json"]
        )
    model, _ = load_tiny_model(folder / "straight" / "conjecturer_1" / "round_4" / "model")
    own = dict(trainer.policies.named_parameters("conjecturer/1"))
    assert all(torch.equal(p, own[key]) for key, p in model.named_parameters())


def test_token_accuracy_is_the_share_of_likeliest_tokens(build):
    """Counted again from the logits of the model before the step, on the right answers that it was trained on."""
    trainer = build(
        max_steps=1, prover_objective="expert_iteration", conjecturer_players=0, conjecturer_num_generations=None
    )
    found = []
    on_sample(trainer, lambda role, rollout: found.append(rollout))
    trainer.train()
    model, _ = load_tiny_model()
    (rollout,), hits, tokens = found, 0, 0
    for row, text in enumerate(rollout.texts):
        numbers = rollout.rows[row // rollout.n]
        if not verify(
            text, Problem(tuple(numbers["numbers"]), numbers["target"]), Rules(answer_format="bare")
        ).correct:
            continue
        tensors = {name: value[row] for name, value in rollout.tensors.items()}
        prompt = tensors["prompt_ids"][tensors["prompt_mask"].bool()]
        answer = tensors["completion_ids"][tensors["completion_mask"].bool()]
        with torch.no_grad():
            logits = model(torch.cat([prompt, answer])[None]).logits[0, len(prompt) - 1 : -1]
        hits += int((logits.argmax(-1) == answer).sum())
        tokens += len(answer)
    assert tokens > 20
    assert rounds(trainer.args.output_dir)[0]["prover/token_accuracy"] == pytest.approx(hits / tokens)


def test_provers_may_differ_in_temperature_and_start(build, tmp_path):
    each = [{"temperature": 0.5}, {"temperature": 1.5}]
    roles = {**POOL["roles"], "prover": {**POOL["roles"]["prover"], "each": each}}
    trainer = build(**{**POOL, "roles": roles, "max_steps": 1})
    assert [trainer.roles[f"prover/{i}"].temperature for i in range(2)] == [0.5, 1.5]
    lengths = {}
    on_sample(trainer, lambda role, rollout: lengths.update({role: set(rollout.texts)}))
    trainer.train()
    assert len(lengths["prover/0"]) < len(lengths["prover/1"])  # the cooler one repeats itself more


WORKER = Path(__file__).parent / "memory_worker.py"


@pytest.fixture
def smollm2(tmp_path):
    """The folder in the environment variable SMOLLM2, or random weights in the shape of SmolLM2-135M (its published
    config.json), which take as much memory."""
    if given := os.environ.get("SMOLLM2"):
        return given
    tokenizer = AutoTokenizer.from_pretrained(str(TINY_MODEL_PATH))
    shape = LlamaConfig(
        vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9,
        num_key_value_heads=3, max_position_embeddings=8192, tie_word_embeddings=True, rope_theta=100000.0,
        bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    torch.manual_seed(0)
    model = LlamaForCausalLM(shape)
    assert sum(p.numel() for p in model.parameters()) == 134_515_008  # the model card's 135M
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    return str(tmp_path / "model")


def needed(model, players):
    # What is freed goes back to the system at once: the allocator's own stock is not what a run needs.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    environment |= {"MALLOC_MMAP_THRESHOLD_": "262144", "MALLOC_TRIM_THRESHOLD_": "262144"}
    line = [sys.executable, str(WORKER), model, str(players)]
    done = subprocess.run(line, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert len(found["lengths"]) == 2 * players and set(found["lengths"].values()) == {16}
    return found["bytes"]


@pytest.mark.slow
def test_two_and_two_adapters_over_one_base_need_at_most_half_as_much_again_as_one_and_one(smollm2):
    one, two = needed(smollm2, 1), needed(smollm2, 2)
    print(f"1 x 1: {one / 2**30:.2f} GiB, 2 x 2: {two / 2**30:.2f} GiB, {two / one:.2f} times as much")
    assert 4 * 134_515_008 < one <= two <= 1.5 * one  # the base alone takes 4 bytes a weight
