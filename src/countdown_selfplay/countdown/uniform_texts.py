"""Problems that are not made by their solution: drawn as texts, and such as a player wrote with a target put right."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from ..errors import ConfigError
from .planted import PATIENCE, derive
from .problem import Problem, ProblemSpec, heldout_key

_DERIVATIONS = 64
"""Random derivations from the numbers of a proposal, after which it is given up."""


class Texts:
    """What CountdownDomain adds for proposals whose solvability is in question (contract/domain.py)."""

    spec: ProblemSpec
    answers: str
    value_high: int

    def random_text(self, n: int, seed: int, exclude: Iterable[str] = ()) -> list[Problem]:
        """`n` distinct problems of the training side, none with a key in `exclude`: size, numbers and target drawn
        uniformly from what is in range, whether there is a solution or not. A function of the arguments alone;
        ConfigError where there are fewer."""
        spec, draws = self.spec, Random(f"texts|{seed}")
        target_high = min(spec.target_high, self.value_high) if self.answers == "moves" else spec.target_high
        seen, found, misses = set(exclude), list[Problem](), 0

        def within(low: int, high: int) -> int:
            return low + int(draws.random() * (high - low + 1))

        while len(found) < n:
            size = spec.operands[within(0, len(spec.operands) - 1)]
            numbers = tuple(within(spec.number_low, spec.number_high) for _ in range(size))
            problem = Problem(numbers, within(spec.target_low, target_high))
            key = problem.key
            if key in seen or heldout_key(key):
                misses += 1
                if misses > PATIENCE:
                    raise ConfigError(
                        f"Only {len(found)} of {n} problems of the training side were found in {spec}; ask for fewer "
                        "or widen the ranges."
                    )
                continue
            seen.add(key)
            found.append(problem)
            misses = 0
        return found

    def repaired(self, problem: Problem, seed: int) -> Problem | None:
        """The problem with the target of a random derivation from its own numbers, in range and of the training side:
        solvable by construction, in moves and in whole answers. None where no derivation was found."""
        spec, draws = self.spec, Random(f"repaired|{seed}|{problem.key}")
        high = self.value_high if self.answers == "moves" else max(spec.target_high, spec.number_high, self.value_high)
        for _ in range(_DERIVATIONS):
            found = derive(list(problem.numbers), high, draws)
            if found is None or not spec.target_low <= found[1] <= spec.target_high:
                continue
            made = Problem(problem.numbers, found[1])
            if not heldout_key(made.key):
                return made
        return None
