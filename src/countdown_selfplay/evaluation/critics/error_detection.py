"""Stepwise error detection: does a model see that a step is wrong, and that it is right? (Wang et al. 2025, section
4.2)"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...random_state import seed_from
from ...statistics.ratios import ratio_interval
from .policy import Policy
from .steps import StepItem


def error_detection(policy: Policy, domain: Any, items: Sequence[StepItem], seed: int = 0) -> dict[str, Any]:
    """The model's greedy judgement of each item, as plain JSON values.

    accuracy; f1: of the wrong steps, which are what is to be found, 2 TP / (2 TP + FP + FN); f1_right: of the right
    ones. A reply that says neither counts as the wrong judgement, and in `unreadable`. Intervals: bootstrap over
    problems, so that a problem's solutions stay together (statistics/ratios.py). judged: per item True where the step
    was called wrong, None where the reply says neither.
    """
    rows = [domain.critique.step_row(item.problem, item.text, item.step) for item in items]
    replies = [reply for (reply,) in policy(rows, 1, seed_from("judge", seed), True)]
    judged = [domain.critique.calls_wrong(reply.text) for reply in replies]
    keys = [domain.key(item.problem) for item in items]
    return {
        **detection_figures([item.wrong for item in items], judged, keys, seed),
        "replies": [reply.text for reply in replies],
        "truncated_rate": sum(reply.truncated for reply in replies) / len(items),
    }


def detection_figures(
    wrong: Sequence[bool], judged: Sequence[bool | None], keys: Sequence[str], seed: int = 0
) -> dict[str, Any]:
    """Accuracy and F1 from labels, judgements (True: called wrong) and the key of each item's problem."""
    said = [not is_wrong if call is None else call for is_wrong, call in zip(wrong, judged, strict=True)]
    hit = [float(call == is_wrong) for is_wrong, call in zip(wrong, said, strict=True)]

    def f1(of: bool) -> dict[str, float] | None:
        twice = [2.0 * (call == of and is_wrong == of) for is_wrong, call in zip(wrong, said, strict=True)]
        whole = [float((call == of) + (is_wrong == of)) for is_wrong, call in zip(wrong, said, strict=True)]
        found = ratio_interval(twice, whole, keys, seed=seed)
        return None if found is None else found.to_dict()

    accuracy = ratio_interval(hit, [1.0] * len(hit), keys, seed=seed)
    return {
        "items": len(wrong),
        "wrong": sum(wrong),
        "accuracy": None if accuracy is None else accuracy.to_dict(),
        "f1": f1(True),
        "f1_right": f1(False),
        "confusion": {
            name: sum(is_wrong == a and call == b for is_wrong, call in zip(wrong, said, strict=True))
            for name, a, b in (("tp", True, True), ("fn", True, False), ("fp", False, True), ("tn", False, False))
        },
        "unreadable": sum(call is None for call in judged),
        "judged": list(judged),
        "labels": list(wrong),
        "keys": list(keys),
    }
