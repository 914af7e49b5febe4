"""The exact verifier: never raises, never evaluates code, runs in any thread, and gives a reason for every refusal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from .expression import DivisionByZero, Malformed, normalize, parse
from .problem import Problem
from .rules import DEFAULT_RULES, Rules

_OPEN, _CLOSE = "<answer>", "</answer>"


class Reason(StrEnum):
    """Why an answer got its score."""

    CORRECT = "correct"  # the value is the target and the numbers are used as the rules say
    WRONG_VALUE = "wrong_value"  # well-formed, right numbers, another value
    WRONG_NUMBERS = "wrong_numbers"  # well-formed, but a number is missing, extra or used twice
    NOT_WHOLE = "not_whole"  # an intermediate value is a fraction and the rules ask for integers
    DIVISION_BY_ZERO = "division_by_zero"  # well-formed, without a value
    MALFORMED = "malformed"  # not an expression
    TOO_LONG = "too_long"  # more characters than the rules allow
    NO_ANSWER = "no_answer"  # no closed answer tag after the thinking, or an empty answer
    NOT_TEXT = "not_text"  # the completion holds no text at all


_WELL_FORMED = {Reason.WRONG_VALUE, Reason.WRONG_NUMBERS, Reason.NOT_WHOLE, Reason.DIVISION_BY_ZERO}


@dataclass(frozen=True, slots=True)
class Verdict:
    """score by the rules; expression and value as far as they were read; n_answers: closed answer tags after the
    thinking."""

    score: float
    reason: Reason
    expression: str | None = None
    value: Fraction | None = None
    n_answers: int = 0

    @property
    def correct(self) -> bool:
        return self.reason is Reason.CORRECT


def completion_text(completion: object) -> str | None:
    """The text of a completion: a str, or the content of the last message of a chat; None for anything else."""
    if isinstance(completion, str):
        return completion
    if isinstance(completion, Sequence) and not isinstance(completion, (bytes, bytearray)) and completion:
        completion = completion[-1]
    if isinstance(completion, Mapping):
        content = completion.get("content")
        return content if isinstance(content, str) else None
    return None


def find_answers(text: str) -> list[str]:
    """Contents of the closed answer tags after the thinking, in order. Linear in the length of the text.

    An answer inside `<think>` is thought, not given: only what follows the last `</think>` counts, and nothing follows
    a `<think>` that is never closed. A tag that opens again before it closes starts anew.
    """
    start = text.rfind("</think>")
    if text.find("<think>", max(start, 0)) >= 0:
        return []
    answers = []
    position = start + 8 if start >= 0 else 0
    while (close := text.find(_CLOSE, position)) >= 0:
        begin = text.rfind(_OPEN, position, close)
        if begin >= 0:
            answers.append(text[begin + len(_OPEN) : close])
        position = close + len(_CLOSE)
    return answers


def verify(completion: object, problem: Problem, rules: Rules = DEFAULT_RULES) -> Verdict:
    """Judge `completion` as an answer to `problem`. Never raises, whatever the completion is."""
    text = completion_text(completion)
    if text is None:
        return Verdict(rules.score_invalid, Reason.NOT_TEXT)
    answers = [text] if rules.answer_format == "bare" else find_answers(text)
    count = len(answers)
    if not count:
        return Verdict(rules.score_invalid, Reason.NO_ANSWER)
    if rules.answer_rule == "any":
        verdicts = [_judge(answer, problem, rules, count) for answer in answers]
        return max(verdicts, key=lambda verdict: verdict.score)
    return _judge(answers[-1 if rules.answer_rule == "last" else 0], problem, rules, count)


def verify_batch(
    completions: Iterable[object], problems: Iterable[Problem], rules: Rules = DEFAULT_RULES
) -> list[Verdict]:
    """`verify` for pairs of completions and problems, in order."""
    return [verify(completion, problem, rules) for completion, problem in zip(completions, problems, strict=True)]


def _judge(answer: str, problem: Problem, rules: Rules, count: int) -> Verdict:
    # The length is checked before anything walks the text: a 1 MB answer costs nothing.
    if len(answer) > 4 * rules.max_chars:
        return Verdict(rules.score_invalid, Reason.TOO_LONG, n_answers=count)
    expression = normalize(answer, rules.lenient_unicode).strip(" \t\r\n")
    if rules.allow_equals:
        expression = expression.split("=", 1)[0].rstrip()
    if not expression:
        return Verdict(rules.score_invalid, Reason.NO_ANSWER, n_answers=count)
    if len(expression) > rules.max_chars:
        return Verdict(rules.score_invalid, Reason.TOO_LONG, n_answers=count)
    try:
        parsed = parse(expression, rules.unary_minus)
    except Malformed:
        return Verdict(rules.score_invalid, Reason.MALFORMED, expression, n_answers=count)
    except DivisionByZero:
        return Verdict(rules.score_wrong, Reason.DIVISION_BY_ZERO, expression, n_answers=count)
    reason = _reason(parsed.numbers, parsed.value, parsed.whole, problem, rules)
    score = rules.score_correct if reason is Reason.CORRECT else rules.score_wrong
    return Verdict(score, reason, expression, Fraction(*parsed.value), count)


def _reason(numbers: tuple[int, ...], value: tuple[int, int], whole: bool, problem: Problem, rules: Rules) -> Reason:
    if rules.use_all:
        fits = sorted(numbers) == sorted(problem.numbers)
    else:
        fits = Counter(numbers) <= Counter(problem.numbers)
    if not fits:
        return Reason.WRONG_NUMBERS
    if rules.integers_only and not whole:
        return Reason.NOT_WHOLE
    return Reason.CORRECT if value == (problem.target, 1) else Reason.WRONG_VALUE
