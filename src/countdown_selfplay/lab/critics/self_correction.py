"""Self-correction: a model checks its own answer without a critique (Wang et al. 2025, section 4.3)."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ...random_state import seed_from
from ...statistics.bootstrap import change_interval, ratio_interval
from . import Policy, Reply


class Recheck(NamedTuple):
    """A first answer and its check. problem: its index; was_right: the first answer; is_right: the final answer;
    says_right: whether the second reply contains a right answer."""

    problem: int
    first: Reply
    second: Reply
    was_right: bool
    is_right: bool
    says_right: bool


def rechecks(
    policy: Policy, domain: Any, problems: Sequence[Any], n: int = 1, seed: int = 0, greedy: bool = True
) -> list[Recheck]:
    """Sample `n` answers to each problem and check each again once, greedily as the paper's test does or sampled. A
    second reply without an answer leaves the first one (the authors' code; the text does not specify it)."""
    rows = [domain.prove_row(problem) for problem in problems]
    first = [
        (place, reply) for place, row in enumerate(policy(rows, n, seed_from("answers", seed), False)) for reply in row
    ]
    again = [domain.critique.recheck_row(problems[place], reply.text) for place, reply in first]
    second = [reply for (reply,) in policy(again, 1, seed_from("rechecks", seed), greedy)]
    repeated = [problems[place] for place, _ in first]
    was = domain.verify([reply.text for _, reply in first], repeated)
    now = domain.verify([reply.text for reply in second], repeated)
    return [
        Recheck(place, reply, checked, a.correct, a.correct if _no_answer(b) else b.correct, b.correct)
        for (place, reply), checked, a, b in zip(first, second, was, now, strict=True)
    ]


def _no_answer(verdict: Any) -> bool:
    """Return whether a verdict's text has no answer at all, which has no vote in a majority either."""
    return not verdict.correct and getattr(verdict, "vote", "") is None


def self_correction(policy: Policy, domain: Any, problems: Sequence[Any], n: int = 1, seed: int = 0) -> dict[str, Any]:
    """Return the results of checking again as JSON values with 95% intervals (bootstrap over problems).
    right_to_wrong: share of right answers that are spoiled; wrong_to_right: share of wrong ones that are corrected;
    None without such an answer. before, after: accuracy of the first and of the checked answers; change: after -
    before, paired (the column "self correction" of the paper's table 3, there in points)."""
    checks = rechecks(policy, domain, problems, n, seed)
    return correction_figures(
        [one.was_right for one in checks],
        [one.is_right for one in checks],
        [domain.key(problems[one.problem]) for one in checks],
        seed,
    ) | {"truncated_rate": sum(one.second.truncated for one in checks) / len(checks)}


def correction_figures(
    was_right: Sequence[bool], is_right: Sequence[bool], keys: Sequence[str], seed: int = 0
) -> dict[str, Any]:
    """Return the figures from each answer's two verdicts and its problem's key."""
    was, now = [float(right) for right in was_right], [float(right) for right in is_right]
    pairs, names = list(zip(was, now, strict=True)), (("right", 1.0), ("wrong", 0.0))
    rates = {
        "before": (was, [1.0] * len(was)),
        "after": (now, [1.0] * len(was)),
        "right_to_wrong": ([a * (1 - b) for a, b in pairs], was),
        "wrong_to_right": ([(1 - a) * b for a, b in pairs], [1 - a for a in was]),
    }
    estimates = {name: ratio_interval(part, whole, keys, seed=seed) for name, (part, whole) in rates.items()}
    return {
        **{name: None if value is None else value.to_dict() for name, value in estimates.items()},
        "change": change_interval([b - a for a, b in pairs], keys, seed=seed).to_dict(),
        "answers": len(was),
        "counts": {f"{a}_to_{b}": pairs.count((x, y)) for a, x in names for b, y in names},
    }
