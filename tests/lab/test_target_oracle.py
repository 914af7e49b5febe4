# Tests: lab/proposers/target_oracle.py, proposers/targets.py
"""The oracle of steps, and targets that fill the slots which proposals leave."""

import json
from collections import Counter

import numpy as np
import pytest
from tests.unit.proposers.test_targets import EASY, FAR, HARD, game, played

from countdown_selfplay.contract.game import Outcome
from countdown_selfplay.countdown import CountdownDomain, Problem
from countdown_selfplay.errors import ConfigError, DataError
from countdown_selfplay.lab.proposers.target_oracle import read_derivations
from countdown_selfplay.proposers import make_proposer
from countdown_selfplay.proposers.targets import Targets
from countdown_selfplay.testing import ScriptedRound

DOMAIN = CountdownDomain.ladder()
# 4 * 3 = 12, 12 + 5 = 17, 17 + 6 = 23, 23 + 7 = 30
ROW = {"numbers": [3, 4, 5, 6, 7], "target": 30, "moves": ["4 * 3 = 12", "12 + 5 = 17", "17 + 6 = 23", "23 + 7 = 30"]}


def written(tmp_path, *rows):
    path = tmp_path / "targets.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


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


def test_a_conjecturer_and_whole_answers_are_refused():
    oracle = make_proposer("oracle_targets", {"derivations": "x.jsonl"})
    with pytest.raises(ConfigError, match="set `conjecturer_players` to 0"):
        oracle.check({"prover": ["prover"], "conjecturer": ["conjecturer"]}, DOMAIN)
    with pytest.raises(ConfigError, match="set `answers` to moves"):
        oracle.check({"prover": ["prover"]}, CountdownDomain())
    oracle.check({"prover": ["prover"]}, DOMAIN)


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
