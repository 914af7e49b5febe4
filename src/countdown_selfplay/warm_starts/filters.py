"""What may be trained on: no held-out problem, no wrong demonstration, nothing that the model has no room for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..contract.domain import Domain, in_moves
from ..domains import is_held_out
from ..errors import DataError
from ..evaluation.token_ids import text_of
from .corpora import demonstration_row
from .demonstrations import SCHEMA

HELD_OUT, WRONG, TOO_LONG = "held-out problem", "wrong", "too long"


@dataclass
class Kept:
    """rows: what is trained on. read: how many there were. left_out: reason -> how many were not taken."""

    rows: list[dict[str, Any]]
    read: int
    left_out: Counter[str] = field(default_factory=Counter)

    @property
    def reasons(self) -> str:
        return ", ".join(f"{count} {reason}" for reason, count in sorted(self.left_out.items()))

    def sentence(self, what: str) -> str:
        """One line for the user: `1 of 20 demonstrations left out: 1 held-out problem`."""
        if not self.left_out:
            return f"{len(self.rows)} {what}, none left out"
        return f"{len(self.rows)} of {self.read} {what} kept; left out: {self.reasons}"

    def insist(self, what: str) -> Kept:
        """Itself, or a DataError if nothing is left."""
        if self.rows:
            return self
        raise DataError(
            f"None of the {self.read} {what} can be trained on ({self.reasons or 'there are none'}). Wrong ones are "
            "so under the rules of the prompt (--prover_prompt compact takes bare answers, the others want tags); "
            "held-out problems are never trained on. Pass other data, or leave the option out to make it offline."
        )


def clean_demonstrations(
    rows: Iterable[Mapping[str, Any]],
    role: str,
    domain: Domain[Any],
    evaluated: Collection[str] = (),
    keep_wrong: bool = False,
    source: str = "the data",
) -> Kept:
    """The demonstrations that may be trained on, as rows with `prompt`, `completion` and the columns of their problem.

    A row needs `prompt`, `completion` and its problem (Countdown: numbers or nums, target), for without the problem
    nobody can say whether it is held out; or `query` and `completion`, where the query asks for the problem. Left
    out: held-out problems (`is_held_out`; `evaluated` are keys), and, unless `keep_wrong`, completions that are not a
    correct answer or legal move (prover) or do not hold the row's problem, playable (conjecturer). DataError names a
    row that cannot be read.
    """
    kept: list[dict[str, Any]] = []
    left_out: Counter[str] = Counter()
    answers: list[tuple[str, Any]] = []
    index = -1
    for index, row in enumerate(rows):
        try:
            row = demonstration_row(row, index, role, domain)
            problem = domain.problem(row, index)
            for name in ("prompt", "completion"):
                if row.get(name) is None:
                    raise DataError(
                        f"row {index}, column '{name}': absent; `countdown-selfplay dataset --schema "
                        f"{SCHEMA[role]}` writes demonstrations for the {role}."
                    )
            text = text_of(row["completion"])
        except DataError as error:
            where = str(error) if str(error).startswith("row ") else f"row {index}: {error}"
            raise DataError(f"{source}, {where}") from None
        if is_held_out(domain, problem, evaluated):
            left_out[HELD_OUT] += 1
        else:
            own = {"prompt": row["prompt"], "completion": row["completion"]}
            kept.append({**domain.prove_row(problem), **own})
            answers.append((text, problem))
    if not keep_wrong:
        right = _right(answers, role, domain)
        left_out[WRONG] = right.count(False)
        kept = [row for row, fine in zip(kept, right, strict=True) if fine]
    return Kept(kept, index + 1, +left_out)


def _right(answers: Sequence[tuple[str, Any]], role: str, domain: Any) -> list[bool]:
    """Of (text, problem); a prover's answers are verified in one call."""
    texts, problems = [text for text, _ in answers], [problem for _, problem in answers]
    if role == "prover" and in_moves(domain):  # a legal move from where the row's problem begins
        ends = domain.moved(texts, problems, [domain.begin(problem) for problem in problems])
        return [bool(getattr(end, "correct", True)) for end in ends]
    if role == "prover":
        return [bool(verdict.correct) for verdict in domain.verify(texts, problems)]
    if role == "guide":
        return [domain.read_review(text) is not None for text in texts]
    parsed = domain.parse(texts)
    return [_is_proposal_of(one.problem, asked, domain) for one, asked in zip(parsed, problems, strict=True)]


def _is_proposal_of(proposed: Any, problem: Any, domain: Any) -> bool:
    same = proposed is not None and domain.key(proposed) == domain.key(problem)
    return same and domain.check([problem], [None])[0].reason == "ok"


def drop_long(
    rows: list[dict[str, Any]], names: tuple[str, ...], limit: int | None
) -> tuple[list[dict[str, Any]], int]:
    """Rows whose ids in the columns `names` are together at most `limit` tokens, and how many were longer: a text that
    is cut off teaches the model not to end."""
    if limit is None:
        return rows, 0
    kept = [row for row in rows if sum(len(row[name]) for name in names) <= limit]
    return kept, len(rows) - len(kept)


REPEATED = ((40, 5), (128, 2))
"""Lengths of a stretch in characters, and how often it may not stand in a text."""


def is_loop(text: str) -> bool:
    """Whether some stretch of 40 characters stands 5 times in a text, or one of 128 twice; places may overlap, and a
    text shorter than the stretches side by side has none. Wang et al. 2025, appendix C.3, remove "repetitive loops",
    and the authors' code finds them so."""
    for size, times in REPEATED:
        if len(text) >= size * times:
            counts = Counter(text[i : i + size] for i in range(len(text) - size + 1))
            if max(counts.values()) >= times:
                return True
    return False
