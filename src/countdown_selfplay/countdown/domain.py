"""Countdown as a game sees it: render, parse, check, solve, verify. Pure data, no torch; equal on every process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from ..contract.domain import Checked
from .exact.batch import is_solvable_batch
from .exact.solver import is_solvable
from .generator import generate_problems
from .problem import Problem, ProblemSpec, heldout_key, problem_from_row
from .prompts import COMPLETION_STOP, CONJECTURER_PROMPTS, EXAMPLES, PROPOSAL_TEXTS, PROVER_PROMPTS
from .proposals import Proposal, parse_proposal
from .rules import DEFAULT_RULES, Rules
from .verifier import Verdict, verify

_ANSWERED, _PROPOSED = Problem((1, 2, 3), 1), Problem((3, 5, 7), 22)
_ANSWERS = {
    "tags": "<think> 1 + 2 = 3, 3 / 3 = 1 </think>\n<answer> (1 + 2) / 3 </answer>",
    "bare": "( 1 + 2 ) / 3",
}


@dataclass(frozen=True)
class CountdownDomain:
    """An OpenDomain (contract/domain.py).

    spec: which proposals are in range. rules: what counts as an answer, in training and in evaluation. The two
    prompts are names in PROVER_PROMPTS and CONJECTURER_PROMPTS (UnknownNameError otherwise)."""

    spec: ProblemSpec = field(default_factory=ProblemSpec)
    rules: Rules = DEFAULT_RULES
    prover_prompt: str = "countdown_3to4"
    conjecturer_prompt: str = "completion"
    operands: tuple[int, ...] = ()
    """Operand counts that proposers are asked for in turn, each as often as it is listed; (): those of `spec`."""

    def __post_init__(self) -> None:
        _ = PROVER_PROMPTS[self.prover_prompt], CONJECTURER_PROMPTS[self.conjecturer_prompt]

    @classmethod
    def tiny(cls) -> CountdownDomain:
        """The embedded tiny model's: three numbers up to 12, targets up to 99, compact prompts."""
        spec = ProblemSpec(operands=(3,), number_low=1, number_high=12, target_low=1, target_high=99)
        return cls(spec, Rules(answer_format="bare"), "compact", "compact")

    @classmethod
    def countdown_3to4(cls) -> CountdownDomain:
        """The public data set's ranges and prompt, and the completion style of seed 001 for proposals."""
        return cls()

    @classmethod
    def from_config(cls, fields: Any) -> CountdownDomain:
        """Countdown as the CountdownFields of a configuration describe it. The compact prompt has no answer tags."""
        names = ("number_low", "number_high", "target_low", "target_high")
        bare = fields.prover_prompt == "compact"
        return cls(
            spec=ProblemSpec(tuple(dict.fromkeys(fields.operands)), *(getattr(fields, name) for name in names)),
            rules=Rules(
                use_all=fields.use_all,
                answer_rule=fields.answer_rule,
                answer_format="bare" if bare else "tags",
                leading_minus=fields.leading_minus,
            ),
            prover_prompt=fields.prover_prompt,
            conjecturer_prompt=fields.conjecturer_prompt,
            operands=tuple(fields.operands),
        )

    def propose_row(self, operands: int) -> dict[str, Any]:
        """A row that asks the conjecturer for a problem with this many numbers."""
        return {"prompt": CONJECTURER_PROMPTS[self.conjecturer_prompt](operands, self.spec), "operands": operands}

    facts = ("in_range", "solvable")
    columns = ("numbers", "nums", "target", "ground_truth")
    """Columns of data sets that hold the problem itself."""

    @cached_property
    def asks(self) -> tuple[dict[str, int], ...]:
        """What is asked for in turn: {"operands": 3}, {"operands": 4}."""
        return tuple({"operands": k} for k in self.operands or self.spec.operands)

    def parse(self, texts: Iterable[object]) -> list[Proposal]:
        """The problems in completions; a copy of one of the prompt's own examples is refused."""
        return [parse_proposal(text, self.conjecturer_prompt, self.example_keys) for text in texts]

    def check(
        self, problems: Sequence[Problem], asked: Sequence[Mapping[str, Any] | None] | None = None
    ) -> list[Checked]:
        """Range, solvability, and the operand count that was asked for; the solver sees all in one batch.

        Solvability is asked only in range: beyond it the exact solver could be handed anything.
        """
        inside = [self.in_range(problem) for problem in problems]
        solvable = iter(self.solvable_batch([p for p, good in zip(problems, inside, strict=True) if good]))
        found = []
        for problem, good, ask in zip(problems, inside, asked or [None] * len(problems), strict=True):
            ok = good and next(solvable)
            wanted = (ask or {}).get("operands", len(problem.numbers))
            reason = "ok" if ok else "unsolvable" if good else "out_of_range"
            if good and not self.as_asked(problem, wanted):
                reason = "not_as_asked"
            found.append(Checked(reason, {"in_range": good, "solvable": ok}))
        return found

    @cached_property
    def example_keys(self) -> frozenset[str]:
        """Keys of all worked examples that the conjecturer's prompts show."""
        shown = EXAMPLES.get(self.conjecturer_prompt)
        return frozenset() if shown is None else frozenset(example.key for example in shown(self.spec))

    @cached_property
    def asks_operands(self) -> bool:
        """Whether the conjecturer's prompt asks for an operand count: with another count it is another prompt."""
        prompts = [self.propose_row(k)["prompt"] for k in sorted(set(self.spec.operands))]
        return len(prompts) > 1 and all(prompt != prompts[0] for prompt in prompts[1:])

    def as_asked(self, problem: Problem, operands: int) -> bool:
        """Whether the problem has as many numbers as the prompt asked for; one that asks for no count takes any."""
        return len(problem.numbers) == operands or not self.asks_operands

    def in_range(self, problem: Problem) -> bool:
        """Whether the problem lies in the ranges of `spec`."""
        return self.spec.admits(problem)

    def outside(self, problem: Problem) -> str | None:
        """What lies beyond the ranges of `spec`, in words; None for a problem in range."""
        return self.spec.outside(problem)

    def random(self, n: int, seed: int, exclude: Iterable[str] = ()) -> list[Problem]:
        """`n` distinct solvable problems, uniform over the ranges, none of the held-out side or with a key in
        `exclude`."""
        return generate_problems(n, self.spec, seed, exclude, rules=self.rules)

    def held_out(self, n: int) -> list[Problem]:
        """`n` problems of the generator's held-out side, always the same."""
        return generate_problems(n, self.spec, seed=0, split="heldout")

    def is_held_out(self, problem: Problem) -> bool:
        """Whether the problem lies on the generator's held-out side, and with it all of heldout-v1."""
        return heldout_key(problem.key)

    @property
    def longest(self) -> Problem:
        """A problem with one of the longest prompts: most operands, greatest numbers."""
        return Problem((self.spec.number_high,) * max(self.spec.operands), self.spec.target_high)

    def solvable(self, problem: Problem) -> bool:
        """Whether the exact solver finds a solution under `rules`."""
        return is_solvable(problem, self.rules)

    def solvable_batch(self, problems: Iterable[Problem]) -> list[bool]:
        """The same for many problems, much faster than one by one."""
        return is_solvable_batch(problems, self.rules)

    def prove_row(self, problem: Problem) -> dict[str, Any]:
        """A row that asks the prover for a solution; rendered from integers, never from a conjecturer's text."""
        prompt = PROVER_PROMPTS[self.prover_prompt](problem)
        return {"prompt": prompt, "numbers": list(problem.numbers), "target": problem.target}

    def verify(self, texts: Iterable[object], problems: Iterable[Problem]) -> list[Verdict]:
        """The verdicts on completions under `rules`."""
        return [verify(text, problem, self.rules) for text, problem in zip(texts, problems, strict=True)]

    def problem(self, row: Mapping[str, Any], index: int = 0) -> Problem:
        """The problem of a data set's row, in any of the public schemas."""
        return problem_from_row(row, index)

    def to_dict(self) -> dict[str, Any]:
        """Ranges, rules and prompt styles."""
        styles = {"prover_prompt": self.prover_prompt, "conjecturer_prompt": self.conjecturer_prompt}
        return {"domain": "countdown", **asdict(self.spec), "rules": self.rules.to_dict(), **styles}

    def key(self, problem: Problem) -> str:
        """The identity of a problem: sorted numbers and target."""
        return problem.key

    def stop_strings(self, role: str) -> list[str] | None:
        """Where generation stops besides the end token. `role`: "conjecturer" or "prover", "conjecturer/0" in a
        pool."""
        proposing = role.split("/")[0] == "conjecturer"
        return [COMPLETION_STOP] if proposing and self.conjecturer_prompt in ("completion", "six_shots") else None

    def cut_by(self, role: str, stops: Sequence[str]) -> str | None:
        """A text as the role is asked for that these stop strings would cut before its answer or problem can be read;
        None if they do not."""
        proposing = role == "conjecturer"
        if proposing and self.conjecturer_prompt not in PROPOSAL_TEXTS:  # a prompt of a user's own
            return None
        text = PROPOSAL_TEXTS[self.conjecturer_prompt](_PROPOSED) if proposing else _ANSWERS[self.rules.answer_format]
        ends = [text.find(stop) + len(stop) for stop in stops if stop in text]
        cut = text[: min(ends, default=len(text))]
        read = self.parse([cut])[0].problem == _PROPOSED if proposing else verify(cut, _ANSWERED, self.rules).correct
        return None if read else text
