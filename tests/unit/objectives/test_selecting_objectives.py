# Tests: objectives/expert_iteration.py
"""REINFORCE^1/2, expert iteration, ReST and the moving baseline: numbers derived by hand beside the assertions."""

import math

import pytest
import torch

from countdown_selfplay.objectives import make_objective

from .toys import loss_inputs

BITS = torch.tensor([[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0]])


def test_reinforce_half_selects_problems_solved_at_most_half_the_time():
    # solve rates .25, .5, .75, 0: the third is discarded, "at most" keeps .5
    objective = make_objective("reinforce_half")
    assert objective.select(BITS, BITS).all(1).tolist() == [True, True, False, True]
    shaped = BITS - 0.1  # a shaped reward does not enter: the credit is the bit
    wanted = torch.where(torch.tensor([[1], [1], [0], [1]]) > 0, BITS, torch.zeros(4, 4))
    assert torch.equal(objective.advantages(shaped, BITS), wanted)
    assert torch.equal(make_objective("reinforce_half", {"most": 1.0}).advantages(BITS, BITS), BITS)
    rewards = torch.tensor([[0.3, math.nan]])
    objective = make_objective("reinforce_half")
    assert objective.advantages(rewards, None)[0].tolist() == pytest.approx([0.3, 0.0])
    assert objective.select(rewards, None)[0].tolist() == [True, False]
    # -(1/2) (1 * (-1 - 2) / 2 + 0) : the wrong sample of a selected problem stays in the mean
    got = make_objective("reinforce_half").loss(loss_inputs([[-1.0, -2.0], [-0.5, -0.5]], [1.0, 0.0]))
    assert float(got.loss) == pytest.approx(0.75)


def test_expert_iteration_keeps_correct_answers_for_three_rounds_or_as_in_seed_000():
    objective = make_objective("expert_iteration")
    assert torch.equal(objective.select(BITS, BITS), BITS > 0)
    assert (objective.replay.rounds, objective.replay.solved_limit) == (3, 16)  # seed 003, G.4
    objective = make_objective("expert_iteration", {"rounds": 1, "solved_limit": None, "per_token": True})
    assert (objective.replay.rounds, objective.replay.solved_limit) == (1, None)
    # 3.5 over three tokens; by answers it is (1.5 + .5) / 2
    inputs = loss_inputs([[-1.0, -2.0], [-0.5, -9.0]], [1.0, 1.0], [[1, 1], [1, 0]])
    assert float(objective.loss(inputs).loss) == pytest.approx(3.5 / 3)
    assert float(make_objective("expert_iteration").loss(inputs).loss) == pytest.approx(1.0)


def test_rest_selects_by_threshold_and_may_weigh_a_sample_by_its_reward():
    objective = make_objective("rest", {"tau": 0.75})
    rewards = torch.tensor([[0.75, 0.7, math.nan, 1.0]])
    assert objective.select(rewards, None)[0].tolist() == [True, False, False, True]
    assert objective.replay.rounds is None  # the data set accumulates
    # -(-1 - 2 - 0.5) / 3 tokens
    got = objective.loss(loss_inputs([[-1.0, -2.0], [-0.5, -9.0]], [1.0, 1.0], [[1, 1], [1, 0]]))
    assert float(got.loss) == pytest.approx(3.5 / 3)
    # Seed 000, section 6: examples near the frontier's centre count more.
    objective = make_objective("rest", {"tau": 0.0, "rounds": 1, "weighted": True})
    rewards = torch.tensor([[1.0, 0.25, math.nan, -0.5]])
    assert objective.advantages(rewards, None)[0].tolist() == [1.0, 0.25, 0.0, 0.0]
    assert objective.replay.rounds == 1
    # -(1 * (-1 - 2) + .25 * -.5) / 3 tokens
    got = objective.loss(loss_inputs([[-1.0, -2.0], [-0.5, -9.0]], [1.0, 0.25], [[1, 1], [1, 0]]))
    assert float(got.loss) == pytest.approx(3.125 / 3)


def test_the_moving_baseline_is_updated_after_the_round_it_judges_and_not_without_rewards():
    # decay .95; rounds with means .5, .25, 1: baselines 0, .5, .95 * .5 + .05 * .25 = .4875
    objective = make_objective("rae")
    seen = []
    for rewards in ([1.0, 0.0], [0.5, 0.0], [1.0, 1.0]):
        group = torch.tensor([rewards], dtype=torch.float64)
        seen.append(objective.advantages(group)[0].tolist())
        objective.observe(float(group.mean()))
    assert seen == [pytest.approx([1.0, 0.0]), pytest.approx([0.0, -0.5]), pytest.approx([0.5125, 0.5125])]
    assert objective.baseline == pytest.approx(0.95 * 0.4875 + 0.05 * 1.0)
    again = make_objective("rae")
    again.load_state_dict(objective.state_dict())
    assert again.baseline == objective.baseline
    objective = make_objective("rae")
    assert torch.equal(objective.advantages(torch.full((1, 2), math.nan)), torch.zeros(1, 2))
    objective.observe(None)
    assert objective.baseline is None
