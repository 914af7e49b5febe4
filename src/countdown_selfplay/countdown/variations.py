"""Variations of a problem with a known right answer in moves: the same target, solvable by construction, no solver."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random

from .moves import Move
from .planted import combine
from .problem import Problem, ProblemSpec

Pair = tuple[int, int]


def leaf_moves(problem: Problem, moves: Sequence[Move]) -> list[Move]:
    """Those of the moves of a right answer whose two numbers are numbers of the problem, and no results. The first
    move always is one."""
    left, found = Counter(problem.numbers), []
    for move in moves:
        own = [number for number in (move[0], move[2]) if left[number] > 0]
        left.subtract(own[:1])  # 3 + 3 needs two of them
        both = len(own) == 2 and left[own[1]] > 0
        left.subtract(own[1:] if both else [])
        if both:
            found.append(move)
    return found


def pairs_of(value: int, spec: ProblemSpec, value_high: int) -> list[Pair]:
    """Pairs of numbers in range that one move turns into `value`, the larger number first, ascending."""
    low, high = spec.number_low, spec.number_high
    found = set()
    for a in range(low, high + 1):
        for op, b in (("+", value - a), ("-", a - value), ("*", value // a if a else 0), ("/", a // value)):
            if low <= b <= high and combine(a, op, b, value_high) == value:
                found.add((max(a, b), min(a, b)))
    return sorted(found)


def variation(
    problem: Problem, moves: Sequence[Move], spec: ProblemSpec, value_high: int, draws: Random
) -> Problem | None:
    """The problem with two of its numbers replaced: those of a move of its right answer, by two others that a move
    turns into the same value. So that move can be exchanged in the right answer, which ends at the same target. None
    where there is no other pair. The move, then the pair are drawn uniformly."""
    a, _, b, value = draws.choice(leaf_moves(problem, moves))
    others = [pair for pair in pairs_of(value, spec, value_high) if pair != (max(a, b), min(a, b))]
    if not others:
        return None
    numbers, pair = list(problem.numbers), draws.choice(others)
    for old, new in zip((a, b), pair, strict=True):
        numbers[numbers.index(old)] = -new  # so that the second is not looked for in the first one's place
    return Problem(tuple(abs(number) for number in numbers), problem.target)
