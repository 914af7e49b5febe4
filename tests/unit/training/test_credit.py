# Tests: training/round.py
"""Credit of a role: the KL penalty comes off the reward, selection and what is kept decide who is trained on."""

import pytest
import torch

from countdown_selfplay.contract.round import Rollout, mean_reward
from countdown_selfplay.objectives import make_objective
from countdown_selfplay.training.round import credit


def rollout(penalty=None, count=4, n=2):
    penalty_B = None if penalty is None else torch.tensor(penalty)
    return Rollout("prover", [{}] * (count // n), [""] * count, n, rewards_B=torch.zeros(count), penalty_B=penalty_B)


def credited(objective, *arguments, others=(), **more):
    """One process; `others`: what the other processes put into the gather."""
    return credit(make_objective(objective), lambda items: [*items, *others], *arguments, **more)


def test_the_penalty_is_subtracted_from_the_reward():
    # rewards 1, 0 | 1, 1 minus 0.5, 0 | 0, 0.25: 0.5, 0 | 1, 0.75; leave one out: 0.5, -0.5 | 0.25, -0.25
    rewards = torch.tensor([1.0, 0.0, 1.0, 1.0])
    found = credited("rloo", rollout([0.5, 0.0, 0.0, 0.25]), rewards)
    assert found.advantages_B.tolist() == pytest.approx([0.5, -0.5, 0.25, -0.25])
    assert found.mean_reward == pytest.approx(2.25 / 4) and found.selected_B is None
    assert found.rewards_B.tolist() == rewards.tolist() and found.group == 2  # what was earned, not what was charged


def test_mastered_problems_are_not_trained_on():
    bits = torch.tensor([1.0, 0.0, 1.0, 1.0])
    kept = torch.tensor([True, True, False, False])
    found = credited("reinforce_half", rollout(), bits, bits, kept)
    assert found.selected_B.tolist() == [True, True, False, False]
    assert found.advantages_B.tolist() == [1.0, 0.0, 0.0, 0.0]


def test_the_mean_reward_is_that_of_all_processes():
    flat = torch.full((4,), 0.1)  # nothing to learn here; another process has something
    found = credited("rloo", rollout(), flat, others=[(4.0, 4)])
    assert not found.advantages_B.any()
    assert found.mean_reward == pytest.approx((0.4 + 4.0) / 8)


def test_samples_that_share_a_baseline_need_not_be_of_one_row():
    # two rows of two as one group of four: 3 less the others' mean (0 + 3 + 0) / 3, and 0 less (3 + 0 + 3) / 3
    found = credited("rloo", rollout(), [3.0, 0.0, 3.0, 0.0], group=4)
    assert found.advantages_B.tolist() == [2.0, -2.0, 2.0, -2.0] and found.group == 4
    # as groups of a row: each 3 less the other's 0
    assert credited("rloo", rollout(), [3.0, 0.0, 3.0, 0.0]).advantages_B.tolist() == [3.0, -3.0, 3.0, -3.0]


def test_a_player_that_is_not_trained_has_no_credit_and_its_rewards_are_known():
    found = credit(None, list, rollout(), [1.0, 0.0, 0.0, 0.5])
    assert found.advantages_B.tolist() == [0.0] * 4 and found.rewards_B.tolist()[3] == 0.5


def test_what_was_not_measured_takes_no_part_in_a_baseline_or_a_mean():
    found = credited("rloo", rollout(n=4), [1.0, float("nan"), 0.0, 0.5])
    # leave one out over three: 1 - .25, 0 - .75, .5 - .5
    assert found.advantages_B.tolist() == [0.75, 0.0, -0.75, 0.0] and found.mean_reward == 0.5


def test_the_mean_reward_of_several_turns_is_over_their_samples():
    """8 samples of 1 and 24 of 0 earn 8 / 32; NaN and empty turns count nowhere; the other process's 4 samples of .5
    count as this one's do: (8 + 2) / (8 + 24 + 4)."""
    turns = [credited("rae", rollout(count=count), [value] * count) for count, value in ((8, 1.0), (24, 0.0))]
    assert mean_reward(turns) == 0.25 and mean_reward(turns[:1]) == 1.0
    unknown, empty = credited("rae", rollout(count=2), [float("nan")] * 2), credited("rae", rollout(count=0))
    assert mean_reward([*turns, unknown, empty]) == 0.25 and mean_reward([turns[0], empty]) == 1.0
    assert mean_reward([unknown, empty]) is None and mean_reward([]) is None
    shared = credited("rae", rollout(count=24), [0.0] * 24, others=[(2.0, 4)])
    assert mean_reward([turns[0], shared]) == pytest.approx(10 / 36)


def test_an_overlong_sample_gets_its_charge_instead_of_its_credit_if_it_is_selected():
    # two problems of four: the first is solved once (selected at 0.5), the second always (not selected); of the first
    # the right answer is charged -.5, and a wrong one -1
    bits = torch.tensor([1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0])
    charges = [-0.5, 0.0, -1.0, 0.0, -1.0, 0.0, 0.0, 0.0]
    found = credited("reinforce_half", rollout(count=8, n=4), bits, bits, overlong_B=charges)
    assert found.advantages_B.tolist() == [-0.5, 0.0, -1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    # the same of a role without bits
    proposals = credited("reinforce_half", rollout(count=2), [1.0, 0.5], overlong_B=[0.0, -0.25])
    assert proposals.advantages_B.tolist() == [1.0, -0.25]


def test_charges_of_wrong_answers_can_be_left_out():
    # s = 1/4, the right answer charged -.5 and a wrong one -1; s = 0, one at the limit
    bits = torch.tensor([1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    charges = [-0.5, 0.0, -1.0, 0.0, -1.0, 0.0, 0.0, 0.0]
    found = credited("reinforce_half", rollout(count=8, n=4), bits, bits, overlong_B=charges, overlong_on="correct")
    assert found.advantages_B.tolist() == [-0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    # without bits: of a proposal that earned nothing
    rewards, charges = [1.0, 0.0], [-0.5, -0.25]
    found = credited("reinforce_half", rollout(count=2), rewards, overlong_B=charges, overlong_on="correct")
    assert found.advantages_B.tolist() == [-0.5, 0.0]
    # a baseline: rewards 1, 0, 0, 0 whatever the wrong ones are charged: mean 1/4, deviation 1/2
    bits = bits[:4]
    found = credited("cispo", rollout(n=4), bits, bits, overlong_B=[0.0, -1.0, 0.0, -1.0], overlong_on="correct")
    assert found.advantages_B.tolist() == pytest.approx([1.5, -0.5, -0.5, -0.5], abs=1e-3)


def test_under_a_baseline_the_charge_is_the_reward_and_moves_the_credit_of_its_group():
    # rewards 1, 0 with the second charged .25: 1 and -.25 leave one out
    found = credited("rloo", rollout(count=2), [1.0, 0.0], overlong_B=[0.0, -0.25])
    assert found.advantages_B.tolist() == [1.25, -1.25]
    # CISPO on bits 1, 0, 0, 0, the last charged 1: mean (1 + 0 + 0 - 1) / 4 = 0, deviation sqrt(2 / 3)
    bits = torch.tensor([1.0, 0.0, 0.0, 0.0])
    found = credited("cispo", rollout(n=4), bits, bits, overlong_B=[0.0, 0.0, 0.0, -1.0])
    assert found.advantages_B.tolist() == pytest.approx([1.5**0.5, 0.0, 0.0, -(1.5**0.5)], abs=1e-3)
    # a group in which nothing is right says something as soon as one of it is charged: 0, 0, 0, -1 have mean -.25 and
    # deviation sqrt((3 / 16 + 9 / 16) / 3) = .5
    found = credited("cispo", rollout(n=4), bits * 0, bits * 0, overlong_B=[0.0, 0.0, 0.0, -1.0])
    assert found.advantages_B.tolist() == pytest.approx([0.5, 0.5, 0.5, -1.5], abs=1e-3)
    # maxrl divides by the share of right answers, .25: charges are credit there
    found = credited("maxrl", rollout(n=4), bits, bits, overlong_B=[0.0, 0.0, 0.0, -1.0])
    assert found.advantages_B.tolist() == [3.0, -1.0, -1.0, -1.0]
