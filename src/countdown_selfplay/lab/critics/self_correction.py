"""Self-correction: a model checks its own answer without a critique (Wang et al. 2025, section 4.3); and training data
for it (appendix C.3), for `sft`."""

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

from ...errors import DataError
from ...random_state import seed_from
from ...statistics.bootstrap import change_interval, ratio_interval
from . import Policy, Reply

SAMPLES, EACH = 8, 5000
"""Answers per problem, and rows of each type."""


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
    checks = []
    for (place, reply), checked, a, b in zip(first, second, was, now, strict=True):
        silent = not b.correct and getattr(b, "vote", "") is None  # without an answer, hence without a vote
        checks.append(Recheck(place, reply, checked, a.correct, a.correct if silent else b.correct, b.correct))
    return checks


def self_correction(policy: Policy, domain: Any, problems: Sequence[Any], n: int = 1, seed: int = 0) -> dict[str, Any]:
    """Return the results of checking again as JSON values with 95% intervals (bootstrap over problems).
    right_to_wrong: share of right answers that are spoiled; wrong_to_right: share of wrong ones that are corrected;
    None without such an answer. before, after: accuracy of the first and of the checked answers; change: after -
    before, paired (the column "self correction" of the paper's table 3, there in points)."""
    checks = rechecks(policy, domain, problems, n, seed)
    keys = [domain.key(problems[one.problem]) for one in checks]
    figures = correction_figures([one.was_right for one in checks], [one.is_right for one in checks], keys, seed)
    return figures | {"truncated_rate": sum(one.second.truncated for one in checks) / len(checks)}


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


def self_correction_rows(
    policy: Policy, domain: Any, problems: Sequence[Any], samples: int = SAMPLES, each: int = EACH, seed: int = 0
) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Return (rows with `prompt`, `completion`, the problem's columns and `label`; the count of each label). `samples`
    answers to each problem are checked again, sampled; `kept`: a right answer was repeated, `corrected`: a wrong one
    was corrected. Equal numbers of both, at most `each`, are drawn at random. Truncated, looping and repeated texts
    are left out. Raises DataError without a row of one type."""
    from ...warm_starts.filters import is_loop

    by_label: dict[str, dict[tuple[str, str], dict[str, Any]]] = {"kept": {}, "corrected": {}}
    for one in rechecks(policy, domain, problems, samples, seed, greedy=False):
        second = one.second
        if one.says_right and not second.truncated and not one.first.truncated and not is_loop(second.text):
            label, problem = "kept" if one.was_right else "corrected", problems[one.problem]
            row = domain.critique.recheck_row(problem, one.first.text) | {"completion": second.text, "label": label}
            by_label[label].setdefault((str(row["prompt"]), second.text), row)
    counts = {label: len(rows) for label, rows in by_label.items()}
    room = min(each, *counts.values())
    if not room:
        raise DataError(
            f"Checking again gave {counts['kept']} right answers that were kept and {counts['corrected']} wrong ones "
            "that were corrected, and the training set needs both; take more problems or samples, or a model that can "
            "follow the prompt."
        )
    rows = []
    for label, rows_of_label in by_label.items():
        rows += random.Random(seed_from("self correction", seed, label)).sample(list(rows_of_label.values()), room)
    return rows, counts
