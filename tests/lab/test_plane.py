# Tests: lab/axes.py, lab/experimental/cells.py, lab/experimental/schedules.py
"""Proposers of the arena's track over a plane: which cells and rungs they choose."""

import math
from collections import Counter

import numpy as np
import pytest
from tests.rung_domain import Numbered, scripted

from countdown_selfplay.config import JointSelfPlayConfig
from countdown_selfplay.contract.game import Outcome
from countdown_selfplay.countdown import CountdownDomain, Problem
from countdown_selfplay.errors import ConfigError
from countdown_selfplay.lab.axes import of_axis
from countdown_selfplay.lab.experimental.cells import BanditCells
from countdown_selfplay.lab.experimental.schedules import ScheduledRungs


class Plane(Numbered):
    """The second axis of (rung, number): 1 where the number is odd, else 0."""

    def to_dict(self):
        return {"domain": "plane"}

    def axes(self, problem):
        return {"rung": problem[0], "odd": problem[1] % 2}


def played(proposals, rates):
    """All are played, one of a cell solved by rates[cell] of four answers."""
    of = [(p.problem[0], p.problem[1] % 2) for p in proposals]
    bits = np.array([[[i < rates.get(cell, 0) for i in range(4)] for cell in of]], dtype=float)
    return of, Outcome(proposals, np.zeros(len(of)), [p.problem for p in proposals], list(range(len(of))), bits, [])


def test_problems_of_values_are_the_first_of_each_and_too_few_are_said():
    asked = []

    def draw(n):
        asked.append(n)
        return [Problem((1, 1), 4 + i % 4) for i in range(min(n, 40))]  # targets 4 5 6 7 4 5 6 7 ...

    found = of_axis(CountdownDomain.ladder(), draw, "target", {"6-12": 3, "1-5": 1})
    # 2 x (3 + 1) problems: targets 4, 5, 6, 7 twice, so four are of the band 6-12
    assert {value: [p.target for p in own] for value, own in found.items()} == {"6-12": [6, 7, 6], "1-5": [4]}
    assert asked == [8]
    with pytest.raises(
        ConfigError, match=r"countdown has 0 problems of target 51-99 among 40 of a rung, and 1 are wan"
    ):
        of_axis(CountdownDomain.ladder(), draw, "target", {"1-5": 5, "51-99": 1})


def test_a_bandit_over_cells_plays_what_is_solved_sometimes_and_means_p_times_one_minus_p():
    bandit, round = BanditCells("odd", rungs=[3, 4]), scripted({}, slots=40, domain=Plane())
    proposals = bandit.propose(round, [])
    of, outcome = played(proposals, {(4, 1): 2, (3, 0): 4})
    assert len({p.problem for p in proposals}) == 40 and [p.request["rung"] for p in proposals] == [r for r, _ in of]
    assert bandit.cells == [(3, 0), (3, 1), (4, 0), (4, 1)] and set(of) == set(bandit.cells)
    bandit.learn(round, outcome)
    kept = 0.7 ** (Counter(of)[(4, 1)] / 4)  # p(1 - p) of two in four, unbiased: .25 x 4 / 3
    assert bandit.mean[3] == pytest.approx(kept * 0.05 + (1 - kept) / 3)
    assert bandit.mean[0] == pytest.approx(0.7 ** (Counter(of)[(3, 0)] / 4) * 0.05)
    for _ in range(8):
        proposals = bandit.propose(round := round.next(), [])
        of, outcome = played(proposals, {(4, 1): 2, (3, 0): 4})
        bandit.learn(round, outcome)
    assert Counter(of)[(4, 1)] >= 30  # of 40, a tenth is uniform: 3 are expected elsewhere
    again = BanditCells("odd", rungs=[3, 4])
    again.load_state_dict(bandit.state_dict())
    round = round.next()
    assert [p.problem for p in again.propose(round, [])] == [p.problem for p in bandit.propose(round, [])]
    uniform = BanditCells("odd", rungs=[3, 4], eps=1.0)
    of, outcome = played(uniform.propose(scripted({}, slots=400, domain=Plane()), []), {(4, 1): 2})
    uniform.learn(round, outcome)
    assert uniform.weights(round, range(4)) == [0.25] * 4
    assert max(abs(count - 100) for count in Counter(of).values()) < 35  # four standard deviations, sqrt(75) each
    with pytest.raises(ConfigError, match="plane has no axis target; its axes are rung, odd"):
        BanditCells().propose(scripted({}, domain=Plane()), [])


def test_schedules_are_those_of_the_paper():
    rungs, at = [3, 4, 5], lambda index: scripted({}, index=index)
    classic = ScheduledRungs(12, "classic")
    chosen = [classic.weights(at(t), rungs).index(1.0) for t in (0, 3, 4, 7, 8, 11, 12, 99)]
    assert chosen == [0, 0, 1, 1, 2, 2, 2, 2]  # floor(3 t / 12), and the last one afterwards
    # K = 3, S = 6: at first 3/6 2/6 1/6, in the middle all (3 + 1)/12 = 1/3, at last the mirror
    cosine = ScheduledRungs(12, "cosine")
    for t, weights in ((0, [3, 2, 1]), (6, [2, 2, 2]), (12, [1, 2, 3])):
        assert cosine.weights(at(t), rungs) == pytest.approx([weight / 6 for weight in weights])
    # the middle of t = 3 of 12 with beta .5 is sqrt(1/4) x 2 = 1; exp(-1 / (2 x .25)) = exp(-2) on both sides
    gaussian = ScheduledRungs(12, "gaussian", beta=0.5, sigma=0.5, least=0.1)
    side, total = math.exp(-2), 1 + 2 * math.exp(-2)
    assert gaussian.weights(at(3), rungs) == pytest.approx([0.1 + 0.7 * one / total for one in (side, 1, side)])


@pytest.mark.parametrize(("proposer", "kwargs", "said"), [
    ("schedules:ScheduledRungs", {"rounds": 61}, r"`rounds` of the proposer \(61\) is the length of its plan"),
    ("cells:BanditCells", {"axis": "size"}, r"countdown has no axis size; its axes are rung, target\. Name one"),
])  # fmt: skip
def test_a_plan_longer_than_the_run_and_an_axis_that_there_is_not_are_refused(tmp_path, proposer, kwargs, said):
    own = {"proposer": f"countdown_selfplay.lab.experimental.{proposer}", "proposer_kwargs": kwargs}
    with pytest.raises(ConfigError, match=said):
        JointSelfPlayConfig.from_recipe("tiny/ladder", output_dir=str(tmp_path), conjecturer_players=0, **own)
