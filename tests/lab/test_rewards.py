# Tests: rewards/composition.py, lab/rewards.py
"""Conjecturer rewards: composed ones, bands, R-Zero and disagreement, charges, and what a reward may return."""

import asyncio
import json
from itertools import combinations

import numpy as np
import pytest
import torch
from tests.unit.games.test_many_players import game_of, proposed

from countdown_selfplay.countdown import DEFAULT_RULES, Problem, ProposalReason
from countdown_selfplay.errors import RewardError
from countdown_selfplay.lab.rewards import AdaptiveBand, FrontierDistance, SolvabilityAware
from countdown_selfplay.rewards import RewardContext, checked_rewards, make_conjecturer_reward, refused_reward
from countdown_selfplay.rewards.composition import Clip, Product, Sum
from countdown_selfplay.rewards.prover.verifier import checked_reward_funcs
from countdown_selfplay.rewards.solve_rate import Learnability, Tent

P = np.array([0.0, 0.25, 0.5, 1.0])
TENT = np.array([0.0, 0.625, 0.75, 0.0])  # 1 - 2.5 * .15, 1 - 2.5 * .1
LEARN = np.array([0.0, 0.75, 1.0, 0.0])  # 4 p (1 - p)


def built(name, **arguments):
    """As a configuration would build it, through JSON."""
    return make_conjecturer_reward(name, json.loads(json.dumps(arguments)))


def test_sums_products_clips_and_operators_compose():
    terms = [{"name": "tent", "weight": 0.5}, {"name": "learnability", "weight": -2, "kwargs": {}}, "tent", 0.25]
    assert built("sum", terms=terms)(P, None) == pytest.approx(1.5 * TENT - 2 * LEARN + 0.25)
    found = built("product", factors=["learnability", {"name": "tent", "kwargs": {"peak": 0.5}}, 2])
    assert found(P, None) == pytest.approx(2 * LEARN * [0, 0.375, 1, 0])
    assert built("clip", of="tent", low=0.2, high=0.7)(P, None).tolist() == [0.2, 0.625, 0.7, 0.2]
    frontier = {"name": "frontier_distance", "kwargs": {"floor": None}}
    assert built("clip", of=frontier)(P, None) == pytest.approx([0, 0.5, 2 / 3, 0])
    inner = {"name": "sum", "kwargs": {"terms": ["tent", {"name": "learnability", "weight": 3}]}}
    assert built("clip", of=inner, low=0, high=2.5)(P, None) == pytest.approx([0, 2.5, 2.5, 0])
    assert (0.5 * Tent() + Learnability())(P, None) == pytest.approx(0.5 * TENT + LEARN)
    assert (Tent() * Learnability() + 1)(P, None) == pytest.approx(TENT * LEARN + 1)
    assert (1 + Tent() * 2).clip(0, 2)(P, None) == pytest.approx([1, 2, 2, 1])
    assert Sum((Tent(), lambda p, ctx: p), (1.0, 2.0))(P, None) == pytest.approx(TENT + 2 * P)
    assert isinstance(Tent() * Tent(), Product) and isinstance(FrontierDistance().clip(0, 1), Clip)


def test_charges_grow_with_how_far_a_proposal_was_from_being_played_for_every_reason():
    reward = built("solvability_aware", of="learnability")
    assert reward(P, None).tolist() == LEARN.tolist()
    order = ["no_tag", "out_of_range", "unsolvable", "held_out"]
    assert [refused_reward(reward, reason, 9.0) for reason in order] == [-1, -0.75, -0.5, -0.25]
    assert refused_reward(reward, "duplicate", 9.0) == refused_reward(reward, "not_novel", 9.0) == -0.25
    reward = built("solvability_aware", unparseable=-3)
    for reason in set(ProposalReason) - {ProposalReason.OK}:
        assert refused_reward(reward, str(reason), 9.0) == -3
    for reward in (Tent(), Tent() + 1, Tent() * Tent(), Tent().clip(0, 1), lambda p, ctx: p):
        assert refused_reward(reward, "unsolvable", -0.125) == -0.125
    graded = {"name": "solvability_aware"}
    assert refused_reward(built("sum", terms=["tent", {**graded, "weight": 2}]), "unsolvable", 9.0) == -1.0
    assert refused_reward(built("product", factors=[graded, graded, 3]), "unsolvable", 9.0) == -1.5
    assert refused_reward(built("clip", of=graded, low=-0.3), "unsolvable", 9.0) == -0.3
    assert refused_reward(built("solvability_aware", of=graded), "unsolvable", 9.0) == -1.0


BAND_P = np.array([0.0, 0.1, 0.25, 0.4, 0.55, 0.7, 1.0])


def test_the_frontier_earns_by_the_distance_to_its_centre_and_without_a_floor_outside_too():
    # [0.1, 0.7]: centre 0.4, half width 0.3; 0.25 and 0.55 are half of that away
    assert built("frontier_distance")(BAND_P, None) == pytest.approx([0, 0, 0.5, 1, 0.5, 0, 0])
    # p = 0: 1 - 0.4 / 0.3 = -1/3; p = 1: 1 - 0.6 / 0.3 = -1
    assert built("frontier_distance", floor=None)(BAND_P, None) == pytest.approx([-1 / 3, 0, 0.5, 1, 0.5, 0, -1])


def test_the_adaptive_band_follows_a_moving_mean_and_is_narrower_where_an_edge_is_near():
    # goal 0.4, width 0.4: the tent of seed 001
    assert AdaptiveBand()(BAND_P, RewardContext()) == pytest.approx(built("tent")(BAND_P, None))
    # decay 0.9: 0.2, then 0.9 * 0.2 + 0.1 * 0.7 = 0.25; peak 0.4 + 0.5 * (0.25 - 0.4) = 0.325
    band = AdaptiveBand()
    assert band.peak((0.2,)) == pytest.approx(0.3)
    assert band.peak((0.2, 0.7)) == pytest.approx(0.325)
    assert AdaptiveBand(follow=1.0, decay=0.0).peak((0.9, 0.1, 0.6)) == 0.6
    assert AdaptiveBand(follow=1.0).peak((0.0,)) == 0.1 and AdaptiveBand(follow=1.0).peak((1.0,)) == 0.9
    # recent 0.05: peak 0.225, left side 0.225 wide, right side 0.4
    ctx = RewardContext(recent_rates=(0.05,))
    found = AdaptiveBand()(np.array([0.0, 0.1125, 0.225, 0.425, 0.625, 1.0]), ctx)
    assert found == pytest.approx([0, 0.5, 1, 0.5, 0, 0])
    for rate in (0.0, 0.01, 0.5, 0.99, 1.0):
        for band in (AdaptiveBand(), AdaptiveBand(follow=1, low=0.0, high=1.0, width=1.0), AdaptiveBand(width=0.0)):
            assert band(np.array([0.0, 1.0]), RewardContext(recent_rates=(rate,))).tolist() == [0, 0]


A, B, C, D = Problem((3, 5, 7), 22), Problem((7, 5, 4), 22), Problem((3, 3, 9), 10), Problem((1, 2, 3, 4), 22)


def test_r_zero_is_uncertainty_minus_the_share_by_paper_or_code():
    # 1 - 2 |p - 1/2|: 1, .5, .25, 0; shares 1/3, 1/3, 0, 0; not below 0
    p = np.array([0.5, 0.75, 0.125, 1.0])
    ctx = RewardContext(problems=(A, B, C, D))
    assert built("r_zero")(p, ctx) == pytest.approx([2 / 3, 1 / 6, 0.25, 0])
    assert built("r_zero", weight=3.0)(p, ctx) == pytest.approx([0, 0, 0.25, 0])
    found = built("r_zero", scale=1.0, floor=None)(np.array([0.5, 1.0, 0.125, 0.0]), ctx)
    assert found == pytest.approx([0.5 - 1 / 3, -1 / 3, 0.125, 0])
    assert built("r_zero")(np.array([0.5, 0.1]), None) == pytest.approx([1, 0.2])


def test_provers_disagree_by_their_pairs_of_those_that_tried():
    def rewards(*rates_of_provers):
        rates = np.array(rates_of_provers)
        return built("disagreement")(np.zeros(rates.shape[1]), RewardContext(prover_rates_MP=rates)).tolist()

    assert rewards([0.0, 0.5, 1.0, 0.25], [0.0, 1.0, 0.0, 0.75]) == [0, 0.5, 1, 0.5]
    # rates 1, 0, 0: two of the three pairs differ by 1, which is the most three provers can; .5, .25, 0: 1 of 2
    assert rewards([1.0, 0.5, 1.0], [0.0, 0.25, 1.0], [0.0, 0.0, 1.0]) == [1, 0.5, 0]
    assert rewards([1.0, 1.0, np.nan], [0.5, np.nan, np.nan], [np.nan, np.nan, np.nan]) == [0.5, 0, 0]


@pytest.mark.parametrize("attempts", [2, 3, 5, 8])
def test_one_prover_disagrees_with_itself_as_its_attempts_would_as_provers(attempts):
    """Counted by an independent method: all pairs of answers, against the most that can differ."""
    reward = built("disagreement")
    most = max(right * (attempts - right) for right in range(attempts + 1))
    for right in range(attempts + 1):
        answers = [1] * right + [0] * (attempts - right)
        pairs = sum(a != b for a, b in combinations(answers, 2))
        single = reward(np.array([right / attempts]), RewardContext(attempts=attempts))
        pool = RewardContext(prover_rates_MP=np.array(answers, dtype=float)[:, None])
        as_pool = reward(np.array([right / attempts]), pool)
        assert single == pytest.approx([pairs / most]) and as_pool == pytest.approx([pairs / most])


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


@pytest.mark.parametrize("value", [1e39, -1e30, float("nan")])
def test_conjecturer_rewards_fit_float32_too(value):
    with pytest.raises(RewardError, match=r"for problem 1 of the round .* at most 1e\+12 in size"):
        checked_rewards(lambda p: np.where(p == 0.25, value, p), RATES, CONTEXT)

    class Charging:
        def invalid_reward(self, reason):
            return value

    with pytest.raises(RewardError, match="for reason 'duplicate'"):
        refused_reward(Charging(), "duplicate", 0.0)


def test_refused_proposals_are_charged_by_their_reason_and_lately_played_ones_as_not_novel():
    graded = built("solvability_aware")
    assert graded.invalid_reward("not_as_asked") == graded.invalid_reward("out_of_range") == -0.75
    proposals = ["3 5 7 = 22", "7 5 3 = 22", "?", "1 1 1 = 99"]
    proposals += ["1 1 200 = 99", "1 2 9 = 18", "2 3 4 = 24", "6 5 4 = 15"]
    found = proposed(proposals, game_of(graded), excluded=["1,2,9=18"])
    # tent(.5); duplicate; unreadable; unsolvable; out of range; held out; tent(0); no slot left: not measured
    assert found == [0.75, -0.25, -1, -0.5, -0.75, -0.25, 0, None]
    assert proposed(proposals, game_of("tent", invalid_reward=-0.125))[1:5] == [-0.125] * 4
    game = game_of(built("solvability_aware", not_novel=-0.125), novelty_window=3)
    assert proposed(["3 5 7 = 22", "?"], game) == [0.75, -1]
    assert proposed(["5 3 7 = 22", "?"], game) == [-0.125, -1]
