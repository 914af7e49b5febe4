"""Functions of this folder's task files: held-out problems, their prompts, and the verifier's verdicts. lm-eval loads
this file by path, so that it imports the package by name."""

from collections.abc import Mapping, Sequence
from typing import Any

from countdown_selfplay.countdown import CountdownDomain, Problem, ProblemSpec, Rules, problem_from_row, solve, verify
from countdown_selfplay.countdown.prompts import BARE_PROMPTS


def held_out(
    prompt: str = "tinyzero", problems: int = 512, ranges: Mapping[str, Any] | None = None, **other: Any
) -> dict[str, Any]:
    """Return the split `test`: held-out problems as in `countdown-selfplay eval`. A task file's `metadata` holds the
    arguments; lm-eval adds the model's."""
    from datasets import Dataset

    bare = prompt in BARE_PROMPTS
    spec = ProblemSpec(**{"operands": (3, 4), **(ranges or {})})
    domain = CountdownDomain(spec, Rules(answer_format="bare" if bare else "tags"), prompt)
    rows = [domain.prove_row(problem) | {"bare": bare} for problem in domain.held_out(problems)]
    return {"test": Dataset.from_list(rows)}


def question(doc: Mapping[str, Any]) -> str:
    return str(doc["prompt"])


def solution(doc: Mapping[str, Any]) -> str:
    return str(solve(problem_from_row(doc)))


def score(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """Return solved, the verifier's correctness, and score."""
    problem: Problem = problem_from_row(doc)
    verdict = verify(results[0], problem, Rules(answer_format="bare" if doc["bare"] else "tags"))
    return {"solved": float(verdict.correct), "score": float(verdict.score)}
