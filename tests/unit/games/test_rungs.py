# Tests: games/health.py
"""What a round logs of the rungs of its problems, in a game whose answers are episodes of written moves."""

from tests.unit.evaluation.stairs import Climber, Stair, Stairs, Written, words

from countdown_selfplay.contract.domain import BaseDomain
from countdown_selfplay.contract.game import BaseProposer, Proposal
from countdown_selfplay.evaluation.episodes import CollectingRound, Player
from countdown_selfplay.games.health import axes_health
from countdown_selfplay.games.propose_and_solve import ProposeAndSolve, Settings
from countdown_selfplay.testing import ScriptedRound

PROPOSED = [Stair(1, 2), Stair(2, 2), Stair(3, 3), Stair(4, 12), None]


class Fixed(BaseProposer):
    needs = ("prover",)

    def propose(self, round, anchors):
        return [Proposal(p, request={}, reason="out_of_range" if p and p.steps > 9 else "ok") for p in PROPOSED]

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


def test_a_collected_round_plays_episodes_too_equal_ones_for_equal_keys():
    tokenizer = words()
    moves = {"1 : 2": "up, up, down down", "1 : 1": "up up, up", "2 : 1": "down, up, up"}
    player = Player(Written(tokenizer, moves), tokenizer, 3, {"max_new_tokens": 2})
    round = CollectingRound(Stairs(), {"prover": player}, 0, ("key",))
    problems = [Stair(1, 2), Stair(2, 1)]
    found = round.sample("prover", [Stairs().prove_row(p) for p in problems], problems=problems)
    assert found.texts == ["up\nup up", "up\nup", "down down", "down", "up", "up"]
    assert [v.correct for v in found.verdicts] == [True, True, False, False, True, True]
    assert found.rewards_B.tolist() == [1, 1, 0, 0, 1, 1]
    # Two tokens leave no room for the end: the second move of the first episode and the first of the third.
    assert round.truncated[id(found)] == [True, False, True, False, False, False]
    tokenizer = words()

    def texts(key):
        player = Player(Climber(tokenizer, 0.7), tokenizer, 8, {"max_new_tokens": 2})
        round = CollectingRound(Stairs(), {"prover": player}, 0, (key,))
        return round.sample("prover", [{"prompt": "1 : 9"}], problems=[Stair(1, 9)]).texts

    assert texts("a") == texts("a") != texts("b")
