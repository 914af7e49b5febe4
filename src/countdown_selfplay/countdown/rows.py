"""Solutions of problems as answers of demonstrations."""

from ..errors import DataError
from .exact.forms import Node
from .exact.solver import solution_tree
from .problem import DEFAULT_RULES, Problem, Rules


def compact_solution(problem: Problem, rules: Rules = DEFAULT_RULES) -> str:
    """Return a solution as tokens separated by spaces, `( 3 + 5 ) * 7`. Raises DataError if there is none."""
    return solution_of(problem, rules).text().replace("(", "( ").replace(")", " )")


def solution_of(problem: Problem, rules: Rules) -> Node:
    tree = solution_tree(problem, rules)
    if tree is None:
        raise DataError(f"There is no demonstration of {problem.key}: it has no solution.")
    return tree
