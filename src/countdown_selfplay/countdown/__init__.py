"""Countdown arithmetic: problems, an exact verifier, an exact solver, prompts. Requires only NumPy.

A problem is k positive integers and a target; a solution uses every number exactly once with + - * / and parentheses.
`/` is true division, and intermediate values may be fractions unless `Rules.integers_only` is set."""

from .domain import CountdownDomain
from .environment import CountdownEnvironment, CountdownMovesEnvironment
from .exact.listing import all_solutions, count_solutions, reachable_counts, reachable_targets
from .exact.solver import is_solvable, is_solvable_batch, solvable_arrays, solve
from .features import FEATURES, feature_matrix, features
from .generator import generate_problems, heldout_problems
from .problem import (
    DEFAULT_RULES,
    AnswerFormat,
    AnswerRule,
    Problem,
    ProblemSpec,
    Rules,
    heldout_key,
    problem_from_row,
    problem_of_key,
)
from .prompts import CONJECTURER_PROMPTS, PROVER_PROMPTS, compact
from .proposals import Proposal, ProposalReason, parse_proposal
from .verifier import Reason, Verdict, verify, verify_batch

__all__ = [
    "Problem", "ProblemSpec", "problem_from_row", "problem_of_key", "heldout_key", "Rules", "DEFAULT_RULES",
    "AnswerRule", "AnswerFormat", "verify", "verify_batch", "Verdict", "Reason", "solve", "is_solvable",
    "is_solvable_batch", "solvable_arrays", "count_solutions", "reachable_targets", "reachable_counts",
    "all_solutions", "FEATURES", "features", "feature_matrix", "generate_problems", "heldout_problems",
    "PROVER_PROMPTS", "CONJECTURER_PROMPTS", "Proposal", "ProposalReason", "parse_proposal", "CountdownDomain",
    "CountdownEnvironment", "CountdownMovesEnvironment", "compact",
]  # fmt: skip
