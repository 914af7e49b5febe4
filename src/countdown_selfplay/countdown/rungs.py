"""What CountdownDomain adds for problems by size, and for problems that are planted because answers are in moves."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from .generator import Split, generate_problems
from .moves import Moving, move_text
from .planted import demonstrated, planted_problems, states_of
from .problem import Problem, ProblemSpec
from .rules import Rules


class Rungs(Moving):
    """Rungs (contract/domain.py), and whole episodes for a warm start.

    In moves problems are planted; for whole answers they are the exact solver's."""

    spec: ProblemSpec
    rules: Rules
    answers: str
    value_high: int

    @cached_property
    def rungs(self) -> tuple[int, ...]:
        """The operand counts, ascending."""
        return tuple(sorted(set(self.spec.operands)))

    def random_of_rung(self, n: int, rung: int, seed: int, exclude: Iterable[str] = ()) -> list[Problem]:
        """`n` distinct problems with `rung` numbers on the training side, none with a key in `exclude`."""
        return self._made(n, replace(self.spec, operands=(rung,)), seed, exclude, "train")

    def held_out_of_rung(self, n: int, rung: int) -> list[Problem]:
        """`n` problems with `rung` numbers of the held-out side, always the same."""
        return self._made(n, replace(self.spec, operands=(rung,)), 0, (), "heldout")

    def demonstrations(
        self, n: int, seed: int, rungs: Sequence[int] | None = None, exclude: Collection[str] = ()
    ) -> list[list[tuple[dict[str, Any], str]]]:
        """`n` episodes that end right, each a list of (row that asks for the move, the move). rungs: sizes to draw
        from, one that is listed twice twice as often, whether `spec` has them or not; None: those of `spec`. No state
        of an episode is of the held-out side or has its key in `exclude`."""
        spec = self.spec if rungs is None else replace(self.spec, operands=tuple(rungs))
        return [
            [
                (self.move_row(episode[0], state), move_text(move, self.rules))
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
