"""Evaluating a policy in its role: a prover on problems, a conjecturer on its proposals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..countdown import CountdownDomain, Problem
from .bootstrap import Estimate, bootstrap_mean
from .pass_at_k import pass_at_k_array
from .sampling import sample_texts


@dataclass(frozen=True)
class ProverEvaluation:
    """correct: (P,) accepted answers of n per problem. pass_at: k -> mean with a 95% interval over problems."""

    correct: list[int]
    n: int
    pass_at: dict[int, Estimate]
    reasons: dict[str, int]
    truncated_rate: float
    several_answers_rate: float
    setting: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {
            "problems": len(self.correct),
            "n": self.n,
            "pass_at": {str(k): estimate.to_dict() for k, estimate in self.pass_at.items()},
            "reasons": self.reasons,
            "truncated_rate": self.truncated_rate,
            "several_answers_rate": self.several_answers_rate,
            "setting": self.setting,
            "correct": self.correct,
        }


@dataclass(frozen=True)
class ConjecturerEvaluation:
    """Shares of n proposals with 95% intervals; unique: distinct problems among the parsed ones (no interval: it is
    no mean)."""

    n: int
    parseable: Estimate
    in_range: Estimate
    solvable: Estimate
    unique: Estimate | None
    reasons: dict[str, int]
    problems: list[Problem]
    setting: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        rates = {name: getattr(self, name) for name in ("parseable", "in_range", "solvable", "unique")}
        return {
            "n": self.n,
            **{name: estimate.to_dict() for name, estimate in rates.items() if estimate is not None},
            "reasons": self.reasons,
            "setting": self.setting,
        }


def evaluate_prover(
    model: Any,
    tokenizer: Any,
    problems: Sequence[Problem],
    domain: CountdownDomain,
    n: int = 16,
    ks: Sequence[int] = (1, 4, 8, 16),
    seed: int = 0,
    **sampling: Any,
) -> ProverEvaluation:
    """Sample n answers per problem and judge them by the domain's rules, the ones that training uses.

    `sampling`: temperature, top_p, top_k, max_new_tokens, batch_size of sample_texts.
    """
    prompts = [domain.prove_row(problem)["prompt"] for problem in problems]
    stops = domain.stop_strings("prover")
    texts, cut = sample_texts(model, tokenizer, prompts, n, seed=seed, stop_strings=stops, **sampling)
    verdicts = [[domain.verify(text, p) for text in row] for p, row in zip(problems, texts, strict=True)]
    correct = [sum(v.correct for v in row) for row in verdicts]
    answers = [v for row in verdicts for v in row]
    return ProverEvaluation(
        correct=correct,
        n=n,
        pass_at={k: bootstrap_mean(pass_at_k_array(correct, n, k)) for k in ks},
        reasons=dict(Counter(str(v.reason) for v in answers)),
        truncated_rate=float(np.mean(cut)),
        several_answers_rate=float(np.mean([v.n_answers > 1 for v in answers])),
        setting={**sampling, "seed": seed, "prompt": domain.prover_prompt, "rules": domain.rules.to_dict()},
    )


def evaluate_conjecturer(
    model: Any,
    tokenizer: Any,
    domain: CountdownDomain,
    n: int = 512,
    seed: int = 0,
    **sampling: Any,
) -> ConjecturerEvaluation:
    """Sample n proposals, the spec's operand counts in turn, and examine them. `sampling` as in evaluate_prover."""
    counts = domain.spec.operands
    prompts = [domain.propose_row(k)["prompt"] for k in counts]
    per_prompt = -(-n // len(counts))
    stops = domain.stop_strings("conjecturer")
    texts, _ = sample_texts(model, tokenizer, prompts, per_prompt, seed=seed, stop_strings=stops, **sampling)
    proposals = [domain.parse(text) for row in texts for text in row]
    problems = [p.problem for p in proposals if p.problem is not None]
    ranged = [p.problem is not None and domain.in_range(p.problem) for p in proposals]
    solvable = [
        ok and p.problem is not None and domain.solvable(p.problem) for ok, p in zip(ranged, proposals, strict=True)
    ]
    share = len({p.key for p in problems}) / len(problems) if problems else None
    return ConjecturerEvaluation(
        n=len(proposals),
        parseable=bootstrap_mean([p.problem is not None for p in proposals]),
        in_range=bootstrap_mean(ranged),
        solvable=bootstrap_mean(solvable),
        unique=None if share is None else Estimate(share, share, share),
        reasons=dict(Counter(str(p.reason) for p in proposals)),
        problems=problems,
        setting={**sampling, "seed": seed, "prompt": domain.conjecturer_prompt},
    )
