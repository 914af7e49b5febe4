# Tests: countdown/critique.py, contract/critique.py
"""Steps of an expression and which of them lead nowhere; by hand and against the exact solver."""

import random
from collections import Counter
from fractions import Fraction
from itertools import combinations

import pytest

from countdown_selfplay.countdown import CountdownDomain, Problem, Rules
from countdown_selfplay.countdown.critique import CountdownCritique, first_mistake, steps_of
from countdown_selfplay.countdown.exact.listing import all_solutions

RULES = Rules(answer_format="bare")
CRITIQUE = CountdownCritique(RULES, "compact")


def test_steps_stand_in_the_order_in_which_they_are_computed_and_are_cut_at_a_mistake():
    assert [(s.text, s.numbers, s.value) for s in steps_of("(3 - 5) * 7 / 2")] == [
        ("3 - 5", (3, 5), Fraction(-2)),
        ("( 3 - 5 ) * 7", (3, 5, 7), Fraction(-14)),
        ("( 3 - 5 ) * 7 / 2", (2, 3, 5, 7), Fraction(-7)),
    ]
    assert steps_of("3 + (5 * 7)")[-1].text == "3 + 5 * 7"
    assert steps_of("3") == steps_of("3 +") == steps_of("words") == steps_of("") == steps_of("1 / (2 - 2)") == []
    problem = Problem((1, 2, 3, 4), 24)
    assert CRITIQUE.cut_at_mistake(problem, "(1 + 2) * (3 * 4)") == ("(1 + 2)", " * (3 * 4)")
    assert CRITIQUE.cut_at_mistake(problem, "(1 + 2 + 3) * 4") is None


@pytest.mark.parametrize(("numbers", "target", "answer", "place"), [
    ((3, 5, 7), 22, "3 * 5 + 7", None),
    ((3, 5, 7), 22, "3 + 5 + 7", 0),  # 8 and 7 never make 22
    ((3, 5, 7), 22, "3 * 5 - 7", 1),  # the first step is that of 3 * 5 + 7
    ((3, 5, 7), 15, "3 * 5", 0),  # 15 and 7 make 22, 8, -8, 105, 15/7, 7/15: all numbers must be used
    ((1, 2, 3, 4), 21, "(1 + 2) * (3 * 4)", 1),  # 21 = (1 + 2) * (3 + 4); 12 with 1 and 2 never makes 21
    # (1 + 2 + 3) * 4 and 3 * 4 * 2 * 1 are 24; 3 and 12 together make 15, 9, 36, 4, 1/4, -9: never 24
    ((1, 2, 3, 4), 24, "(1 + 2) * (3 * 4)", 1),
    ((1, 2, 3, 4), 36, "(1 + 2) * (3 * 4)", None),
    ((3, 5, 7), 22, "3 * 5 + 8", 1),  # 8 is not among the numbers
    ((3, 5, 7), 22, "7 + 15", 0),
    ((3, 5, 7), 22, "22", None),
    ((3, 5, 7), 22, "no expression", None),
])  # fmt: skip
def test_the_first_wrong_step_and_its_place(numbers, target, answer, place):
    problem, steps = Problem(numbers, target), steps_of(answer)
    assert CRITIQUE.first_wrong(problem, answer) == place
    assert first_mistake(problem, answer, RULES) == (None if place is None else steps[place])
    in_tags = f"<think>3 * 5 = 15</think> <answer>{answer}</answer>"
    assert CountdownDomain().critique.first_wrong(problem, in_tags) == place  # it reads what the rules read


def test_the_first_wrong_step_agrees_with_all_solutions():
    """Up to three numbers a step lies on a path exactly if some solution that the solver lists computes its value from
    its numbers."""
    draw, seen = random.Random(3), set()
    for _ in range(60):
        numbers = tuple(draw.randint(1, 9) for _ in range(3))
        a, b, c = draw.sample(numbers, 3)
        answer = f"{a} {draw.choice('+-*')} {b} {draw.choice('+-*')} {c}"
        problem = Problem(numbers, draw.randint(1, 60))
        on = {(s.numbers, s.value) for text in all_solutions(problem, RULES) for s in steps_of(text)}
        steps = steps_of(answer)
        expected = next((i for i, s in enumerate(steps) if (s.numbers, s.value) not in on), None)
        assert CRITIQUE.first_wrong(problem, answer) == expected
        seen.add(expected)
    assert {0, 1} <= seen


def trees(items):
    """All ways to combine (numbers, value) pairs into one: (value, its results as a multiset of such pairs)."""
    if len(items) == 1:
        yield items[0][1], Counter()
    for i, j in combinations(range(len(items)), 2):
        (left, a), (right, b) = items[i], items[j]
        numbers = tuple(sorted((*left, *right)))
        rest = [item for k, item in enumerate(items) if k not in (i, j)]
        for value in {a + b, a - b, b - a, a * b, *(x / y for x, y in ((a, b), (b, a)) if y)}:
            for end, results in trees([*rest, (numbers, value)]):
                yield end, results + Counter([(numbers, value)])


def test_with_four_numbers_a_step_is_judged_beside_the_earlier_ones():
    """By brute force over all trees of four numbers: the first step after which no tree with the target's value holds
    all steps so far."""
    draw, seen, together = random.Random(4), Counter(), 0
    for _ in range(7):
        numbers = tuple(draw.randint(1, 9) for _ in range(4))
        every = list(trees([((n,), Fraction(n)) for n in numbers]))
        target = int(draw.choice([value for value, _ in every if value.denominator == 1 and 0 < value < 100]))
        problem = Problem(numbers, target)
        right = list({frozenset(results.items()): results for value, results in every if value == target}.values())
        for _ in range(40):
            a, b, c, d = draw.sample(numbers, 4)
            x, y, z = (draw.choice("+-*/") for _ in range(3))
            answer = draw.choice([f"({a} {x} {b}) {y} ({c} {z} {d})", f"(({a} {x} {b}) {y} {c}) {z} {d}"])
            steps = [(step.numbers, step.value) for step in steps_of(answer)]
            prefixes = [Counter(steps[: k + 1]) for k in range(len(steps))]
            expected = next((k for k, own in enumerate(prefixes) if not any(own <= one for one in right)), None)
            assert CRITIQUE.first_wrong(problem, answer) == expected, (problem, answer)
            seen[expected] += 1
            alone = next((k for k, own in enumerate(steps) if not any(own in one for one in right)), None)
            together += alone != expected
    assert {0, 1, 2} <= set(seen) and together > 5  # steps of which each alone lies on a path
