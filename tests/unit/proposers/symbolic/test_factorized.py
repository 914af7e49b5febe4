# Tests: proposers/symbolic/factorized.py, proposers/symbolic/bandits.py, proposers/arms.py
"""How the action policy and the bandits learn."""

import numpy as np
import pytest
import torch

from countdown_selfplay.proposers import make_proposer
from countdown_selfplay.proposers.symbolic.bandits import REGIMES
from countdown_selfplay.proposers.symbolic.factorized import Policy, _drawn
from countdown_selfplay.proposers.symbolic.refresh import Scored


def policy(**given):
    return Policy(**{"inputs": 3, "hidden": 8, "actions": [4, 4], "learning_rate": 0.05, "seed": 0, **given})


def test_the_gradient_is_that_of_reinforce_with_an_entropy_bonus():
    """Of the output biases: d/dz -r log q(a) = -r (1[a] - q), and d/dz -H = q (log q + H), each a mean over rows."""
    own = policy()
    states = torch.rand((5, 3), dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    actions = torch.tensor([[0, 1], [2, 3], [1, 1], [3, 0], [0, 0]])
    reward = torch.tensor([0.5, -0.3, 0.1, 0.0, 1.0], dtype=torch.float64)
    q = [part.exp() for part in own.log_probs(states)]
    expected = []
    for i, part in enumerate(q):
        chosen = torch.nn.functional.one_hot(actions[:, i], 4)
        entropy = -(part * part.log()).sum(1, keepdim=True)
        expected.append((-reward[:, None] * (chosen - part) + 0.2 * part * (part.log() + entropy)).mean(0))
    found = own.step(states, actions, reward, 0.2)
    assert torch.allclose(own.weights[3].grad, torch.cat(expected))
    assert found == pytest.approx(float(-sum((part * part.log()).sum(1).mean() for part in q)))


def test_actions_are_drawn_by_their_probabilities_and_none_from_torchs_own_generator():
    q = np.tile([0.1, 0.2, 0.3, 0.4], (20000, 1))
    drawn = np.bincount(_drawn(q, np.random.default_rng(0)), minlength=4) / 20000
    assert drawn == pytest.approx([0.1, 0.2, 0.3, 0.4], abs=0.012)
    assert _drawn(np.array([[0.0, 1.0 - 1e-17]]), np.random.default_rng(0)).tolist() == [1]
    before = torch.get_rng_state()
    first, second = policy(), policy()
    assert torch.equal(before, torch.get_rng_state())
    assert all(torch.equal(a, b) for a, b in zip(first.weights, second.weights, strict=True))
    assert not torch.equal(first.weights[0], policy(seed=1).weights[0])


NONE = dict.fromkeys(REGIMES, 0)


def ucb(**given):
    return make_proposer("ucb", {"candidates": 8, "pulls": 4, **given})


def test_every_arm_is_pulled_once_and_then_by_mean_and_uncertainty():
    bandit = ucb()
    pulled = []
    for _ in range(3):
        pulled.append(bandit.pull(None, {arm: pulled.count(arm) for arm in REGIMES}))
    assert sorted(pulled) == ["easy", "hard", "medium"]
    # 4, 1, 1 pulls of 6; rewards .9, .5, .2: .9 + sqrt(2 ln 6 / 4) = 1.846, .5 + sqrt(2 ln 6) = 2.393, 2.093
    bandit = ucb()
    for arm, reward in [("easy", 0.9)] * 4 + [("medium", 0.5), ("hard", 0.2)]:
        bandit.heard.record(arm, reward)
    assert bandit.pull(None, NONE) == "medium"
    # with a quarter of the exploration .9 + .237 = 1.137 beats .5 + .473 = .973
    bandit.exploration = 0.25
    assert bandit.pull(None, NONE) == "easy"
    # pulls that wait for their reward make an arm less uncertain: medium .5 + sqrt(2 ln 14 / 9) = 1.266
    bandit.exploration = 1.0
    assert bandit.pull(None, {**NONE, "medium": 8}) == "hard"


def test_discounted_and_windowed_sums_forget_and_thompson_draws_from_the_posterior():
    discounted, window = ucb(discount=0.5), ucb(window=2)
    for bandit in (discounted, window):
        for arm, reward in [("easy", 1.0), ("easy", 0.0), ("hard", 0.4)]:
            bandit.heard.record(arm, reward)
    assert discounted.heard.sums["easy"] == [0.25 + 0.5, 0.25] and discounted.heard.sums["hard"] == [1.0, 0.4]
    assert window.heard.sums == {"easy": [1.0, 0.0], "medium": [0.0, 0.0], "hard": [1.0, 0.4]}
    bandit = make_proposer("thompson", {"candidates": 8, "pulls": 4})
    for arm, reward in [("easy", 1.0)] * 4 + [("medium", 0.0)] * 4:
        bandit.heard.record(arm, reward)
    generator = np.random.default_rng(0)
    pulled = [bandit.pull(generator, NONE) for _ in range(4000)]
    # Beta(5, 1), Beta(1, 5), Beta(1, 1). P(hard wins) = E[u^5 (1 - (1 - u)^5)] = 1/6 - B(6, 6) = 1/6 - 1/2772
    assert pulled.count("hard") / 4000 == pytest.approx(1 / 6 - 1 / 2772, abs=0.02)
    assert pulled.count("medium") / 4000 < 0.01


def test_a_pulls_reward_is_its_mean_score():
    bandit = ucb()  # R_gen lies in [-.4, .5]; rows 0-1 are the first pull, 2-3 the second, and so on
    bandit.pulled = ["easy", "hard", "hard", "medium"]
    rows = np.array([0, 1, 2, 6])
    bandit.learn_scores(None, Scored(rows, [], np.array([0.5, 0.32, -0.4, 0.05])))
    # easy (.41 + .4) / .9 = .9; hard: 0 for the worst score, and 0 for a pull without a valid candidate; medium .5
    sums = {"easy": [1, 0.9], "medium": [1, 0.5], "hard": [2, 0.0]}
    assert all(bandit.heard.sums[arm] == pytest.approx(known) for arm, known in sums.items())
