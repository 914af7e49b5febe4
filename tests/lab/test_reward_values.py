# Tests: rewards/base.py, rewards/composition.py, rewards/prover/verifier.py, lab/rewards/solvability_aware.py
"""What reward functions may return: one finite number per row that fits float32, whatever its type."""

import asyncio

import numpy as np
import pytest
import torch

from countdown_selfplay.countdown import DEFAULT_RULES
from countdown_selfplay.errors import ConfigError, RewardError
from countdown_selfplay.lab.rewards.solvability_aware import SolvabilityAware
from countdown_selfplay.rewards import Clip, RewardContext, Sum, checked_rewards, refused_reward
from countdown_selfplay.rewards.prover.verifier import checked_reward_funcs

COMPLETIONS = ["a", "b", "c", "d"]


def returned(value):
    def mine(completions, **kwargs):
        return value

    return checked_reward_funcs([mine], DEFAULT_RULES)[0](completions=COMPLETIONS)


@pytest.mark.parametrize("value, numbers", [
    ([True, False, True, False], [1, 0, 1, 0]),
    (np.arange(4) / 2, [0, 0.5, 1, 1.5]),
    ([np.float32(0.5), np.int64(2), np.bool_(True), None], [0.5, 2, 1, None]),
    (torch.arange(4).float(), [0, 1, 2, 3]),
    ([torch.tensor(float(i)) for i in range(4)], [0, 1, 2, 3]),
    ((float(i) for i in range(4)), [0, 1, 2, 3]),
    ((1, 2, None, 4), [1, 2, None, 4]),
    ([None] * 4, [None] * 4),
    ([1e12, -1e12, 0, 1], [1e12, -1e12, 0, 1]),
])  # fmt: skip
def test_numbers_of_every_kind_are_taken(value, numbers):
    assert returned(value) == numbers


@pytest.mark.parametrize("value, message", [
    (None, "'mine' returned None for the whole batch"),
    (1.0, "'mine' returned 1 for the whole batch"),
    (torch.tensor(1.0), "for the whole batch"),
    ("1.0", "'mine' returned '1.0' for the whole batch"),
    ([1.0], "'mine' returned 1 rewards for 4 rows"),
    ([1.0] * 8, "'mine' returned 8 rewards for 4 rows"),
    (["1.0"] * 4, "returned '1.0' for row 0"),
    ([0, 1j, 0, 0], "returned 1j for row 1"),
    (torch.zeros(4, 1), r"returned Tensor of shape \(1,\) for row 0"),
    (np.zeros((4, 2)), r"returned ndarray of shape \(2,\) for row 0"),
    ([0, 0, float("nan"), 0], "returned nan for row 2"),
    ([0, 1e308, 0, 0], r"returned 1e\+308 for row 1"),  # infinite in float32
    ([0, 0, 0, -1e39], r"returned -1e\+39 for row 3"),
    ([0, 1e30, 0, 0], r"returned 1e\+30 for row 1"),  # its square is infinite in float32: no gradient norm
    ([0, 10**400, 0, 0], "returned int for row 1"),  # no float holds it
])  # fmt: skip
def test_everything_else_is_one_sentence_with_the_function_and_the_row(value, message):
    with pytest.raises(RewardError, match=message) as error:
        returned(value)
    assert "one number per completion, finite and at most 1e+12 in size" in str(error.value)


def test_asynchronous_functions_are_checked_too():
    async def slow(completions, **kwargs):
        return [1e39] * len(completions)

    with pytest.raises(RewardError, match=r"'slow' returned 1e\+39 for row 0"):
        asyncio.run(checked_reward_funcs(slow, DEFAULT_RULES)[0](completions=COMPLETIONS))


RATES, CONTEXT = np.array([0.0, 0.25, 1.0]), RewardContext(attempts=4)


def test_a_conjecturer_reward_may_be_any_callable_of_the_solve_rate_and_parts_are_checked():
    def with_context(p, ctx):
        return p * ctx.attempts

    def with_own_argument(p, sharpness=2.0):
        return p**sharpness

    def with_optional_context(p, ctx=None):
        return p * (0 if ctx is None else ctx.attempts)

    rewards = [lambda p: 1 - p, with_context, with_own_argument, with_optional_context, np.sqrt]
    found = [checked_rewards(reward, RATES, CONTEXT).tolist() for reward in rewards]
    # 1 - p; 4 p; p squared; 4 p; the root of p
    assert found == [[1, 0.75, 0], [0, 1, 4], [0, 0.0625, 1], [0, 1, 4], [0, 0.5, 1]]
    assert checked_rewards(Clip(Sum((lambda p: p, 0.5)), 0, 1), RATES, CONTEXT).tolist() == [0.5, 0.75, 1]
    assert checked_rewards(SolvabilityAware(lambda p: p), RATES, CONTEXT).tolist() == RATES.tolist()
    with pytest.raises(ConfigError, match=r"must be callable as \(solve_rate_P, ctx\) or as \(solve_rate_P\)"):
        Sum((lambda: 1.0,))


@pytest.mark.parametrize("value", [1e39, -1e30, float("nan")])
def test_conjecturer_rewards_fit_float32_too(value):
    with pytest.raises(RewardError, match=r"for problem 1 of the round .* at most 1e\+12 in size"):
        checked_rewards(lambda p: np.where(p == 0.25, value, p), RATES, CONTEXT)

    class Charging:
        def invalid_reward(self, reason):
            return value

    with pytest.raises(RewardError, match="for reason 'duplicate'"):
        refused_reward(Charging(), "duplicate", 0.0)
