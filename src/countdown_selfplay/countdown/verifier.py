"""Verifier: maps a completion and a problem to a score with its reason. Exact, and safe on any input: no eval, no ast,
no signals, no thread-local state; at most `max_chars` characters of an expression are parsed. Answers are located by
`find`, not by a regex, in time linear in the text's length."""

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from .expression import (
    FOREIGN,
    NUMBER,
    SHORT,
    WHITE_SPACE,
    DivisionByZero,
    NotAnInteger,
    evaluate,
    in_whole_numbers,
    plain,
    to_postfix,
)
from .problem import DEFAULT_RULES, Problem, Rules

MAX_ANSWERS_TRIED = 32
"""Largest number of answers examined under the rule "any", which bounds the cost of a response."""


class Reason(StrEnum):
    """Reason for an answer's score. The first gives `score_correct`, the next four `score_wrong`, the others
    `score_invalid`, or `score_tagged` if that is set and there is a tag."""

    CORRECT = "correct"
    """Every rule is met and the value is the target."""
    WRONG_VALUE = "wrong_value"
    """A legal expression over the right numbers with another value."""
    WRONG_NUMBERS = "wrong_numbers"
    """A well-formed expression that reuses, leaves out or adds a number."""
    DIVISION_BY_ZERO = "division_by_zero"
    """The numbers are right, but a divisor is zero."""
    NOT_AN_INTEGER = "not_an_integer"
    """The numbers are right, but a division leaves a remainder and the rules require integers."""
    NO_ANSWER = "no_answer"
    """There is no complete answer tag."""
    ANSWER_IN_THINKING = "answer_in_thinking"
    """The only answer tags are inside the thinking."""
    EMPTY = "empty"
    """The answer is white space."""
    TOO_LONG = "too_long"
    """The answer has more than `max_chars` characters."""
    BAD_CHARACTER = "bad_character"
    """A character other than a digit, operator, parenthesis or white space: code, decimals, exponents, look-alikes."""
    EQUALS_SIGN = "equals_sign"
    """An equals sign that the rules do not allow, or whose right side is not a plain number."""
    LEADING_ZERO = "leading_zero"
    """A number written with a leading zero."""
    MALFORMED = "malformed"
    """The tokens form no expression: unbalanced, two numbers or two operators in a row, a sign without a left side."""
    NOT_TEXT = "not_text"
    """The completion holds no text: None, bytes, a tool call, some other object."""


class MoveReason(StrEnum):
    """Reason why an episode of moves (moves.py) failed, besides those of Reason for a text without a move. The first
    gives `score_invalid` (or `score_tagged`, if that is set and answers have tags), the others `score_wrong`."""

    GRAMMAR = "grammar"
    """A text that does not have the form `6 * 4 = 24`: other words, two moves, text after the move, a leading zero."""
    OPERAND = "operand"
    """A number that is absent, or that occurs once and is used twice."""
    RANGE = "range"
    """The operation has no legal result: a fraction, less than 1, or more than `value_high`."""
    ARITHMETIC = "arithmetic"
    """The operation is legal, but the written result is wrong."""
    MISSED = "missed"
    """One number is left, and it is not the target."""
    UNFINISHED = "unfinished"
    """All moves are legal, and more than one number is left."""


_CORRECT, _WRONG_VALUE = Reason.CORRECT, Reason.WRONG_VALUE  # looked up once: needed on nearly every answer
_WRONG = frozenset({Reason.WRONG_VALUE, Reason.WRONG_NUMBERS, Reason.DIVISION_BY_ZERO, Reason.NOT_AN_INTEGER})


WELL_FORMED: frozenset[Reason | MoveReason] = frozenset(
    {Reason.CORRECT, *_WRONG, *(reason for reason in MoveReason if reason is not MoveReason.GRAMMAR)}
)
"""Reasons of well-formed answers: texts in the form of an expression or a move, whatever its numbers and value."""


class Verdict(NamedTuple):
    """Result of verification. expression: the answer as written, None if absent, empty or too long; value: its exact
    value or None; n_answers: number of complete answers in the text (1 for a bare expression)."""

    score: float
    reason: Reason | MoveReason
    expression: str | None = None
    value: Fraction | None = None
    n_answers: int = 0

    @property
    def correct(self) -> bool:
        """Correctness for solve rates, independent of the scores in the rules."""
        return self.reason is Reason.CORRECT

    @property
    def vote(self) -> str | None:
        """Key of an answer in a majority vote: the exact value of a legal expression, the text of one that breaks a
        rule of the problem (so that it never counts with a right answer), None if it is not an expression."""
        if self.reason in (Reason.CORRECT, Reason.WRONG_VALUE, MoveReason.MISSED):
            return str(self.value)
        if self.reason in WELL_FORMED and self.expression is not None:
            return f"{self.reason}: {''.join(self.expression.split())}"
        return None


def verify(completion: object, problem: Problem, rules: Rules = DEFAULT_RULES) -> Verdict:
    """Judge one completion, a string or a list of chat messages. Never raises. Of several answers `rules.answer_rule`
    selects one; "any" takes the best of the first 32."""
    text = completion_text(completion)
    if text is None:
        return Verdict(rules.score_invalid, Reason.NOT_TEXT)
    if rules.answer_format == "bare":
        return _judge(text, problem, rules, 1)
    answer = only_answer(text)
    if answer is not None:
        return _judge(answer, problem, rules, 1)
    answers = answers_in(text)
    if isinstance(answers, Reason):
        return Verdict(rules.score_invalid if answers is Reason.NO_ANSWER else rules.score_of_tags, answers)
    if rules.answer_rule == "any":
        return _best(answers, problem, rules)
    return _judge(answers[-1 if rules.answer_rule == "last" else 0], problem, rules, len(answers))


def answers_in(text: str) -> list[str] | Reason:
    """Return the complete answers outside the thinking, at least one; or the reason why there is none."""
    stretches = outside_thinking(text)
    answers = tagged_answers(stretches[0])
    for stretch in stretches[1:]:
        answers += tagged_answers(stretch)
    if answers:
        return answers
    in_thinking = len(stretches[0]) != len(text) and tagged_answers(text)
    return Reason.ANSWER_IN_THINKING if in_thinking else Reason.NO_ANSWER


def verify_batch(
    completions: Iterable[object], problems: Iterable[Problem], rules: Rules = DEFAULT_RULES
) -> list[Verdict]:
    """Return the verdict on each completion, in order. Raises ValueError unless there is one problem per
    completion."""
    return [verify(completion, problem, rules) for completion, problem in zip(completions, problems, strict=True)]


def _best(answers: list[str], problem: Problem, rules: Rules) -> Verdict:
    """Return the first of the best verdicts. After a well-formed answer only a correct one is better, so that answers
    with other numbers are not parsed, and 32 long answers cost little more than one."""
    best: Verdict | None = None
    for answer in answers[:MAX_ANSWERS_TRIED]:
        if best is None or _rank(best) == 2 or _has_the_numbers(answer, problem, rules):
            verdict = _judge(answer, problem, rules, len(answers))
            if best is None or _rank(verdict) < _rank(best):
                best = verdict
    assert best is not None  # there is at least one answer
    return best


def _has_the_numbers(answer: str, problem: Problem, rules: Rules) -> bool:
    expression = answer.strip(WHITE_SPACE)
    if len(expression) > rules.max_chars:
        return False
    text = plain(expression) if rules.lenient_unicode else expression
    return _numbers_match(NUMBER.findall(text.partition("=")[0]), problem.numbers, rules.use_all)


def _rank(verdict: Verdict) -> int:
    """Return the rank of a verdict under the rule "any", 0 the best, by reason, because users may change scores."""
    return 0 if verdict.correct else 1 if verdict.reason in _WRONG else 2


def _judge(answer: str, problem: Problem, rules: Rules, n_answers: int) -> Verdict:
    expression = answer.strip(WHITE_SPACE)  # not every kind of space: a no-break space is not part of the grammar
    if len(expression) > rules.max_chars:
        return Verdict(rules.score_of_tags, Reason.TOO_LONG, None, None, n_answers)
    if not expression:
        return Verdict(rules.score_of_tags, Reason.EMPTY, None, None, n_answers)
    reason, value = _examine(expression, problem, rules)
    if reason is _CORRECT:
        score = rules.score_correct
    else:
        score = rules.score_wrong if reason is _WRONG_VALUE or reason in _WRONG else rules.score_of_tags
    return Verdict(score, reason, expression, None if value is None else _fraction(*value), n_answers)


def _examine(text: str, problem: Problem, rules: Rules) -> tuple[Reason, tuple[int, int] | None]:
    """Return the reason of the verdict, and the value as (numerator, denominator), or None without a value."""
    quick = in_whole_numbers(text) if len(text) <= SHORT else None
    if quick is not None and _numbers_match(quick[1], problem.numbers, rules.use_all):
        total = quick[0]
        return _CORRECT if total == problem.target else _WRONG_VALUE, (total, 1)
    if rules.lenient_unicode:
        text = plain(text).strip(WHITE_SPACE)
    claimed = None
    if "=" in text:
        text, _, right = text.partition("=")
        claimed = right.strip(WHITE_SPACE)
        if not rules.allow_equals or not (claimed.isascii() and claimed.isdigit()):
            return Reason.EQUALS_SIGN, None
    parsed = to_postfix(text, rules.leading_minus)
    if parsed is None:
        return (Reason.BAD_CHARACTER if FOREIGN.search(text) else Reason.MALFORMED), None
    postfix, used = parsed
    # Numbers are compared as text: equal texts without leading zeros are equal numbers.
    matching = _numbers_match(used, problem.numbers, rules.use_all)
    if not matching and any(token[0] == "0" and len(token) > 1 for token in used):
        return Reason.LEADING_ZERO, None
    try:
        value = evaluate(postfix, rules.integers_only)
        failure = None
    except DivisionByZero:
        value, failure = None, Reason.DIVISION_BY_ZERO
    except NotAnInteger:
        value, failure = None, Reason.NOT_AN_INTEGER
    if not matching:
        return Reason.WRONG_NUMBERS, value
    if failure is not None:
        return failure, None
    right_claim = claimed is None or claimed == str(problem.target)
    return _CORRECT if value == (problem.target, 1) and right_claim else _WRONG_VALUE, value


def _numbers_match(used: list[str], given: tuple[int, ...], use_all: bool) -> bool:
    texts = _sorted_texts(given)
    return sorted(used) == texts if use_all else not Counter(used) - Counter(texts)


@lru_cache(maxsize=1 << 12)
def _sorted_texts(numbers: tuple[int, ...]) -> list[str]:
    return sorted(map(str, numbers))


@lru_cache(maxsize=1 << 12)
def _fraction(numerator: int, denominator: int) -> Fraction:
    """Return a Fraction, from a cache: to construct one takes as long as to parse an expression."""
    return Fraction(numerator, denominator)


OPEN, CLOSE = "<answer>", "</answer>"
THINK, END_THINK = "<think>", "</think>"


def completion_text(completion: object) -> str | None:
    """Return the text of a completion: a string, or the content of the last assistant message of a chat, a string or a
    list of parts with a "text" each. None for everything else (None, bytes, a tool call without content, an empty
    chat). Never raises."""
    if type(completion) is str:
        return completion
    if isinstance(completion, str):
        return str.__str__(completion)  # a subclass could override `find`
    if isinstance(completion, dict):
        completion = [completion]
    if not isinstance(completion, list | tuple):
        return None
    for message in list.__reversed__(list(completion)):
        if isinstance(message, dict) and dict.get(message, "role", "assistant") == "assistant":
            return _content_text(dict.get(message, "content"))
    return None


def _content_text(content: object) -> str | None:
    if isinstance(content, str):
        return str.__str__(content)
    if not isinstance(content, list | tuple):
        return None
    parts = [dict.get(part, "text") for part in content if isinstance(part, dict)]
    texts = [str.__str__(part) for part in parts if isinstance(part, str)]
    return "".join(texts) if texts else None


def outside_thinking(text: str) -> list[str]:
    """Return the parts of `text` that are not thinking, in order. Thinking runs from `<think>` to the next `</think>`,
    or to the end. A first `</think>` without an opening closes the thinking that a prompt began (the `tinyzero` prompt
    ends in `<think>`)."""
    first_close = text.find(END_THINK)
    if first_close < 0:
        opened = text.find(THINK)
        return [text] if opened < 0 else [text[:opened]]
    opened = text.find(THINK, 0, first_close)
    stretches = [text[:opened]] if opened > 0 else []
    start = first_close + len(END_THINK)
    while (begin := text.find(THINK, start)) >= 0:
        stretches.append(text[start:begin])
        end = text.find(END_THINK, begin)
        if end < 0:
            return stretches
        start = end + len(END_THINK)
    stretches.append(text[start:])
    return stretches


def only_answer(text: str) -> str | None:
    """Return the answer of a text whose only tags are one answer and, before it, at most one thinking part, as in most
    responses; None for other texts, for which `answers_in` decides. Searches for single characters, several times
    faster than for whole tags."""
    close = text.rfind("<")
    begin = text.rfind("<", 0, close) if close > 0 else -1
    if begin < 0 or not text.startswith(CLOSE, close) or not text.startswith(OPEN, begin):
        return None
    before = text.rfind("<", 0, begin)
    if before >= 0:
        if not text.startswith(END_THINK, before):
            return None
        first = text.find("<", 0, before)
        if first >= 0 and not (text.startswith(THINK, first) and text.find("<", first + 1) == before):
            return None
    return text[begin + len(OPEN) : close]


def tagged_answers(text: str) -> list[str]:
    """Return the contents of all complete `<answer>` tags, in order: those of the innermost of nested tags, and none
    of unclosed ones. Every close tag is paired with the last open tag since the previous close, so that mentions of
    the tag in the text have no effect. Each character is examined a constant number of times."""
    pieces = text.split(CLOSE)
    return [piece[at + len(OPEN) :] for piece in pieces[:-1] if (at := piece.rfind(OPEN)) >= 0]
