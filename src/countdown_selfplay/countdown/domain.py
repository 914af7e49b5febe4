"""Countdown domain: prompts, parsing, checks, solver, verifier. Needs no torch; results do not depend on the rank."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

from ..contract.domain import BaseDomain, Checked
from ..errors import ConfigError
from .critique import CountdownCritique
from .exact.solver import is_solvable_batch
from .helping import HELP_PROMPTS, VARIANT_PROMPTS, CountdownHelping
from .moves import Moving, check_moves
from .mutations import CountdownMutations
from .planted import VALUE_HIGH
from .problem import DEFAULT_RULES, Problem, ProblemSpec, Rules, heldout_key, problem_from_row
from .prompts import (
    BARE_PROMPTS,
    COMPLETION_STOP,
    CONJECTURER_PROMPTS,
    EXAMPLES,
    PROPOSAL_TEXTS,
    PROVER_PROMPTS,
    SIZELESS_PROMPTS,
)
from .proposals import Proposal, parse_proposal
from .verifier import CLOSE, Verdict, verify, verify_batch

_BOUNDS = ("number_low", "number_high", "target_low", "target_high")
_ASKED = ("operands", "or_more")
"""Keys of a request that `as_asked` takes."""
_ANSWERED, _PROPOSED = Problem((1, 2, 3), 1), Problem((3, 5, 7), 22)
_ANSWERS = {"tags": "<think> 1 + 2 = 3, 3 / 3 = 1 </think>\n<answer> (1 + 2) / 3 </answer>", "bare": "( 1 + 2 ) / 3"}
_MOVES = {"tags": "<think> 3 - 2 = 1 </think>\n<answer> 3 - 2 = 1 </answer>", "bare": "3 - 2 = 1"}

_PROVER = "Set `prover_prompt` to the one that the model knows, or warm-start it (`countdown-selfplay sft`)."
_EASIER = "(`operands`, `number_high`)"

CURES = {
    "{prover}/format_rate": _PROVER,
    "{prover}/zero_signal_groups": f"Change the difficulty {_EASIER} or the conjecturer's reward, or raise "
    "`num_generations`.",
    "round/starved": "Set `conjecturer_prompt` to the one that the model knows, or warm-start it on playable problems "
    "(`countdown-selfplay sft --role conjecturer`).",
    "round/solve_rate_mean": "Near 1: take a `conjecturer_reward` that pays less for easy problems. Near 0: ask for "
    f"easier ones {_EASIER}, or warm-start the prover.",
    "round/too_hard_share": f"Ask for easier problems {_EASIER}, or warm-start the prover.",
    "{conjecturer}/parseable_rate": "Set `conjecturer_prompt` to the one that the model knows, or warm-start it "
    "(`countdown-selfplay sft --role conjecturer`).",
    "{conjecturer}/contamination_rate": "Ask for problems of which there are more (`operands`, `number_high`, "
    "`target_high`).",
    "proposer/valid_rate": "Widen the ranges (`operands`, `number_high`, `target_high`), so that fewer candidates are "
    "refused.",
    "proposer/selected_p": "Move the band (`low` and `high` of selection_kwargs), or ask for another difficulty "
    f"{_EASIER}.",
    "copied_example_rate": "Take a `conjecturer_prompt` without worked examples, or raise the conjecturers' "
    "temperature.",
}
"""Remedies for findings on metrics, by metric name: sentences that name Countdown's settings."""


@dataclass(frozen=True)
class CountdownDomain(Moving, BaseDomain[Problem]):
    """Domain of Countdown problems, with proposals, rungs, critiques, helping problems and mutations; if `answers` is
    "moves", problems are solved move by move.

    spec: ranges of proposals. rules: conditions of a right answer, in training and in evaluation. The two prompts are
    names in PROVER_PROMPTS and CONJECTURER_PROMPTS (UnknownNameError otherwise). Without arguments it is the domain of
    the public 3-to-4 data set, with the proposal style of Allen and Ståblein."""

    spec: ProblemSpec = field(default_factory=ProblemSpec)
    rules: Rules = DEFAULT_RULES
    prover_prompt: str = "countdown_3to4"
    conjecturer_prompt: str = "completion"
    operands: tuple[int, ...] = ()
    """Operand counts to request from the conjecturer in turn, with repeats. (): those of `spec`."""
    admit_unsolvable: bool = False
    """Whether unsolvable proposals may be played (Multimodal LLM Self-Play, which has no solvability filter)."""

    answers: str = "whole"
    """Form of an answer: "whole" (one expression) or "moves" (one operation per move; problems as in planted.py)."""
    value_high: int = VALUE_HIGH
    """Largest result of a move."""

    cures = CURES

    def __post_init__(self) -> None:
        _ = PROVER_PROMPTS[self.prover_prompt], CONJECTURER_PROMPTS[self.conjecturer_prompt]
        check_moves(self.answers, self.prover_prompt, self.rules, self.spec, self.value_high)
        if self.answers == "moves" and self.admit_unsolvable:
            raise ConfigError(
                "`admit_unsolvable` (True) has no meaning with `answers` (moves), where no proposal is refused for "
                "want of a solution; leave it unset."
            )

    @classmethod
    def tiny(cls) -> "CountdownDomain":
        """Return the domain of the embedded tiny model: three numbers up to 12, targets up to 99, compact prompts."""
        spec = ProblemSpec(operands=(3,), number_low=1, number_high=12, target_low=1, target_high=99)
        return cls(spec, Rules(answer_format="bare"), "compact", "compact")

    @classmethod
    def ladder(cls) -> "CountdownDomain":
        """Return the domain of the embedded ladder models: 3 to 20 numbers up to 12, targets up to 99, in moves."""
        spec = ProblemSpec(tuple(range(3, 21)), number_low=1, number_high=12, target_low=1, target_high=99)
        return cls(spec, Rules(answer_format="bare"), "compact_moves", "compact_any", answers="moves")

    @classmethod
    def from_config(cls, fields: Any, answers: str = "whole") -> "CountdownDomain":
        """Build the domain from `fields`, Countdown's settings (a CountdownProblems such as CountdownArguments). With
        a prover prompt in BARE_PROMPTS, answers have no tags. `answers`: form of an answer, as in the class."""
        rules = {name: getattr(fields, name) for name in ("use_all", "answer_rule", "leading_minus", "score_tagged")}
        rules["answer_format"] = "bare" if fields.prover_prompt in BARE_PROMPTS else "tags"
        spec = ProblemSpec(tuple(dict.fromkeys(fields.operands)), *(getattr(fields, name) for name in _BOUNDS))
        own = {name: getattr(fields, name) for name in ("prover_prompt", "conjecturer_prompt", "value_high")}
        own["admit_unsolvable"] = getattr(fields, "admit_unsolvable", False)
        return cls(spec, Rules(**rules), operands=tuple(fields.operands), answers=answers, **own)

    def propose_row(self, operands: int | None = None, target: Problem | None = None, **asked: Any) -> dict[str, Any]:
        """Return a row that asks the conjecturer for a problem: with `operands` numbers (`or_more`: at least as many),
        or, without `operands`, one that helps to solve `target` (None: any problem). With `variant_of` the row asks
        for a variant of that problem, whose `solution` the prompt shows."""
        if "variant_of" in asked:
            problem, solution = asked["variant_of"], asked["solution"]
            written = verify(solution, problem, self.rules).expression or str(solution)
            return {"prompt": VARIANT_PROMPTS[self.conjecturer_prompt](problem, written, self.spec)}
        if operands is None:
            return {"prompt": HELP_PROMPTS[self.conjecturer_prompt](target, self.spec)}
        prompt = CONJECTURER_PROMPTS[self.conjecturer_prompt](operands, self.spec, **asked)
        return {"prompt": prompt, "operands": operands}

    @property
    def facts(self) -> tuple[str, ...]:
        """Names of the facts that `check` reports; with answers in moves, solvability is not among them."""
        return ("in_range",) if self.answers == "moves" else ("in_range", "solvable")

    columns = ("numbers", "nums", "target", "ground_truth")

    @cached_property
    def asks(self) -> tuple[dict[str, int], ...]:
        """Requests to the conjecturer, in turn, such as {"operands": 3} and {"operands": 4}; a single {} for a prompt
        that leaves the size open, so that all its proposals share a baseline."""
        if self.conjecturer_prompt in SIZELESS_PROMPTS:
            return ({},)
        return tuple({"operands": k} for k in self.operands or self.spec.operands)

    def parse(self, texts: Iterable[object]) -> list[Proposal]:
        """Return one Proposal per completion; a copy of an example in the prompt is refused."""
        return [parse_proposal(text, self.conjecturer_prompt, self.example_keys) for text in texts]

    def check(
        self, problems: Sequence[Problem], asked: Sequence[Mapping[str, Any] | None] | None = None
    ) -> list[Checked]:
        """Check range, solvability and requested size of each problem. Solvability is checked for whole answers only,
        of problems in range only and in one batch, because the exact solver is limited to six numbers. With answers in
        moves an unsolvable problem is admitted, and its solve rate decides its reward; a problem proposed for a target
        may have numbers up to `value_high`."""
        played, asked = self.answers == "moves", asked or [None] * len(problems)
        helping = replace(self, spec=replace(self.spec, number_high=self.value_high)) if played else self
        inside = [
            (helping if "target" in (ask or {}) else self).in_range(problem)
            for problem, ask in zip(problems, asked, strict=True)
        ]
        ranged = [] if played else [p for p, good in zip(problems, inside, strict=True) if good]
        solvable = iter(self.solvable_batch(ranged))
        found = []
        for problem, good, ask in zip(problems, inside, asked, strict=True):
            ok = good and (played or next(solvable))
            reason = "ok" if ok or (good and self.admit_unsolvable) else "unsolvable" if good else "out_of_range"
            wanted = {name: value for name, value in (ask or {}).items() if name in _ASKED}
            if good and not self.as_asked(problem, **{"operands": len(problem.numbers), **wanted}):
                reason = "not_as_asked"
            facts = {"in_range": good, "solvable": ok}
            found.append(Checked(reason, {name: facts[name] for name in self.facts}))
        return found

    @cached_property
    def example_keys(self) -> frozenset[str]:
        """Keys of the worked examples in the conjecturer's prompts, except in JSON prompts (proposals.py)."""
        shown = EXAMPLES.get(self.conjecturer_prompt)
        return frozenset() if shown is None else frozenset(example.key for example in shown(self.spec))

    @cached_property
    def asks_operands(self) -> bool:
        """Whether the conjecturer's prompt depends on the requested operand count; False if `spec` has one count."""
        prompts = [self.propose_row(k)["prompt"] for k in sorted(set(self.spec.operands))]
        return len(prompts) > 1 and all(prompt != prompts[0] for prompt in prompts[1:])

    def as_asked(self, problem: Problem, operands: int, or_more: bool = False) -> bool:
        """Return whether the problem has `operands` numbers (or_more: at least as many); True unless asks_operands."""
        count = len(problem.numbers)
        return count == operands or (or_more and count > operands) or not self.asks_operands

    def in_range(self, problem: Problem) -> bool:
        """Return whether the problem is in the ranges of `spec`; in moves its target is also at most `value_high`."""
        return self.outside(problem) is None

    def outside(self, problem: Problem) -> str | None:
        if self.answers == "moves" and problem.target > self.value_high:
            return f"its target {problem.target} is beyond `value_high` ({self.value_high})"
        return self.spec.outside(problem)

    def random(self, n: int, seed: int, exclude: Iterable[str] = ()) -> list[Problem]:
        """Return `n` distinct solvable problems, not held out and with no key in `exclude`: uniform in range, or, with
        answers in moves, from random derivations (planted.py)."""
        return self._made(n, self.spec, seed, exclude, "train")

    def held_out(self, n: int) -> list[Problem]:
        """Return the first `n` problems of the held-out split; with answers in moves, one of each size in turn."""
        return self._made(n, self.spec, 0, (), "heldout")

    def is_held_out(self, problem: Problem) -> bool:
        return heldout_key(problem.key)

    @property
    def longest(self) -> Problem:
        return Problem((self.spec.number_high,) * max(self.spec.operands), self.spec.target_high)

    def solvable_batch(self, problems: Sequence[Problem]) -> list[bool]:
        """Return whether each problem is solvable, much faster than one by one."""
        return is_solvable_batch(problems, self.rules)

    def prove_row(self, problem: Problem) -> dict[str, Any]:
        """Return a row that requests a solution, or, with answers in moves, the first move; rendered from integers,
        never from a conjecturer's text."""
        if self.answers == "moves":
            return self.move_row(problem, self.begin(problem))
        prompt = PROVER_PROMPTS[self.prover_prompt](problem)
        return {"prompt": prompt, "numbers": list(problem.numbers), "target": problem.target}

    def verify(self, texts: Iterable[object], problems: Iterable[Problem]) -> list[Verdict]:
        """Return one verdict per completion under `rules`. With answers in moves each completion counts as an episode
        of one move (`moved` plays longer episodes)."""
        if self.answers == "moves":
            return [self.judged_move(text, problem) for text, problem in zip(texts, problems, strict=True)]
        return verify_batch(texts, problems, self.rules)

    def problem(self, row: Mapping[str, Any], index: int = 0) -> Problem:
        return problem_from_row(row, index)

    @cached_property
    def critique(self) -> CountdownCritique:
        return CountdownCritique(self.rules, self.prover_prompt)

    @cached_property
    def helping(self) -> CountdownHelping:
        value_high = self.value_high if self.answers == "moves" else None
        return CountdownHelping(self.rules, self.conjecturer_prompt, value_high)

    @cached_property
    def mutations(self) -> CountdownMutations:
        return CountdownMutations(self.spec, self.rules)

    def to_dict(self) -> dict[str, Any]:
        styles: dict[str, Any] = {"prover_prompt": self.prover_prompt, "conjecturer_prompt": self.conjecturer_prompt}
        if self.answers == "moves":  # absent from results in whole answers, of which there are some from before
            styles |= {"answers": self.answers, "value_high": self.value_high}
        return {"domain": "countdown", **asdict(self.spec), "rules": self.rules.to_dict(), **styles}

    def key(self, problem: Problem) -> str:
        return problem.key

    def stop_strings(self, role: str) -> list[str] | None:
        stops = {"completion": [COMPLETION_STOP], "six_shots": [COMPLETION_STOP], "tier": [CLOSE]}
        return stops.get(self.conjecturer_prompt) if role.split("/")[0] == "conjecturer" else None

    def cut_by(self, role: str, stops: Sequence[str]) -> str | None:
        proposing = role == "conjecturer"
        if proposing and self.conjecturer_prompt not in PROPOSAL_TEXTS:  # a user's prompt
            return None
        answers = _MOVES if self.answers == "moves" else _ANSWERS
        text = PROPOSAL_TEXTS[self.conjecturer_prompt](_PROPOSED) if proposing else answers[self.rules.answer_format]
        ends = [text.find(stop) + len(stop) for stop in stops if stop in text]
        cut = text[: min(ends, default=len(text))]
        if proposing:
            read = self.parse([cut])[0].problem == _PROPOSED
        elif self.answers == "moves":
            read = not isinstance(self.moved([cut], [_ANSWERED], [[1, 2, 3]])[0], Verdict)
        else:
            read = verify(cut, _ANSWERED, self.rules).correct
        return None if read else text
