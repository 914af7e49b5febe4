# Tests: countdown/mutations.py, countdown/features.py
"""Seed 004, sections 3.3 and 3.4: what the actions do, and that a candidate is what it was asked to be."""

from itertools import product

import numpy as np

from countdown_selfplay.countdown import Problem, ProblemSpec, Rules, all_solutions, feature_matrix, generate_problems
from countdown_selfplay.countdown.mutations import (
    EXPRESSION_ACTIONS,
    NUMBER_ACTIONS,
    CountdownMutations,
    changed,
    is_trivial,
)

WIDE = ProblemSpec((3, 4))  # numbers 1 to 99: small is up to 4, large 5 to 24
TINY = ProblemSpec((3,), 1, 12, 1, 99)
RULES = Rules()


def mutate(seeds, number_actions, expression_actions, spec, rules, seed):
    return CountdownMutations(spec, rules).mutate(seeds, number_actions, expression_actions, seed)


def moves(action, seed=50, spec=WIDE, count=2000):
    """What the action adds to each of three equal numbers, many times."""
    generator = np.random.default_rng(0)
    return changed([(seed,) * 3] * count, np.array([action] * count), spec, generator) - seed


def test_every_candidate_asks_for_the_expression_it_was_made_for_with_the_features_of_the_matrix():
    """Judged by the texts of all solutions, not by the arrays that the candidates were chosen from."""
    seeds = generate_problems(160, TINY, seed=3)
    pairs = list(product(NUMBER_ACTIONS, EXPRESSION_ACTIONS)) * 10
    numbers, kinds = zip(*pairs, strict=True)
    found = mutate(seeds, numbers, kinds, TINY, RULES, seed=1)
    seen = dict.fromkeys(EXPRESSION_ACTIONS, 0)
    for problem, reason, kind in zip(found.problems, found.reasons, kinds, strict=True):
        if reason != "ok":
            continue
        seen[kind] += 1
        texts = all_solutions(problem, RULES)
        assert texts and TINY.admits(problem)
        if kind == "add_sub":
            assert any("*" not in text and "/" not in text for text in texts)
        elif kind == "multiply":
            assert all("*" in text for text in texts)
        elif kind == "divide":
            assert all("/" in text for text in texts)
        else:
            assert all(any(op in text for op in "+-") and any(op in text for op in "*/") for text in texts)
    assert min(seen.values()) > 10
    for spec in (TINY, ProblemSpec((4,))):
        seeds = generate_problems(60, spec, seed=3)
        found = mutate(seeds, ["resample"] * 60, ["multi_step"] * 60, spec, RULES, seed=1)
        good = [i for i, reason in enumerate(found.reasons) if reason == "ok"]
        assert len(good) > 20
        assert np.array_equal(found.features[good], feature_matrix([found.problems[i] for i in good]))
        assert np.isnan(found.features[[i for i in range(60) if i not in good]]).all()
    found = mutate([Problem((1, 2, 3, 4), 10)], ["small"], ["multiply"], TINY, RULES, seed=0)
    assert found.reasons == ["out_of_range"]


def test_reasons_are_the_first_check_that_failed_and_trivial_is_a_plain_sum_or_product():
    at_the_edge = [Problem((1, 1, 1), 3)] * 300
    found = mutate(at_the_edge, ["small"] * 300, ["divide"] * 300, TINY, RULES, seed=0)
    assert {"out_of_range", "ok"} <= set(found.reasons)
    assert all(p is None for p, why in zip(found.problems, found.reasons, strict=True) if why == "out_of_range")
    # three ones reach 1, 2 and 3, and never need a division: 1 = 1 * 1 * 1, 2 = 1 + 1 * 1, 3 = 1 + 1 + 1
    ones = ProblemSpec((3,), 1, 1, 1, 9)
    found = mutate(at_the_edge[:1], ["resample"], ["divide"], ones, RULES, seed=0)
    assert found.reasons == ["unsolvable"]
    found = mutate(at_the_edge[:9], ["resample"] * 9, ["add_sub"] * 9, ProblemSpec((3,), 1, 1, 3, 3), RULES, seed=0)
    assert set(found.reasons) == {"trivial"}
    numbers, targets = np.array([[2, 3, 4]] * 4), np.array([9, 24, 10, 4])
    assert is_trivial(numbers, targets, RULES).tolist() == [True, True, False, False]
    assert is_trivial(numbers, targets, Rules(use_all=False)).tolist() == [True, True, False, True]
