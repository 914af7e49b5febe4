# Tests: proposers/policies.py
"""The problems that are drawn for the levels that a conjecturer names."""

from countdown_selfplay.contract.domain import BaseDomain, Checked
from countdown_selfplay.proposers import make_proposer
from countdown_selfplay.testing import ScriptedRound, in_ranks


class Leveled(BaseDomain):
    """A problem is (kind, levels, number), number None as it is proposed: "a 2 0"; a right answer is "yes"."""

    asks = ({},)
    facts = ()

    def key(self, problem):
        return repr(problem)

    def prove_row(self, problem):
        return {"prompt": self.key(problem), "levels": problem[1]}

    def propose_row(self):
        return {"prompt": "levels"}

    def verify(self, texts, problems):
        return [Bit(text == "yes") for text in texts]

    def parse(self, texts):
        asked = lambda text: ("a", tuple(map(int, text.split()[1:])), None)  # noqa: E731
        return [Bit(True, asked(text) if text[0] == "a" else None) for text in texts]

    def check(self, problems, asked):
        return [Checked() for _ in problems]

    def drawn(self, problems, seed, exclude):
        found = [(kind, levels, seed % 100 + i) for i, (kind, levels, _) in enumerate(problems)]
        return [None if problem[1][0] == 9 or self.key(problem) in exclude else problem for problem in found]


class Bit:
    def __init__(self, correct, problem=None):
        self.correct, self.score, self.problem = correct, float(correct), problem
        self.reason = "ok" if problem else "unreadable"


def test_a_conjecturers_levels_are_played_as_problems_and_each_process_draws_its_own():
    texts = ["a 2 1", "a 2 1", "a 9 1", "b"]
    write = lambda role, row, i: texts[i] if role == "conjecturer" else "yes"  # noqa: E731

    def play(rank, gather):
        sizes = {"conjecturer": (8, 4), "prover": (8, 2)}
        round = ScriptedRound(write, sizes, Leveled(), rank=rank, world=2, gather=gather)
        return [(p.problem, p.reason) for p in make_proposer("policies").propose(round, [])]

    first, second = in_ranks(2, play)
    assert first == second and [reason for _, reason in first] == ["ok", "ok", "not_made", "unreadable"] * 2
    drawn = [problem for problem, reason in first if reason == "ok"]
    assert len(set(drawn)) == len(drawn) and all(problem[2] is not None for problem in drawn)
