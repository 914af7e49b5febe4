"""The Countdown domain: problems, exact verifier, exact solver, generator, prompts. Imports neither torch nor TRL."""

from .domain import CountdownDomain
from .generator import ProblemSpec, generate_problems, heldout_key
from .problem import Problem, problem_from_row
from .prompts import CONJECTURER_PROMPTS, PROVER_PROMPTS
from .proposals import Proposal, ProposalReason, parse_proposal
from .rules import DEFAULT_RULES, AnswerFormat, AnswerRule, Rules
from .solver import count_solutions, is_solvable, is_solvable_batch, reachable_targets, solve
from .verifier import Reason, Verdict, verify, verify_batch

__all__ = [
    "CONJECTURER_PROMPTS",
    "DEFAULT_RULES",
    "PROVER_PROMPTS",
    "AnswerFormat",
    "AnswerRule",
    "CountdownDomain",
    "Problem",
    "ProblemSpec",
    "Proposal",
    "ProposalReason",
    "Reason",
    "Rules",
    "Verdict",
    "count_solutions",
    "generate_problems",
    "heldout_key",
    "is_solvable",
    "is_solvable_batch",
    "parse_proposal",
    "problem_from_row",
    "reachable_targets",
    "solve",
    "verify",
    "verify_batch",
]
