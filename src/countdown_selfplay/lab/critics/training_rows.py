"""Training data for checking one's answer (Wang et al. 2025, section 4.3 and appendix C.3), for `sft`."""

import random
from collections.abc import Sequence
from typing import Any

from ...errors import DataError
from ...random_state import seed_from
from ...warm_starts.filters import is_loop
from . import Policy
from .self_correction import rechecks

SAMPLES, EACH = 8, 5000
"""Answers per problem, and rows of each type."""


def self_correction_rows(
    policy: Policy, domain: Any, problems: Sequence[Any], samples: int = SAMPLES, each: int = EACH, seed: int = 0
) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Return (rows with `prompt`, `completion`, the problem's columns and `label`; the count of each label). `samples`
    answers to each problem are checked again, sampled; `kept`: a right answer was repeated, `corrected`: a wrong one
    was corrected. Equal numbers of both, at most `each`, are drawn at random. Truncated, looping and repeated texts
    are left out. Raises DataError without a row of one type."""
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
