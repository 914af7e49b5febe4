"""A set of hard targets, as seed 003 builds its own (appendix D): problems that a solver rarely solves, all of them
solvable."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from ..contract.domain import OpenDomain, P
from ..errors import DataError
from .roles import evaluate_prover

ATTEMPTS, MOST = 8, 2
"""Problems solved more than 2 of 8 times are left out (appendix D, step 2)."""


@dataclass(frozen=True)
class HardProblems:
    """problems: those that were kept. correct: right answers to each among the attempts that chose them. fresh: among
    as many new ones. tried: how many problems there were."""

    problems: list[Any]
    correct: list[int]
    fresh: list[int]
    tried: int

    @property
    def baseline(self) -> float:
        """Share of the kept problems with a right answer among the new attempts: where a cumulative solve rate begins.
        The attempts that chose the problems would say too little: they were kept for having few right ones there."""
        return sum(count > 0 for count in self.fresh) / len(self.fresh)


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
    candidates: int | None = None,
    say: Callable[[str], None] | None = None,
    **sampling: Any,
) -> HardProblems:
    """`count` problems of the domain that `model` solves at most `most` times in `attempts`.

    The paper drops what a first solver solves more than half of the time and a second one more than 2 times in 8, then
    false problems; here the exact generator makes no false ones, and one solver judges. Problems are tried in parts of
    2 x `count`, until enough are kept or `candidates` (None: 20 x `count`) were tried; DataError then. Those that are
    kept are attempted `attempts` times anew, with the next seed, for `baseline`. `sampling`: arguments of
    evaluate_prover, such as temperature and max_new_tokens.
    """
    limit = 20 * count if candidates is None else candidates
    kept: list[Any] = []
    correct: list[int] = []
    tried: set[str] = set(exclude)
    part = 0
    while len(kept) < count and len(tried) - len(exclude) < limit:
        fresh = domain.random(min(2 * count, limit - len(tried) + len(exclude)), seed + part, frozenset(tried))
        if not fresh:
            break
        tried |= {domain.key(problem) for problem in fresh}
        part += 1
        found = evaluate_prover(model, tokenizer, fresh, domain, n=attempts, ks=(attempts,), seed=seed, **sampling)
        hard = [(p, c) for p, c in zip(fresh, found.correct, strict=True) if c <= most]
        kept += [problem for problem, _ in hard]
        correct += [int(c) for _, c in hard]
        if say is not None:
            say(f"{len(kept)} of {count} hard problems among {len(tried) - len(exclude)}")
    if len(kept) < count:
        raise DataError(
            f"Only {len(kept)} of {len(tried) - len(exclude)} problems are solved at most {most} times in {attempts}; "
            f"ask for fewer than {count}, raise `most`, or take harder problems (more or greater numbers)."
        )
    again = evaluate_prover(
        model, tokenizer, kept[:count], domain, n=attempts, ks=(attempts,), seed=seed + 1, **sampling
    )
    return HardProblems(kept[:count], correct[:count], [int(c) for c in again.correct], len(tried) - len(exclude))
