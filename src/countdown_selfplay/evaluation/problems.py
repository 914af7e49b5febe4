"""Which problems `countdown-selfplay eval` asks: a file, a hub data set, the frozen set, or generated ones."""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..countdown import CountdownDomain, Problem, heldout_problems, problem_from_row
from ..countdown import generate_problems as generate
from ..errors import DataError

HELDOUT = "heldout-v1"
DEFAULT_COUNT = 500


@dataclass(frozen=True)
class ProblemSet:
    """name: where it is from. strata: a label per problem, None without the column."""

    name: str
    problems: list[Problem]
    strata: list[str | None] | None = None

    def to_dict(self) -> dict[str, Any]:
        """What identifies the set in a result: its source, its size, and a SHA-256 over problems and strata."""
        rows = [[list(p.numbers), p.target] for p in self.problems]
        digest = hashlib.sha256(json.dumps([rows, self.strata]).encode()).hexdigest()
        return {"problems": self.name, "n_problems": len(rows), "problems_sha256": digest}


def problem_set(options: argparse.Namespace, domain: CountdownDomain) -> ProblemSet:
    """The problems of the options: by default the generator's held-out side, which no training problem is on.
    DataError if there is none."""
    if options.problems is None:
        count = options.n_problems or DEFAULT_COUNT
        return ProblemSet("the generator's held-out side", generate(count, domain.spec, seed=0, split="heldout"))
    if options.problems == HELDOUT:
        kept = [p for p in heldout_problems() if not options.operands or len(p.numbers) in options.operands]
        found = ProblemSet(HELDOUT, kept[: options.n_problems])
    else:
        found = _from_rows(options.problems, _rows(options.problems, options.split), options.n_problems)
    if not found.problems:
        raise DataError(
            f"'{options.problems}' has no problem{' of these operand counts' if options.operands else ''}."
        )
    return found


def _from_rows(name: str, rows: Iterable[Mapping[str, Any]], limit: int | None) -> ProblemSet:
    problems, strata = [], []
    for i, row in enumerate(rows):
        if limit is not None and i >= limit:
            break
        problems.append(problem_from_row(row, i))
        strata.append(None if row.get("stratum") is None else str(row["stratum"]))
    return ProblemSet(name, problems, strata if any(label is not None for label in strata) else None)


def _rows(source: str, split: str) -> Iterable[Mapping[str, Any]]:
    from datasets.utils import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    from ..data.files import load_problem_rows

    quiet = are_progress_bars_disabled()
    disable_progress_bars()
    try:
        return load_problem_rows(source, split)
    finally:
        if not quiet:
            enable_progress_bars()
