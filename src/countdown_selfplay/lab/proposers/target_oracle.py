"""Oracle of steps: the ideal proposals of self-guided self-play, from known derivations."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...contract.game import Outcome, Proposal
from ...contract.round import Round, Turn
from ...countdown import Problem, Verdict
from ...countdown.domain import CountdownDomain
from ...countdown.moves import move_text
from ...countdown.problem import problem_from_row
from ...data.jsonl import json_lines
from ...errors import ConfigError, DataError
from ...proposers.targets import Targets
from ...registry import Count, Share

CURE = 'a derivation has the form {"numbers": [3, 4, 5], "target": 7, "moves": ["4 * 3 = 12", "12 - 5 = 7"]}'


class OracleTargets(Targets):
    """Targets with an exact step for each unsolved target: a later state of a known derivation. Countdown in moves. A
    reference and not a competitor, because it knows the derivations. State: that of Targets, and how many steps of
    each target were solved.

    derivations: path of a file of JSON Lines with the `numbers`, the `target` and the `moves` of each target; other
    problems are ignored. rate: solve rate in a round after which a target's step is replaced by the one before it in
    the derivation, which has one number more. The first is the last state in range (three numbers on the ladder).
    States that are held out, or are targets of the set, are left out. fill: as in Targets."""

    def __init__(self, derivations: str, batch: Count | None = None, rate: Share = 0.5, fill: bool = False) -> None:
        super().__init__(batch, fill=fill)
        self.derivations, self.rate = derivations, rate
        self.steps: dict[str, list[Any]] = {}  # states of each target, the last first
        self.solved_steps: dict[str, int] = {}

    def check(self, players: Mapping[str, Sequence[str]], domain: Any) -> None:
        """Raise ConfigError for a conjecturer, which would be unused, and for another game."""
        if players.get("conjecturer"):
            raise ConfigError(
                "`proposer` (oracle_targets) takes its steps from derivations, and the conjecturer would write none; "
                "set `conjecturer_players` to 0, or take the proposer targets."
            )
        if not isinstance(domain, CountdownDomain) or domain.answers != "moves":
            raise ConfigError(
                "`proposer` (oracle_targets) plays the states of Countdown in moves; set `answers` to moves, or take "
                "the proposer targets."
            )

    def per_target(self, round: Round) -> int:
        return 1

    def propose(self, round: Round, anchors: Sequence[Any]) -> list[Proposal]:
        """Return the step of each unsolved target of the round."""
        unsolved = [key for key in self.chosen if key not in self.solved and self.steps[key]]
        return [Proposal(self._step(key), request={"target": self.problems[key]}) for key in unsolved]

    def learn(self, round: Round, outcome: Outcome) -> list[Turn]:
        rate_P = outcome.solve_rate_P
        for proposal, index in zip(outcome.proposals, outcome.problem_of, strict=True):
            if index is not None and rate_P[index] >= self.rate:
                key = round.domain.key(proposal.request["target"])
                self.solved_steps[key] = self.solved_steps.get(key, 0) + 1
        return super().learn(round, outcome)

    def _step(self, key: str) -> Any:
        return self.steps[key][min(self.solved_steps.get(key, 0), len(self.steps[key]) - 1)]

    def _begin(self, round: Round) -> None:
        super()._begin(round)
        found = read_derivations(self.derivations, round.domain)
        absent = [key for key in self.known if key not in found]
        if absent:
            raise DataError(
                f"`derivations` ({self.derivations}) of oracle_targets has none of {len(absent)} targets, such as "
                f"{absent[0]}; add them, or take the proposer targets."
            )
        self.steps = {key: [state for state in found[key] if self._plays(round, state)] for key in self.known}
        self.solved_steps = {key: count for key, count in self.solved_steps.items() if key in self.problems}

    def _plays(self, round: Round, state: Problem) -> bool:
        key = round.domain.key(state)
        held_out = round.domain.is_held_out(state) or key in round.held_out
        (checked,) = round.domain.check([state], [{"target": None}])
        return checked.reason == "ok" and not held_out and key not in self.problems

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "solved_steps": self.solved_steps}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.solved_steps = dict(state["solved_steps"])


def read_derivations(path: str, domain: CountdownDomain) -> dict[str, list[Problem]]:
    """Return by problem key the later states of each derivation in a file, the last first. Raises DataError."""
    found = {}
    for number, row in json_lines(Path(path), CURE):
        problem, moves = problem_from_row(row, number), row.get("moves")
        states = _states(problem, moves, domain) if isinstance(moves, list) else None
        if states is None:
            said = f"the moves do not solve {problem.key} ({str(moves)[:80]})"
            raise DataError(f"'{path}', line {number}: {said}; {CURE}.")
        found[domain.key(problem)] = states
    return found


def _states(problem: Problem, moves: Sequence[Any], domain: CountdownDomain) -> list[Problem] | None:
    state: Any = domain.begin(problem)
    states: list[Problem] = []
    for move in moves:
        (state,) = domain.moved([move_text(str(move), domain.rules)], [problem], [state])
        if isinstance(state, Verdict):
            break
        states.insert(0, Problem(tuple(state), problem.target))
    right = isinstance(state, Verdict) and state.correct and len(states) == len(moves) - 1
    return states if right else None
