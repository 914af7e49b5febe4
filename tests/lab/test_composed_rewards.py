# Tests: rewards/composition.py, lab/rewards/frontier_distance.py, rewards/learnability.py, rewards/tent.py
"""Sums, products, cut-offs and graded charges for refused proposals; as objects and from a configuration."""

import json

import numpy as np
import pytest

from countdown_selfplay.countdown import ProposalReason
from countdown_selfplay.errors import ConfigError, RewardError, UnknownNameError
from countdown_selfplay.lab.rewards.frontier_distance import FrontierDistance
from countdown_selfplay.rewards import Clip, Product, Sum, make_conjecturer_reward, refused_reward
from countdown_selfplay.rewards.learnability import Learnability
from countdown_selfplay.rewards.tent import Tent

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


@pytest.mark.parametrize(("name", "arguments", "message"), [
    ("sum", {}, "'sum' needs terms; it takes terms"),
    ("sum", {"terms": []}, "needs at least one part"),
    ("sum", {"terms": "tent"}, r"`terms` \('tent'\) of conjecturer reward 'sum' must be a list"),
    ("sum", {"terms": [{"name": "tent", "wieght": 1}]}, r"write a name, a number or \{\"name\": \"tent\", \"weight"),
    ("sum", {"terms": [{"name": "tent", "weight": "a"}]}, "finite number"),
    ("sum", {"terms": [{"name": "tent", "kwargs": {"top": 1}}]}, "'tent' does not take top; it takes peak, slope"),
    ("product", {"factors": [{"name": "tent", "weight": 2}]}, "'product' got .* as a part"),
    ("product", {"factors": [None]}, "'product' got None as a part"),
    ("sum", {"terms": [{"name": "tent", "weight": 10**400}]}, "finite number"),
    ("binary_band", {"low": "a"}, r"`low` \('a'\)"),
    ("clip", {"low": 0.5}, "'clip' needs of"),
    ("clip", {"of": "tent", "low": 2, "high": 1}, "needs low <= high"),
    ("clip", {"of": {"name": "tent", "kwargs": [1]}}, r"kwargs \[1\] for 'tent'"),
    ("solvability_aware", {"unsolvable": 0.5}, r"`unsolvable` \(0.5\) .* of at most 0; leave it out for -0.5"),
])  # fmt: skip
def test_wrong_compositions_are_refused_with_what_is_allowed(name, arguments, message):
    with pytest.raises(ConfigError, match=message):
        make_conjecturer_reward(name, arguments)


def test_an_unknown_part_one_value_for_all_problems_and_a_charge_that_is_not_finite_are_refused():
    def lazy(solve_rate_P, ctx):
        return 1.0

    with pytest.raises(RewardError, match=r"'lazy', a part of a composed one, returned shape \(\) for 4 solve rates"):
        (Tent() + lazy)(P, None)
    with pytest.raises(UnknownNameError, match="Did you mean 'tent'"):
        built("sum", terms=["tentt"])

    class Broken:
        def invalid_reward(self, reason):
            return float("nan")

    with pytest.raises(RewardError, match="conjecturer reward 'Broken' returned nan for reason 'no_tag'"):
        refused_reward(Broken(), "no_tag", 0.0)


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
