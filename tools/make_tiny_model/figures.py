"""The figures of a tiny model: the prover on every held-out problem of the spec, the conjecturer's proposals."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from countdown_selfplay.countdown import CountdownDomain, Problem, ProblemSpec
from countdown_selfplay.evaluation import (
    ConjecturerEvaluation,
    ProverEvaluation,
    evaluate_conjecturer,
    evaluate_prover,
)

from .exercises import exercises
from .warm_start import THREADS, torch_threads

MAX_NEW_TOKENS = 16
"""A three-number answer with all its parentheses and the end token has 8 tokens, a proposal 6."""


@dataclass(frozen=True)
class Figures:
    """Both roles at temperature 1, without top-p or top-k."""

    prover: ProverEvaluation
    conjecturer: ConjecturerEvaluation

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"prover": self.prover.to_dict(), "conjecturer": self.conjecturer.to_dict()}


def held_out_problems(spec: ProblemSpec, n: int | None = None, seed: int = 0) -> list[Problem]:
    """`n` problems of the spec's held-out side, or all of them; `seed` decides their order and that of their numbers.

    The sides are listed and not sampled, so that the last rare problem is found too.
    """
    found = [exercise.problem for k in spec.operands for exercise in exercises(k, spec, heldout=True)]
    rng = np.random.default_rng(seed)
    shuffled = [found[index] for index in rng.permutation(len(found))][:n]
    return [Problem(tuple(int(x) for x in rng.permutation(problem.numbers)), problem.target) for problem in shuffled]


def measure(
    model: Any,
    tokenizer: Any,
    spec: ProblemSpec,
    *,
    problems: int | None = None,
    samples: int = 16,
    proposals: int = 2048,
    seed: int = 0,
) -> Figures:
    """Sample `samples` answers to each of `problems` held-out problems (None: all), and `proposals` proposals.

    The conjecturer's solve rate is the prover's share of right answers, 8 to each distinct solvable proposal.
    """
    domain = replace(CountdownDomain.tiny(), spec=spec)
    sampling: dict[str, Any] = {"max_new_tokens": MAX_NEW_TOKENS, "seed": seed, "batch_size": 1024}

    def solve_rates(proposed: list[Problem]) -> list[float]:
        result = evaluate_prover(model, tokenizer, proposed, domain, 8, (1,), **sampling)
        return [count / result.n for count in result.correct]

    with torch_threads(THREADS):
        prover = evaluate_prover(
            model,
            tokenizer,
            held_out_problems(spec, problems, seed),
            domain,
            samples,
            [k for k in (1, 4, 8, 16) if k <= samples],
            **sampling,
        )
        conjecturer = evaluate_conjecturer(model, tokenizer, domain, proposals, prover_correct=solve_rates, **sampling)
    return Figures(prover, conjecturer)
