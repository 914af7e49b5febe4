"""Countdown in moves: one operation per move, after which the game restates the remaining numbers.

`3 4 5 6 : 24` -> `6 * 4 = 24` -> `24 3 5 : 24` -> `5 - 3 = 2` -> `2 24 : 24` -> ... A state is the list of remaining
numbers; with the target it is a problem with one number fewer. Therefore a policy for n numbers can also finish every
episode of n + 1. Verification is exact, and safe on any text."""

import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from itertools import islice
from random import Random
from typing import Any

from ..errors import ConfigError
from .expression import WHITE_SPACE, plain
from .generator import Split, generate_problems
from .planted import after, check_values, combine, demonstrated, derive, fresh, planted_problems, states_of
from .problem import Problem, ProblemSpec, Rules, heldout_key
from .prompts import BARE_PROMPTS, MOVES_PROMPTS, PROVER_PROMPTS
from .verifier import MoveReason, Reason, Verdict, answers_in, completion_text

State = list[int]
"""Remaining numbers: the result of the last move, if any, then the others in their order."""

Move = tuple[int, str, int, int]
"""Parsed move: (a, operation, b, result)."""

ANSWERS = ("whole", "moves")

_DERIVATIONS = 64
"""Number of random derivations that `repaired` tries from a problem's numbers."""

_NUMBER = r"(0|[1-9][0-9]*)"
_GAP = rf"[{WHITE_SPACE}]*"
_MOVE = re.compile(rf"{_NUMBER}{_GAP}([-+*/]){_GAP}{_NUMBER}{_GAP}={_GAP}(-?{_NUMBER})")


def move_text(move: str, rules: Rules) -> str:
    """Return a move in the format of an answer: bare, or in answer tags."""
    return move if rules.answer_format == "bare" else f"<answer> {move} </answer>"


def _read(move: str) -> Move | None:
    match = _MOVE.fullmatch(move.strip(WHITE_SPACE))
    return None if match is None else (int(match[1]), match[2], int(match[3]), int(match[4]))


def play(completion: object, state: Sequence[int], target: int, rules: Rules, value_high: int) -> State | Verdict:
    """Return the state after a completion's move, or the verdict that ends the episode. Never raises."""
    text = completion_text(completion)
    if text is None:
        return Verdict(rules.score_invalid, Reason.NOT_TEXT)
    count = 1
    if rules.answer_format == "tags":
        answers = answers_in(text)
        if isinstance(answers, Reason):
            score = rules.score_invalid if answers is Reason.NO_ANSWER else rules.score_of_tags
            return Verdict(score, answers)
        text, count = answers[0 if rules.answer_rule == "first" else -1], len(answers)
    move = text.strip(WHITE_SPACE)
    if not move or len(move) > rules.max_chars:
        return Verdict(rules.score_of_tags, Reason.TOO_LONG if move else Reason.EMPTY, None, None, count)
    read = _read(plain(move) if rules.lenient_unicode else move)
    if read is None:
        return Verdict(rules.score_of_tags, MoveReason.GRAMMAR, move, None, count)
    a, op, b, claimed = read
    try:
        rest = after(state, a, b, claimed)
    except ValueError:
        return Verdict(rules.score_wrong, MoveReason.OPERAND, move, None, count)
    value = combine(a, op, b, value_high)
    if value != claimed:
        reason = MoveReason.RANGE if value is None else MoveReason.ARITHMETIC
        return Verdict(rules.score_wrong, reason, move, None, count)
    if len(rest) > 1:
        return rest
    if value != target:
        return Verdict(rules.score_wrong, MoveReason.MISSED, move, Fraction(value), count)
    return Verdict(rules.score_correct, Reason.CORRECT, move, Fraction(value), count)


def solving_moves(transcript: str, problem: Problem, rules: Rules, value_high: int) -> list[Move] | None:
    """Return the verified moves of an episode that solve the problem, or None. transcript: one move per line, or in
    each pair of answer tags. Illegal moves are skipped. An additional legal move in the text may hide a solution, but
    cannot fake one."""
    moves = transcript.splitlines() if rules.answer_format == "bare" else answers_in(transcript)
    state, made = list(problem.numbers), list[Move]()
    for move in [] if isinstance(moves, Reason) else moves:
        after_it = play(move_text(move, rules), state, problem.target, rules, value_high)
        if isinstance(after_it, Verdict) and not after_it.correct:  # also too long to be read as numbers
            continue
        if (read := _read(plain(move))) is None:
            continue
        made.append(read)
        if isinstance(after_it, Verdict):
            return made
        state = after_it
    return None


def check_moves(answers: str, prover_prompt: str, rules: Rules, spec: ProblemSpec, value_high: int) -> None:
    """Raise ConfigError for settings that contradict each other, or have no effect on answers in moves."""
    if answers not in ANSWERS:
        raise ConfigError(f"`answers` ({answers!r}) must be one of {', '.join(ANSWERS)}.")
    prompted = prover_prompt in MOVES_PROMPTS
    if answers == "whole":
        if prompted:
            raise ConfigError(
                f"`prover_prompt` ({prover_prompt}) asks for one move, and `answers` is whole; set answers to moves, "
                "or take another prompt."
            )
        return
    if not prompted:
        raise ConfigError(
            f"`answers` (moves) needs a prompt that asks for one move, and `prover_prompt` is {prover_prompt}; use "
            f"{' or '.join(sorted(MOVES_PROMPTS))}."
        )
    for name, value in (("use_all", False), ("leading_minus", True), ("allow_equals", True), ("answer_rule", "any")):
        if getattr(rules, name) == value:
            raise ConfigError(f"`{name}` ({value}) is not played with `answers` (moves); leave it unset.")
    check_values(spec, value_high)


TARGET_BANDS = (5, 12, 25, 50, 100, 250, 500, 1000)
"""Upper ends of the bands of targets, each about half of the next."""


class Moving:
    """Mixin of CountdownDomain (interface: contract/domain.py) for answers in moves, demonstrations, and problems by
    size. Problems come from random derivations (planted.py) if answers are in moves, else from generator.py."""

    spec: ProblemSpec
    rules: Rules
    prover_prompt: str
    answers: str
    value_high: int

    def begin(self, problem: Problem) -> State:
        return list(problem.numbers)

    def move_row(self, problem: Problem, state: Sequence[int]) -> dict[str, Any]:
        left = Problem(tuple(state), problem.target)
        prompt = PROVER_PROMPTS[self.prover_prompt](left, self.value_high)
        return {"prompt": prompt, "numbers": list(left.numbers), "target": left.target}

    def moved(
        self, texts: Iterable[object], problems: Iterable[Problem], states: Iterable[Sequence[int]]
    ) -> list[State | Verdict]:
        return [
            play(text, state, problem.target, self.rules, self.value_high)
            for text, problem, state in zip(texts, problems, states, strict=True)
        ]

    @property
    def most_moves(self) -> int:
        """Largest number of moves of an episode: each move removes one number."""
        return max(1, max(self.spec.operands) - 1)

    def rung(self, problem: Problem) -> int:
        return len(problem.numbers)

    def axes(self, problem: Problem) -> dict[str, Any]:
        """Return {"rung": number of operands, "target": band of targets such as "13-25", or None out of range}."""
        low, high = self.spec.target_low, self.spec.target_high
        at = bisect_left(TARGET_BANDS, problem.target)
        ends = max([low - 1, *TARGET_BANDS][at] + 1, low), min([*TARGET_BANDS, high][at], high)
        band = f"{ends[0]}-{ends[1]}" if low <= problem.target <= high else None
        return {"rung": len(problem.numbers), "target": band}

    @property
    def move_format(self) -> str:
        tags = "in answer tags " if self.rules.answer_format == "tags" else ""
        return f"one move `a op b = c` {tags}and nothing after it, such as {move_text('6 * 4 = 24', self.rules)!r}"

    def was_legal(self, verdict: Any) -> bool:
        """Return whether an episode ended with a legal move, after which one number was left, the target or not."""
        return verdict.correct or verdict.reason == MoveReason.MISSED

    def judged_move(self, text: object, problem: Problem) -> Verdict:
        """Return the verdict on a text that is the whole episode: one move, which is complete for two numbers only."""
        state = play(text, self.begin(problem), problem.target, self.rules, self.value_high)
        return state if isinstance(state, Verdict) else Verdict(self.rules.score_wrong, MoveReason.UNFINISHED)

    @cached_property
    def rungs(self) -> tuple[int, ...]:
        return tuple(sorted(set(self.spec.operands)))

    def random_of_rung(self, n: int, rung: int, seed: int, exclude: Iterable[str] = ()) -> list[Problem]:
        """Return `n` distinct problems of the training split with `rung` numbers and no key in `exclude`."""
        return self._made(n, replace(self.spec, operands=(rung,)), seed, exclude, "train")

    def held_out_of_rung(self, n: int, rung: int) -> list[Problem]:
        """Return the first `n` held-out problems with `rung` numbers."""
        return self._made(n, replace(self.spec, operands=(rung,)), 0, (), "heldout")

    def demonstrations(
        self, n: int, seed: int, rungs: Sequence[int] | None = None, exclude: Collection[str] = ()
    ) -> list[list[tuple[dict[str, Any], str]]]:
        """Return `n` episodes that solve their problems, each a list of (row that requests the move, move). rungs:
        sizes to draw from uniformly, with repeats; None: those of `spec`. No state of an episode is held out or has
        its key in `exclude`. Raises ConfigError unless answers are moves, and for a size above those of `spec`."""
        if self.answers != "moves":
            raise ConfigError(
                "`demonstrations_per_step` needs demonstrations, which Countdown has of answers in moves, and "
                f"`answers` is {self.answers}; set it to 0, or answers to moves."
            )
        largest = max(self.spec.operands)
        if rungs is not None and max(rungs, default=0) > largest:  # a loss may divide by the run's longest episode
            raise ConfigError(
                f"Demonstrations of {max(rungs)} numbers (`demonstration_rungs`) are longer than any answer of the "
                f"run, whose problems have at most {largest} (`operands`); leave the larger ones out."
            )
        spec = self.spec if rungs is None else replace(self.spec, operands=tuple(rungs))
        # a pretrained model would read the digits of target and move as one number; tokens of words are the same
        space = " " if self.prover_prompt in BARE_PROMPTS else ""
        return [
            [
                (self.move_row(episode[0], state), space + move_text(move, self.rules))
                for state, move in zip(states_of(episode), episode[1], strict=True)
            ]
            for episode in demonstrated(n, spec, seed, exclude, self.value_high)
        ]

    def _made(self, n: int, spec: ProblemSpec, seed: int, exclude: Iterable[str], split: Split) -> list[Problem]:
        if self.answers == "moves":
            return planted_problems(n, spec, seed, exclude, split, self.value_high, in_turn=split == "heldout")
        if split == "heldout":
            return generate_problems(n, spec, seed, exclude, split)
        return generate_problems(n, spec, seed, exclude, rules=self.rules)

    def random_text(self, n: int, seed: int, exclude: Iterable[str] = ()) -> list[Problem]:
        """Return `n` distinct problems of the training split, solvable or not and with no key in `exclude`: size,
        numbers and target are uniform in range. Deterministic given `seed`. Raises ConfigError if there are fewer."""
        spec, draws = self.spec, Random(f"texts|{seed}")
        target_high = min(spec.target_high, self.value_high) if self.answers == "moves" else spec.target_high

        def within(low: int, high: int) -> int:
            return low + int(draws.random() * (high - low + 1))

        def endless() -> Iterator[Problem]:
            while True:
                size = spec.operands[within(0, len(spec.operands) - 1)]
                numbers = tuple(within(spec.number_low, spec.number_high) for _ in range(size))
                yield Problem(numbers, within(spec.target_low, target_high))

        problems = list(islice(fresh(endless(), set(exclude), "train"), n))
        if len(problems) < n:
            raise ConfigError(
                f"Only {len(problems)} of {n} problems of the training side were found in {spec}; ask for fewer or "
                "widen the ranges."
            )
        return problems

    def repaired(self, problem: Problem, seed: int) -> Problem | None:
        """Return the problem with a new target, the result of a random derivation from its numbers: solvable by
        construction, in range and in the training split. None if no such derivation is drawn."""
        spec, draws = self.spec, Random(f"repaired|{seed}|{problem.key}")
        high = self.value_high if self.answers == "moves" else max(spec.target_high, spec.number_high, self.value_high)
        for _ in range(_DERIVATIONS):
            derivation = derive(list(problem.numbers), high, draws)
            if derivation is None or not spec.target_low <= derivation[1] <= spec.target_high:
                continue
            made = Problem(problem.numbers, derivation[1])
            if not heldout_key(made.key):
                return made
        return None
