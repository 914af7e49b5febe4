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


ONE, ALL = [1.0, 0.0, 0.0, 0.0], [1.0] * 4
CHARGED = [-0.5, 0.0, -1.0, 0.0, -1.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize(("objective", "n", "rewards", "more", "wanted"), [
    # two rows of two as one group of four: 3 less the others' mean (0 + 3 + 0) / 3, and 0 less (3 + 0 + 3) / 3; as
    # groups of a row each 3 less the other's 0
    ("rloo", 2, [3.0, 0.0, 3.0, 0.0], {"group": 4}, [2.0, -2.0, 2.0, -2.0]),
    ("rloo", 2, [3.0, 0.0, 3.0, 0.0], {}, [3.0, -3.0, 3.0, -3.0]),
    # what was not measured is in no baseline: leave one out over three: 1 - .25, 0 - .75, .5 - .5
    ("rloo", 4, [1.0, float("nan"), 0.0, 0.5], {}, [0.75, 0.0, -0.75, 0.0]),
    # an overlong sample gets its charge instead of its credit if it is selected. Two problems of four: the first is
    # solved once (selected at 0.5), the second always (not selected); the right answer is charged -.5, a wrong one -1
    ("reinforce_half", 4, ONE + ALL, {"correct": True, "overlong_B": CHARGED}, [-0.5, 0.0, -1.0, *[0.0] * 5]),
    ("reinforce_half", 2, [1.0, 0.5], {"overlong_B": [0.0, -0.25]}, [1.0, -0.25]),  # of a role without bits
    # charges of wrong answers left out: s = 1/4, and s = 0 with one at the limit; without bits: of a proposal that
    # earned nothing; a baseline: 1, 0, 0, 0 whatever the wrong ones are charged: mean 1/4, deviation 1/2
    ("reinforce_half", 4, ONE + [0.0] * 4, {"correct": True, "overlong_B": CHARGED, "overlong_on": "correct"},
     [-0.5, *[0.0] * 7]),
    ("reinforce_half", 2, [1.0, 0.0], {"overlong_B": [-0.5, -0.25], "overlong_on": "correct"}, [-0.5, 0.0]),
    ("cispo", 4, ONE, {"correct": True, "overlong_B": [0.0, -1.0, 0.0, -1.0], "overlong_on": "correct"},
     [1.5, -0.5, -0.5, -0.5]),
    # under a baseline the charge is the reward: 1 and 0 with the second charged .25 are 1 and -.25, leave one out
    ("rloo", 2, [1.0, 0.0], {"overlong_B": [0.0, -0.25]}, [1.25, -1.25]),
    # CISPO on bits 1, 0, 0, 0, the last charged 1: mean (1 + 0 + 0 - 1) / 4 = 0, deviation sqrt(2 / 3)
    ("cispo", 4, ONE, {"correct": True, "overlong_B": [0.0, 0.0, 0.0, -1.0]}, [1.5**0.5, 0.0, 0.0, -(1.5**0.5)]),
    # a group in which nothing is right says something as soon as one of it is charged: 0, 0, 0, -1 have mean -.25 and
    # deviation sqrt((3 / 16 + 9 / 16) / 3) = .5
    ("cispo", 4, [0.0] * 4, {"correct": True, "overlong_B": [0.0, 0.0, 0.0, -1.0]}, [0.5, 0.5, 0.5, -1.5]),
    # maxrl divides by the share of right answers, .25: charges are credit there
    ("maxrl", 4, ONE, {"correct": True, "overlong_B": [0.0, 0.0, 0.0, -1.0]}, [3.0, -1.0, -1.0, -1.0]),
])  # fmt: skip
def test_the_credit_of_a_role(objective, n, rewards, more, wanted):
    """`correct`: whether the rewards are the bits of right answers."""
    bits = [torch.tensor(rewards)] if more.pop("correct", False) else []
    found = credited(objective, rollout(count=len(rewards), n=n), rewards, *bits, **more)
    assert found.advantages_B.tolist() == pytest.approx(wanted, abs=1e-3 if objective == "cispo" else 1e-6)
    assert found.group == more.get("group", n)


def test_the_penalty_is_subtracted_from_the_reward_and_mastered_problems_are_not_trained_on():
    # rewards 1, 0 | 1, 1 minus 0.5, 0 | 0, 0.25: 0.5, 0 | 1, 0.75; leave one out: 0.5, -0.5 | 0.25, -0.25
    rewards = torch.tensor([1.0, 0.0, 1.0, 1.0])
    found = credited("rloo", rollout([0.5, 0.0, 0.0, 0.25]), rewards)
    assert found.advantages_B.tolist() == pytest.approx([0.5, -0.5, 0.25, -0.25])
    assert found.mean_reward == pytest.approx(2.25 / 4) and found.selected_B is None
    assert found.rewards_B.tolist() == rewards.tolist()  # what was earned, not what was charged
    found = credited("reinforce_half", rollout(), rewards, rewards, torch.tensor([True, True, False, False]))
    assert found.selected_B.tolist() == [True, True, False, False]
    assert found.advantages_B.tolist() == [1.0, 0.0, 0.0, 0.0]
    found = credit(None, list, rollout(), [1.0, 0.0, 0.0, 0.5])  # a player that is not trained
    assert found.advantages_B.tolist() == [0.0] * 4 and found.rewards_B.tolist()[3] == 0.5


def test_the_mean_reward_is_over_samples_of_all_processes_and_turns():
    """8 samples of 1 and 24 of 0 earn 8 / 32; NaN and empty turns count nowhere; the other process's 4 samples of .5
    count as this one's do: (8 + 2) / (8 + 24 + 4)."""
    flat = torch.full((4,), 0.1)  # nothing to learn here; another process has something
    found = credited("rloo", rollout(), flat, others=[(4.0, 4)])
    assert not found.advantages_B.any() and found.mean_reward == pytest.approx((0.4 + 4.0) / 8)
    assert credited("rloo", rollout(n=4), [1.0, float("nan"), 0.0, 0.5]).mean_reward == 0.5
    turns = [credited("rae", rollout(count=count), [value] * count) for count, value in ((8, 1.0), (24, 0.0))]
    assert mean_reward(turns) == 0.25 and mean_reward(turns[:1]) == 1.0
    unknown, empty = credited("rae", rollout(count=2), [float("nan")] * 2), credited("rae", rollout(count=0))
    assert mean_reward([*turns, unknown, empty]) == 0.25 and mean_reward([turns[0], empty]) == 1.0
    assert mean_reward([unknown, empty]) is None and mean_reward([]) is None
    shared = credited("rae", rollout(count=24), [0.0] * 24, others=[(2.0, 4)])
    assert mean_reward([turns[0], shared]) == pytest.approx(10 / 36)
