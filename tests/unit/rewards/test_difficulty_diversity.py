# Tests: rewards/difficulty_diversity.py, countdown/features.py
"""Seed 004, section 3.3: difficulty plus lambda times novelty, with nothing rejected."""

import math

import numpy as np
import pytest

from countdown_selfplay.countdown import DEFAULT_RULES, Problem, ProblemSpec, generate_problems
from countdown_selfplay.countdown.features import NOVELTY_FEATURES, archive_distance, scaled_features
from countdown_selfplay.rewards import RewardContext, make_conjecturer_reward, problem_of_key

SPEC = ProblemSpec(operands=(3, 4), number_low=1, number_high=11, target_low=1, target_high=101)
CLASSIC = Problem((3, 3, 8, 8), 24)


def test_difficulty_is_the_distance_to_the_band_and_a_repetition_is_charged_and_not_refused():
    # [.2, .6]: 0.2, 0.1, 0, 0, 0, 0.15, 0.4 away
    reward = make_conjecturer_reward("difficulty_diversity")
    p = np.array([0.0, 0.1, 0.2, 0.4, 0.6, 0.75, 1.0])
    assert reward(p, None) == pytest.approx([-0.2, -0.1, 0, 0, 0, -0.15, -0.4])
    # in the band: 0 + 0.5 * 1 for the first problem ever; 0 + 0 for a repeated one; p = 1: -0.4 on top
    reward = make_conjecturer_reward("difficulty_diversity")
    first = RewardContext(problems=(CLASSIC,), spec=SPEC)
    again = RewardContext(problems=(CLASSIC,), archive=(CLASSIC.key,), spec=SPEC)
    assert reward(np.array([0.4]), first) == pytest.approx([0.5])
    assert reward(np.array([0.4]), again) == pytest.approx([0.0])
    assert reward(np.array([1.0]), again) == pytest.approx([-0.4])
    assert make_conjecturer_reward("difficulty_diversity", {"diversity": 2.0})(np.array([0.4]), first) == [2.0]


def test_the_features_are_the_papers_13_scaled_by_the_ranges_and_finite():
    # 3, 3, 8, 8 -> 24 by 8 / (3 - 8 / 3) alone: it needs - and /, depth 3, three nodes; numbers by 11, 23 of 100
    found = dict(zip(NOVELTY_FEATURES, scaled_features([CLASSIC], SPEC, DEFAULT_RULES)[0], strict=True))
    trees = {
        "log_solutions": math.log(2) / math.log(101), "needs_add": 0, "needs_sub": 1, "needs_mul": 0, "needs_div": 1,
        "depth_min": 3 / 4, "nodes_min": 3 / 4,
    }  # fmt: skip
    numbers = {"number_1": 3 / 11, "number_2": 3 / 11, "number_3": 8 / 11, "number_4": 8 / 11, "number_5": 0}
    assert len(found) == 13 and found == pytest.approx({**trees, **numbers, "target": 0.23})
    seven = scaled_features([CLASSIC], SPEC, DEFAULT_RULES, 7)[0]
    assert seven.tolist() == pytest.approx(list(trees.values()))
    six = ProblemSpec(operands=(6,), number_high=10)
    assert scaled_features([Problem((1, 2, 3, 4, 5, 6), 21)], six, DEFAULT_RULES).shape == (1, 14)
    both = scaled_features([Problem((9, 1, 6), 14), Problem((1, 6, 9), 14)], SPEC, DEFAULT_RULES)
    assert (both[0] == both[1]).all()
    assert np.isfinite(scaled_features([Problem((1, 1, 1), 99)], SPEC, DEFAULT_RULES)).all()


def test_the_distance_is_the_root_mean_square_to_the_nearest_and_no_two_collapse_to_a_point():
    # 6 + 9 - 1 against 6 + 9 - 2: the target differs by 1 of 100, the least number by 1 of 11
    one, two = Problem((1, 6, 9), 14), Problem((2, 6, 9), 13)
    features = scaled_features([one, two], SPEC, DEFAULT_RULES)
    expected = math.sqrt((1 / 100**2 + 1 / 11**2 + ((features[0] - features[1])[:7] ** 2).sum()) / 13)
    assert archive_distance([one], [two.key], SPEC, DEFAULT_RULES) == pytest.approx([expected]) and expected > 0
    far = Problem((11, 11, 11), 99)
    assert archive_distance([one], [far.key, two.key], SPEC, DEFAULT_RULES) == pytest.approx([expected])
    problems = generate_problems(20, seed=0)
    keys = [problem.key for problem in problems]
    assert archive_distance(problems, keys, SPEC, DEFAULT_RULES).tolist() == [0] * 20
    assert archive_distance(problems, [], SPEC, DEFAULT_RULES).tolist() == [1] * 20
    assert archive_distance([], keys, SPEC, DEFAULT_RULES).shape == (0,)
    # Seed 004, section 5: with the tree features alone a third of the candidates fell on another one.
    problems = generate_problems(80, seed=1)
    keys = [problem.key for problem in problems]
    assert len(set(keys)) == 80
    for i, problem in enumerate(problems):
        assert archive_distance([problem], keys[:i] + keys[i + 1 :], SPEC, DEFAULT_RULES)[0] > 0
    for problem in [Problem((44, 19, 35), 98), Problem((7,), -3), CLASSIC]:
        assert problem_of_key(problem.key).key == problem.key
        assert problem_of_key(problem.key).target == problem.target
