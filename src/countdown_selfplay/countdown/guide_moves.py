"""Rubric of SGS 2026, appendix E.3, for answers in moves: a helpful problem is a reachable state of play on the
target. Exact if the way combines at most MOST of the target's numbers."""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import combinations

import numpy as np

from .guide import Review
from .moves import Move
from .problem import Problem

MOST = 7
"""Largest number of the target's numbers that the moves to a state may combine."""

Numbers = tuple[int, ...]


def rubric_in_moves(
    target: Problem, proposal: Problem, value_high: int, solution: Sequence[Move] | None = None
) -> Review:
    """Review `proposal` as a step towards `target` in moves, independent of the order of the numbers. solution:
    verified moves that solve the proposal; without them it is known to be solvable if it has at most MOST numbers and
    moves reach its target.

    Scores:
        relevance: 5 the state after one move on the target (see `moves_between`); 4 the state after several; 3 the
          same target with at least half of the numbers shared; 2 one of the two; 1 anything else; 0 the same problem,
          one with fewer than two numbers, or one that would have 1 and is one move on two of its numbers. A state
          without a known solution counts as related only.
        redundancy: 1 if the solution has a move that keeps a number (x * 1, x / 1) or makes 1 of two equal ones.
          Unused numbers are not redundant, because a state has all remaining ones.
        complexity: 0 for fewer numbers than the target problem has, 1 for the same number, 2 for more, 3 for more
          than half again; 4 without a known solution. Moves have no fractions, and all solutions have the same
          number of steps.
    """
    few = len(proposal.numbers) <= MOST
    solved = solution is not None or (few and proposal.target in values(_sorted(proposal.numbers), value_high))
    idles = any(operation in "*/" and 1 in (a, b, result) for a, operation, b, result in solution or ())
    count, size = len(proposal.numbers), len(target.numbers)
    complexity = int(count >= size) + int(count > size) + int(2 * count > 3 * size) if solved else 4
    return Review(_relevance(target, proposal, value_high, solved), int(idles), complexity)


def moves_between(target: Problem, proposal: Problem, value_high: int) -> int | None:
    """Return the number of moves from the target to the proposal as its state: the same target value, and at least two
    numbers, each a number of the target or the result of moves on some. None if it is not a state, or if the way
    combines more than MOST numbers that it does not contain."""
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
    """Return all results of moves on all of these sorted numbers, integers from 1 to `value_high` throughout."""
    if len(numbers) == 1:
        return frozenset(numbers)
    reachable: set[int] = set()
    for part, rest in _splits(numbers):
        a, b = (np.array(sorted(values(subset, value_high))) for subset in (part, rest))
        if not a.size or not b.size:
            continue
        more, less = np.maximum.outer(a, b).ravel(), np.minimum.outer(a, b).ravel()
        whole = more % less == 0
        results = np.concatenate([more + less, more - less, more * less, more[whole] // less[whole]])
        reachable.update(np.unique(results[(results >= 1) & (results <= value_high)]).tolist())
    return frozenset(reachable)


def _splits(numbers: Numbers) -> set[tuple[Numbers, Numbers]]:
    """Return all splits into two non-empty parts; the first number is in the first."""
    splits = set()
    for size in range(len(numbers) - 1):
        for chosen in combinations(range(1, len(numbers)), size):
            rest = tuple(numbers[i] for i in range(1, len(numbers)) if i not in chosen)
            splits.add(((numbers[0], *(numbers[i] for i in chosen)), rest))
    return splits


def _covered(left: Numbers, made: Numbers, kept: Numbers, value_high: int) -> bool:
    """Return whether moves turn `left` and `kept` into `made` and `kept`. A kept number stays, or is the result of
    moves on it and some of `left`. Other cases reduce to these by exchanging numbers."""
    if not left:
        return not made
    for part, rest in [*_splits(left), (left, ())]:
        for number in set(made) & values(part, value_high):
            if _covered(rest, _without(made, number), kept, value_high):
                return True
        for number in set(kept):
            again = number in values(_sorted((*part, number)), value_high)
            if again and _covered(rest, made, _without(kept, number), value_high):
                return True
    return False


def _without(numbers: Numbers, number: int) -> Numbers:
    index = numbers.index(number)
    return numbers[:index] + numbers[index + 1 :]


def _sorted(numbers: Iterable[int]) -> Numbers:
    return tuple(sorted(numbers))


def _relevance(target: Problem, proposal: Problem, value_high: int, solved: bool) -> int:
    if proposal.key == target.key or len(proposal.numbers) < 2:
        return 0
    moves = moves_between(target, proposal, value_high) if solved else None
    if moves is not None:
        return 5 if moves == 1 else 4
    close = 2 * _shared(target, proposal) >= max(len(target.numbers), len(proposal.numbers))
    related = int(close) + int(target.target == proposal.target)
    trivial = len(proposal.numbers) == 2 and proposal.target in values(_sorted(proposal.numbers), value_high)
    return related + 1 if related else int(not trivial)


def _shared(target: Problem, proposal: Problem) -> int:
    return sum((Counter(target.numbers) & Counter(proposal.numbers)).values())
