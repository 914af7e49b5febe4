# Tests: proposers/symbolic/factorized.py
"""The neural policy of seed 004, section 3.4: REINFORCE by hand, private randomness, and what it learns."""

import numpy as np
import pytest
import torch

from countdown_selfplay.proposers.symbolic.factorized import Policy, _drawn


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
