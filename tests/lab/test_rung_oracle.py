# Tests: lab/proposers/rung_oracle.py
"""The oracle over rungs: by a table of gains, and by solve rates that are measured apart."""

import json
from collections import Counter

import pytest
from tests.rung_domain import scripted

from countdown_selfplay.errors import ConfigError, DataError
from countdown_selfplay.games.propose_and_solve import ProposeAndSolve, Settings
from countdown_selfplay.proposers import make_proposer

GAINS = {"0": {"3": 0.2, "4": 0.1, "5": 0.0}, "2": {"3": 0.0, "4": 0.1, "5": 0.3}}


def counted(proposals):
    return Counter(p.request["rung"] for p in proposals)


def test_gain_plays_the_two_rungs_of_the_latest_entry_of_a_table_or_a_file(tmp_path):
    oracle, round = make_proposer("oracle_rungs", {"gains": GAINS}), scripted({}, slots=100)
    found = []
    for _ in range(4):
        found.append(counted(oracle.propose(round, [])))
        round = round.next()
    assert [set(own) for own in found] == [{3, 4}, {3, 4}, {4, 5}, {4, 5}]
    assert all(abs(own[4] - 50) <= 20 for own in found)  # four standard deviations of 5
    assert oracle.logged()["proposer/value_5"] == 0.3 and "proposer/probe_answers" not in oracle.logged()
    path = tmp_path / "gains.json"
    path.write_text(json.dumps(GAINS))
    assert make_proposer("oracle_rungs", {"gains": str(path)}).gains == {
        0: {3: 0.2, 4: 0.1, 5: 0.0},
        2: {3: 0.0, 4: 0.1, 5: 0.3},
    }


def test_half_plays_what_is_solved_half_of_the_time_by_answers_in_no_count_of_the_round():
    # of 4 answers 4, 3 and 1 are right: 1, .75 and .25 lie .5, .25 and .25 from one half
    oracle = make_proposer("oracle_rungs", {"kind": "half", "every": 2, "probe": 5})
    round = scripted({3: 4, 4: 3, 5: 1})
    proposals = oracle.propose(round, [])
    assert set(counted(proposals)) == {4, 5} and oracle.rates == {3: 1.0, 4: 0.75, 5: 0.25}
    assert oracle.logged()["proposer/probe_answers"] == 3 * 5 * 4 == 4 * len(round.rows["prover"])
    # it stands by what it measured for two rounds
    later = scripted({3: 2, 4: 0, 5: 0}, index=1)
    assert set(counted(oracle.propose(later, []))) == {4, 5} and later.rows == {}
    assert "proposer/probe_answers" not in oracle.logged()
    assert set(counted(oracle.propose(later.next(), []))) == {3, 4}  # .5, then of equally far ones the lower
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


@pytest.mark.parametrize(("given", "message"), [
    ({}, "`gains` of oracle_rungs is missing"),
    ({"kind": "half", "gains": GAINS}, "is for kind gain, and kind is half"),
    ({"kind": "best"}, r"`kind` \('best'\) of proposer 'oracle_rungs' must be one of gain, half"),
    ({"kind": "half", "every": 0}, r"`every` \(0\) of proposer 'oracle_rungs'"),
    ({"gains": {"first": {"3": 1}}}, "wants a table {round: {rung: gain}}"),
    ({"gains": {"0": {"3": "much"}}}, "finite numbers for gains"),
    ({"gains": {}}, "finite numbers for gains"),
    ({"gains": "no/such/file.json"}, "cannot be read"),
])  # fmt: skip
def test_bad_settings_are_refused_in_a_sentence(given, message):
    with pytest.raises(ConfigError, match=message):
        make_proposer("oracle_rungs", given)


def test_a_table_that_begins_later_or_has_other_rungs_is_refused_in_a_sentence():
    with pytest.raises(DataError, match="begins with round 3, and round 0 is played"):
        make_proposer("oracle_rungs", {"gains": {3: {3: 1}}}).propose(scripted({}), [])
    with pytest.raises(DataError, match="has none of the rungs 3, 4, 5 at round 0"):
        make_proposer("oracle_rungs", {"gains": {0: {9: 1}}}).propose(scripted({}), [])
