# Tests: games/health.py, games/propose_and_solve.py
"""Data filters by solve rate (seed 000, algorithm 1, steps 3 to 6), and what a round logs of its rungs."""

from dataclasses import replace

import numpy as np
import pytest
from tests.unit.evaluation.stairs import Stair, Stairs

from countdown_selfplay.contract.domain import BaseDomain
from countdown_selfplay.contract.game import BaseProposer, Proposal, solve_rates
from countdown_selfplay.countdown import CountdownDomain, Problem
from countdown_selfplay.games.health import (
    axes_health,
    frontier_of,
    in_frontier,
    is_starved,
    unsolvable_share,
    wanted_answers,
)
from countdown_selfplay.games.propose_and_solve import ProposeAndSolve, Settings
from countdown_selfplay.proposers.tiers import Tiers
from countdown_selfplay.testing import ScriptedRound


def test_a_frontier_has_its_ends_in_it_and_provers_rates_differ_from_attempts():
    """Section 3.6: two provers that solve the same problem, 1 and 2 of 4 times; one that only the first solves once;
    one that nobody solves."""
    bits = np.zeros((2, 3, 4))
    bits[0, 0, :1] = bits[1, 0, :2] = bits[0, 1, :1] = 1
    assert solve_rates(bits).tolist() == [3 / 8, 1 / 8, 0.0]
    assert solve_rates(bits, "provers").tolist() == [1.0, 0.5, 0.0]
    inside = [in_frontier((0.1, 0.7), [0, 1, 2], solve_rates(bits, over)).tolist() for over in ("attempts", "provers")]
    assert inside == [[True, True, False], [False, True, False]]
    rates = np.array([0.1, 0.7, 0.05, 0.75])
    assert in_frontier((0.1, 0.7), [0, 1, 2, 3, None], rates).tolist() == [True, True, False, False, False]
    assert (frontier_of(None, None), frontier_of(0.1, None), frontier_of(None, 0.7)) == (None, (0.1, 1.0), (0.0, 0.7))
    written, made = Proposal(Problem((1, 2), 3), by="conjecturer"), Proposal(Problem((1, 2), 3))
    assert is_starved([written, made], [False, True]) and not is_starved([written, made], [True, True])
    assert not is_starved([made], [True]) and is_starved([made], [False]) and is_starved([], [])


def test_answers_that_provers_are_trained_on():
    """Five problems, of whose two answers by each of two provers 0, 1, 2, 3 and 4 are right. Over provers the third to
    the fifth have rate 1, and the third and fourth are not trivial for all that."""
    bits = np.array([[[0, 0], [1, 0], [1, 0], [1, 1], [1, 1]], [[0, 0], [0, 0], [0, 1], [0, 1], [1, 1]]], dtype=float)
    rates = solve_rates(bits)
    assert wanted_answers("all", None, rates, bits) is None
    for over in ("attempts", "provers"):
        wanted = wanted_answers("nontrivial", None, solve_rates(bits, over), bits)
        assert wanted == [False, True, True, True, False]
    assert wanted_answers("frontier", (0.1, 0.7), rates, bits) == [False, True, True, False, False]


DOMAIN = CountdownDomain.tiny()
SIZES = {"conjecturer": (3, 3), "prover/0": (8, 2), "prover/1": (8, 2)}
PROPOSED = ["3 5 7 = 22", "2 3 4 = 24", "2 2 2 = 99"]  # 3 * 5 + 7, 2 * 3 * 4, impossible


def write(player, row, i):
    """Both provers solve the first problem in one of two answers; the second prover the second problem always."""
    if player == "conjecturer":
        return PROPOSED[i]
    right = {22: "3 * 5 + 7", 24: "2 * 3 * 4"}.get(row["target"], "?")
    return right if (row["target"] == 22 and i == 0) or (row["target"] == 24 and player == "prover/1") else "1 + 1"


def played(domain=DOMAIN, **settings):
    proposer = Tiers(start=[3], floor=3, ceiling=3, min_valid=0)
    rules = Settings(anchor_fraction=0.0, fill="none", **settings)
    return ProposeAndSolve(proposer, "binary_band", settings=rules).play(ScriptedRound(write, SIZES, domain), [])


def test_the_frontier_filters_what_conjecturers_and_provers_are_trained_on():
    plain = played()
    assert plain.metrics["round/solve_rate_mean"] == 0.5 and "round/frontier_share" not in plain.metrics
    assert plain.turns[-1].selected_B is None
    found = played(frontier_low=0.1, frontier_high=0.5)
    assert found.turns[-1].selected_B.tolist() == [True, True, False]  # the third has no solution: it is not played
    assert found.metrics["round/frontier_share"] == 1.0
    # over provers: 1 and 1/2
    other = played(frontier_low=0.1, frontier_high=0.5, solve_rate_over="provers")
    assert other.metrics["round/solve_rate_mean"] == 0.75 and other.metrics["round/frontier_share"] == 0.5
    assert other.turns[-1].selected_B.tolist() == [False, True, False]
    first, second = played(prover_trains_on="nontrivial").turns[:2]
    assert first.selected_B is None and second.selected_B is None  # both problems lie at .5
    some = played(prover_trains_on="frontier", frontier_high=0.6, solve_rate_over="provers").turns[0]
    assert some.selected_B.tolist() == [False, False, True, True]  # 1 and 1/2 of the provers


def test_an_unsolvable_problem_has_pass_rate_0_and_its_share_is_that_of_the_conjecturers_own():
    domain = CountdownDomain(DOMAIN.spec, DOMAIN.rules, "compact", "compact", admit_unsolvable=True)
    found = played(domain, frontier_low=0.1)
    assert found.metrics["round/unsolvable_share"] == pytest.approx(1 / 3)
    assert found.metrics["round/solve_rate_mean"] == pytest.approx(1 / 3)
    assert found.metrics["prover_pass_rate_tier_0"] == pytest.approx(1 / 3)  # .5, .5 and 0
    assert "round/unsolvable_share" not in played().metrics
    # One of three has no solution; the problem that a rule added does not make it one of four.
    domain = CountdownDomain(DOMAIN.spec, DOMAIN.rules, "compact", "compact", admit_unsolvable=True)
    own = [Proposal(Problem((1, 2), 3), by="conjecturer", facts={"solvable": ok}) for ok in (True, False, True)]
    rule = Proposal(Problem((1, 2), 3))
    assert unsolvable_share(domain, [*own, rule], [True] * 4) == {"round/unsolvable_share": pytest.approx(1 / 3)}
    assert unsolvable_share(domain, own[:1], [False]) == {}
    # Three texts of the last tier, asked for "3 or more"; the third has no solution.
    wide = CountdownDomain(replace(DOMAIN.spec, operands=(3, 4)), DOMAIN.rules, "compact", "compact")
    assert played(wide).metrics["conjecturer/played_rate_operands_3"] == pytest.approx(2 / 3)


STEPS = [Stair(1, 2), Stair(2, 2), Stair(3, 3), Stair(4, 12), None]


class Fixed(BaseProposer):
    needs = ("prover",)

    def propose(self, round, anchors):
        return [Proposal(p, request={}, reason="out_of_range" if p and p.steps > 9 else "ok") for p in STEPS]

    def learn(self, round, outcome):
        return []


def climb(player, row, i):
    """Stairs 1 and 3 are climbed; of the four episodes of stair 2 the first two fall at once."""
    name, _, left = row["prompt"].split()
    return "down" if name == "2" and left == "2" and i < 2 else "up"


def test_a_round_logs_proposals_played_problems_and_solve_rates_by_rung_if_it_has_several():
    round = ScriptedRound(climb, {"prover": (4, 4)}, Stairs())
    game = ProposeAndSolve(Fixed(), settings=Settings(anchor_fraction=0.0, samples_per_log=16))
    found = game.play(round, [Stair(60, 5)])
    by_rung = {name: value for name, value in found.metrics.items() if "/rung_" in name}
    rates = {name: value for name, value in by_rung.items() if name.endswith("solve_rate")}
    # Played: three proposals, and in the fourth slot the anchor of rung 5; the stair of 12 steps is no rung.
    # Rung 2: (4/4 + 2/4) / 2.
    assert rates == {f"round/rung_{rung}_solve_rate": value for rung, value in {2: 0.75, 3: 1.0, 5: 1.0}.items()}
    assert [by_rung[f"round/rung_{rung}_proposed"] for rung in range(1, 10)] == [0, 2, 1, 0, 0, 0, 0, 0, 0]
    assert [by_rung[f"round/rung_{rung}_played"] for rung in range(1, 10)] == [0, 2, 1, 0, 1, 0, 0, 0, 0]
    assert len(by_rung) == 21
    assert found.metrics["prover/correct_rate"] == 14 / 16
    shown = [row for row in found.samples if row["role"] == "prover"]
    assert [row["rung"] for row in shown] == [2] * 8 + [3] * 4 + [5] * 4
    assert shown[0]["completion"] == "up\nup" and shown[4]["completion"] == "down"
    assert shown[8]["completion"].splitlines() == ["up"] * 3
    assert shown[8]["moves"] == [(3, "up"), (2, "up"), (1, "up")]  # the steps that are left, and the move
    assert [row["prompt"] for row in round.rows["prover"]] == ["1 : 2", "2 : 2", "3 : 3", "60 : 5"]
    one = Stairs()
    one.rungs = (2,)
    for domain in (one, BaseDomain()):
        assert axes_health(domain, [], [Stair(1, 2)], [0.5]) == {}
