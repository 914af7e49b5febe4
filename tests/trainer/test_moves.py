# Tests: training/rollouts.py, training/round.py, training/learners.py, proposers/targets.py
"""Answers in moves with the real trainer: the ladder's two models, a few rounds of small problems."""

from pathlib import Path

import pytest
import torch
from datasets import Dataset

from countdown_selfplay import JointConjecturerProverTrainer, JointSelfPlayConfig
from countdown_selfplay.errors import ConfigError
from countdown_selfplay.tiny import LADDER_ASKED_PATH, LADDER_MODEL_PATHS

from ..installed import here
from .conftest import equal, held, optimizer_state, weights

MODELS = {role: str(path) for role, path in LADDER_MODEL_PATHS.items()}
REUSE = {"reuse": 8, "per_problem": 2, "capacity": 50, "per_token": True}
SMALL = dict(
    operands=[2, 3],
    problems_per_round=8,
    prover_num_generations=4,
    prover_sequences_per_step=8,
    prover_demonstrations_per_step=4,
    prover_objective_kwargs=REUSE,
    proposals_per_round=8,
    conjecturer_num_generations=8,
    conjecturer_sequences_per_step=8,
    steps_per_round=3,
    per_device_train_batch_size=32,
    report_to="none",
    save_strategy="no",
    disable_tqdm=True,
)


def build(folder, **changes):
    config = JointSelfPlayConfig.from_recipe("tiny/ladder", **{**SMALL, "output_dir": str(folder), **changes})
    return JointConjecturerProverTrainer(dict(MODELS), args=config)


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    trainer = build(tmp_path_factory.mktemp("ladder"), max_steps=4, save_strategy="steps", save_steps=2)
    before = {name: value.clone() for name, value in weights(trainer).items()}
    trainer.train()
    return trainer, before


def logged(trainer):
    return [row for row in trainer.state.log_history if "round/generations" in row]


def test_right_episodes_buy_steps_and_the_prover_moves(straight):
    trainer, before = straight
    after = weights(trainer)
    assert any(not torch.equal(before[name], after[name]) for name in after if "prover" in name)
    rows = logged(trainer)
    assert [row["round/generations"] for row in rows] == [40, 80, 120, 160]  # 32 episodes and 8 proposals a round
    owed = 0.0
    for row in rows:  # each new answer is worth 8 / 8 = 1 step, of which a round takes 3 at most
        owed += row["prover/new_answers"]
        assert row["prover/steps"] == min(owed, 3)
        owed -= row["prover/steps"]
        assert row["prover/owed_steps"] == owed
        assert 1 <= row["prover/moves"] <= 2
    assert sum(row["prover/steps"] for row in rows) > 0


def test_a_round_whose_episodes_all_end_with_their_first_move_says_so(tmp_path):
    """No move has one token, so none is legal."""
    trainer = build(tmp_path, max_steps=1, prover_max_completion_length=1, format_probe=0)
    trainer.train()
    (row,) = logged(trainer)
    assert row["prover/moves"] == 1 and row["prover/correct_rate"] == 0


def test_a_resumed_run_equals_the_straight_run_bit_for_bit(straight, tmp_path):
    trainer, _ = straight
    resumed = build(tmp_path, max_steps=4, save_strategy="steps", save_steps=2)
    resumed.train(resume_from_checkpoint=str(Path(trainer.args.output_dir) / "checkpoint-2"))
    assert equal(weights(trainer), weights(resumed)) and equal(optimizer_state(trainer), optimizer_state(resumed))
    assert held(trainer)["replays"] == held(resumed)["replays"] and trainer.learners["prover"].replay.kept


@pytest.mark.parametrize("objective", ["rloo", "reinforce_half", "maxrl", "grpo"])
def test_other_objectives_play_moves(objective, tmp_path):
    """A round of each: as many steps at most as it may take, and every logged value finite."""
    changes = dict(prover_objective=objective, prover_objective_kwargs=None, prover_sequences_per_step=0)
    trainer = build(tmp_path, max_steps=1, **changes)
    trainer.train()
    (row,) = logged(trainer)
    assert all(torch.isfinite(torch.tensor(float(value))) for value in row.values())
    assert row["prover/trained_samples"] <= 32 + 4


def test_a_micro_batch_that_cannot_hold_an_episode_names_the_least_size(tmp_path):
    with pytest.raises(ConfigError, match=r"`per_device_train_batch_size` \(18\) must hold .* to at least 19\."):
        build(tmp_path, operands=[3, 20], per_device_train_batch_size=18, conjecturer_num_generations=2)


@pytest.mark.parametrize(
    ("objective", "kwargs"),
    [("expert_iteration", {"rounds": 2}), ("expert_iteration", {"rounds": 2, "all_kept": True}), ("rest", {"tau": 1})],
    ids=["drawn", "all_kept", "rest"],
)
def test_kept_episodes_are_trained_on_without_reuse(objective, kwargs, tmp_path):
    """A round trains on as many episodes as it samples, each counted once, whatever its moves, in at most 3 steps of 8
    or more. A resumed run draws the same."""
    changes = dict(prover_objective=objective, prover_objective_kwargs=kwargs)
    trainer = build(tmp_path / "a", max_steps=3, save_strategy="steps", save_steps=2, **changes)
    trainer.train()
    rows = logged(trainer)
    room = 64 if kwargs.get("all_kept") else 32  # episodes of a round, or of the two that are kept
    for row in rows:
        trained = min(row["prover/replay_samples"], room)
        assert (row["prover/trained_samples"], row["prover/steps"]) == (trained, min(-(-trained // 8), 3))
    assert rows[-1]["prover/replay_samples"] > 0
    resumed = build(tmp_path / "b", max_steps=3, save_strategy="steps", save_steps=2, **changes)
    resumed.train(resume_from_checkpoint=str(tmp_path / "a" / "checkpoint-2"))
    assert equal(weights(trainer), weights(resumed)) and held(trainer)["replays"] == held(resumed)["replays"]


SEVEN = [([1, 2, 3, 4, 5, 6, 7], 50), ([2, 3, 4, 5, 6, 7, 8], 35)]
PROPOSERS = {
    "ucb": (dict(proposer="ucb_rungs"), "proposer/rung_mean"),
    "thompson": (dict(proposer="thompson_rungs"), "proposer/rung_mean"),
    "sgs": (
        dict(
            proposer="targets", proposer_kwargs={"conditioned": False}, conjecturer_objective="reinforce_half",
            conjecturer_num_generations=1, operands=[2, 7],
        ),
        "targets/attempted",
    ),
    "tiers": (
        dict(
            proposer="tiers", proposer_kwargs={"start": [2, 3], "ceiling": 3, "min_valid": 2},
            roles={"conjecturer": {"players": 2}}, conjecturer_prompt="compact",
        ),
        "tier_1_operand_count",
    ),
}  # fmt: skip


@pytest.mark.parametrize("arm", [arm for arm in PROPOSERS if here([PROPOSERS[arm][0]["proposer"]])])
def test_proposers_of_whole_answers_play_moves(arm, tmp_path):
    """A round of each arm of docs/ladder.md that no other test plays, from the recipe. Targets of seven numbers: no
    exact solver is asked."""
    changes, logged_of_it = PROPOSERS[arm]
    models, extra = dict(MODELS), {}
    if arm in ("ucb", "thompson"):
        changes, models = {**changes, "conjecturer_players": 0}, MODELS["prover"]
    if arm == "sgs":
        extra["train_dataset"] = Dataset.from_list([{"nums": nums, "target": target} for nums, target in SEVEN])
    config = {**SMALL, "output_dir": str(tmp_path), "max_steps": 1, **changes}
    args = JointSelfPlayConfig.from_recipe("tiny/ladder", **config)
    trainer = JointConjecturerProverTrainer(models, args=args, **extra)
    trainer.train()
    (row,) = logged(trainer)
    known = {"ucb": (2, 3), "thompson": (2, 3), "sgs": (1, 1), "tiers": (2, 3)}[arm]
    assert known[0] <= row[logged_of_it] <= known[1] and row["prover/completion_length"] > 0


FOUR = [([3, 4, 5, 6], 24), ([2, 7, 8, 9], 50), ([1, 5, 6, 11], 40)]


def test_self_guided_self_play_in_moves_resumes_bit_for_bit(tmp_path):
    """The paper's setting: the conjecturer sees the target, and the rubric guides it. 32 answers are 8 slots; of three
    targets two are played with a problem for each, and `fill` gives the third a slot."""
    sgs = dict(
        proposer="targets", proposer_kwargs={"batch": 2, "fill": True}, guide="rubric", conjecturer_reward="sgs",
        conjecturer_reward_kwargs={"top_of": "between", "starved": "paper"}, conjecturer_objective="reinforce_half",
        conjecturer_num_generations=1, operands=[2, 3, 4], max_steps=2, save_strategy="steps",
        save_steps=1,
    )  # fmt: skip
    trainers, data = [], Dataset.from_list([{"nums": nums, "target": target} for nums, target in FOUR])
    for name, checkpoint in (("straight", None), ("resumed", str(tmp_path / "straight" / "checkpoint-1"))):
        config = {**SMALL, "output_dir": str(tmp_path / name), **sgs}
        args = JointSelfPlayConfig.from_recipe("tiny/ladder", **config)
        models = {**MODELS, "conjecturer": str(LADDER_ASKED_PATH)}
        trainers.append(JointConjecturerProverTrainer(models, args=args, train_dataset=data))
        trainers[-1].train(resume_from_checkpoint=checkpoint)
    straight, resumed = trainers
    assert equal(weights(straight), weights(resumed)) and equal(optimizer_state(straight), optimizer_state(resumed))
    assert straight.game.state_dict()["proposer"] == resumed.game.state_dict()["proposer"]
    rows = logged(straight)
    assert [row["targets/attempted"] for row in rows] == [1, 1]  # two of the batch, and the one that fills
    assert sum(row["round/conjectured_slots"] for row in rows) > 0 and rows[-1]["conjecturer/parseable_rate"] > 0
