"""Preference data of other projects: rows with `chosen` and `rejected`, as Allen and Ståblein's IPO was trained on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ..contract.domain import Domain
from ..domains import is_held_out
from ..errors import DataError
from .corpora import asked_in, text_in
from .filters import HELD_OUT
from .pairs import PreferencePair

PREFERENCES = ("chosen", "rejected")


def read_preferences(
    rows: Iterable[Mapping[str, Any]], domain: Domain[Any], evaluated: Collection[str] = (), source: str = "the data"
) -> tuple[list[PreferencePair], int, Counter[str]]:
    """(pairs, rows read, reason -> rows left out) of rows with `chosen`, `rejected` and a problem: its own columns, or
    the text of `prompt` or `query`. Held-out problems are left out. DataError names the row: an absent column, or a
    pair of equal texts, which prefers nothing."""
    found: list[PreferencePair] = []
    left_out: Counter[str] = Counter()
    index = -1
    for index, row in enumerate(rows):
        try:
            texts = [_answer(row, name, index) for name in PREFERENCES]
            if texts[0] == texts[1]:
                raise DataError(
                    f"row {index}: `chosen` equals `rejected` ({texts[0][:40]!r}) and prefers nothing; leave it out."
                )
            asked = "prompt" if row.get("prompt") is not None else "query"
            own = any(row.get(name) is not None for name in ("numbers", "nums", "ground_truth"))
            problem = domain.problem(row if own else asked_in(row, asked, index, domain), index)
        except DataError as error:
            raise DataError(f"{source}, {error}") from None
        if is_held_out(domain, problem, evaluated):
            left_out[HELD_OUT] += 1
        else:
            prompt = domain.prove_row(problem)["prompt"]
            found.append(PreferencePair(domain.key(problem), prompt, texts[0], texts[1], 1.0))
    return found, index + 1, left_out


def _answer(row: Mapping[str, Any], name: str, index: int) -> str:
    """The completion in a column: a text, or the last message of a chat."""
    value = row.get(name)
    text = text_in(value[-1:] if isinstance(value, list) else value)
    if not text:
        raise DataError(
            f"row {index}, column '{name}': absent or without a text; a preference has `chosen` and `rejected`."
        )
    return text
