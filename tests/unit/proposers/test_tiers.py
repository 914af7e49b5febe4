# Tests: proposers/tiers.py
"""The proposer of a pool: what each tier is asked for, the supplement, the tracker, what is kept (seed 000)."""

import json

import numpy as np
import pytest

from countdown_selfplay.config.changes import changed_settings
from countdown_selfplay.contract.game import Outcome, Proposal
from countdown_selfplay.countdown import CountdownDomain, Problem, ProblemSpec, is_solvable
from countdown_selfplay.errors import CheckpointError
from countdown_selfplay.proposers.tiers import Tiers, TierTracker, supplement
from countdown_selfplay.testing import ScriptedRound

SPEC = ProblemSpec((2, 3, 4, 5), 1, 12, 1, 99)
DOMAIN = CountdownDomain(SPEC, conjecturer_prompt="compact", prover_prompt="compact")
PLAYERS = {"prover": ["prover"], "conjecturer": ["conjecturer/0", "conjecturer/1"]}
SIZES = {"conjecturer/0": (4, 4), "conjecturer/1": (4, 4), "prover": (32, 2)}


def tiers(**changes):
    return Tiers(**{"start": [3, 4], "ceiling": 5, **changes})


def a_round(texts, domain=DOMAIN, **changes):
    """`texts`: player -> what it writes."""
    return ScriptedRound(lambda player, row, i: texts[player][i], SIZES, domain, **changes)


TEXTS = {
    "conjecturer/0": ["3 5 7 = 22", "3 5 = 8", "2 3 4 = 24", "?"],  # fine, two numbers, fine, no problem
    "conjecturer/1": ["1 2 3 4 = 10", "1 2 3 4 5 = 15", "2 3 4 = 24", "1 1 1 1 = 99"],
}


def test_each_conjecturer_is_asked_for_its_tier_which_the_rule_fills_up():
    made = a_round(TEXTS)
    proposals = tiers(min_valid=0).propose(made, [])
    asked = {player: {row["operands"] for row in rows} for player, rows in made.rows.items()}
    assert asked == {"conjecturer/0": {3}, "conjecturer/1": {4}}
    assert [p.reason for p in proposals[:4]] == ["ok", "not_as_asked", "ok", "malformed"]
    # 1 + 1 + 1 + 1 and the like never reach 99; five numbers are "4 or more", three are not
    assert [p.reason for p in proposals[4:]] == ["ok", "ok", "not_as_asked", "unsolvable"]
    exact = tiers(min_valid=0, or_more=False).propose(a_round(TEXTS), [])
    assert [p.reason for p in exact[4:]] == ["ok", "not_as_asked", "not_as_asked", "unsolvable"]
    proposer = tiers(min_valid=5)
    proposals = proposer.propose(a_round(TEXTS), [])
    made = proposals[8:]
    # tier 0 has two valid ones of three operands, tier 1 two of four or more: three each are missing
    assert [p.by for p in made] == [None] * 6 and proposer.tier_N[8:] == [0] * 3 + [1] * 3
    assert [len(p.problem.numbers) for p in made] == [3] * 3 + [4] * 3
    assert all(p.reason == "ok" and max(p.problem.numbers) <= 12 and is_solvable(p.problem) for p in made)
    keys = [p.problem.key for p in proposals if p.problem is not None and p.reason == "ok"]
    assert len(set(keys)) == len(keys) and not any(DOMAIN.is_held_out(p.problem) for p in made)
    again = tiers(min_valid=5).propose(a_round(TEXTS), [])
    assert again == proposals and tiers(min_valid=5).propose(a_round(TEXTS, index=1), [])[8:] != made


def test_unsolvable_proposals_may_be_played_and_copies_of_the_example_are_counted():
    domain = CountdownDomain(SPEC, conjecturer_prompt="compact", prover_prompt="compact", admit_unsolvable=True)
    proposals = tiers(min_valid=0).propose(a_round(TEXTS, domain), [])
    last = proposals[-1]
    assert (last.reason, last.facts["solvable"]) == ("ok", False)
    chat = CountdownDomain(SPEC, conjecturer_prompt="tier")
    copy, own = '<answer>{"target": 24, "numbers": [2, 3, 4]}</answer>', '{"target": 9, "numbers": [2, 3, 4]}'
    texts = {"conjecturer/0": [copy, f"<answer>{own}", "24", copy], "conjecturer/1": ["?"] * 4}
    proposer = tiers(min_valid=0)
    proposals = proposer.propose(a_round(texts, chat), [])
    assert proposals[1].problem == Problem((2, 3, 4), 9)
    assert proposer.values["copied_example_rate"] == 2 / 8
    assert isinstance(proposals[0], Proposal) and proposals[0].reason == "copied_example"


def test_the_rule_draws_small_numbers_and_applies_operations_from_left_to_right():
    found = supplement(DOMAIN, {"operands": 2}, 40, 7, frozenset({"1,2=3"}))
    assert len({p.key for p in found}) == 40 and "1,2=3" not in {p.key for p in found}
    for problem in found:
        a, b = problem.numbers
        assert problem.target in {a + b, a - b, a * b, a / b} and min(a, b) >= 1 and max(a, b) <= 12
    # one number below 1: nothing but what was excluded can be made, and the search ends
    narrow = CountdownDomain(ProblemSpec((2,), 1, 1, 1, 2), conjecturer_prompt="compact", prover_prompt="compact")
    assert {p.key for p in supplement(narrow, {"operands": 2}, 9, 0, frozenset())} <= {"1,1=1", "1,1=2"}


def outcome_of(proposals, rates):
    """Each proposal that is ok was played, with these solve rates out of 10 answers of one prover."""
    played = [i for i, p in enumerate(proposals) if p.reason == "ok"]
    bits = np.array([[[float(g < round(rate * 10)) for g in range(10)] for rate in rates]]).reshape(1, -1, 10)
    places = {n: place for place, n in enumerate(played)}
    rewards = np.array([0.5 if n in places else 0.0 for n in range(len(proposals))])
    problems = [proposals[n].problem for n in played]
    return Outcome(proposals, rewards, problems, [places.get(n) for n in range(len(proposals))], bits, [])


def test_tiers_move_by_the_mean_of_their_own_problems_the_rules_ones_included():
    made = a_round(TEXTS)
    proposer = tiers(min_valid=3)
    proposals = proposer.propose(made, [])
    # tier 0: .9 and 1 of its conjecturer, .5 of the rule: .8 -> up. tier 1: .1, .2 and .1 of the rule -> down
    turns = proposer.learn(made, outcome_of(proposals, [0.9, 1.0, 0.1, 0.2, 0.5, 0.1]))
    logged = proposer.logged()
    assert logged["prover_pass_rate_tier_0"] == pytest.approx(0.8)
    assert logged["prover_pass_rate_tier_1"] == pytest.approx(0.4 / 3)
    assert (logged["tier_0_operand_count"], logged["tier_1_operand_count"]) == (4, 3)
    assert logged["mean_prover_pass_rate"] == pytest.approx(2.8 / 6)
    # a problem could be read from 7 of 8 texts; the rule's problems are nobody's
    assert logged["valid_conjecture_rate"] == 7 / 8 and logged["tier_0_supplement"] == 1
    assert [turn.rollout.role for turn in turns] == ["conjecturer/0", "conjecturer/1"]
    assert [turn.advantages_B.shape for turn in turns] == [(4,), (4,)]
    assert proposer.files()["tier_config.json"]["tiers"] == [4, 3]


def test_a_tier_without_a_problem_stays_and_only_the_frontier_is_trained_on():
    silent = a_round({player: ["?"] * 4 for player in ("conjecturer/0", "conjecturer/1")})
    proposer = tiers(min_valid=0)
    proposals = proposer.propose(silent, [])
    proposer.learn(silent, outcome_of(proposals, []))
    logged = proposer.logged()
    assert "prover_pass_rate_tier_0" not in logged and "mean_prover_pass_rate" not in logged
    assert logged["tier_0_operand_count"] == 3 and logged["valid_conjecture_rate"] == 0
    made = a_round(TEXTS)
    proposer = tiers(min_valid=0)
    proposals = proposer.propose(made, [])
    found = outcome_of(proposals, [0.4, 0.9, 0.3, 0.2])
    inside = np.array([p.reason == "ok" for p in proposals])
    inside[2] = False  # the second problem, at .9
    turns = proposer.learn(made, Outcome(*[getattr(found, f) for f in found.__dataclass_fields__][:-1], inside))
    assert turns[0].selected_B.tolist() == [True, False, False, False]
    assert turns[1].selected_B.tolist() == [True, True, False, False]


def test_a_run_goes_on_from_a_tier_config_and_from_its_state(tmp_path):
    path = tmp_path / "tier_config.json"
    path.write_text(json.dumps(tiers(start=[2, 5]).files()["tier_config.json"]))
    assert tiers(start=str(path)).tracker.rungs == [0, 3]
    first = tiers(start=[2, 5])
    state = json.loads(json.dumps(first.state_dict()))
    same = tiers(start=[3, 4])
    same.load_state_dict(state)
    assert same.tracker == first.tracker and same.state_dict() == first.state_dict()


def test_a_refused_resume_tells_what_of_the_tiers_differs_alone():
    there = {"start": [3, 3], "low": 0.2, "high": 0.7, "floor": 2, "ceiling": 4, "min_valid": 3}
    for write in (dict, json.dumps):
        pair = ({"proposer_kwargs": write(one)} for one in (there, {**there, "ceiling": 3, "window": 5}))
        with pytest.raises(CheckpointError, match=r'proposer_kwargs \({"ceiling": 4} there, {"ceiling": 3, "window":'):
            changed_settings(*pair, [], "checkpoint-2")


def test_a_tier_moves_only_beyond_the_thresholds_and_hysteresis_ends_oscillation():
    tracker = TierTracker([1, 1, 1, 0, 2, 1], top=2)
    # "exceeds 0.7", "falls below 0.2": at the thresholds nothing moves; floor and ceiling hold; no problems, no move
    assert tracker.observe([0.71, 0.7, 0.2, 0.1, 0.9, None]) == [1, 0, 0, 0, 0, 0]
    assert tracker.observe([None, None, 0.19, None, None, None]) == [0, 0, -1, 0, 0, 0]
    assert tracker.rungs == [2, 1, 0, 0, 2, 1]
    assert moves(100) == list(range(1, 101))
    # up after 1 round, down after 1 more; each turn round doubles the wait: 2, 4, 8 rounds, and 8 is the longest
    assert moves(100, hysteresis=True) == [1, 2, 4, *range(8, 100, 8)]
    # a first window of 5: 5, 5, 10, 20, 40, the next at 120
    assert moves(100, hysteresis=True, window=5) == [5, 10, 20, 40, 80]
    assert moves(20, window=5) == [5, 10, 15, 20]


def moves(rounds, **settings):
    """Of a tier whose provers solve .8 of rung 0 and .1 of rung 1, as the paper's tier 0 between 2 and 3 operands."""
    tracker = TierTracker([0], top=3, **settings)
    return [i for i in range(1, rounds + 1) if tracker.observe([0.8 if tracker.rungs[0] == 0 else 0.1])[0]]


def test_a_window_is_averaged_emptied_at_a_move_and_brought_back_by_two():
    tracker = TierTracker([0], top=5, window=2)
    # .9; the mean .75 of .9 and .6 moves; .9 stands alone again; .65 of .9 and .4; .65; .85 of .9 and .8 moves
    assert [tracker.observe([rate])[0] for rate in (0.9, 0.6, 0.9, 0.4, 0.9, 0.8)] == [0, 1, 0, 0, 0, 1]
    tracker = TierTracker([1], top=9, hysteresis=True)
    for rate in (0.9, 0.1):  # up, down: it waits two rounds now
        tracker.observe([rate])
    assert tracker.windows == [2]
    assert [tracker.observe([0.1])[0] for _ in range(3)] == [0, -1, 0] and tracker.windows == [1]


def test_the_state_is_json_and_goes_on_where_it_was():
    tracker = TierTracker([0, 2], top=4, window=3, hysteresis=True)
    rates = [[0.9, 0.1], [0.8, None], [0.75, 0.3], [0.1, 0.05], [0.1, 0.1], [0.1, 0.9], [0.2, 0.95]]
    for found in rates[:4]:
        tracker.observe(found)
    again = TierTracker([3, 3], top=4, window=3, hysteresis=True)
    again.load_state_dict(json.loads(json.dumps(tracker.state_dict())))
    assert again == tracker
    assert [again.observe(found) for found in rates[4:]] == [tracker.observe(found) for found in rates[4:]]
    saved = tracker.state_dict()
    tracker.observe([0.1, 0.1])
    assert saved != tracker.state_dict()  # a copy
