"""The exact solver: every value that a multiset of numbers can make, by dynamic programming over its sub-multisets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import combinations
from math import gcd

from .problem import Problem
from .rules import DEFAULT_RULES, Rules

Rational = tuple[int, int]  # numerator, denominator > 0, in lowest terms
_MODULUS = (
    1 << 61
) - 1  # a Mersenne prime: two different expressions agree at a random point with odds of about 1e-17


def _combine(a: Rational, b: Rational, integers_only: bool) -> Iterator[tuple[str, Rational]]:
    """The six results of two operands: a+b, a-b, b-a, a*b, a/b, b/a ("r-" and "r/" have the operands swapped)."""
    (p, q), (r, s) = a, b
    d = q * s
    yield "+", _reduced(p * s + r * q, d)
    difference = _reduced(p * s - r * q, d)
    yield "-", difference
    yield "r-", (-difference[0], difference[1])
    yield "*", _reduced(p * r, d)
    if r:
        quotient = _reduced(p * s, q * r)
        if not integers_only or quotient[1] == 1:
            yield "/", quotient
    if p:
        quotient = _reduced(r * q, s * p)
        if not integers_only or quotient[1] == 1:
            yield "r/", quotient


def _reduced(numerator: int, denominator: int) -> Rational:
    if denominator < 0:
        numerator, denominator = -numerator, -denominator
    if denominator == 1:
        return numerator, 1
    common = gcd(numerator, denominator)
    return numerator // common, denominator // common


def _splits(numbers: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The unordered ways to cut a sorted tuple in two non-empty sorted tuples, each once even if numbers repeat."""
    seen = set()
    indices = range(len(numbers))
    for size in range(1, len(numbers) // 2 + 1):
        for chosen in combinations(indices, size):
            left = tuple(numbers[i] for i in chosen)
            right = tuple(numbers[i] for i in indices if i not in chosen)
            pair = (left, right) if (len(left), left) <= (len(right), right) else (right, left)
            if pair not in seen:
                seen.add(pair)
                yield pair


@lru_cache(maxsize=4096)
def _values(numbers: tuple[int, ...], integers_only: bool) -> frozenset[Rational]:
    """All values of expressions that use each of the sorted `numbers` exactly once."""
    if len(numbers) == 1:
        return frozenset({(numbers[0], 1)})
    found: set[Rational] = set()
    for left, right in _splits(numbers):
        for a in _values(left, integers_only):
            for b in _values(right, integers_only):
                found.update(value for _, value in _combine(a, b, integers_only))
    return frozenset(found)


def _subsets(numbers: tuple[int, ...], use_all: bool) -> Iterator[tuple[int, ...]]:
    """The multiset itself, and under use_all=False every smaller one, larger ones first."""
    yield numbers
    if not use_all:
        for size in range(len(numbers) - 1, 0, -1):
            yield from dict.fromkeys(combinations(numbers, size))


def is_solvable(problem: Problem, rules: Rules = DEFAULT_RULES) -> bool:
    """Whether an expression exists that `verify` scores as correct."""
    goal = (problem.target, 1)
    return any(_reaches(s, goal, rules.integers_only) for s in _subsets(tuple(sorted(problem.numbers)), rules.use_all))


def is_solvable_batch(problems: Iterable[Problem], rules: Rules = DEFAULT_RULES) -> list[bool]:
    """`is_solvable` for each problem; problems over the same numbers share the search."""
    return [is_solvable(problem, rules) for problem in problems]


def _reaches(numbers: tuple[int, ...], goal: Rational, integers_only: bool) -> bool:
    """Meet in the middle: the last operation's other operand is computed and looked up, not enumerated."""
    if len(numbers) == 1:
        return (numbers[0], 1) == goal
    for left, right in _splits(numbers):
        have = _values(right, integers_only)
        for a in _values(left, integers_only):
            if any(operation == "*0" or b in have for operation, b in _partners(a, goal)):
                return True
    return False


def _partners(a: Rational, goal: Rational) -> Iterator[tuple[str, Rational]]:
    """(operation, b) such that combining a and b by the operation gives the goal."""
    (p, q), (t, u) = a, goal
    yield "+", _reduced(t * q - p * u, u * q)  # b = goal - a
    yield "-", _reduced(p * u - t * q, u * q)  # a - b = goal
    yield "r-", _reduced(p * u + t * q, u * q)  # b - a = goal
    if p:
        yield "*", _reduced(t * q, u * p)  # a * b = goal
        yield "r/", _reduced(t * p, u * q)  # b / a = goal, b = goal * a
        if t:
            yield "/", _reduced(p * u, q * t)  # a / b = goal, b = a / goal, not 0 as a is not
    elif t == 0:
        # a = 0 and goal 0: a * b and a / b are 0 for any b; b = 1 may not be there, "+" and "-" with b = 0 may not
        # either.
        yield "*0", (0, 0)


def solve(problem: Problem, rules: Rules = DEFAULT_RULES) -> str | None:
    """An expression that `verify` scores as correct, such as "8 / (3 - 8 / 3)", or None if there is none."""
    for numbers in _subsets(tuple(sorted(problem.numbers)), rules.use_all):
        found = _find(numbers, (problem.target, 1), rules.integers_only)
        if found is not None:
            return found[0]
    return None


def _find(numbers: tuple[int, ...], goal: Rational, integers_only: bool) -> tuple[str, int] | None:
    """(text, precedence) of an expression over `numbers` with value `goal`; precedence 3 is a number, 2 a term, 1 a
    sum."""
    if len(numbers) == 1:
        return (str(numbers[0]), 3) if (numbers[0], 1) == goal else None
    for left, right in _splits(numbers):
        have = _values(right, integers_only)
        for a in sorted(_values(left, integers_only)):
            for operation, b in _partners(a, goal):
                if operation == "*0":
                    operation, b = "*", min(have)
                if b in have:
                    first, second = _find(left, a, integers_only), _find(right, b, integers_only)
                    if first is not None and second is not None:
                        return _written(operation, first, second)
    return None


def _written(operation: str, a: tuple[str, int], b: tuple[str, int]) -> tuple[str, int]:
    if operation.startswith("r"):
        operation, a, b = operation[1], b, a
    precedence = 1 if operation in "+-" else 2
    left = a[0] if a[1] >= precedence else f"({a[0]})"
    tight = b[1] > precedence or (b[1] == precedence and operation in "+*")
    return f"{left} {operation} {b[0] if tight else f'({b[0]})'}", precedence


@lru_cache(maxsize=256)
def _solutions(numbers: tuple[int, ...], integers_only: bool) -> frozenset[tuple[Rational, int]]:
    """(value, fingerprint) of every inequivalent expression over the sorted `numbers`.

    Two expressions are equivalent when they are the same rational function of the numbers as symbols (equal numbers
    are the same symbol). The fingerprint is the function's value at a fixed random point modulo a prime.
    """
    if len(numbers) == 1:
        return frozenset({((numbers[0], 1), _symbol(numbers[0]))})
    found: set[tuple[Rational, int]] = set()
    for left, right in _splits(numbers):
        for a, x in _solutions(left, integers_only):
            for b, y in _solutions(right, integers_only):
                for operation, value in _combine(a, b, integers_only):
                    found.add((value, _fingerprint(operation, x, y)))
    return frozenset(found)


def _symbol(number: int) -> int:
    """The random point's coordinate for a number: a fixed multiplicative scramble (Knuth's 64-bit constant)."""
    return (number * 6364136223846793005 + 1442695040888963407) * 2862933555777941757 % _MODULUS


def _fingerprint(operation: str, x: int, y: int) -> int:
    if operation.startswith("r"):
        operation, x, y = operation[1], y, x
    if operation == "+":
        return (x + y) % _MODULUS
    if operation == "-":
        return (x - y) % _MODULUS
    if operation == "*":
        return x * y % _MODULUS
    return x * pow(y, -1, _MODULUS) % _MODULUS


def count_solutions(problem: Problem, rules: Rules = DEFAULT_RULES) -> int:
    """The number of inequivalent solutions, counted as OEIS A140606 counts expressions: 1, 6, 68, 1170, ... in all
    over 1, 2, 3, 4 distinct operands."""
    goal = (problem.target, 1)
    subsets = _subsets(tuple(sorted(problem.numbers)), rules.use_all)
    return sum(value == goal for s in subsets for value, _ in _solutions(s, rules.integers_only))


def reachable_targets(numbers: Iterable[int], low: int, high: int, rules: Rules = DEFAULT_RULES) -> dict[int, int]:
    """Target -> number of inequivalent solutions, for every whole target in [low, high] that the numbers can make."""
    counts: dict[int, int] = {}
    for subset in _subsets(tuple(sorted(numbers)), rules.use_all):
        for (value, denominator), _ in _solutions(subset, rules.integers_only):
            if denominator == 1 and low <= value <= high:
                counts[value] = counts.get(value, 0) + 1
    return dict(sorted(counts.items()))
