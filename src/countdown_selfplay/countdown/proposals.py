"""Parser of a conjecturer's completion: a problem, or the reason why there is none. Never raises."""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from ..options import is_whole
from ..registry import Registry
from .problem import MAX_MAGNITUDE, MAX_NUMBERS, Problem
from .prompts import COMPLETION_STOP, by_style, json_example
from .verifier import CLOSE, OPEN, completion_text, outside_thinking

MAX_PROPOSAL_CHARS = 512
"""Largest number of characters of a proposal between its tags; bounds depth and digits of the parse."""


class ProposalReason(StrEnum):
    """Outcome of parsing a proposal: OK, or the reason why it contains no problem."""

    OK = "ok"
    """The proposal contains a problem; range and solvability are checked later."""
    NOT_TEXT = "not_text"
    """The completion holds no text."""
    NO_TAG = "no_tag"
    """There is no `<answer>` tag outside the thinking (JSON prompts only)."""
    TOO_LONG = "too_long"
    """The text of the problem has more than 512 characters."""
    MALFORMED = "malformed"
    """The text is not in the prompt's format: no JSON object with both fields, text around the problem, ..."""
    NOT_INTEGERS = "not_integers"
    """A number or the target is not an integer (whole floats of the JSON style count as integers)."""
    NO_NUMBERS = "no_numbers"
    """The list of numbers is empty."""
    NOT_POSITIVE = "not_positive"
    """A number is zero or negative."""
    TOO_LARGE = "too_large"
    """There are more than 100 numbers, or one or the target exceeds 10^9 in absolute value."""
    COPIED_EXAMPLE = "copied_example"
    """The problem is a worked example of the prompt."""


@dataclass(frozen=True)
class Proposal:
    """Result of parsing a completion of the conjecturer; `problem` is None unless `reason` is OK."""

    problem: Problem | None
    reason: ProposalReason


def _refused(reason: ProposalReason) -> Proposal:
    return Proposal(None, reason)


def _proposal(numbers: list[object], target: object) -> Proposal:
    """Build the proposal from parsed values; whole floats are converted (Multimodal LLM Self-Play, section 3.3)."""
    if not numbers:
        return _refused(ProposalReason.NO_NUMBERS)
    if len(numbers) > MAX_NUMBERS:
        return _refused(ProposalReason.TOO_LARGE)
    integers: list[int] = []
    for value in (*numbers, target):
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not is_whole(value):
            return _refused(ProposalReason.NOT_INTEGERS)
        if abs(value) > MAX_MAGNITUDE:
            return _refused(ProposalReason.TOO_LARGE)
        integers.append(value)
    if min(integers[:-1]) < 1:
        return _refused(ProposalReason.NOT_POSITIVE)
    return Proposal(Problem(tuple(integers[:-1]), integers[-1]), ProposalReason.OK)


def _parse_json(text: str) -> Proposal:
    """Parse `<answer>{"target": 24, "numbers": [2, 3, 4]}</answer>`: the last tag counts; a close tag that served as
    the stop string may be missing."""
    for stretch in reversed(outside_thinking(text)):
        closed, _, rest = stretch.rpartition(CLOSE)
        _, tag, inside = (rest if OPEN in rest else closed).rpartition(OPEN)  # the last tag may be open
        if tag:
            break
    else:
        return _refused(ProposalReason.NO_TAG)
    inside = inside.strip()
    if len(inside) > MAX_PROPOSAL_CHARS:
        return _refused(ProposalReason.TOO_LONG)
    try:
        value = json.loads(inside)
    except (ValueError, RecursionError):
        return _refused(ProposalReason.MALFORMED)
    if not isinstance(value, dict) or "target" not in value or not isinstance(value.get("numbers"), list):
        return _refused(ProposalReason.MALFORMED)
    return _proposal(value["numbers"], value["target"])


_WORD = r"[-+]?[0-9.]+"
_COMPLETION = re.compile(
    rf"\s*(?:<problem>\s*numbers\s*=\s*\[)?\s*(?P<numbers>|{_WORD}(?:\s*,\s*{_WORD})*)\s*\]\s*,\s*"
    rf"target\s*=\s*(?P<target>{_WORD})\s*"
)
_COMPACT = re.compile(rf"\s*(?P<numbers>{_WORD}(?:\s+{_WORD})*)\s*=\s*(?P<target>{_WORD})\s*")
"""Pattern of a whole compact completion, `3 5 7 = 22`."""

_INTEGER = re.compile(r"-?[0-9]+")


def _parse_words(pattern: re.Pattern[str], text: str) -> Proposal:
    if len(text) > MAX_PROPOSAL_CHARS:
        return _refused(ProposalReason.TOO_LONG)
    match = pattern.fullmatch(text)
    if match is None:
        return _refused(ProposalReason.MALFORMED)
    words = [*re.split(r"[\s,]+", match["numbers"]), match["target"]] if match["numbers"] else [match["target"]]
    if not all(_INTEGER.fullmatch(word) for word in words):
        return _refused(ProposalReason.NOT_INTEGERS)
    if any(len(word) > 20 for word in words):
        return _refused(ProposalReason.TOO_LARGE)
    return _proposal([int(word) for word in words[:-1]], int(words[-1]))


def _parse_completion(text: str) -> Proposal:
    """Parse `44, 19, 35], target=98 </problem>`, with or without the prefilled `<problem> numbers=[` and the stop
    string; text after the stop string is ignored."""
    stop = text.find(COMPLETION_STOP)
    return _parse_words(_COMPLETION, text if stop < 0 else text[:stop])


PROPOSAL_PARSERS: Registry[Callable[[str], Proposal]] = Registry(
    "proposal style", by_style(_parse_json, _parse_completion, partial(_parse_words, _COMPACT))
)

_JSON_EXAMPLES = frozenset(json_example(k).key for k in range(1, MAX_NUMBERS + 1))


def parse_proposal(text: object, style: str, examples: Iterable[str] = ()) -> Proposal:
    """Parse a conjecturer's completion (a string or chat messages) in one of the styles of PROPOSAL_PARSERS.
    examples: keys of the prompt's worked examples besides those of the JSON prompt. Never raises for a text; raises
    UnknownNameError for an unknown style."""
    parser = PROPOSAL_PARSERS[style]
    content = completion_text(text)
    if content is None:
        return _refused(ProposalReason.NOT_TEXT)
    proposal = parser(content)
    if proposal.problem is not None:
        key = proposal.problem.key
        if key in examples or (parser is _parse_json and key in _JSON_EXAMPLES):
            return _refused(ProposalReason.COPIED_EXAMPLE)
    return proposal
