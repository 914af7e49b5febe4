# Tests: worlds/levels.py, proposers/policies.py
"""A distribution over the levels of each setting: how it draws, what it learns, the same again in a resume. And the
problems that are drawn for the levels that a conjecturer names."""

import numpy as np
import pytest

from countdown_selfplay.contract.domain import BaseDomain, Checked
from countdown_selfplay.errors import ConfigError
from countdown_selfplay.games.propose_and_solve import ProposeAndSolve, Settings
from countdown_selfplay.proposers import make_proposer
from countdown_selfplay.proposers.rungs import Heard
from countdown_selfplay.testing import ScriptedRound, in_ranks


class Leveled(BaseDomain):
    """A problem is (kind, levels, number), number None as it is proposed: "a 2 0"; a right answer is "yes"."""

    settings = {"a": {"x": (0, 2), "y": (1, 2)}, "b": {"z": (0, 0)}}  # noqa: RUF012
    asks = ({},)
    facts = ()

    def key(self, problem):
        return repr(problem)

    def rung(self, problem):
        return sum(problem[1])

    def prove_row(self, problem):
        return {"prompt": self.key(problem), "levels": problem[1]}

    def propose_row(self):
        return {"prompt": "levels"}

    def verify(self, texts, problems):
        return [Bit(text == "yes") for text in texts]

    def parse(self, texts):
        asked = lambda text: self.at_levels("a", map(int, text.split()[1:]))  # noqa: E731
        return [Bit(True, asked(text) if text[0] == "a" else None) for text in texts]

    def check(self, problems, asked):
        return [Checked() for _ in problems]

    def at_levels(self, kind, levels):
        return (kind, tuple(levels), None)

    def drawn(self, problems, seed, exclude):
        found = [(kind, levels, seed % 100 + i) for i, (kind, levels, _) in enumerate(problems)]
        return [None if problem[1][0] == 9 or self.key(problem) in exclude else problem for problem in found]


class Bit:
    def __init__(self, correct, problem=None):
        self.correct, self.score, self.problem = correct, float(correct), problem
        self.reason = "ok" if problem else "unreadable"


def round_of(**changes):
    half = lambda role, row, i: "yes" if i < 2 and row["levels"][0] == 2 else "no"  # noqa: E731
    return ScriptedRound(half, {"prover": (600, 4)}, Leveled(), **changes)


def test_at_first_every_kind_and_level_is_as_likely_and_a_domain_without_levels_is_refused():
    proposals = make_proposer("factorized_levels").propose(round_of(), [])
    kinds = [p.problem[0] for p in proposals]
    assert len(proposals) == 600 and len({p.problem for p in proposals}) == 600
    assert abs(kinds.count("a") - 300) < 4 * 12.3  # a standard deviation is sqrt(600 / 4)
    levels = [p.problem[1] for p in proposals if p.problem[0] == "a"]
    assert {x for x, _ in levels} == {0, 1, 2} and {y for _, y in levels} == {1, 2}
    for x in range(3):  # of some 300, a third: a standard deviation is sqrt(300 x 2/9) = 8.2
        assert abs(sum(one[0] == x for one in levels) - len(levels) / 3) < 4 * 8.2
    assert all(p.request == {"rung": sum(p.problem[1])} for p in proposals)
    with pytest.raises(ConfigError, match="chooses levels of settings, and the domain BaseDomain has none"):
        make_proposer("factorized_levels").check({"prover": ["prover"]}, BaseDomain())


def test_a_step_is_that_of_reinforce_with_an_entropy_term_and_none_without_a_problem():
    proposer = make_proposer("factorized_levels", {"learning_rate": 2.0, "entropy": 0.0})
    proposer._open({"a": {"x": (0, 1)}})
    proposer.actions = [{"kind": 0, "a.x": 0}, {"kind": 0, "a.x": 1}, {"kind": 0, "a.x": 1}]
    # 4p(1 - p) of p = 1/2, 1 and 0: 1, 0 and 0; the baseline is their mean, 1/3; q = (1/2, 1/2)
    proposer.hear([Heard(0, 0, 0.5), Heard(1, 1, 1.0), Heard(2, 1, 0.0)], 4)
    # mean of 2/3 (1/2, -1/2), -1/3 (-1/2, 1/2) twice: (2/3 + 1/3 + 1/3) / 2 / 3 = 2/9
    assert proposer.logits["a.x"] == pytest.approx([2 * 2 / 9, -2 * 2 / 9])
    assert proposer.logits["kind"] == pytest.approx([0.0]) and proposer.mean == pytest.approx(1 / 3)
    # the next: baseline 1/3; one problem that earns 1 for level 0
    q = np.exp(4 / 9) / (np.exp(4 / 9) + np.exp(-4 / 9))
    proposer.actions = [{"kind": 0, "a.x": 0}]
    proposer.hear([Heard(0, 0, 0.5)], 4)
    assert proposer.logits["a.x"][0] == pytest.approx(4 / 9 + 2 * (1 - 1 / 3) * (1 - q))
    assert proposer.mean == pytest.approx(0.9 / 3 + 0.1)
    proposer = make_proposer("factorized_levels", {"learning_rate": 1.0, "entropy": 1.0})
    proposer._open({"a": {"x": (0, 1)}})
    proposer.logits["a.x"] = np.log([0.8, 0.2])
    proposer.actions = [{"kind": 0, "a.x": 0}]
    proposer.hear([Heard(0, 0, 0.5)], 4)  # its own baseline: no other term
    # dH/dz = -q (ln q + H), H = -.8 ln .8 - .2 ln .2 = .5004: -.8 (-.2231 + .5004) = -.2218, and the reverse
    assert proposer.logits["a.x"] - np.log([0.8, 0.2]) == pytest.approx([-0.2218, 0.2218], abs=1e-4)
    proposer = make_proposer("factorized_levels")
    proposer._open({"a": {"x": (0, 1)}})
    proposer.hear([], 4)
    assert proposer.mean is None and not proposer.logits["a.x"].any()


def test_it_learns_what_is_solved_half_of_the_time():
    proposer, round = make_proposer("factorized_levels"), round_of()
    game = ProposeAndSolve(proposer, settings=Settings(anchor_fraction=0.0))
    for _ in range(30):
        result = game.play(round, [])
        round = round.next()
    assert result.metrics["proposer/level_a.x"] > 1.5  # uniform: 1
    assert 1.2 < result.metrics["proposer/level_a.y"] < 1.8  # of no consequence; it begins at 1
    again = make_proposer("factorized_levels")
    again.load_state_dict(proposer.state_dict())
    assert [p.problem for p in again.propose(round, [])] == [p.problem for p in proposer.propose(round, [])]


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
