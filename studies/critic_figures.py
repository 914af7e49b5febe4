"""What the paper's tables say of a prover in one call: greedy pass@1, majority@k, error detection (Wang et al.)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from countdown_selfplay.domains import verdicts_of
from countdown_selfplay.evaluation.critics import Policy
from countdown_selfplay.evaluation.critics.error_detection import StepItem, error_detection
from countdown_selfplay.random_state import seed_from
from countdown_selfplay.statistics.bootstrap import share_interval
from countdown_selfplay.statistics.pass_at_k import majority_at_k


def prover_figures(
    policy: Policy,
    domain: Any,
    problems: Sequence[Any],
    items: Sequence[StepItem],
    votes: Sequence[int] = (8, 32),
    seed: int = 0,
) -> dict[str, Any]:
    """Plain JSON values with 95% intervals over problems: pass@1 (greedy), majority@k for each k of `votes` (of
    max(votes) sampled answers, all ways to draw k of them and to break a tie counted), and error_detection on `items`.
    per_problem: what these rates are means of, in the order of `problems`. Appendix C.1 samples at temperature .95 and
    top-k 10, which is the policy's matter."""
    most = max(votes)
    rows = [domain.prove_row(problem) for problem in problems]
    greedy = [reply.text for (reply,) in policy(rows, 1, 0, True)]
    drawn = policy(rows, most, seed_from("votes", seed), False)
    verdicts = verdicts_of(domain, [[r.text for r in own] for own in drawn], problems)
    said, correct = [[v.vote for v in own] for own in verdicts], [[v.correct for v in own] for own in verdicts]
    rates = {"pass@1": [float(verdict.correct) for verdict in domain.verify(greedy, problems)]}
    rates |= {f"majority@{k}": list(majority_at_k(said, correct, k)) for k in votes}
    return {
        **{name: share_interval(values, seed=seed).to_dict() for name, values in rates.items()},
        "per_problem": rates,
        "error_detection": error_detection(policy, domain, items, seed),
    }
