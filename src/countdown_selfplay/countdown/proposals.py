"""Reading a proposed problem out of the conjecturer's text: parsed once, a bad proposal is data and no exception."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ..errors import DataError
from ..registry import Registry
from .problem import Problem
from .prompts import COMPLETION_PREFIX, JSON_EXAMPLE, SHOTS
from .verifier import completion_text, find_answers

_MAX_CHARS = 256
_MAX_VALUE = 10**6  # far outside any range that a spec admits, and small enough to print and hash
_COMPLETION = re.compile(r"\s*numbers=\[([0-9, ]{1,100})\], ?target=([0-9]{1,7})\s*\Z")
_COMPACT = re.compile(r"\s*([0-9]{1,7}(?: [0-9]{1,7}){0,15}) = ([0-9]{1,7})\s*\Z")


class ProposalReason(StrEnum):
    """What became of a proposal's text."""

    OK = "ok"
    NOT_TEXT = "not_text"  # no text at all
    NO_TAG = "no_tag"  # the format's tags are not there, or not closed
    MALFORMED = "malformed"  # between the tags is something else than a problem
    NOT_INTEGERS = "not_integers"  # a number is a fraction, negative, zero or out of all bounds
    COPIED_EXAMPLE = "copied_example"  # the prompt's own example


@dataclass(frozen=True, slots=True)
class Proposal:
    """A problem, or why there is none."""

    problem: Problem | None
    reason: ProposalReason


def parse_proposal(text: object, style: str) -> Proposal:
    """Read a proposal in the format `style` ("json", "completion" or "compact"). Never raises on any text."""
    found = completion_text(text)
    if found is None:
        return Proposal(None, ProposalReason.NOT_TEXT)
    return _PARSERS[style](found)


def _json(text: str) -> Proposal:
    answers = find_answers(text)
    if not answers:
        return Proposal(None, ProposalReason.NO_TAG)
    body = answers[-1].strip()
    if len(body) > _MAX_CHARS:
        return Proposal(None, ProposalReason.MALFORMED)
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        return Proposal(None, ProposalReason.MALFORMED)
    if not isinstance(content, dict) or not isinstance(content.get("numbers"), list) or "target" not in content:
        return Proposal(None, ProposalReason.MALFORMED)
    return _checked([*content["numbers"]], content["target"], {JSON_EXAMPLE.key})


def _completion(text: str) -> Proposal:
    text = text if text.lstrip().startswith("<problem>") else COMPLETION_PREFIX + text
    end = text.find("</problem>")
    if end < 0:
        return Proposal(None, ProposalReason.NO_TAG)
    match = _COMPLETION.match(text[text.find("<problem>") + len("<problem>") : end][: 2 * _MAX_CHARS])
    if match is None:
        return Proposal(None, ProposalReason.MALFORMED)
    return _from_digits(match[1].split(","), match[2], {shot.key for shot in SHOTS})


def _compact(text: str) -> Proposal:
    match = _COMPACT.match(text) if len(text) <= _MAX_CHARS else None
    if match is None:
        return Proposal(None, ProposalReason.MALFORMED)
    return _from_digits(match[1].split(" "), match[2], set())


def _from_digits(numbers: list[str], target: str, examples: set[str]) -> Proposal:
    parts = [part.strip() for part in numbers]
    if not all(part.isdigit() and part.isascii() for part in parts):
        return Proposal(None, ProposalReason.MALFORMED)
    return _checked([int(part) for part in parts], int(target), examples)


def _checked(numbers: list[Any], target: Any, examples: set[str]) -> Proposal:
    """Whole-number floats are coerced (seed 000); anything else that is no positive integer is refused."""
    values = []
    for value in (*numbers, target):
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
            return Proposal(None, ProposalReason.NOT_INTEGERS)
        if not 1 <= value <= _MAX_VALUE or int(value) != value:
            return Proposal(None, ProposalReason.NOT_INTEGERS)
        values.append(int(value))
    try:
        problem = Problem(tuple(values[:-1]), values[-1])
    except DataError:
        return Proposal(None, ProposalReason.MALFORMED)
    if problem.key in examples:
        return Proposal(None, ProposalReason.COPIED_EXAMPLE)
    return Proposal(problem, ProposalReason.OK)


_PARSERS: Registry[Callable[[str], Proposal]] = Registry(
    "conjecturer prompt", {"json": _json, "completion": _completion, "compact": _compact}
)
