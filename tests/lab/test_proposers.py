# Tests: lab/axes.py, lab/experimental/cells.py, lab/proposers/rungs.py, lab/proposers/target_oracle.py
"""Proposers of lab: over a plane, oracles of rungs and of steps, and targets that fill slots."""

from collections import Counter

import numpy as np
import pytest
from tests.made_up_runs import write_lines
from tests.rung_domain import Numbered, all_played, rungs_of, scripted
from tests.unit.proposers.test_targets import EASY, FAR, HARD, game, played

from countdown_selfplay.contract.game import Outcome
from countdown_selfplay.countdown import CountdownDomain, Problem
from countdown_selfplay.errors import ConfigError, DataError
from countdown_selfplay.games.propose_and_solve import ProposeAndSolve, Settings
from countdown_selfplay.lab.axes import of_axis
from countdown_selfplay.lab.experimental.cells import BanditCells
from countdown_selfplay.lab.experimental.schedules import ScheduledRungs
from countdown_selfplay.lab.proposers.target_oracle import read_derivations
from countdown_selfplay.proposers import make_proposer
from countdown_selfplay.proposers.targets import Targets
from countdown_selfplay.testing import ScriptedRound


class Plane(Numbered):
    """The second axis of (rung, number): 1 where the number is odd, else 0."""

    def to_dict(self):
        return {"domain": "plane"}

    def axes(self, problem):
        return {"rung": problem[0], "odd": problem[1] % 2}


def played_cells(proposals, rates):
    """All are played, one of a cell solved by rates[cell] of four answers."""
    of = [(p.problem[0], p.problem[1] % 2) for p in proposals]
    return of, all_played(proposals, [rates.get(cell, 0) for cell in of])


def test_problems_of_values_are_the_first_of_each_and_too_few_are_said():
    asked = []

    def draw(n):
        asked.append(n)
        return [Problem((1, 1), 4 + i % 4) for i in range(min(n, 40))]  # targets 4 5 6 7 4 5 6 7 ...

    found = of_axis(CountdownDomain.ladder(), draw, "target", {"6-12": 3, "1-5": 1})
    # 2 x (3 + 1) problems: targets 4, 5, 6, 7 twice, so four are of the band 6-12
    assert {value: [p.target for p in own] for value, own in found.items()} == {"6-12": [6, 7, 6], "1-5": [4]}
    assert asked == [8]
    said = "countdown has 0 problems of target 51-99 among 40 of a rung, and 1 are wanted"
    with pytest.raises(ConfigError, match=said):
        of_axis(CountdownDomain.ladder(), draw, "target", {"1-5": 5, "51-99": 1})


def test_a_bandit_over_cells_plays_what_is_solved_sometimes_and_means_p_times_one_minus_p():
    bandit, round = BanditCells("odd", rungs=[3, 4]), scripted({}, slots=40, domain=Plane())
    proposals = bandit.propose(round, [])
    of, outcome = played_cells(proposals, {(4, 1): 2, (3, 0): 4})
    assert len({p.problem for p in proposals}) == 40 and [p.request["rung"] for p in proposals] == [r for r, _ in of]
    assert bandit.cells == [(3, 0), (3, 1), (4, 0), (4, 1)] and set(of) == set(bandit.cells)
    bandit.learn(round, outcome)
    kept = 0.7 ** (Counter(of)[(4, 1)] / 4)  # p(1 - p) of two in four, unbiased: .25 x 4 / 3
    assert bandit.mean[3] == pytest.approx(kept * 0.05 + (1 - kept) / 3)
    assert bandit.mean[0] == pytest.approx(0.7 ** (Counter(of)[(3, 0)] / 4) * 0.05)
    for _ in range(8):
        proposals = bandit.propose(round := round.next(), [])
        of, outcome = played_cells(proposals, {(4, 1): 2, (3, 0): 4})
        bandit.learn(round, outcome)
    assert Counter(of)[(4, 1)] >= 30  # of 40, a tenth is uniform: 3 are expected elsewhere
    again = BanditCells("odd", rungs=[3, 4])
    again.load_state_dict(bandit.state_dict())
    round = round.next()
    assert [p.problem for p in again.propose(round, [])] == [p.problem for p in bandit.propose(round, [])]
    uniform = BanditCells("odd", rungs=[3, 4], eps=1.0)
    of, outcome = played_cells(uniform.propose(scripted({}, slots=400, domain=Plane()), []), {(4, 1): 2})
    uniform.learn(round, outcome)
    assert uniform.weights(round, range(4)) == [0.25] * 4
    assert max(abs(count - 100) for count in Counter(of).values()) < 35  # four standard deviations, sqrt(75) each
    with pytest.raises(ConfigError, match="plane has no axis target; its axes are rung, odd"):
        BanditCells().propose(scripted({}, domain=Plane()), [])


def test_a_schedule_is_that_of_the_paper():
    # K = 3, S = 6: at first 3/6 2/6 1/6, in the middle all (3 + 1)/12 = 1/3, at last and afterwards the mirror
    for t, weights in ((0, [3, 2, 1]), (6, [2, 2, 2]), (12, [1, 2, 3]), (99, [1, 2, 3])):
        found = ScheduledRungs(12, "cosine").weights(scripted({}, index=t), [3, 4, 5])
        assert found == pytest.approx([weight / 6 for weight in weights])


GAINS = {"0": {"3": 0.2, "4": 0.1, "5": 0.0}, "2": {"3": 0.0, "4": 0.1, "5": 0.3}}


def test_gain_plays_the_two_rungs_of_the_latest_entry_of_a_table_or_a_file(tmp_path):
    oracle, round = make_proposer("oracle_rungs", {"gains": GAINS}), scripted({}, slots=100)
    found = []
    for _ in range(4):
        found.append(Counter(rungs_of(oracle.propose(round, []))))
        round = round.next()
    assert [set(own) for own in found] == [{3, 4}, {3, 4}, {4, 5}, {4, 5}]
    assert all(abs(own[4] - 50) <= 20 for own in found)  # four standard deviations of 5
    assert oracle.logged()["proposer/value_5"] == 0.3 and "proposer/probe_answers" not in oracle.logged()
    path = write_lines(tmp_path / "gains.json", [GAINS])
    table = {0: {3: 0.2, 4: 0.1, 5: 0.0}, 2: {3: 0.0, 4: 0.1, 5: 0.3}}
    assert make_proposer("oracle_rungs", {"gains": str(path)}).gains == table


def test_half_plays_what_is_solved_half_of_the_time_by_answers_in_no_count_of_the_round():
    # of 4 answers 4, 3 and 1 are right: 1, .75 and .25 lie .5, .25 and .25 from one half
    oracle = make_proposer("oracle_rungs", {"kind": "half", "every": 2, "probe": 5})
    round = scripted({3: 4, 4: 3, 5: 1})
    proposals = oracle.propose(round, [])
    assert set(rungs_of(proposals)) == {4, 5} and oracle.rates == {3: 1.0, 4: 0.75, 5: 0.25}
    assert oracle.logged()["proposer/probe_answers"] == 3 * 5 * 4 == 4 * len(round.rows["prover"])
    # it stands by what it measured for two rounds
    later = scripted({3: 2, 4: 0, 5: 0}, index=1)
    assert set(rungs_of(oracle.propose(later, []))) == {4, 5} and later.rows == {}
    assert "proposer/probe_answers" not in oracle.logged()
    assert set(rungs_of(oracle.propose(later.next(), []))) == {3, 4}  # .5, then of equally far ones the lower
    game = ProposeAndSolve(make_proposer("oracle_rungs", {"kind": "half"}), settings=Settings(anchor_fraction=0.0))
    found = game.play(scripted({3: 2}, slots=8), [])
    assert len(found.solved) == 8 and len(found.turns) == 1 and len(found.turns[0].rollout.texts) == 32
    assert found.metrics["proposer/probe_answers"] == 3 * 16 * 4


def test_a_resumed_oracle_knows_what_was_measured():
    oracle = make_proposer("oracle_rungs", {"kind": "half", "every": 5})
    oracle.propose(scripted({3: 4, 4: 3, 5: 1}), [])
    again = make_proposer("oracle_rungs", {"kind": "half", "every": 5})
    again.load_state_dict(oracle.state_dict())
    round = scripted({}, index=1)
    assert [p.problem for p in again.propose(round, [])] == [p.problem for p in oracle.propose(round, [])]
    assert round.rows == {}
    fresh = make_proposer("oracle_rungs", {"kind": "half", "every": 5})
    fresh.propose(round, [])  # without a state it measures first
    assert fresh.rates == {3: 0.0, 4: 0.0, 5: 0.0}


DOMAIN = CountdownDomain.ladder()
# 4 * 3 = 12, 12 + 5 = 17, 17 + 6 = 23, 23 + 7 = 30
ROW = {"numbers": [3, 4, 5, 6, 7], "target": 30, "moves": ["4 * 3 = 12", "12 + 5 = 17", "17 + 6 = 23", "23 + 7 = 30"]}


def written(tmp_path, *rows):
    return str(write_lines(tmp_path / "targets.jsonl", rows))


def test_the_states_of_a_derivation_are_read_the_last_first_and_files_that_do_not_serve_refused(tmp_path):
    (states,) = read_derivations(written(tmp_path, ROW), DOMAIN).values()
    assert [sorted(state.numbers) for state in states] == [[7, 23], [6, 7, 17], [5, 6, 7, 12]]
    assert {state.target for state in states} == {30}
    with pytest.raises(DataError, match=r"cannot be read: No such file.*a derivation has the form"):
        read_derivations(str(tmp_path / "none.jsonl"), DOMAIN)
    without = {name: value for name, value in ROW.items() if name != "moves"}
    for row in (without, {**ROW, "moves": ROW["moves"][:-1]}, {**ROW, "target": 31}):
        with pytest.raises(DataError, match="line 1: the moves do not solve"):
            read_derivations(written(tmp_path, row), DOMAIN)
    with pytest.raises(DataError, match=rf"has none of 1 targets, such as {OTHER.key}; add them"):
        oracle_and_round(written(tmp_path, ROW))


def test_the_step_moves_to_the_state_before_it_with_each_that_was_solved_and_the_state_is_kept():
    oracle = make_proposer("oracle_targets", {"derivations": "x.jsonl"})
    oracle.steps = {"a": ["last", "before", "first"]}
    found = []
    for solved in range(5):
        oracle.solved_steps = {"a": solved}
        found.append(oracle._step("a"))
    assert found == ["last", "before", "first", "first", "first"]
    again = make_proposer("oracle_targets", {"derivations": "x.jsonl"})
    again.load_state_dict(oracle.state_dict())
    assert again.solved_steps == {"a": 4} and again.state_dict() == oracle.state_dict()


TARGET = Problem((3, 4, 5, 6, 7), 30)
OTHER = Problem((2, 3, 5, 9), 19)


def oracle_and_round(path, **arguments):
    """An oracle that has begun a round with two targets."""
    round = ScriptedRound(lambda *_: "", {"prover": (8, 4)}, DOMAIN, problems=[TARGET, OTHER])
    oracle = make_proposer("oracle_targets", {"derivations": path, **arguments})
    oracle.targets(round, [])
    return oracle, round


def learned(oracle, round, proposals, right_of_four, targets_right=(0, 0)):
    """A round in which each proposal (None: it was not played) and each target had so many right answers of four."""
    indices, played_ones = [], []
    for proposal, right in zip(proposals, right_of_four, strict=True):
        indices.append(None if right is None else len(played_ones))
        played_ones += [] if right is None else [(proposal.problem, right)]
    problems, counts = zip(*played_ones, *zip((TARGET, OTHER), targets_right, strict=True), strict=True)
    bits = np.array([[[i < right for i in range(4)] for right in counts]], dtype=float)
    found = Outcome(proposals, np.zeros(len(proposals)), problems, indices, bits, [None] * len(problems))
    oracle.learn(round, found)


def test_a_step_that_was_solved_at_the_rate_gives_way_to_the_one_before_it(tmp_path):
    # 9 + 5 = 14, 14 + 3 = 17, 17 + 2 = 19; the states of two numbers are below the ladder's three
    other = {"numbers": [2, 3, 5, 9], "target": 19, "moves": ["9 + 5 = 14", "14 + 3 = 17", "17 + 2 = 19"]}
    oracle, round = oracle_and_round(written(tmp_path, ROW, other), rate=0.5)

    def steps():
        proposals = oracle.propose(round, [])
        return proposals, [tuple(sorted(p.problem.numbers)) for p in proposals]

    proposals, first = steps()
    assert first == [(6, 7, 17), (2, 3, 14)] and [p.request["target"] for p in proposals] == [TARGET, OTHER]
    learned(oracle, round, proposals, [1, None])  # a quarter; the other found no slot
    assert oracle.solved_steps == {} and steps()[1] == first
    learned(oracle, round, proposals, [2, 4])  # a half, and all
    proposals, second = steps()
    assert second == [(5, 6, 7, 12), (2, 3, 14)]  # the other derivation has one state in range
    learned(oracle, round, proposals, [0, 0], targets_right=(1, 0))
    assert steps()[1] == [(2, 3, 14)]  # a target that is solved gets no step
    assert oracle.solved_steps == {TARGET.key: 1, OTHER.key: 1}


def test_targets_that_fill_take_turns_with_those_of_the_round_in_slots_that_proposals_leave():
    problems = [Problem((2, 3, n), 6 * n) for n in range(1, 8)]
    made, seen = Targets(batch=3, fill=True), Counter()
    for index in range(24):
        round = played({}, problems=problems, index=index)
        own = [p.key for p in made.targets(round, [])]
        more = [p.key for p in made.more_targets(round, index % 6)]  # 5 are asked for, and 4 are left
        assert len({*own, *more}) == 3 + min(index % 6, 4)
        seen.update([*own, *more])
        assert max(seen.values()) - min(seen[problem.key] for problem in problems) <= 1
    again = Targets(batch=3, fill=True)
    again.load_state_dict(made.state_dict())
    following = [one.targets(played({}, problems=problems, index=24), []) for one in (made, again)]
    assert following[0] == following[1]
    assert Targets(batch=3).more_targets(round, 4) == []
    # 8 slots: a target of the batch, the problem for it, and the two other targets of the set
    round = played({"3 5 7 = 22 :": 1, "2 4 9 = 26 :": 1, "6 7 8 = 50 :": 1})
    made = game(batch=1, fill=True)
    result = made.play(round, [])
    assert len(round.rows["conjecturer"]) == 1 and len(round.rows["prover"]) == 4
    assert set(made.proposer.solved) == {EASY.key, HARD.key, FAR.key}
    assert (result.metrics["targets/pass_at_n"], result.metrics["targets/attempted"]) == (1, 1)
    bare = played({})
    game(batch=1).play(bare, [])
    assert len(bare.rows["prover"]) == 2
