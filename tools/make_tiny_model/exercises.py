"""What the warm start learns from: pairs of prompt and answer for both roles, from the split's train side only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np

from countdown_selfplay.countdown import CONJECTURER_PROMPTS, PROVER_PROMPTS, Problem, ProblemSpec, heldout_key
from countdown_selfplay.countdown.expression import written_forms


@dataclass(frozen=True, slots=True)
class Exercise:
    """A solvable problem and every text that solves it."""

    problem: Problem
    answers: tuple[str, ...]


def solutions_by_target(numbers: Iterable[int], low: int, high: int) -> dict[int, list[str]]:
    """Whole targets in [low, high] that `numbers` reach -> the distinct texts that do so, sorted."""
    found: dict[int, set[str]] = {}
    for form in written_forms(numbers):
        if form.value.denominator == 1 and low <= form.value <= high:
            found.setdefault(int(form.value), set()).add(form.text)
    return {target: sorted(texts) for target, texts in sorted(found.items())}


def exercises(operands: int, spec: ProblemSpec, heldout: bool = False) -> list[Exercise]:
    """All solvable problems of `operands` numbers in the spec's ranges on one side of the split, in a fixed order."""
    found = []
    for numbers in combinations_with_replacement(range(spec.number_low, spec.number_high + 1), operands):
        for target, answers in solutions_by_target(numbers, spec.target_low, spec.target_high).items():
            problem = Problem(numbers=numbers, target=target)
            if heldout_key(problem.key) == heldout:
                found.append(Exercise(problem, tuple(answers)))
    return found


@dataclass(frozen=True)
class Mixture:
    """How examples are drawn. Shares are probabilities; the rest are three-number problems for the prover."""

    conjecturer_share: float = 0.25
    two_number_share: float = 0.15
    """Of the prover's examples: they teach the operations one at a time."""


class ExampleSource:
    """Draws (prompt, answer) texts: a problem uniformly, one of its solutions uniformly, and an order of its numbers.

    Uniform over problems and not over expressions: otherwise the problems with many solutions, which are easy, would
    be most of what the model sees, and held-out problems are not drawn like that.
    """

    def __init__(self, spec: ProblemSpec, mixture: Mixture | None = None) -> None:
        self.spec = spec
        self.mixture = mixture or Mixture()
        self.pairs: Sequence[Exercise] = exercises(2, spec)
        self.triples: Sequence[Exercise] = exercises(3, spec)
        self._prove = PROVER_PROMPTS["compact"]
        self._propose = str(CONJECTURER_PROMPTS["compact"](3, spec))

    def draw(self, rng: np.random.Generator) -> tuple[str, str]:
        """One example, of a role chosen by the mixture."""
        if rng.random() < self.mixture.conjecturer_share:
            problem, _ = self._pick(self.triples, rng)
            return self._propose, f"{' '.join(map(str, problem.numbers))} = {problem.target}"
        pool = self.pairs if rng.random() < self.mixture.two_number_share else self.triples
        problem, answer = self._pick(pool, rng)
        return str(self._prove(problem)), answer

    def _pick(self, pool: Sequence[Exercise], rng: np.random.Generator) -> tuple[Problem, str]:
        exercise = pool[int(rng.integers(len(pool)))]
        answer = exercise.answers[int(rng.integers(len(exercise.answers)))]
        shuffled = tuple(int(number) for number in rng.permutation(exercise.problem.numbers))
        return Problem(numbers=shuffled, target=exercise.problem.target), answer
