"""Guide for Countdown: the rubric of SGS 2026, appendix E.3, by exact rules in place of a language model. The paper's
reviewer gives three numbers; this module defines them for Countdown."""

from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import combinations

from .exact.solver import is_solvable
from .expression import to_postfix
from .features import features
from .problem import Problem
from .rules import DEFAULT_RULES, Rules

ARTIFICIAL = 10
"""Multiple of the largest number above which intermediate values are artificial."""


@dataclass(frozen=True)
class Review:
    """Scores of the paper's rubric: relevance 0 to 5, redundancy 0 or 1, complexity 0 to 4."""

    relevance: int
    redundancy: int
    complexity: int

    @property
    def score(self) -> int:
        """0 if complexity >= 3, else max(0, relevance + (2 - complexity) + (1 - redundancy)); 0 to 8 (equation 3)."""
        if self.complexity >= 3:
            return 0
        return max(0, self.relevance + (2 - self.complexity) + (1 - self.redundancy))


def rubric(target: Problem, proposal: Problem, rules: Rules = DEFAULT_RULES, solution: str | None = None) -> Review:
    """Review `proposal` as a step towards `target`. Deterministic, and independent of the order of the numbers.
    solution: an expression that solves the proposal, if known. Raises DataError for more than 6 numbers.

    Scores:
        relevance: 5 a step towards the target that leaves two numbers (see `is_step`); 4 a step that leaves more; 3 at
          least half of the numbers shared, and the same target or the same necessary operators; 2 at least half of the
          numbers shared, or the same target; 1 anything else; 0 the same problem, one with fewer than two numbers, or
          one that would have 1 and is trivial: at most one operation on its numbers reaches its target.
        redundancy: 1 if some of the numbers reach the proposal's target without the others, or if the solution
          multiplies or divides by 1, adds or subtracts 0, or has two equal values that cancel.
        complexity: 1 for more numbers than the target problem has, plus 1 if every solution is nested three deep or
          more, plus 2 if every solution passes through a fraction, plus 1 if the solution passes through a value more
          than ARTIFICIAL times the largest number of both problems; at most 4, and 4 without a solution.
    """
    shape = _shape(tuple(sorted(proposal.numbers)), proposal.target, rules)
    if shape is None:
        complexity = 4
    else:
        complexity = int(len(proposal.numbers) > len(target.numbers)) + int(shape[0]) + 2 * int(shape[1])
    idle, largest = _steps(solution) if solution else (False, Fraction(0))
    usual = max(*target.numbers, target.target, *proposal.numbers, proposal.target)
    complexity = min(4, complexity + int(largest > ARTIFICIAL * usual))
    return Review(_relevance(target, proposal, rules), int(idle or _is_redundant(proposal, rules)), complexity)


def is_step(target: Problem, proposal: Problem, rules: Rules = DEFAULT_RULES) -> bool:
    """Return whether solving `proposal` is a step of solving `target`: it uses some but not all of the target's
    numbers, and after replacing them by its value the target can still be reached. 3, 5 -> 15 is a step of 3, 5, 7 ->
    22. Values below 1 do not count, because a problem's numbers are positive."""
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
    shared = sum((Counter(target.numbers) & Counter(proposal.numbers)).values())
    close = 2 * shared >= max(len(target.numbers), len(proposal.numbers))
    same_target = target.target == proposal.target
    if close and (same_target or _same_operators(target, proposal, rules)):
        return 3
    if close or same_target:
        return 2
    return int(not _reaches(proposal, 2, rules))


def _same_operators(target: Problem, proposal: Problem, rules: Rules) -> bool:
    shapes = [_shape(tuple(sorted(problem.numbers)), problem.target, rules) for problem in (target, proposal)]
    return shapes[0] is not None and shapes[1] is not None and shapes[0][2:] == shapes[1][2:]


def _is_redundant(proposal: Problem, rules: Rules) -> bool:
    count = len(proposal.numbers)
    return count > 1 and _reaches(proposal, count - 1, rules)


def _reaches(proposal: Problem, count: int, rules: Rules) -> bool:
    """Return whether at most `count` of its numbers reach its target."""
    some = replace(rules, use_all=False)
    parts = combinations(proposal.numbers, count)
    return any(is_solvable(Problem(numbers, proposal.target), some) for numbers in parts)


@lru_cache(maxsize=8192)
def _shape(numbers: tuple[int, ...], target: int, rules: Rules) -> tuple[bool, ...] | None:
    """Return whether all solutions need depth 3, a fraction, and each operator; None without a solution."""
    shape = features(Problem(numbers, target), rules)
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
