# Tests: lab/rewards/r_zero.py, lab/rewards/disagreement.py
"""R-Zero's uncertainty minus repetition (arXiv 2508.05004, section 3) and the disagreement of provers (seed 000)."""

from itertools import combinations

import numpy as np
import pytest

from countdown_selfplay.countdown import Problem
from countdown_selfplay.errors import RewardError
from countdown_selfplay.rewards import RewardContext, make_conjecturer_reward

A, B, C, D = Problem((3, 5, 7), 22), Problem((7, 5, 4), 22), Problem((3, 3, 9), 10), Problem((1, 2, 3, 4), 22)


def test_r_zero_is_uncertainty_minus_the_share_by_paper_or_code():
    # 1 - 2 |p - 1/2|: 1, .5, .25, 0; shares 1/3, 1/3, 0, 0; not below 0
    p = np.array([0.5, 0.75, 0.125, 1.0])
    ctx = RewardContext(problems=(A, B, C, D))
    assert make_conjecturer_reward("r_zero")(p, ctx) == pytest.approx([2 / 3, 1 / 6, 0.25, 0])
    heavy = make_conjecturer_reward("r_zero", {"weight": 3.0})
    assert heavy(p, ctx) == pytest.approx([0, 0, 0.25, 0])
    reward = make_conjecturer_reward("r_zero", {"scale": 1.0, "floor": None})
    found = reward(np.array([0.5, 1.0, 0.125, 0.0]), RewardContext(problems=(A, B, C, D)))
    assert found == pytest.approx([0.5 - 1 / 3, -1 / 3, 0.125, 0])
    assert make_conjecturer_reward("r_zero")(np.array([0.5, 0.1]), None) == pytest.approx([1, 0.2])
    with pytest.raises(RewardError, match="2 problems for 3 solve rates"):
        make_conjecturer_reward("r_zero")(np.zeros(3), RewardContext(problems=(A, B)))


def test_provers_disagree_by_their_pairs_of_those_that_tried():
    rates = np.array([[0.0, 0.5, 1.0, 0.25], [0.0, 1.0, 0.0, 0.75]])
    found = make_conjecturer_reward("disagreement")(rates.mean(0), RewardContext(prover_rates_MP=rates))
    assert found.tolist() == [0, 0.5, 1, 0.5]
    # rates 1, 0, 0: two of the three pairs differ by 1, which is the most three provers can; .5, .25, 0: 1 of 2
    rates = np.array([[1.0, 0.5, 1.0], [0.0, 0.25, 1.0], [0.0, 0.0, 1.0]])
    found = make_conjecturer_reward("disagreement")(rates.mean(0), RewardContext(prover_rates_MP=rates))
    assert found.tolist() == [1, 0.5, 0]
    rates = np.array([[1.0, 1.0, np.nan], [0.5, np.nan, np.nan], [np.nan, np.nan, np.nan]])
    found = make_conjecturer_reward("disagreement")(np.array([0.75, 1.0, 0.0]), RewardContext(prover_rates_MP=rates))
    assert found.tolist() == [0.5, 0, 0]
    with pytest.raises(RewardError, match=r"shape \(2, 4\) for 3 solve rates"):
        make_conjecturer_reward("disagreement")(np.zeros(3), RewardContext(prover_rates_MP=np.zeros((2, 4))))


@pytest.mark.parametrize("attempts", [2, 3, 5, 8])
def test_one_prover_disagrees_with_itself_as_its_attempts_would_as_provers(attempts):
    """Counted by an independent method: all pairs of answers, against the most that can differ."""
    reward = make_conjecturer_reward("disagreement")
    most = max(right * (attempts - right) for right in range(attempts + 1))
    for right in range(attempts + 1):
        answers = [1] * right + [0] * (attempts - right)
        pairs = sum(a != b for a, b in combinations(answers, 2))
        single = reward(np.array([right / attempts]), RewardContext(attempts=attempts))
        pool = RewardContext(prover_rates_MP=np.array(answers, dtype=float)[:, None])
        as_pool = reward(np.array([right / attempts]), pool)
        assert single == pytest.approx([pairs / most]) and as_pool == pytest.approx([pairs / most])
