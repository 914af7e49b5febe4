"""Search for hard targets as in SGS (appendix D): solvable problems that a model rarely solves."""

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import evaluation
from ..contract.domain import OpenDomain, P
from ..data.jsonl import json_lines
from ..data.run_files import append_lines
from ..errors import ConfigError, DataError

ATTEMPTS, MOST = 8, 2
"""Attempts and most right answers of a hard problem (SGS, appendix D, step 2: at most 2 of 8)."""


@dataclass(frozen=True)
class HardProblems:
    """Result of `hard_problems`. problems: kept problems. correct: right answers to each in the selecting attempts.
    fresh: right answers to each in as many new attempts. tried: number of problems tried. attempts: attempts per
    problem. solved: number of tried problems with a right answer."""

    problems: list[Any]
    correct: list[int]
    fresh: list[int]
    tried: int
    attempts: int = ATTEMPTS
    solved: int = 0

    @property
    def baseline(self) -> float:
        """Share of the kept problems with a right answer in the new attempts, with which a cumulative solve rate
        starts. The selecting attempts are biased, because they selected for few right answers."""
        return sum(count > 0 for count in self.fresh) / len(self.fresh)

    def told(self) -> str:
        """Return a sentence with the sizes and solve rates."""
        chosen, right, again = (
            sum(count > 0 for count in self.correct) / len(self.correct),
            *(sum(counts) / len(counts) / self.attempts for counts in (self.correct, self.fresh)),
        )
        return (
            f"{len(self.problems)} targets of {self.tried} problems, {self.solved} of which were solved at least "
            f"once; of the targets {chosen:.1%} in the {self.attempts} attempts that chose them (mean solve rate "
            f"{right:.1%}), and {self.baseline:.1%} in as many new attempts ({again:.1%})"
        )

    def rates(self) -> dict[str, Any]:
        """Return the counts as JSON values, with the number of right answers to each target."""
        counts = {"attempts": self.attempts, "chosen_by": self.correct, "new_attempts": self.fresh}
        return {"targets": len(self.problems), "candidates": self.tried, "candidates_solved": self.solved, **counts}


class AttemptFile:
    """JSONL file of the number of right answers to each problem tried, from which an interrupted search continues. The
    first line holds the settings of the search; a search with other settings raises ConfigError. The caller deletes
    the file after writing the targets."""

    def __init__(self, path: Path, setting: dict[str, Any]) -> None:
        """Read the file, if any. Raises ConfigError for other settings; DataError for another kind of file."""
        self.path = path
        self.counts: dict[tuple[str, bool], int] = {}
        setting = json.loads(json.dumps(setting))
        written = path.read_bytes() if path.exists() else b""
        whole = written[: written.rfind(b"\n") + 1]
        if whole != written:  # an interruption has cut
            path.write_bytes(whole)
        if not whole:
            append_lines(path, [setting])
            return
        begun, *rows = [row for _, row in json_lines(path, "delete it to begin again")]
        if begun != setting:
            other = [name for name in setting if begun.get(name) != setting[name]]
            differing = ", ".join(other) or "its settings"
            raise ConfigError(
                f"'{path}' holds the attempts of another call (it differs in {differing}); repeat that call to "
                "continue, or delete the file."
            )
        try:
            self.counts = {(row["key"], row["again"]): int(row["correct"]) for row in rows}
        except (KeyError, TypeError, ValueError):
            raise DataError(f"'{path}' is not a file of attempts; delete it to begin again.") from None

    def known(self, keys: Sequence[str], again: bool) -> list[int] | None:
        """Return the number of right answers to each problem, of the selecting attempts or (`again`) of the new ones;
        None unless all were tried."""
        counts = [self.counts.get((key, again)) for key in keys]
        return None if None in counts else counts  # type: ignore[return-value]

    def add(self, keys: Sequence[str], again: bool, correct: Sequence[int]) -> None:
        self.counts |= {(key, again): count for key, count in zip(keys, correct, strict=True)}
        rows = [{"key": k, "again": again, "correct": c} for k, c in zip(keys, correct, strict=True)]
        append_lines(self.path, rows)


def hard_problems(
    model: Any,
    tokenizer: Any,
    domain: OpenDomain[P],
    count: int,
    *,
    seed: int = 0,
    attempts: int = ATTEMPTS,
    most: int = MOST,
    exclude: Collection[str] = (),
    part: int | None = None,
    file: AttemptFile | None = None,
    say: Callable[[str], None] | None = None,
    **sampling: Any,
) -> HardProblems:
    """Return `count` problems of the domain that `model` solves at most `most` times in `attempts`. Raises DataError
    if fewer are found among 20 x `count` problems.

    SGS drops problems that a first solver solves more than half of the time and a second one more than 2
    times in 8, then false problems; here the exact generator makes no false problems, and a single model selects,
    which may be the model to train.

    Args:
        part: Number of problems per part. None: 2 x `count`.
        file: Store of results, which are not sampled again.
        sampling: Arguments of evaluate_prover, such as temperature and max_new_tokens.
    """
    limit = 20 * count  # problems tried

    def solved(problems: Sequence[P], again: bool) -> list[int]:
        keys = [domain.key(problem) for problem in problems]
        counts = None if file is None else file.known(keys, again)
        if counts is None:
            how: dict[str, Any] = {"n": attempts, "ks": (attempts,), "seed": seed + again, "resamples": 1}
            found = evaluation.evaluate_prover(model, tokenizer, problems, domain, **how, **sampling)
            counts = [int(c) for c in found.correct]
            if file is not None:
                file.add(keys, again, counts)
        return counts

    kept: list[Any] = []
    correct: list[int] = []
    tried: set[str] = set(exclude)
    number = answered = 0
    while len(kept) < count and len(tried) - len(exclude) < limit:
        size = min(part or 2 * count, limit - len(tried) + len(exclude))
        fresh = domain.random(size, seed + number, frozenset(tried))
        if not fresh:
            break
        tried |= {domain.key(problem) for problem in fresh}
        number += 1
        counts = solved(fresh, False)
        answered += sum(count > 0 for count in counts)
        hard = [(p, c) for p, c in zip(fresh, counts, strict=True) if c <= most]
        kept += [problem for problem, _ in hard]
        correct += [c for _, c in hard]
        if say is not None:
            say(f"{len(kept)} of {count} hard problems among {len(tried) - len(exclude)}")
    if len(kept) < count:
        raise DataError(
            f"Only {len(kept)} of {len(tried) - len(exclude)} problems are solved at most {most} times in {attempts}; "
            f"ask for fewer than {count}, raise `most`, or take harder problems (more or greater numbers)."
        )
    kept, correct, again = kept[:count], correct[:count], []
    for first in range(0, count, part or count):
        again += solved(kept[first : first + (part or count)], True)
        if say is not None and part is not None:
            say(f"{len(again)} of {count} targets attempted again")
    return HardProblems(kept, correct, again, len(tried) - len(exclude), attempts, answered)
