# Tests: training/student.py
"""The inner update and the rise that it is measured by, against a copy of the model; runs that are paid by it."""

import copy

import pytest
import torch
from peft import LoraConfig
from transformers import AutoModelForCausalLM

from countdown_selfplay.errors import ConfigError
from countdown_selfplay.policies.optimization import bare
from countdown_selfplay.tiny import TINY_MODEL_PATH
from countdown_selfplay.training.student import rise_of

from .conftest import equal, make_trainer, optimizer_state, rounds, weights
from .test_learning_progress import PAID

STUDENT = PAID | dict(conjecturer_reward="student_progress", prover_micro_batches=4)
N = 4  # answers of a problem


@pytest.fixture(scope="module")
def paid(tmp_path_factory):
    """Three rounds: the frontier problems of two are held back before the third is paid."""
    trainer = make_trainer(tmp_path_factory.mktemp("student"), **STUDENT, max_steps=3)
    trainer.train()
    return trainer


def played(trainer, count=16):
    """A rollout of the prover outside a run, and the round that it belongs to."""
    rows = [dict(trainer.train_dataset[i]) for i in range(count)]
    round = trainer.player.begin(rows)
    problems = [trainer.domain.problem(row, i) for i, row in enumerate(rows)]
    return round, round.sample("prover", [trainer.domain.prove_row(p) for p in problems], N, problems)


def log_probs(model, tensors):
    """(B) sums over the completion's tokens, one row at a time by the plain model's own logits."""
    found = []
    for i in range(len(tensors["completion_ids"])):
        prompt = tensors["prompt_ids"][i][tensors["prompt_mask"][i].bool()]
        answer = tensors["completion_ids"][i][tensors["completion_mask"][i].bool()]
        logits = model(torch.cat([prompt, answer])[None]).logits[0, len(prompt) - 1 : -1]
        found.append(logits.log_softmax(-1).gather(1, answer[:, None]).sum())
    return torch.stack(found)


@pytest.mark.parametrize("size", [1, 4])
def test_a_rise_is_that_of_a_copy_which_takes_the_step(paid, size):
    """RLOO by hand on a float64 copy, for sets of so many problems: the gradient of -sum A log pi / answers with
    credit, then Adam's formula with its own v and without momentum; the held-back answers' log-probs around it."""
    round, rollout = played(paid)
    before = weights(paid)
    turn = round.credit(rollout)
    found = rise_of(paid.player.rollouts, turn, size)
    assert equal(before, weights(paid))  # bit for bit
    held = paid.learners["prover"].held_back.kept
    assert held and found is not None
    live = turn.advantages_B != 0
    sets = live.view(-1, size * N).any(1)
    assert not live.view(-1, N).any(1).all()
    assert torch.equal(found.view(-1, size), found[::size, None].expand(-1, size))  # one for all of a set
    assert torch.equal(found[::size] != 0, sets)
    own = dict(paid.policies.named_parameters("prover"))
    group = next(g for g in bare(paid.optimizer).param_groups if g["role"] == "prover")
    measured = [(torch.tensor(a.rows[0].prompt), torch.tensor(a.rows[0].completion)) for a in held]

    def held_mean(model):
        each = [
            model(torch.cat([p, c])[None]).logits[0, len(p) - 1 : -1].log_softmax(-1).gather(1, c[:, None]).sum()
            for p, c in measured
        ]
        return torch.stack(each).mean().item()

    plain = AutoModelForCausalLM.from_pretrained(str(TINY_MODEL_PATH), dtype=torch.float64)
    with torch.no_grad():
        for name, parameter in plain.named_parameters():
            parameter.copy_(own[name])
    for own_set in sets.nonzero().flatten().tolist()[:3]:
        model = copy.deepcopy(plain)
        rows = [r for r in range(own_set * size * N, (own_set + 1) * size * N) if live[r]]
        tensors = {name: value[rows] for name, value in rollout.tensors.items()}
        loss = -(turn.advantages_B[rows].double() * log_probs(model, tensors)).sum() / int(live.sum())
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        start = held_mean(model)
        with torch.no_grad():
            for (name, parameter), gradient in zip(model.named_parameters(), gradients, strict=True):
                state = bare(paid.optimizer).state[own[name]]
                (b1, b2), step = group["betas"], state["step"].item() + 1
                v = b2 * state["exp_avg_sq"].double() + (1 - b2) * gradient**2
                m = (1 - b1) * gradient  # of an optimizer whose momentum is 0
                parameter -= group["lr"] * m / (1 - b1**step) / ((v / (1 - b2**step)).sqrt() + group["eps"])
        assert found[own_set * size].item() == pytest.approx(held_mean(model) - start, rel=0.02, abs=2e-5)


def test_held_back_answers_are_right_and_nobody_trains_on_them(paid):
    lines = rounds(paid.args.output_dir)
    assert sum(line["round/held_back"] for line in lines) > 0
    kept = paid.learners["prover"].held_back.kept
    assert len(kept) <= 32 and max(answer.round for answer in kept) == 2
    round, rollout = played(paid)
    right = (rollout.correct_B > 0).view(-1, N)
    place = int(right.any(1).nonzero()[0])
    held_B = torch.zeros(16 * N, dtype=torch.bool)
    held_B[place * N : place * N + N] = True
    turn = round.credit(rollout, kept_B=~held_B)
    assert not turn.advantages_B[held_B].any()
    round.hold_back(turn, held_B)
    newest = paid.learners["prover"].held_back.kept[-1]
    answers = rollout.tensors["completion_ids"][held_B & (rollout.correct_B > 0)]
    assert any(row[: len(newest.rows[0].completion)].tolist() == newest.rows[0].completion for row in answers)


def test_a_run_that_is_paid_by_student_progress_resumes_bit_for_bit(build):
    """A checkpoint holds the moments and the held-back answers."""
    whole = build("whole", **STUDENT, max_steps=4, save_strategy="steps", save_steps=2)
    whole.train()
    again = build("again", **STUDENT, max_steps=4)
    again.train(resume_from_checkpoint=f"{whole.args.output_dir}/checkpoint-2")
    assert equal(weights(whole), weights(again)) and equal(optimizer_state(whole), optimizer_state(again))
    rewards = [line["conjecturer/reward"] for line in rounds(whole.args.output_dir)]
    assert rewards[0] == 0 and max(rewards[2:]) > 0


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"bf16": True, "use_cpu": True}, "`conjecturer_reward` student_progress compares log-probs"),
        ({"optim": "sgd"}, r"`conjecturer_reward` student_progress follows Adam's moments, which `optim` \(sgd\)"),
    ],
)
def test_settings_under_which_a_rise_is_unknown_are_refused(build, changed, sentence):
    with pytest.raises(ConfigError, match=sentence):
        build(conjecturer_reward="student_progress", **changed)


@pytest.mark.parametrize("reward", ["student_progress", "learning_progress"])
def test_a_model_with_dropout_is_refused_before_training(build, reward):
    """Two passes of it differ without any movement: at a learning rate of 0 rises were up to .002 and not 0."""
    adapters = LoraConfig(r=2, lora_dropout=0.1, target_modules=["q_proj"])
    with pytest.raises(ConfigError, match=f"{reward} is the difference of two passes of the prover, whose model has"):
        build(conjecturer_reward=reward, policy_sharing="lora", trainer={"peft_config": adapters})
    model = AutoModelForCausalLM.from_pretrained(str(TINY_MODEL_PATH), attention_dropout=0.1)
    with pytest.raises(ConfigError, match="whose model has dropout"):
        build(conjecturer_reward=reward, model=model)


def test_right_answers_that_are_held_back_are_not_imitated_either(build):
    """The store of successes takes in what the objective does not select, and still none of these."""
    imitates = dict(prover_imitated_per_step=16, prover_sft_coef=1.0, prover_micro_batches=5)
    trainer = build(**STUDENT | imitates, prover_samples_per_round=64, prover_sequences_per_step=64, max_steps=3)
    trainer.train()
    learner = trainer.learners["prover"]
    held, imitable = ({answer.key for answer in store.kept} for store in (learner.held_back, learner.successes))
    assert held and imitable and not held & imitable


def test_without_a_conjecturer_the_prover_loses_nothing_to_a_reward_that_pays_nobody(build):
    """The run of `--control`: bit for bit that of a reward by solve rates alone."""
    alone = dict(prover_micro_batches=2, conjecturer_micro_batches=0, max_steps=2)
    paid, plain = build("a", **STUDENT | alone), build("b", **STUDENT | alone | {"conjecturer_reward": "tent"})
    paid.train()
    plain.train()
    assert equal(weights(paid), weights(plain))
    assert all("round/held_back" not in line for line in rounds(paid.args.output_dir))
