# Tests: training/rollouts.py, training/round.py, training/learners.py, countdown/domain.py, training/evaluation.py
"""Answers in moves with the real trainer: the ladder's two models, a few rounds of small problems."""

import re

import pytest
import torch
from datasets import Dataset
from tokenizers import Tokenizer
from tokenizers.models import BPE
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

from countdown_selfplay import JointConjecturerProverTrainer, JointSelfPlayConfig
from countdown_selfplay.countdown import CountdownDomain, Problem
from countdown_selfplay.errors import ConfigError
from countdown_selfplay.tiny import LADDER_ASKED_PATH, LADDER_MODEL_PATHS
from countdown_selfplay.training.evaluation import _joined, _refusal

from .conftest import equal, goes_on, optimizer_state, ran, rounds, weights

MODELS = {role: str(path) for role, path in LADDER_MODEL_PATHS.items()}
REUSE = {"reuse": 8, "per_problem": 2, "capacity": 50, "per_token": True}
SMALL = dict(
    operands=[2, 3], problems_per_round=8, prover_num_generations=4, prover_sequences_per_step=8,
    prover_demonstrations_per_step=4, prover_objective_kwargs=REUSE, proposals_per_round=8,
    conjecturer_num_generations=8, conjecturer_sequences_per_step=8, steps_per_round=3,
    per_device_train_batch_size=32, report_to="none", save_strategy="no", disable_tqdm=True,
)  # fmt: skip


def build(folder, models=MODELS, data=None, **changes):
    config = JointSelfPlayConfig.from_recipe("tiny/ladder", **{**SMALL, "output_dir": str(folder), **changes})
    models = dict(models) if isinstance(models, dict) else models
    return JointConjecturerProverTrainer(models, args=config, train_dataset=data)


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
    (row,) = logged(ran(build(tmp_path, max_steps=1, prover_max_completion_length=1, format_probe=0)))
    assert row["prover/moves"] == 1 and row["prover/correct_rate"] == 0


def test_a_resumed_run_equals_the_straight_run_bit_for_bit(straight, tmp_path):
    trainer, _ = straight
    goes_on(trainer, build(tmp_path, max_steps=4, save_strategy="steps", save_steps=2), 2)
    assert trainer.learners["prover"].replay.kept


@pytest.mark.parametrize("objective", ["rloo", "reinforce_half", "maxrl", "grpo"])
def test_other_objectives_play_moves(objective, tmp_path):
    """A round of each: as many steps at most as it may take, and every logged value finite."""
    changes = dict(prover_objective=objective, prover_objective_kwargs=None, prover_sequences_per_step=0)
    (row,) = logged(ran(build(tmp_path, max_steps=1, **changes)))
    assert all(torch.isfinite(torch.tensor(float(value))) for value in row.values())
    assert row["prover/trained_samples"] <= 32 + 4


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
    goes_on(trainer, build(tmp_path / "b", max_steps=3, save_strategy="steps", save_steps=2, **changes), 2)


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
    data = Dataset.from_list([{"nums": nums, "target": target} for nums, target in FOUR])
    models = {**MODELS, "conjecturer": str(LADDER_ASKED_PATH)}
    straight, resumed = (build(tmp_path / name, models, data, **sgs) for name in ("straight", "resumed"))
    goes_on(ran(straight), resumed, 1)
    rows = logged(straight)
    assert [row["targets/attempted"] for row in rows] == [1, 1]  # two of the batch, and the one that fills
    assert sum(row["round/conjectured_slots"] for row in rows) > 0 and rows[-1]["conjecturer/parseable_rate"] > 0


@pytest.fixture(scope="module")
def untaught(tmp_path_factory):
    """The ladder's prover with random weights."""
    folder = str(tmp_path_factory.mktemp("untaught"))
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(MODELS["prover"])).save_pretrained(folder)
    AutoTokenizer.from_pretrained(MODELS["prover"]).save_pretrained(folder)
    return folder


def models(monkeypatch, prover):
    monkeypatch.setitem(MODELS, "prover", prover)


def test_a_model_that_has_never_seen_the_format_is_refused_before_anything_is_played(untaught, tmp_path, monkeypatch):
    models(monkeypatch, untaught)
    (tmp_path / "metrics.jsonl").write_text("{}\n")  # of a run that was here before: it is left where it is
    trainer = build(tmp_path, max_steps=1)
    with pytest.raises(ConfigError) as refused:
        trainer.train()
    said = str(refused.value)
    assert "\n" not in said and re.match(
        r"The prover has not learned to answer in moves: of its first 32 moves, on problems of rung 2, none is "
        r"legal\. It wrote '.*' \((grammar|empty)\); expected is one move `a op b = c` and nothing after it, such as "
        r"'6 \* 4 = 24'\. Warm-start it with `countdown-selfplay sft --answers moves` .* format_probe to 0 ",
        said,
    )
    assert trainer.counts.rounds == 0 and (tmp_path / "metrics.jsonl").read_text() == "{}\n"


def test_the_ladders_prover_passes_and_the_trajectory_is_that_without_a_probe(tmp_path):
    with_, without = (build(tmp_path / str(n), max_steps=2, format_probe=n) for n in (16, 0))
    for trainer in (with_, without):
        trainer.train()
    assert with_.evaluator.format_probed and not without.evaluator.format_probed
    assert equal(weights(with_), weights(without)) and equal(optimizer_state(with_), optimizer_state(without))
    assert rounds(tmp_path / "16") == rounds(tmp_path / "0") and with_.counts == without.counts


def test_a_resume_and_a_second_call_are_not_probed(untaught, tmp_path, monkeypatch):
    trainer = ran(build(tmp_path, max_steps=2, save_strategy="steps", save_steps=1))
    resumed = ran(build(tmp_path, max_steps=3, save_strategy="steps", save_steps=1), True)
    assert not resumed.evaluator.format_probed and resumed.counts.rounds == 3
    monkeypatch.setattr(trainer.evaluator, "_first_moves", None)  # sampling would now fail
    trainer.evaluator.probe_format()


def test_a_legal_move_goes_on_or_leaves_one_number():
    """Of 3 and 4 for 12 a move ends the episode: 3 * 4 = 12 is right, 3 + 4 = 7 legal; the others are no moves."""
    domain, problem = CountdownDomain.ladder(), Problem((3, 4), 12)
    texts = ["3 * 4 = 12", "3 + 4 = 7", "3 + 4 = 8", "3 - 4 = 1", "5 + 4 = 9", "3 + 4"]
    verdicts = domain.moved(texts, [problem] * 6, [[3, 4]] * 6)
    assert [domain.was_legal(v) for v in verdicts] == [True, True, False, False, False, False]
    assert domain.moved(["3 * 4 = 12"], [Problem((3, 4, 2), 24)], [[3, 4, 2]]) == [[12, 2]]


@pytest.mark.parametrize(("merges", "joined"), [([("4", " ")], True), ([("2", "4")], False)])
def test_a_tokenizer_that_joins_target_and_move_is_named_by_the_refusal(merges, joined):
    """`3 8 : 24` ends in `4`, which with the blank before a move is one token of the first tokenizer: `2`, `4 `."""
    signs = [*"0123456789 :", *map("".join, merges)]
    made = Tokenizer(BPE({sign: i for i, sign in enumerate(signs)}, merges))
    assert _joined(PreTrainedTokenizerFast(tokenizer_object=made), "3 8 : 24") is joined
    (verdict,) = CountdownDomain.ladder().moved(["3"], [Problem((3, 8), 24)], [[3, 8]])
    said = _refusal("prover", 2, ["3"], [verdict], "one move", joined)
    assert ("Its tokenizer makes one token of the prompt's end and a number after it; take a chat" in said) is joined
