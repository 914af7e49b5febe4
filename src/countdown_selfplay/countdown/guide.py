"""Guide for Countdown: the rubric of SGS 2026, appendix E.3, by exact rules instead of a language model, for
whole answers and for answers in moves.

A guide scores a proposal by how useful it is for solving a target problem and how simple its solution is. SGS asks a
reviewer model for three scores; this module defines them for Countdown."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import combinations

import numpy as np

from .exact.solver import is_solvable
from .expression import to_postfix
from .features import features
from .moves import Move
from .problem import DEFAULT_RULES, Problem, Rules

ARTIFICIAL = 10
"""Multiple of both problems' largest number or target above which an intermediate value adds to complexity."""


@dataclass(frozen=True)
class Review:
    """Scores of the SGS rubric (appendix E.3): relevance 0 to 5, redundancy 0 or 1, complexity 0 to 4."""

    relevance: int
    redundancy: int
    complexity: int

    @property
    def score(self) -> int:
        """Score, 0 to 8 (equation 3): relevance + 3 - complexity - redundancy, at least 0; 0 if complexity >= 3."""
        if self.complexity >= 3:
            return 0
        return max(0, self.relevance + (2 - self.complexity) + (1 - self.redundancy))


def rubric(target: Problem, proposal: Problem, rules: Rules = DEFAULT_RULES, solution: str | None = None) -> Review:
    """Review `proposal` as a step towards `target`. Deterministic, and independent of the order of the numbers.
    solution: an expression that solves the proposal, if known. Raises DataError for more than 6 numbers.

    Scores:
        relevance: 5: a step towards the target that leaves two numbers (see `is_step`). 4: a step that leaves more. 3:
          at least half of the numbers shared, and the same target or the same necessary operators. 2: at least half of
          the numbers shared, or the same target. 1: any other problem. 0: any other problem that is trivial (at most
          one operation on its numbers reaches its target), the same problem, or one with fewer than two numbers.
        redundancy: 1 if some of the numbers reach the proposal's target without the others, or if `solution`
          multiplies or divides by 1, adds or subtracts 0, or has two equal values that cancel.
        complexity: 1 for more numbers than the target problem has, plus 1 if every solution is nested three deep or
          more, plus 2 if every solution passes through a fraction, plus 1 if `solution` passes through a value more
          than ARTIFICIAL times the largest number or target of both problems; at most 4, and 4 if unsolvable.
    """
    count, shape = len(proposal.numbers), _shape(proposal, rules)
    complexity = 4 if shape is None else int(count > len(target.numbers)) + int(shape[0]) + 2 * int(shape[1])
    idle, largest = _steps(solution) if solution else (False, Fraction(0))
    usual = max(*target.numbers, target.target, *proposal.numbers, proposal.target)
    complexity = min(4, complexity + int(largest > ARTIFICIAL * usual))
    redundant = idle or (count > 1 and _reaches(proposal, count - 1, rules))
    return Review(_relevance(target, proposal, rules), int(redundant), complexity)


def is_step(target: Problem, proposal: Problem, rules: Rules = DEFAULT_RULES) -> bool:
    """Return whether solving `proposal` is a step of solving `target`: `proposal` is solvable, it has two or more but
    not all numbers of `target`, and its target can replace them in `target`, which stays solvable. 3, 5 -> 15 is a
    step of 3, 5, 7 -> 22. A target below 1 is not a step, because a problem's numbers are positive."""
    left = Counter(target.numbers)
    left.subtract(proposal.numbers)
    if min(left.values()) < 0 or proposal.target < 1 or not 2 <= len(proposal.numbers) < len(target.numbers):
        return False
    return is_solvable(proposal, rules) and is_solvable(
        Problem((*left.elements(), proposal.target), target.target), rules
    )


def _relevance(target: Problem, proposal: Problem, rules: Rules) -> int:
    if proposal.key == target.key or len(proposal.numbers) < 2:
        return 0
    if is_step(target, proposal, rules):
        return 5 if len(target.numbers) - len(proposal.numbers) == 1 else 4
    close, same_target = _is_close(target, proposal), target.target == proposal.target
    if close and (same_target or _same_operators(target, proposal, rules)):
        return 3
    if close or same_target:
        return 2
    return int(not _reaches(proposal, 2, rules))


def _same_operators(target: Problem, proposal: Problem, rules: Rules) -> bool:
    first, second = _shape(target, rules), _shape(proposal, rules)
    return first is not None and second is not None and first[2:] == second[2:]


def _reaches(proposal: Problem, count: int, rules: Rules) -> bool:
    """Return whether at most `count` of the proposal's numbers reach its target."""
    some = replace(rules, use_all=False)
    parts = combinations(proposal.numbers, count)
    return any(is_solvable(Problem(numbers, proposal.target), some) for numbers in parts)


@lru_cache(maxsize=8192)
def _shape(problem: Problem, rules: Rules) -> tuple[bool, ...] | None:
    """Return whether all solutions need depth 3, a fraction, and each operator, one bool each; None if unsolvable."""
    shape = features(problem, rules)
    if not shape["solutions"]:
        return None
    needs = (shape[f"needs_{name}"] == 1 for name in ("fraction", "add", "sub", "mul", "div"))
    return (shape["depth_min"] >= 3, *needs)


def _steps(expression: str) -> tuple[bool, Fraction]:
    """Return whether a solution has a redundant step, such as x * 1, and its largest intermediate value."""
    parsed = to_postfix(expression, unary_minus=True)
    stack: list[Fraction] = []
    idle, largest = False, Fraction(0)
    for token in parsed[0] if parsed else ():
        if token.isdigit():
            stack.append(Fraction(int(token)))
            continue
        if token == "~":
            stack.append(-stack.pop())
            continue
        right, left = stack.pop(), stack.pop()
        if token in "+-":
            idle |= right == 0 or (left == 0 and token == "+") or (token == "-" and left == right)
            value = left + right if token == "+" else left - right
        elif token == "*":
            idle, value = idle or 1 in (left, right), left * right
        else:
            idle, value = idle or right == 1 or left == right, left / right if right else Fraction(0)
        largest = max(largest, abs(value))
        stack.append(value)
    return idle, largest


MOST = 7
"""Largest number of the target's numbers that the moves to a state may combine."""

Numbers = tuple[int, ...]


def rubric_in_moves(
    target: Problem, proposal: Problem, value_high: int, solution: Sequence[Move] | None = None
) -> Review:
    """Review `proposal` as a step towards `target` in moves, independent of the order of the numbers. solution:
    verified moves that solve the proposal. None: the proposal counts as solvable if it has at most MOST numbers and
    moves reach its target.

    Scores:
        relevance: 5: the state after one move on the target (see `moves_between`). 4: a state after several moves. 3:
          the same target and at least half of the numbers shared. 2: one of these two. 1: any other problem, unless
          it has two numbers and one move solves it. 0: such a problem, the same problem, or one with fewer than two
          numbers. A state without a known solution is scored by the rules for 3 and below.
        redundancy: 1 if the solution has a move that keeps a number (x * 1, x / 1) or divides equal numbers (x / x).
          Unused numbers are not redundant, because a state has all remaining ones.
        complexity: 0 for fewer numbers than the target problem has, 1 for as many, 2 for more, 3 for more than 1.5
          times as many; 4 without a known solution. Moves have no fractions, and all solutions have the same number
          of steps.
    """
    few = len(proposal.numbers) <= MOST
    solved = solution is not None or (few and proposal.target in values(_sorted(proposal.numbers), value_high))
    idles = any(operation in "*/" and 1 in (a, b, result) for a, operation, b, result in solution or ())
    count, size = len(proposal.numbers), len(target.numbers)
    complexity = int(count >= size) + int(count > size) + int(2 * count > 3 * size) if solved else 4
    return Review(_relevance_in_moves(target, proposal, value_high, solved), int(idles), complexity)


def moves_between(target: Problem, proposal: Problem, value_high: int) -> int | None:
    """Return the number of moves after which `proposal` is a state of `target`: the same target value, and at least
    two numbers, each a number of `target` or the result of moves on several. None if `proposal` is not a state, or if
    the moves combine more than MOST numbers of `target` that `proposal` lacks."""
    moves = len(target.numbers) - len(proposal.numbers)
    if moves < 1 or len(proposal.numbers) < 2 or proposal.target != target.target:
        return None
    before, after = Counter(target.numbers), Counter(proposal.numbers)
    left = _sorted((before - after).elements())
    if not left or len(left) > MOST:
        return None
    kept, made = _sorted((before & after).elements()), _sorted((after - before).elements())
    return moves if _covered(left, made, kept, value_high) else None


@lru_cache(maxsize=1 << 14)
def values(numbers: Numbers, value_high: int) -> frozenset[int]:
    """Return all results of moves that use all of these sorted numbers, with every result from 1 to `value_high`."""
    if len(numbers) == 1:
        return frozenset(numbers)
    found: set[int] = set()
    for part, rest in _splits(numbers):
        a, b = (np.array(sorted(values(own, value_high))) for own in (part, rest))
        if not a.size or not b.size:
            continue
        more, less = np.maximum.outer(a, b).ravel(), np.minimum.outer(a, b).ravel()
        whole = more % less == 0
        results = np.concatenate([more + less, more - less, more * less, more[whole] // less[whole]])
        found.update(np.unique(results[(results >= 1) & (results <= value_high)]).tolist())
    return frozenset(found)


def _splits(numbers: Numbers) -> set[tuple[Numbers, Numbers]]:
    """Return all splits of the numbers into two non-empty parts; the first number is in the first part."""
    found = set()
    for size in range(len(numbers) - 1):
        for chosen in combinations(range(1, len(numbers)), size):
            rest = tuple(numbers[i] for i in range(1, len(numbers)) if i not in chosen)
            found.add(((numbers[0], *(numbers[i] for i in chosen)), rest))
    return found


def _covered(left: Numbers, made: Numbers, kept: Numbers, value_high: int) -> bool:
    """Return whether moves turn the numbers `left` and `kept` into `made` and `kept`. A kept number is unchanged or
    is the result of moves on it and some of `left`. Other cases reduce to these by exchanging numbers."""
    if not left:
        return not made

    def without(numbers: Numbers, number: int) -> Numbers:
        index = numbers.index(number)
        return numbers[:index] + numbers[index + 1 :]

    for part, rest in [*_splits(left), (left, ())]:
        for number in set(made) & values(part, value_high):
            if _covered(rest, without(made, number), kept, value_high):
                return True
        for number in set(kept):
            again = number in values(_sorted((*part, number)), value_high)
            if again and _covered(rest, made, without(kept, number), value_high):
                return True
    return False


def _sorted(numbers: Iterable[int]) -> Numbers:
    return tuple(sorted(numbers))


def _relevance_in_moves(target: Problem, proposal: Problem, value_high: int, solved: bool) -> int:
    if proposal.key == target.key or len(proposal.numbers) < 2:
        return 0
    moves = moves_between(target, proposal, value_high) if solved else None
    if moves is not None:
        return 5 if moves == 1 else 4
    related = int(_is_close(target, proposal)) + int(target.target == proposal.target)
    trivial = len(proposal.numbers) == 2 and proposal.target in values(_sorted(proposal.numbers), value_high)
    return related + 1 if related else int(not trivial)


def _is_close(target: Problem, proposal: Problem) -> bool:
    """Return whether the problems share at least half of the numbers of the larger problem."""
    shared = sum((Counter(target.numbers) & Counter(proposal.numbers)).values())
    return 2 * shared >= max(len(target.numbers), len(proposal.numbers))
