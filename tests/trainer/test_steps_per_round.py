# Tests: training/round_loop.py, training/plan.py
"""A round in several optimizer steps: gradients, clips from the second on, saves and resumes by rounds."""

import os
import signal
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from transformers import TrainerCallback

from countdown_selfplay.tiny import load_tiny_model
from countdown_selfplay.training.plan import samples_of

from .conftest import equal, goes_on, make_trainer, ran, results_of, rounds, weights

# 4 steps of 2 x 8 answers in 4 groups, and 1 x 8 proposals in 1 group: 64 and 32 a round.
STEPS = dict(
    steps_per_round=4, problems_per_round=16, proposals_per_round=32, per_device_train_batch_size=8,
    conjecturer_num_generations=8,
    prover_objective="grpo", max_steps=1,
)  # fmt: skip


class Watch(TrainerCallback):
    """What each optimizer step holds, gradients before it, and weights after it."""

    def attach(self, trainer):
        self.trainer, self.gradients, self.steps, self.after = trainer, [], [], []
        trainer.add_callback(self)
        accumulate = trainer.optimizer_steps.accumulate

        def watched(model, step):
            self.steps.append(step)
            return accumulate(model, step)

        trainer.optimizer_steps.accumulate = watched
        return self

    def on_pre_optimizer_step(self, args, state, control, **kwargs):
        policies = self.trainer.policies
        owned = {name: policies.named_parameters(name) for name in policies.weight_names}
        grads = {name: {k: p.grad.clone() for k, p in own if p.grad is not None} for name, own in owned.items()}
        self.gradients.append(grads)

    def on_optimizer_step(self, args, state, control, **kwargs):
        self.after.append(weights(self.trainer))


def plain(samples):
    return [(tuple(s.prompt.tolist()), tuple(s.completion.tolist()), s.advantage) for s in samples]


def read(step, role):
    """(prompt, completion, advantage) of each row of a role that a pass of the step reads."""
    return plain(row for one in step.passes for player, rows in one.parts if player == role for row in rows)


def by_hand(samples, per_token):
    """The gradient of -(1/N) sum_i A_i (1/|y_i|) sum_t log pi(y_it) (GRPO at ratio 1; without `per_token` that of
    RLOO, sum_t alone), row by row on the bare model that was passed in."""
    model, _ = load_tiny_model()
    model = model.float()
    for prompt, completion, advantage in samples:
        ids = torch.tensor([prompt + completion])
        logps = model(ids).logits[0, len(prompt) - 1 : -1].log_softmax(-1)
        score = logps.gather(1, torch.tensor(completion)[:, None]).sum()
        (-advantage * score / (len(completion) if per_token else 1) / len(samples)).backward()
    return {name: p.grad for name, p in model.named_parameters()}


@pytest.fixture(scope="module")
def one_round(tmp_path_factory):
    """A round of four steps without clips: what was watched, and each role's turn."""
    trainer = make_trainer(tmp_path_factory.mktemp("round"), max_grad_norm=0.0, seed=5, **STEPS)
    watch, results = Watch().attach(trainer), results_of(trainer)
    trainer.train()
    return watch, {turn.rollout.role: turn for turn in results[0].turns}


def test_the_first_step_has_the_gradient_of_a_round_of_exactly_its_rows(one_round):
    watch, _ = one_round
    for role, count, per_token in (("prover", 16, True), ("conjecturer", 8, False)):
        samples = read(watch.steps[0], role)
        assert len(samples) == count and any(advantage for *_, advantage in samples)
        expected, found = by_hand(samples, per_token), watch.gradients[0][role]
        assert expected.keys() == found.keys() and max(g.abs().max() for g in expected.values()) > 1e-3
        for name, gradient in expected.items():
            torch.testing.assert_close(found[name], gradient, rtol=0, atol=1e-6)


def test_the_steps_are_the_rounds_samples_cut_between_groups(one_round):
    watch, turns = one_round
    assert len(watch.steps) == 4
    for role, group in (("prover", 4), ("conjecturer", 8)):
        cut = [read(step, role) for step in watch.steps]
        assert sorted(plain(samples_of([turns[role]], 0))) == sorted(sample for step in cut for sample in step)
        for step in cut:
            credit = defaultdict(list)
            for prompt, _, advantage in step:
                credit[prompt].append(advantage)
            # Each advantage is over the mean of its group: whole groups add up to 0.
            assert all(len(found) % group == 0 and abs(sum(found)) < 1e-5 for found in credit.values())


@pytest.mark.parametrize("objective, metric", [("grpo", "clipped_rate"), ("cispo", "importance_clamped"),
                                               ("rloo", "importance_clamped")])  # fmt: skip
def test_from_the_second_step_on_ratios_differ_from_one_and_clips_act(build, objective, metric):
    """At a learning rate that moves a token's probability by more than GRPO's 20% within a round."""
    limits = {"cispo": {"epsilon_low": 0.2, "epsilon_high": 0.2}}.get(objective)
    own = {"prover_objective": objective, "prover_objective_kwargs": limits, "learning_rate": 5e-3}
    trainer = build(**{**STEPS, **own}, importance_clip_low=0.9, importance_clip_high=1.1)
    off, own = defaultdict(float), trainer.learners["prover"].objective.loss
    watch = Watch().attach(trainer)

    def loss(inputs):
        gap = ((inputs.logps_BT - inputs.behavior_BT) * inputs.mask_BT).abs().max()
        off[len(watch.after)] = max(off[len(watch.after)], gap.item())
        return own(inputs)

    trainer.learners["prover"].objective.loss = loss
    trainer.train()
    assert sorted(off) == [0, 1, 2, 3] and off[0] < 1e-5 and all(off[step] > 1e-2 for step in (1, 2, 3))
    (line,) = rounds(trainer.args.output_dir)
    assert line[f"prover/{metric}"] > 0


SAVING = {**STEPS, "max_steps": 3, "save_strategy": "steps", "save_steps": 1, "beta": 0.05, "guard": True}


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    """Three rounds of four steps, each saved."""
    return ran(make_trainer(tmp_path_factory.mktemp("steps") / "run", logging_first_step=True, **SAVING))


def test_rounds_are_counted_saved_between_and_resumed_bit_for_bit(straight, build):
    folder = Path(straight.args.output_dir)
    names = sorted(path.name for path in folder.glob("checkpoint-*"))
    assert names == ["checkpoint-0", "checkpoint-1", "checkpoint-2", "checkpoint-3"]
    assert straight.state.global_step == straight.counts.rounds == 3
    lines = rounds(folder)
    assert [line["step"] for line in lines] == [1, 2, 3] and all("prover/loss" in line for line in lines)
    goes_on(straight, build("resumed", **SAVING), 1)


def test_a_signal_in_the_middle_of_a_round_ends_the_run_at_its_end(straight, build):
    class Signal(TrainerCallback):
        def on_optimizer_step(self, args, state, control, **kwargs):
            if state.global_step == 1:  # in the steps of the second round
                os.kill(os.getpid(), signal.SIGTERM)

    ended = build("ended", **{**SAVING, "save_steps": 3}, trainer={"callbacks": [Signal()]})
    with pytest.raises(SystemExit) as found:
        ended.train()
    assert found.value.code == 143 and ended.state.global_step == 2
    folder = Path(ended.args.output_dir)
    assert sorted(path.name for path in folder.glob("checkpoint-*")) == ["checkpoint-0", "checkpoint-2"]
    again = ran(build("ended", **{**SAVING, "save_steps": 3}), True)
    assert equal(weights(straight), weights(again))


def test_log_probs_at_sampling_are_kept_for_rounds_of_several_steps_alone(build):
    """TRL takes them where `steps_per_generation` says that a sample is trained on after a step: else a clip or an
    importance weight acts nowhere, without an error."""
    for steps in (1, 4):
        trainer = build(f"steps{steps}", **{**STEPS, "steps_per_round": steps})
        watch = Watch().attach(trainer)
        trainer.train()
        assert len(watch.steps) == steps
        rows = [row for step in watch.steps for one in step.passes for _, own in one.parts for row in own]
        kept = ["old_per_token_logps" in row.logps for row in rows]
        assert kept == [steps > 1] * len(kept)


def test_an_objective_on_kept_samples_trains_in_two_steps_and_resumes(build):
    """Under rest the samples of earlier rounds are cut into steps too; each step's loss is a mean of its own."""
    changes = {"steps_per_round": 2, "problems_per_round": 8, "proposals_per_round": 16}
    changes |= {"prover_objective": "rest", "prover_objective_kwargs": {"tau": 0.5}}
    straight = build("straight", **{**SAVING, **changes})
    start, watch = weights(straight), Watch().attach(straight)
    straight.train()
    kept = straight.learners["prover"].replay.kept
    assert kept and {rows[0].round for rows in kept} == {0, 1, 2}
    moved = [not equal(a, b) for a, b in zip([start, *watch.after], watch.after, strict=False)]
    assert moved == [True] * 6
    *_, last = rounds(straight.args.output_dir)
    assert last["prover/trained_samples"] == min(len(kept), 32)  # as many as a round samples
    goes_on(straight, build("resumed", **{**SAVING, **changes}), 1)


# -- so many trained sequences a step ---------------------------------------------------------------------------------

SEQUENCES = {
    **STEPS, "steps_per_round": 16, "problems_per_round": 32, "proposals_per_round": 128,
    "prover_objective": "reinforce_half", "sequences_per_step": 5, "conjecturer_sequences_per_step": 8,
}  # fmt: skip


def test_the_steps_of_a_round_follow_the_sequences_with_credit(build):
    """128 answers a round in at most 16 steps of 5 trained ones; the conjecturer's 128 proposals in steps of 8."""
    trainer = build(max_grad_norm=0.0, seed=5, **SEQUENCES)
    results = results_of(trainer)
    start, watch = weights(trainer), Watch().attach(trainer)
    trainer.train()
    assert trainer.state.global_step == trainer.counts.rounds == 1
    turns = {turn.rollout.role: turn for turn in results[0].turns}
    (line,) = rounds(trainer.args.output_dir)
    moments = {group["role"]: trainer.optimizer.state[group["params"][0]] for group in trainer.optimizer.param_groups}
    taken = {}
    for role, size in (("prover", 5), ("conjecturer", 8)):
        credit = int((turns[role].advantages_B != 0).sum())
        taken[role] = steps = -(-credit // size)
        assert 1 < steps < 16 and credit % size
        sizes = [len(read(step, role)) for step in watch.steps]
        assert [n for n in sizes if n] == [size] * (credit // size) + [credit % size] and all(sizes[:steps])
        assert (line[f"{role}/steps"], line[f"{role}/trained_samples"]) == (steps, credit)
        assert line[f"{role}/signal"] == 1
        assert moments[role]["step"] == steps  # Adam's count: a step without a row is none
        own = [{k: v for k, v in w.items() if k.startswith(role)} for w in (start, *watch.after)]
        moved = [not equal(a, b) for a, b in pairwise(own)]
        assert moved == [True] * steps + [False] * (len(watch.after) - steps)
    assert len(watch.after) == max(taken.values()) and min(taken.values()) < max(taken.values())
    expected, found = by_hand(read(watch.steps[0], "prover"), True), watch.gradients[0]["prover"]
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, rtol=0, atol=1e-6)


def test_carried_sequences_fill_every_step_and_a_remainder_outlives_a_resume(build):
    """Steps of exactly 5: over three rounds right answers to problems with s <= 1/2 are 5 x steps and a remainder."""
    settings = {**SEQUENCES, "max_steps": 3, "save_strategy": "steps", "save_steps": 1}
    settings |= {"lr_scheduler_type": "constant_with_warmup", "warmup_steps": 2}
    settings |= {"prover_objective_kwargs": {"carry": True}}
    straight = ran(build("straight", **settings))
    lines = rounds(straight.args.output_dir)
    assert [line["step"] for line in lines] == [1, 2, 3]
    # Warm-up counts rounds: over 2 x 16 steps, of which step s has rate s / 32; a round logs the mean of its steps,
    # and the first of the next has the rate of step 16 however many were taken.
    taken = [max(line["prover/steps"], line["conjecturer/steps"], 1) for line in lines]
    rates = [1e-3 * (16 * i + (count - 1) / 2) / 32 for i, count in enumerate(taken)]
    assert [line["lr/prover"] for line in lines] == pytest.approx([*rates[:2], 1e-3]) and min(taken) < 16
    assert all(line["prover/trained_samples"] == 5 * line["prover/steps"] for line in lines)
    assert sum(line["prover/steps"] for line in lines) == sum(line["prover/new_answers"] for line in lines) // 5 > 3
    goes_on(straight, build("resumed", **settings), 1)
