"""Which problems `countdown-selfplay eval` asks: a file, a hub data set, the frozen set, or generated ones."""

from __future__ import annotations

import argparse
import hashlib
import json
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ..contract.domain import Domain
from ..countdown import CountdownDomain, heldout_problems
from ..domains import held_out_of
from ..errors import DataError
from .answers import identity

HELDOUT = "heldout-v1"
DEFAULT_COUNT = 500


@dataclass(frozen=True)
class ProblemSet:
    """name: where it is from. strata: a label per problem, None without the column."""

    name: str
    problems: list[Any]
    strata: list[str | None] | None = None

    def to_dict(self, domain: Domain[Any]) -> dict[str, Any]:
        """What identifies the set in a result: its source, its size, and a SHA-256 over problems and strata."""
        rows = [identity(domain, problem) for problem in self.problems]
        digest = hashlib.sha256(json.dumps([rows, self.strata]).encode()).hexdigest()
        return {"problems": self.name, "n_problems": len(rows), "problems_sha256": digest}


def problem_set(options: argparse.Namespace, domain: Domain[Any]) -> ProblemSet:
    """The problems of the options: by default the domain's held-out side, which no training problem is on.
    DataError if there is none."""
    if options.problems is None:
        source = "the generator's held-out side" if hasattr(domain, "held_out") else "random problems of the domain"
        return ProblemSet(source, held_out_of(domain, options.n_problems or DEFAULT_COUNT))
    if options.problems == HELDOUT and isinstance(domain, CountdownDomain):
        kept = [p for p in heldout_problems() if not options.operands or len(p.numbers) in options.operands]
        found = ProblemSet(HELDOUT, kept[: options.n_problems])
    else:
        found = _from_file(domain, options)
    if not found.problems:
        raise DataError(
            f"'{options.problems}' has no problem{' of these operand counts' if options.operands else ''}."
        )
    return found


def _from_file(domain: Domain[Any], options: argparse.Namespace) -> ProblemSet:
    from datasets.utils import disable_progress_bars

    from ..data.files import load_problem_rows

    disable_progress_bars()
    rows = list(islice(load_problem_rows(options.problems, options.split), options.n_problems))
    strata = [None if row.get("stratum") is None else str(row["stratum"]) for row in rows]
    problems = [domain.problem(row, i) for i, row in enumerate(rows)]
    return ProblemSet(options.problems, problems, strata if any(label is not None for label in strata) else None)
