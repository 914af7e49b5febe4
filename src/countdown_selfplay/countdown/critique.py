"""Exact critiques of Countdown answers: the steps of an expression, and the first step that excludes all solutions."""

import re
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, pairwise
from typing import Any, NamedTuple

from ..contract import critique as paper
from ..contract.domain import Critique
from .expression import Written, combined, to_postfix
from .problem import Problem, Rules
from .prompts import PROVER_PROMPTS
from .verifier import verify

REJECT = "right"
"""Word by which the tiny model rejects a critique, in place of the sentence NOT_CRITICAL (contract/critique.py)."""
TAGS = "<answer> </answer> tags"
_NUMBER_AND_CLOSING = re.compile(r"[0-9]+(?:\s*\))*")


class Step(NamedTuple):
    """Sub-expression with at least one operator."""

    text: str
    """Text of the sub-expression: tokens separated by single spaces, with the parentheses of `combined`."""
    numbers: tuple[int, ...]
    value: Fraction


def steps_of(expression: str) -> list[Step]:
    """Return the sub-expressions of an expression in the order of their computation, the whole expression last; []
    for a text that is not an expression, and for a division by zero."""
    return [step for step, _ in _computed(expression)]


def _computed(expression: str) -> list[tuple[Step, tuple[Step, ...]]]:
    """Return each step with the steps whose results are unused after it: the step itself and some earlier steps."""
    read = to_postfix(expression)
    stack: list[tuple[Written, Step | int]] = []
    computed: list[tuple[Step, tuple[Step, ...]]] = []
    for token in read[0] if read else ():
        if token not in "+-*/":
            stack.append((Written(Fraction(int(token)), str(int(token)), ""), int(token)))
            continue
        (right, of_right), (left, of_left) = stack.pop(), stack.pop()
        if token == "/" and right.value == 0:
            return []
        made = combined(left, token, right)
        numbers = (n for of in (of_left, of_right) for n in (of.numbers if isinstance(of, Step) else (of,)))
        step = Step(made.text, tuple(sorted(numbers)), made.value)
        stack.append((made, step))
        computed.append((step, tuple(of for _, of in stack if isinstance(of, Step))))
    return computed


def _wrong_from(problem: Problem, expression: str, rules: Rules) -> int | None:
    """Return the index of the first step that breaks a rule or puts the target out of reach, or None."""
    for place, (_, results) in enumerate(_computed(expression)):
        left = Counter(problem.numbers)
        left.subtract(number for result in results for number in result.numbers)
        values = sorted((*map(Fraction, left.elements()), *(result.value for result in results)))
        if (
            min(left.values()) < 0
            or (rules.integers_only and results[-1].value.denominator != 1)
            or not _reaches(tuple(values), Fraction(problem.target), rules.integers_only, rules.use_all)
        ):
            return place
    return None


def first_mistake(problem: Problem, answer: str, rules: Rules) -> Step | None:
    """Return the first step of an answer that breaks a rule or puts the target out of reach; None for a right answer,
    for an answer without steps, and for one that is wrong only because it leaves numbers out."""
    place = _wrong_from(problem, answer, rules)
    return None if place is None else steps_of(answer)[place]


@lru_cache(maxsize=1 << 14)
def _reaches(values: tuple[Fraction, ...], target: Fraction, integers_only: bool, use_all: bool) -> bool:
    """Return whether + - * / can make the target from the values, each used at most once (use_all: exactly once)."""
    if target in values and (len(values) == 1 or not use_all):
        return True
    for i, j in combinations(range(len(values)), 2):
        a, b = values[i], values[j]
        results = {a + b, a - b, b - a, a * b}
        results |= {x / y for x, y in ((a, b), (b, a)) if y != 0}
        rest = tuple(value for n, value in enumerate(values) if n not in (i, j))
        for result in results:
            if integers_only and result.denominator != 1:
                continue
            if _reaches(tuple(sorted((*rest, result))), target, integers_only, use_all):
                return True
    return False


def pieces_of(expression: str) -> list[tuple[str, int]]:
    """Split an expression wherever a step is complete, after its last number and closing parentheses. Return (part,
    number of steps that end in the part); [] for a text that is not an expression, and for a division by zero."""
    read = to_postfix(expression)
    if read is None or not steps_of(expression):
        return []
    closed, numbers = Counter[int](), 0  # number of operands up to a place -> number of steps that end there
    for token in read[0]:
        if token in "+-*/":
            closed[numbers] += 1
        else:
            numbers += 1
    ends = [match.end() for match in _NUMBER_AND_CLOSING.finditer(expression)]
    cuts = [0, *(ends[count - 1] for count in sorted(closed))]
    parts = [expression[start:end] for start, end in pairwise(cuts)]
    return list(zip(parts, (closed[count] for count in sorted(closed)), strict=True))


@dataclass(frozen=True)
class CountdownCritique(Critique):
    """Critiques of Countdown answers, with the prompts of Wang et al. and exact checks of each step. Compact prompts
    are `critic 3 5 7 = 22 : 3 + 5 + 7 :` for a critique and `again 3 5 7 = 22 : 3 + 5 + 7 : 3 + 5 :` for a revision;
    with them a critique is a step of the answer."""

    rules: Rules
    prover_prompt: str

    @property
    def bare(self) -> bool:
        return self.rules.answer_format == "bare"

    def critique_row(self, problem: Problem, answer: str) -> dict[str, Any]:
        asked = paper.critique_prompt(self._question(problem)[-1]["content"], answer)
        return self._row(problem, "critic", answer, asked)

    def revise_row(self, problem: Problem, answer: str, critique: str) -> dict[str, Any]:
        asked = paper.revise_prompt(self._question(problem), answer, critique, TAGS)
        return self._row(problem, "again", answer, asked, f" {critique} :")

    def recheck_row(self, problem: Problem, answer: str) -> dict[str, Any]:
        return self._row(problem, "again", answer, paper.recheck_prompt(self._question(problem), answer, TAGS))

    def step_row(self, problem: Problem, answer: str, step: str) -> dict[str, Any]:
        """Return a row that asks whether a step is right. With a compact prompt the row is that of a revision
        whose critique is this step, the only turn in which the tiny model writes "right"."""
        asked = paper.step_prompt(self._question(problem)[-1]["content"], answer, step)
        return self._row(problem, "again", answer, asked, f" {step} :")

    def _question(self, problem: Problem) -> list[paper.Message]:
        prompt = PROVER_PROMPTS[self.prover_prompt](problem)
        return [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt

    def _row(
        self, problem: Problem, word: str, answer: str, asked: list[paper.Message], more: str = ""
    ) -> dict[str, Any]:
        """Build a row. word, more: first word and ending of a compact prompt. asked: messages of a chat prompt; a raw
        prompt ends in the last message, preceded by question and answer if there are several messages."""
        prompt: Any = PROVER_PROMPTS[self.prover_prompt](problem)
        text = asked[-1]["content"]
        if not isinstance(prompt, str):
            prompt = asked
        elif prompt.endswith(f"= {problem.target} :"):
            prompt = f"{word} {prompt} {answer} :{more}"
        else:
            prompt = f"{prompt}{answer}\nUser: {text}\nAssistant:" if len(asked) > 1 else f"{text}\n"
        return {"prompt": prompt, "numbers": list(problem.numbers), "target": problem.target}

    def read_critique(self, text: str, answer: str) -> str | None:
        """Return the critique that the prover sees, or None. For bare answers it is a step of the answer, as
        `steps_of` writes it, which cannot reveal a solution; for others the text from MARKER on (`read_marked`)."""
        if not self.bare:
            return paper.read_marked(text)
        named = steps_of(text)
        return named[-1].text if named and named[-1] in steps_of(answer) else None

    def rejections(self, text: str) -> int:
        return text.split().count(REJECT) if self.bare else str(text).count(paper.NOT_CRITICAL)

    def hints_rejection(self, text: str) -> bool:
        """Return whether a revision contains the sentence of a rejection, boxed or not (bare answers: "right")."""
        return self.rejections(text) > 0 if self.bare else paper.SENTENCE in str(text)

    def calls_wrong(self, text: str) -> bool | None:
        """Return whether a reply calls the step wrong; None if unreadable. Bare: an expression says wrong."""
        if not self.bare:
            return paper.reads_wrong(text)
        if self.rejections(text):
            return False if text.split() == [REJECT] else None
        return True if steps_of(text) else None

    def steps(self, problem: Problem, answer: str) -> list[str]:
        return [step.text for step in steps_of(verify(answer, problem, self.rules).expression or "")]

    def first_wrong(self, problem: Problem, answer: str) -> int | None:
        """Return the index of the first step of an answer that breaks a rule or excludes all solutions, or None."""
        return _wrong_from(problem, verify(answer, problem, self.rules).expression or "", self.rules)

    def cut_at_mistake(self, problem: Problem, answer: str) -> tuple[str, str] | None:
        """Return the part (`pieces_of`) in which the first mistake ends, as (text before the part, part), or None."""
        place = _wrong_from(problem, answer, self.rules)
        before, done = "", 0
        for text, steps in pieces_of(answer):
            done += steps
            if place is not None and place < done:
                return before, text
            before += text
        return None

    def next_step(self, answer: str, before: str) -> str | None:
        """Return the part (`pieces_of`) of an answer that follows the text `before`, or None if none starts there."""
        so_far = ""
        for text, _ in pieces_of(answer):
            if so_far == before:
                return text
            so_far += text
        return None
