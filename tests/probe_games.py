"""Four games that the frame was not written for, and the pool with tiers; for one process, two and vLLM."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from countdown_selfplay.contract.game import BaseGame, BaseProposer, Proposal
from countdown_selfplay.contract.metric import Metric
from countdown_selfplay.contract.round import RoundResult
from countdown_selfplay.proposers import PROPOSERS


@dataclass
class Debate(BaseGame):
    """A prover answers, two critics speak, the prover answers again. How many rows each has depends on the round and
    on the process: in every third round the misleading critic has none on any process, and in the next on the first
    alone. Which problems are played depends on what was solved before.

    Texts are not passed on: the tiny tokenizer knows the domain's prompts alone, and who has how many rows is what is
    probed. Its state is a number and an array.
    """

    roles: ClassVar = {"prover": "answers twice", "helpful": "speaks", "misleading": "speaks too"}
    metrics = (
        Metric("debate/problems", "Problems of the round, over all processes."),
        Metric("{prover}/second_correct_rate", "Share of the second answers that are right."),
    )
    played: int = 0
    solved_3: np.ndarray = field(default_factory=lambda: np.zeros(3))
    """First answers that were right, by the round's number modulo 3."""

    def play(self, round, anchors):
        domain, moment = round.domain, self.played % 3
        own = 4 - moment - (round.rank if moment < 2 else 0)  # problems of this process: 4, 3, 2; on the other 3, 2, 2
        start = int(self.solved_3.sum()) % 3 + round.rank * 4
        problems = [anchors[(start + i) % len(anchors)] for i in range(own)]
        rows = [domain.prove_row(problem) for problem in problems]
        first = round.sample("prover", rows, problems=problems)
        answered = [problem for problem in problems for _ in range(first.n)]

        helped = min(1 + moment + 2 * round.rank, len(answered))
        misled = ((2, 0, 2), (3, 0, 0))[min(round.rank, 1)][moment]
        helpful = round.sample("helpful", [domain.propose_row(3) for _ in range(helped)])
        misleading = round.sample("misleading", [domain.prove_row(problem) for problem in answered[:misled]])

        second = round.sample("prover", [domain.prove_row(p) for p in answered], n=1, problems=answered)
        right = [verdict.correct for verdict in second.verdicts]
        turns = [
            round.credit(first),
            round.credit(second, group=first.n),
            round.credit(helpful, [0.25 + bit for bit in right[:helped]]),
            round.credit(misleading, [1.25 - bit for bit in right[:misled]]),
        ]

        bits = round.gather([verdict.correct for verdict in first.verdicts])
        self.solved_3[moment] += sum(bits)
        self.played += 1
        again = round.gather(right)
        metrics = {"debate/problems": len(bits) / first.n, "prover/second_correct_rate": sum(again) / len(again)}
        return RoundResult(turns, metrics)

    def state_dict(self):
        return {"played": self.played, "solved": self.solved_3}

    def load_state_dict(self, state):
        self.played, self.solved_3 = state["played"], np.array(state["solved"])


class Symbolic(BaseProposer):
    """A proposer without a model: the solver's problems, from one of three arms of how many are proposed, of which it
    keeps the mean solve rates."""

    def __init__(self):
        self.pulled, self.rate_3 = 0, np.full(3, 0.5)

    def propose(self, round, anchors):
        self.arm = (self.pulled + int(np.argmax(self.rate_3))) % 3
        problems = round.domain.random(2 + self.arm, round.seed("symbolic"), round.held_out)
        return [Proposal(problem, request=self.arm) for problem in problems]

    def learn(self, round, outcome):
        rates = [outcome.solve_rate_P[i] for i in outcome.problem_of if i is not None]
        if rates:
            self.rate_3[self.arm] = 0.5 * self.rate_3[self.arm] + 0.5 * float(np.mean(rates))
        self.pulled += 1
        return []

    def state_dict(self):
        return {"pulled": self.pulled, "rates": self.rate_3}

    def load_state_dict(self, state):
        self.pulled, self.rate_3 = state["pulled"], np.array(state["rates"])


PROPOSERS["symbolic_probe"] = Symbolic

CRITIC = {"num_generations": 1, "objective": "reinforce"}
PROBES = {
    "pool": dict(roles={"prover": {"players": 2}, "conjecturer": {"players": 2}}),
    "debate": dict(
        game=None, conjecturer_num_generations=None, roles={"prover": {}, "helpful": CRITIC, "misleading": CRITIC}
    ),
    "frozen": dict(roles={"conjecturer": {"weights": "start"}}),
    "symbolic": dict(
        proposer="symbolic_probe", conjecturer_num_generations=None, roles={"conjecturer": {"players": 0}}
    ),
}
IMITATED = {"rounds": 1, "solved_limit": None, "per_token": True}
POOL = dict(
    max_steps=4, learning_rate=1e-4, operands=[2, 3, 4], proposer="tiers",
    proposer_kwargs={"start": [3, 3], "ceiling": 4, "min_valid": 3}, admit_unsolvable=True,
    duplicate_proposals="share", fill="none", anchor_fraction=0.0, frontier_low=0.1, frontier_high=0.7,
    problems_per_round=32, conjecturer_num_generations=None,
    roles={
        "prover": {"players": 2, "objective": "expert_iteration", "objective_kwargs": IMITATED},
        "conjecturer": {"players": 2, "num_generations": 16, "objective": "rest",
                        "objective_kwargs": {"rounds": 1, "tau": 0.0}},
    },
)  # fmt: skip
"""Seed 000's round, small: tiers, a data filter, expert iteration."""

TRAINED = {
    "pool": ("prover/0", "prover/1", "conjecturer/0", "conjecturer/1"), "debate": ("prover", "helpful", "misleading"),
    "frozen": ("prover",), "symbolic": ("prover",),
}  # fmt: skip
TRAINED["tiers"] = TRAINED["pool"]
"""The players of each that learn."""


def probe(name, **more):
    """What make_trainer is passed to play it: settings, and under `trainer` a game of its own."""
    trainer = {"game": Debate()} if name == "debate" else {}
    settings = POOL if name == "tiers" else PROBES[name]
    return {**settings, **more, "trainer": {**trainer, **more.get("trainer", {})}}
