"""Countdown as a game sees it: ask for a problem, read it, check it, put it to the prover, judge the answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .generator import ProblemSpec
from .problem import Problem
from .prompts import CONJECTURER_PROMPTS, PROVER_PROMPTS
from .proposals import Proposal, parse_proposal
from .rules import Rules
from .solver import is_solvable
from .verifier import Verdict, verify


@dataclass(frozen=True)
class CountdownDomain:
    """One spec, one rule set, one prompt per role, for training and evaluation alike. Pure; holds no model."""

    spec: ProblemSpec = field(default_factory=ProblemSpec)
    rules: Rules = field(default_factory=Rules)
    prover_prompt: str = "countdown_3to4"
    conjecturer_prompt: str = "completion"

    def __post_init__(self) -> None:
        PROVER_PROMPTS[self.prover_prompt]
        CONJECTURER_PROMPTS[self.conjecturer_prompt]

    @classmethod
    def countdown_3to4(cls) -> CountdownDomain:
        """The public ranges and prompts of seed 001."""
        return cls()

    @classmethod
    def tiny(cls) -> CountdownDomain:
        """What the embedded tiny model knows: three operands up to 12, targets up to 99, compact prompts."""
        return cls(ProblemSpec((3,), 1, 12, 1, 99), Rules(answer_format="bare"), "compact", "compact")

    def propose_row(self, operands: int) -> dict[str, Any]:
        """A row that asks the conjecturer for a problem with this many operands."""
        return {"prompt": CONJECTURER_PROMPTS[self.conjecturer_prompt](operands, self.spec), "operands": operands}

    def parse(self, text: object) -> Proposal:
        return parse_proposal(text, self.conjecturer_prompt)

    def in_range(self, problem: Problem) -> bool:
        return self.spec.admits(problem)

    def solvable(self, problem: Problem) -> bool:
        return is_solvable(problem, self.rules)

    def prove_row(self, problem: Problem) -> dict[str, Any]:
        """A row that puts the problem to the prover. Rendered from its integers: no text of the conjecturer gets
        through."""
        prompt = PROVER_PROMPTS[self.prover_prompt](problem)
        return {"prompt": prompt, "numbers": list(problem.numbers), "target": problem.target}

    def verify(self, text: object, problem: Problem) -> Verdict:
        return verify(text, problem, self.rules)

    def key(self, problem: Problem) -> str:
        return problem.key

    def stop_strings(self, role: str) -> list[str] | None:
        """Strings that end a completion besides the end token."""
        return ["</problem>"] if role == "conjecturer" and self.conjecturer_prompt == "completion" else None
