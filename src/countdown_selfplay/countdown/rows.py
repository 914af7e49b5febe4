"""Rows of data sets: a problem in the public schemas, and as (prompt, completion) pairs for warm starts of both
roles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..registry import Registry
from .demonstrations import compact_solution, solution_trace
from .domain import CountdownDomain
from .problem import Problem
from .prompts import PROPOSAL_TEXTS, Prompt

Row = dict[str, Any]


def nums_row(problem: Problem, domain: CountdownDomain) -> Row:
    """`nums`, `target`: as `Jiayi-Pan/Countdown-Tasks-3to4`."""
    return {"nums": list(problem.numbers), "target": problem.target}


def ground_truth_row(problem: Problem, domain: CountdownDomain) -> Row:
    """`prompt`, `target`, `nums`, `ground_truth`: as `asingh15/countdown_tasks_3to4`."""
    numbers = list(problem.numbers)
    truth = {"numbers": numbers, "target": problem.target}
    return {
        "prompt": domain.prove_row(problem)["prompt"],
        "target": problem.target,
        "nums": numbers,
        "ground_truth": truth,
    }


def prover_row(problem: Problem, domain: CountdownDomain) -> Row:
    """`prompt`, `numbers`, `target`: what the trainers here take, conversational if the prompt is a chat."""
    return domain.prove_row(problem)


def solved_row(problem: Problem, domain: CountdownDomain) -> Row:
    """`prompt`, `completion`, `numbers`, `target`: a demonstration for the prover's warm start; a bare solution for
    the compact prompt, else a search in `<think>` and the solution in `<answer>`."""
    row = domain.prove_row(problem)
    if domain.prover_prompt == "compact":
        text = compact_solution(problem, domain.rules)
    else:
        begun = isinstance(row["prompt"], str) and row["prompt"].endswith("<think>")
        text = solution_trace(problem, domain.rules, thinking_begun=begun)
    return {"prompt": row["prompt"], "completion": _reply(row["prompt"], text), **nums_of(problem)}


def proposed_row(problem: Problem, domain: CountdownDomain) -> Row:
    """`prompt`, `completion`, `numbers`, `target`: a demonstration for the conjecturer's warm start."""
    prompt = domain.propose_row(len(problem.numbers))["prompt"]
    text = PROPOSAL_TEXTS[domain.conjecturer_prompt](problem)
    return {"prompt": prompt, "completion": _reply(prompt, text), **nums_of(problem)}


def nums_of(problem: Problem) -> Row:
    """The problem itself as columns."""
    return {"numbers": list(problem.numbers), "target": problem.target}


def _reply(prompt: Prompt, text: str) -> Prompt:
    return text if isinstance(prompt, str) else [{"role": "assistant", "content": text}]


ROW_SCHEMAS: Registry[Callable[[Problem, CountdownDomain], Row]] = Registry(
    "row schema",
    {
        "nums": nums_row,
        "ground_truth": ground_truth_row,
        "prover": prover_row,
        "solved": solved_row,
        "proposed": proposed_row,
    },
)
