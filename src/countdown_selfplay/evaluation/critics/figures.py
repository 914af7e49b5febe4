"""What the paper's tables say of a prover in one call: greedy pass@1, majority@k, error detection (seed 002)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...random_state import seed_from
from ...statistics.bootstrap import bootstrap_mean
from ...statistics.majority import majority_at_k
from .error_detection import error_detection
from .policy import Policy
from .steps import StepItem


def prover_figures(
    policy: Policy, domain: Any, problems: Sequence[Any], items: Sequence[StepItem], votes: int = 8, seed: int = 0
) -> dict[str, Any]:
    """Plain JSON values with 95% intervals over problems: pass@1 (greedy), majority (of `votes` sampled answers, all
    ways to break a tie counted), and error_detection on `items`. Appendix C.1 samples at temperature .95 and top-k
    10, which is the policy's matter."""
    rows = [domain.prove_row(problem) for problem in problems]
    greedy = [reply.text for (reply,) in policy(rows, 1, 0, True)]
    drawn = policy(rows, votes, seed_from("votes", seed), False)
    verdicts = [domain.verify([r.text for r in own], [p] * votes) for own, p in zip(drawn, problems, strict=True)]
    majority = majority_at_k(
        [[v.vote for v in own] for own in verdicts], [[v.correct for v in own] for own in verdicts], votes
    )
    right = [float(verdict.correct) for verdict in domain.verify(greedy, problems)]
    return {
        "pass@1": bootstrap_mean(right, seed=seed).to_dict(),
        f"majority@{votes}": bootstrap_mean(majority, seed=seed).to_dict(),
        "error_detection": error_detection(policy, domain, items, seed),
    }
