"""What CountdownDomain adds for the critic game's evaluations: the steps of an answer, judged exactly."""

from __future__ import annotations

from typing import Any

from ..contract.critique import reads_wrong
from . import critique
from .problem import Problem
from .prompts import PROVER_PROMPTS
from .rules import Rules


class Checking:
    """The methods of an ExactStepDomain (contract/critique.py)."""

    rules: Rules
    prover_prompt: str

    def steps(self, problem: Problem, answer: str) -> list[str]:
        """The sub-expressions of an answer, as they are computed."""
        return [step.text for step in critique.steps_in(problem, answer, self.rules)]

    def first_wrong(self, problem: Problem, answer: str) -> int | None:
        """The place of the first step that lies on no solution path; None if there is none."""
        found = critique.first_wrong_step(problem, answer, self.rules)
        return None if found is None else found[0]

    def step_row(self, problem: Problem, answer: str, step: str) -> dict[str, Any]:
        """A row that asks whether a step of an answer is right."""
        return critique.step_row(problem, PROVER_PROMPTS[self.prover_prompt](problem), answer, step)

    def calls_wrong(self, text: str) -> bool | None:
        """Whether a reply calls the step wrong: a bare one by giving another answer instead of "right"."""
        if self.rules.answer_format != "bare":
            return reads_wrong(text)
        if critique.rejections(text, True):
            return False if text.split() == [critique.REJECT] else None
        return True if critique.steps_of(text) else None

    def recheck_row(self, problem: Problem, answer: str) -> dict[str, Any]:
        """A row that asks the prover to check its own answer again."""
        return critique.recheck_row(problem, PROVER_PROMPTS[self.prover_prompt](problem), answer)

    def cut_at_mistake(self, problem: Problem, answer: str) -> tuple[str, str] | None:
        """(the text before it, the text of it): the part of a bare answer in which its first wrong step ends."""
        return critique.cut_at_mistake(problem, answer, self.rules)

    def next_step(self, answer: str, before: str) -> str | None:
        """The part of a bare answer behind `before`; None if it begins otherwise."""
        return critique.next_step(answer, before)
