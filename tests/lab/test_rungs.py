# Tests: proposers/rungs.py, lab/proposers/rungs.py, proposers/arms.py
"""Proposers over the rungs of a domain: what they play, what they hear of it, and the same again in a resume."""

from collections import Counter

import numpy as np
import pytest
from tests.rung_domain import Numbered, all_played, rungs_of, scripted

from countdown_selfplay.contract.game import Outcome
from countdown_selfplay.games.propose_and_solve import ProposeAndSolve, Settings
from countdown_selfplay.proposers import make_proposer
from countdown_selfplay.proposers.rungs import Heard
from countdown_selfplay.testing import in_ranks


def outcome_of(proposals, rates):
    """All proposals are played, one of rung r solved by rates[r] of four answers."""
    return all_played(proposals, [rates[rung] for rung in rungs_of(proposals)])


def test_every_slot_gets_a_problem_of_a_uniform_rung_that_has_one_left():
    round = scripted({}, slots=30)
    proposals = make_proposer("uniform_rungs").propose(round, [])
    assert len(proposals) == 30 and all(p.problem[0] == p.request["rung"] and p.by is None for p in proposals)
    assert len({p.problem for p in proposals}) == 30 and set(rungs_of(proposals)) == {3, 4, 5}
    # each rung is asked once, for as many as it has slots, with a seed of its own
    counts = Counter(rungs_of(proposals))
    assert {rung: n for n, rung, _ in round.domain.asked} == counts
    assert len({seed for *_, seed in round.domain.asked}) == 3
    proposer = make_proposer("uniform_rungs", {"rungs": [5, 3]})
    counts = Counter(rungs_of(proposer.propose(scripted({}, slots=900), [])))
    assert set(counts) == {3, 5} and abs(counts[3] - 450) < 4 * 15  # a standard deviation is sqrt(900 / 4) = 15
    # 16 numbers, of which 0 and 8 are held out: 14 problems for 20 slots
    proposer = make_proposer("uniform_rungs", {"rungs": [4]})
    assert len(proposer.propose(scripted({}, slots=20, domain=Numbered(size=16)), [])) == 14
    held_out = frozenset(f"{rung}/{number}" for rung in (3, 4, 5) for number in range(1000) if number % 3)
    made = make_proposer("uniform_rungs").propose(scripted({}, held_out=held_out), [])
    assert len(made) == 8 and not {f"{r}/{n}" for r, n in (p.problem for p in made)} & held_out


def test_a_round_is_the_same_on_all_processes_and_uniform_texts_are_the_domains():
    play = lambda rank, gather: [  # noqa: E731
        p.problem for p in make_proposer("uniform_rungs").propose(scripted({}, rank=rank, world=2, gather=gather), [])
    ]
    first, second = in_ranks(2, play)
    alone = [p.problem for p in make_proposer("uniform_rungs").propose(scripted({}), [])]
    assert first == second == alone
    assert alone != [p.problem for p in make_proposer("uniform_rungs").propose(scripted({}, index=1), [])]
    round = scripted({})
    proposals = make_proposer("uniform_texts").propose(round, [])
    assert [p.problem for p in proposals] == round.domain.random_text(8, 0, frozenset())
    assert rungs_of(proposals) == [3, 4, 5, 3, 4, 5, 3, 4] and all(p.reason == "ok" for p in proposals)


def test_the_game_plays_what_was_chosen_and_leaves_a_share_to_the_data_set():
    game = ProposeAndSolve(make_proposer("uniform_rungs"), settings=Settings(anchor_fraction=0.0))
    round = scripted({3: 4})
    found = game.play(round, [])
    played = [row["rung"] for row in round.rows["prover"]]
    assert len(played) == 8 and found.metrics["proposer/rung_mean"] == sum(played) / 8
    assert found.metrics["proposer/played_rate"] == 1 and [turn.rollout.role for turn in found.turns] == ["prover"]
    # .75 of 8 slots are 6, of 30 slots 22.5, rounded up; the others are anchors.
    for name in ("uniform_rungs", "bandit_rungs", "ucb_rungs"):
        assert len(make_proposer(name, {"share": 0.75}).propose(scripted({}), [])) == 6
        assert len(make_proposer(name, {"share": 0.75}).propose(scripted({}, slots=30), [])) == 23
    game = ProposeAndSolve(make_proposer("uniform_rungs", {"share": 0.75}), settings=Settings(anchor_fraction=0.0))
    found = game.play(scripted({3: 4}), [(9, number) for number in range(8)])
    assert found.metrics["round/conjectured_slots"] == 6 and found.metrics["round/anchor_slots"] == 2


def test_the_bandit_means_p_times_one_minus_p_without_bias():
    bandit = make_proposer("bandit_rungs")
    round = scripted({}, slots=12)
    bandit.propose(round, [])  # means begin at 1/4
    bandit.hear([Heard(0, 4, 0.5)] * 4 + [Heard(4, 3, 1.0)] * 8, answers=4)
    # rung 4, four problems: .7 x .25 + .3 x (.5 x .5 x 4 / 3) = .175 + .1; rung 3, eight: .7^2 x .25 + .51 x 0
    assert bandit.values() == pytest.approx({3: 0.1225, 4: 0.275, 5: 0.25})
    # a tenth is uniform, the rest in proportion; the sum of the means is .6475
    assert bandit.weights(round, [3, 4, 5]) == pytest.approx(
        [0.1 / 3 + 0.9 * mean / 0.6475 for mean in (0.1225, 0.275, 0.25)]
    )
    assert bandit.logged()["proposer/value_4"] == pytest.approx(0.275)


def test_the_bandit_leaves_what_is_solved_always_or_never_and_is_uniform_without_a_mixed_rung():
    bandit = make_proposer("bandit_rungs", {"power": 2})
    round = scripted({}, slots=64)
    for _ in range(20):
        proposals = bandit.propose(round, [])
        bandit.learn(round, outcome_of(proposals, {3: 4, 4: 2, 5: 0}))
        round = round.next()
    # 3 and 5 keep .7^(n/4) of what they had: all but the uniform tenth is played on 4
    counts = Counter(rungs_of(bandit.propose(round, [])))
    assert bandit.values()[3] < 0.001 and bandit.values()[5] < 0.001
    assert counts[4] >= 64 - 12  # of 64, a tenth is uniform: 4.3 are expected elsewhere
    bandit = make_proposer("bandit_rungs", {"decay": 0})
    round = scripted({})
    bandit.learn(round, outcome_of(bandit.propose(round, []), {3: 0, 4: 0, 5: 0}))
    bandit.mean = dict.fromkeys((3, 4, 5), 0.0)
    assert bandit.weights(round, [3, 4, 5]) == [1.0, 1.0, 1.0]


def test_a_pull_of_ucb_earns_the_learnability_of_its_own_problems_if_one_was_played():
    proposer = make_proposer("ucb_rungs", {"pulls": 4})
    round = scripted({})
    proposals = proposer.propose(round, [])
    # two slots a pull; each rung once before any twice, then the first of equal bounds
    assert rungs_of(proposals) == [3, 3, 4, 4, 5, 5, 3, 3]
    bits = np.zeros((1, 8, 4))
    bits[0, 0, :2] = 1  # pull 1 (rung 3): p = .5 and 0 -> 4p(1-p) = 1 and 0, mean .5
    bits[0, 2:4, :1] = 1  # pull 2 (rung 4): p = .25 twice -> .75
    bits[0, 6, :4] = 1  # pull 4 (rung 3): p = 1 and 0 -> 0
    proposer.learn(round, Outcome(proposals, np.zeros(8), [], list(range(8)), bits, []))
    # discount .99: rung 3 was pulled first and last
    assert proposer.heard.sums["3"] == pytest.approx([0.99**3 + 1, 0.5 * 0.99**3])
    assert proposer.heard.sums["4"] == pytest.approx([0.99**2, 0.75 * 0.99**2])
    assert proposer.heard.sums["5"] == pytest.approx([0.99, 0.0])
    assert proposer.logged()["proposer/value_4"] == pytest.approx(0.75)
    proposer = make_proposer("ucb_rungs", {"pulls": 4, "discount": 1.0})
    round = scripted({})
    proposals = proposer.propose(round, [])
    problem_of = [0, 1, None, None, 2, 3, 4, 5]
    proposer.learn(round, Outcome(proposals, np.zeros(8), [], problem_of, np.zeros((1, 6, 4)), []))
    assert proposer.heard.sums == {"3": [2.0, 0.0], "4": [0.0, 0.0], "5": [1.0, 0.0]}


def test_thompson_comes_to_play_the_rung_between():
    proposer = make_proposer("thompson_rungs", {"window": 60})
    round = scripted({}, slots=16)
    for _ in range(20):
        proposals = proposer.propose(round, [])
        proposer.learn(round, outcome_of(proposals, {3: 4, 4: 2, 5: 0}))
        round = round.next()
    assert Counter(proposer.pulled)["4"] >= 6  # of 8: Beta(1 + n, 1) against Beta(1, 1 + m)


@pytest.mark.parametrize("name", ["uniform_rungs", "bandit_rungs", "ucb_rungs", "thompson_rungs"])
def test_a_resumed_run_goes_on_as_the_one_that_was_not_stopped(name):
    straight, round = make_proposer(name), scripted({}, slots=16)
    for at in range(4):
        if at == 2:
            resumed = make_proposer(name)
            resumed.load_state_dict(straight.state_dict())
            assert resumed.state_dict() == straight.state_dict()
        straight.learn(round, outcome_of(straight.propose(round, []), {3: 3, 4: 1, 5: 0}))
        if at >= 2:
            resumed.learn(round, outcome_of(resumed.propose(round, []), {3: 3, 4: 1, 5: 0}))
            assert resumed.slot_of == straight.slot_of and resumed.logged() == straight.logged()
        round = round.next()
