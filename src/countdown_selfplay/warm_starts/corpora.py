"""Demonstrations of other projects, in columns `query` and `completion` (Allen and Ståblein's SFT corpus, section 4).

What such a row is about stands in its prompt's text. The prompt is rendered anew from the problem, so that a model is
warm-started on what it will be asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..contract.domain import Domain
from ..countdown import CountdownDomain, Problem
from ..countdown.prompts import problem_in_prompt
from ..errors import DataError


def demonstration_row(row: Mapping[str, Any], index: int, role: str, domain: Domain[Any]) -> Mapping[str, Any]:
    """A row with `query` and `completion` with `prompt` and the problem's columns; any
    other row as it is. DataError for a row of neither schema."""
    if role != "prover" or "prompt" in row or not isinstance(domain, CountdownDomain):
        return row
    if "query" not in row and "completion" not in row and row:
        raise DataError(
            f"row {index} has the columns {', '.join(map(str, row))}; demonstrations have `prompt`, `completion` and "
            "their problem (`countdown-selfplay dataset --schema solved` writes such), or `query` and `completion`."
        )
    return {**row, **asked_in(row, "query", index, domain)} if "query" in row else row


def asked_in(row: Mapping[str, Any], column: str, index: int, domain: Any) -> dict[str, Any]:
    """`prompt`, `numbers` and `target` of the problem that the text in `column` asks for."""
    problem: Problem | None = problem_in_prompt(text_in(row.get(column)))
    if problem is None:
        raise DataError(
            f"row {index}, column '{column}': no problem can be read from {str(row.get(column))[:60]!r}; it must hold "
            "'... numbers [44 19 35] ... equals 98', or the row `numbers` and `target`."
        )
    return dict(domain.prove_row(problem))


def text_in(value: Any) -> str:
    """A text, or the texts of chat messages one below the other."""
    if isinstance(value, list):
        return "\n".join(str(message.get("content")) for message in value if isinstance(message, Mapping))
    return value if isinstance(value, str) else ""
