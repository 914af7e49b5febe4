# Tests: proposers/target_oracle.py, proposers/targets.py
"""The oracle of steps, and targets that fill the slots which proposals leave."""

import json

import pytest

from countdown_selfplay.countdown import CountdownDomain
from countdown_selfplay.errors import ConfigError, DataError
from countdown_selfplay.proposers import make_proposer
from countdown_selfplay.proposers.target_oracle import read_derivations

DOMAIN = CountdownDomain.ladder()
# 4 * 3 = 12, 12 + 5 = 17, 17 + 6 = 23, 23 + 7 = 30
ROW = {"numbers": [3, 4, 5, 6, 7], "target": 30, "moves": ["4 * 3 = 12", "12 + 5 = 17", "17 + 6 = 23", "23 + 7 = 30"]}


def written(tmp_path, *rows):
    path = tmp_path / "targets.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_the_states_of_a_derivation_are_read_the_last_first(tmp_path):
    (states,) = read_derivations(written(tmp_path, ROW), DOMAIN).values()
    assert [sorted(state.numbers) for state in states] == [[7, 23], [6, 7, 17], [5, 6, 7, 12]]
    assert {state.target for state in states} == {30}


def test_files_that_do_not_serve_are_refused_in_one_sentence(tmp_path):
    with pytest.raises(DataError, match=r"cannot be read: No such file.*a derivation has the form"):
        read_derivations(str(tmp_path / "none.jsonl"), DOMAIN)
    without = {name: value for name, value in ROW.items() if name != "moves"}
    for row in (without, {**ROW, "moves": ROW["moves"][:-1]}, {**ROW, "target": 31}):
        with pytest.raises(DataError, match="line 1: the moves do not solve"):
            read_derivations(written(tmp_path, row), DOMAIN)


def test_a_conjecturer_and_whole_answers_are_refused():
    oracle = make_proposer("oracle_targets", {"derivations": "x.jsonl"})
    with pytest.raises(ConfigError, match="set `conjecturer_micro_batches` to 0"):
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
