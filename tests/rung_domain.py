"""A domain of numbered problems in rungs, for proposers that know no more of it."""

import numpy as np

from countdown_selfplay.contract.domain import BaseDomain
from countdown_selfplay.contract.game import Outcome
from countdown_selfplay.testing import ScriptedRound

HELD_OUT = 8
"""Of each rung every eighth problem, beginning with the first."""


class Numbered(BaseDomain):
    """A problem is (rung, number); number % 8 == 0 is held out. A right answer is "yes"."""

    facts = ()
    asks = ({},)

    rungs = (3, 4, 5)

    def __init__(self, rungs=(3, 4, 5), size=1000):
        self.rungs, self.size, self.asked = rungs, size, []

    def key(self, problem):
        return f"{problem[0]}/{problem[1]}"

    def rung(self, problem):
        return problem[0]

    def random_of_rung(self, n, rung, seed, exclude):
        self.asked.append((n, rung, seed))
        there = [(rung, i % self.size) for i in range(seed % self.size, seed % self.size + self.size)]
        return [p for p in there if p[1] % HELD_OUT and self.key(p) not in exclude][:n]

    def random_text(self, n, seed, exclude):
        return [(self.rungs[i % len(self.rungs)], 8 * i + 1) for i in range(n)]

    def prove_row(self, problem):
        return {"prompt": self.key(problem), "rung": problem[0]}

    def verify(self, texts, problems):
        return [Bit(text == "yes") for text in texts]


class Bit:
    def __init__(self, correct):
        self.correct, self.score, self.reason = correct, float(correct), "ok"


def scripted(solved, slots=8, group=4, domain=None, **changes):
    """A round whose prover answers the first solved[rung] of its `group` answers to a problem right."""
    write = lambda player, row, i: "yes" if i < solved.get(row["rung"], 0) else "no"  # noqa: E731
    return ScriptedRound(write, {"prover": (slots, group)}, domain or Numbered(), **changes)


def rungs_of(proposals):
    return [p.request["rung"] for p in proposals]


def all_played(proposals, right):
    """The outcome of a round in which proposal i had right[i] right answers of four."""
    bits = np.array([[[i < own for i in range(4)] for own in right]], dtype=float)
    n = len(proposals)
    return Outcome(proposals, np.zeros(n), [p.problem for p in proposals], list(range(n)), bits, [None] * n)
