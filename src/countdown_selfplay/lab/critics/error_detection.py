"""Stepwise error detection: does a model recognise wrong and right steps? (Wang et al. 2025, section 4.2)"""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...data.jsonl import json_lines
from ...data.run_files import write_atomically
from ...domains import verdicts_of
from ...errors import DataError
from ...random_state import seed_from
from ...statistics.bootstrap import ratio_interval
from . import Policy

SAMPLES, COUNT = 8, 200
"""Solutions per problem, and steps of each type (appendix C.2, section 4.2)."""
CONFUSION = {"tp": (True, True), "fn": (True, False), "fp": (False, True), "tn": (False, False)}
"""Name -> (the step is wrong, it was called wrong)."""


@dataclass(frozen=True)
class Solution:
    """Solution of an eligible problem. first_wrong: number of its first wrong step, from 1, if it is known."""

    problem: Any
    text: str
    steps: tuple[str, ...]
    right: bool
    first_wrong: int | None = None


@dataclass(frozen=True)
class StepItem:
    """Question of the test: is step `number` (from 1) of this solution wrong?"""

    problem: Any
    text: str
    number: int
    step: str
    wrong: bool


def eligible_solutions(
    policy: Policy, domain: Any, problems: Sequence[Any], samples: int = SAMPLES, seed: int = 0
) -> list[Solution]:
    """Return the distinct solutions of the problems that a majority of `samples` solutions solve, so that the test
    covers problems within the model's ability (section 4.2). Truncated ones and those without steps are left out, but
    count in the majority. Wrong solutions are labelled if the domain has `first_wrong`."""
    rows = [domain.prove_row(problem) for problem in problems]
    drawn = policy(rows, samples, seed_from("solutions", seed), False)
    label = domain.critique.first_wrong
    solutions = []
    judged = verdicts_of(domain, [[reply.text for reply in replies] for replies in drawn], problems)
    for problem, replies, verdicts in zip(problems, drawn, judged, strict=True):
        if 2 * sum(verdict.correct for verdict in verdicts) <= samples:
            continue
        whole = {r.text: v.correct for r, v in zip(replies, verdicts, strict=True) if not r.truncated}
        for text, right in whole.items():
            steps = tuple(domain.critique.steps(problem, text))
            if steps:
                place = None if right or label is None else label(problem, text)
                solutions.append(Solution(problem, text, steps, right, None if place is None else place + 1))
    return solutions


def drawn_items(solutions: Sequence[Solution], count: int = COUNT, seed: int = 0) -> list[StepItem]:
    """Draw `count` wrong and as many right steps: the first wrong step of wrong solutions, any step of right ones,
    one of each solution, at random; fewer of both if one is short. Raises DataError without any of a type."""
    draw = random.Random(seed_from("steps", seed))
    wrong = [one for one in solutions if not one.right and one.first_wrong is not None]
    right = [one for one in solutions if one.right]
    room = min(count, len(wrong), len(right))
    if not room:
        unlabelled = sum(not one.right and one.first_wrong is None for one in solutions)
        raise DataError(
            f"The test needs right and wrong steps, and there are {len(right)} right solutions and {len(wrong)} wrong "
            f"ones with a known first wrong step ({unlabelled} without) of problems that a majority of solutions "
            "solves; take more problems, or label more solutions."
        )
    items = [(one, int(one.first_wrong or 0)) for one in draw.sample(wrong, room)]
    items += [(one, draw.randint(1, len(one.steps))) for one in draw.sample(right, room)]
    return [StepItem(one.problem, one.text, number, one.steps[number - 1], not one.right) for one, number in items]


def write_solutions(path: Path, solutions: Sequence[Solution], domain: Any) -> None:
    """Write a line per solution: the problem's columns, `response`, `steps`, `right`, `first_wrong` (null if unknown),
    and for a wrong one without it `annotate`: the domain's request to an annotator (the paper's figure 8)."""
    lines = []
    for one in solutions:
        row = {name: value for name, value in domain.prove_row(one.problem).items() if name != "prompt"}
        row |= {"response": one.text, "steps": list(one.steps), "right": one.right, "first_wrong": one.first_wrong}
        if not one.right and one.first_wrong is None and domain.critique.annotate_row is not None:
            row["annotate"] = domain.critique.annotate_row(one.problem, one.steps)["prompt"]
        lines.append(json.dumps(row, ensure_ascii=False) + "\n")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, "".join(lines))


def read_solutions(path: Path, domain: Any) -> list[Solution]:
    """Read a labelled file of `write_solutions`; absent steps are split again. DataError names line and column."""
    solutions = []
    for number, row in json_lines(path, "pass a file of solutions"):
        where = f"'{path}', line {number}"
        try:
            solutions.append(_solution(row, domain))
        except DataError as error:
            raise DataError(f"{where}: {str(error).removeprefix('row 0, ')}") from None
    return solutions


def _solution(row: Mapping[str, Any], domain: Any) -> Solution:
    problem = domain.problem(row, 0)
    text, right, first = row.get("response"), row.get("right"), row.get("first_wrong")
    if not isinstance(text, str) or not isinstance(right, bool):
        raise DataError("`response` must be a text and `right` true or false.")
    steps = tuple(row.get("steps") or domain.critique.steps(problem, text))
    if not steps or not all(isinstance(step, str) for step in steps):
        raise DataError("`steps` must be a list of texts, at least one; leave it out to have `response` split.")
    if first is not None and (not isinstance(first, int) or isinstance(first, bool) or not 1 <= first <= len(steps)):
        raise DataError(f"`first_wrong` ({first!r}) must be the number of a step, 1 to {len(steps)}, or null.")
    if right and first is not None:
        raise DataError(f"`first_wrong` ({first}) names a step of a solution that is `right`; set one of them.")
    return Solution(problem, text, steps, right, first)


def error_detection(policy: Policy, domain: Any, items: Sequence[StepItem], seed: int = 0) -> dict[str, Any]:
    """Return the model's greedy judgements of the items as JSON values. accuracy; f1: of the wrong steps, 2 TP / (2
    TP + FP + FN); f1_right: of the right ones. An unreadable reply counts as the wrong judgement, and in
    `unreadable`. Intervals: bootstrap over problems (`ratio_interval`). judged: per item True (called wrong), False
    or None (unreadable)."""
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
    """Return accuracy and F1 from labels, judgements (True: called wrong) and the key of each item's problem."""
    pairs = [(is_wrong, not is_wrong if call is None else call) for is_wrong, call in zip(wrong, judged, strict=True)]

    def f1(of: bool) -> dict[str, float] | None:
        both = [(pair == (of, of), float(pair.count(of))) for pair in pairs]
        score = ratio_interval([2.0 * hit for hit, _ in both], [count for _, count in both], keys, seed=seed)
        return None if score is None else score.to_dict()

    accuracy = ratio_interval([float(a == b) for a, b in pairs], [1.0] * len(pairs), keys, seed=seed)
    return {
        "items": len(wrong), "wrong": sum(wrong), "accuracy": None if accuracy is None else accuracy.to_dict(),
        "f1": f1(True), "f1_right": f1(False),
        "confusion": {name: pairs.count(pair) for name, pair in CONFUSION.items()},
        "unreadable": sum(call is None for call in judged), "judged": list(judged), "labels": list(wrong),
        "keys": list(keys),
    }  # fmt: skip
