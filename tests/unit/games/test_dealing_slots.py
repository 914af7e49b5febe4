# Tests: games/propose_and_solve.py
"""Slots go to the operand counts in turn, and a proposal of another count than was asked for has its own reason."""

import math
from collections import Counter

import pytest

from countdown_selfplay.countdown import CountdownDomain, Problem, ProblemSpec, generate_problems
from countdown_selfplay.countdown.prompts import CONJECTURER_PROMPTS
from countdown_selfplay.curriculum import Archive
from countdown_selfplay.curriculum.admission import admit, dealt, examine
from countdown_selfplay.games.propose_and_solve import ProposeAndSolve, Settings
from countdown_selfplay.objectives import make_objective
from countdown_selfplay.testing import ScriptedRound

BOTH = CountdownDomain(ProblemSpec((3, 4), 1, 12, 1, 99), conjecturer_prompt="compact", prover_prompt="compact")


def play_rounds(operands, rounds, groups=4, group=8, slots=8):
    """(proposals that got a slot by operand count, last metrics) of rounds in which every proposal is admitted; four
    slots are the anchors'."""
    spec = ProblemSpec(tuple(dict.fromkeys(operands)), 1, 99, 10, 100)
    domain = CountdownDomain(spec, conjecturer_prompt="compact", operands=operands)
    pools = {k: iter(generate_problems(rounds * groups * group, ProblemSpec((k,)), seed=k)) for k in operands}

    def write(player, row, i):
        if player == "prover":
            return "1 + 1"
        problem = next(pools[row["operands"]])
        return f"{' '.join(map(str, problem.numbers))} = {problem.target}"

    sizes = {"prover": (slots, 1), "conjecturer": (groups * group, group)}
    game = ProposeAndSolve(settings=Settings(anchor_fraction=4 / slots))
    objectives = {"prover": make_objective("rest")}  # groups of one have no baseline
    played, anchors = Counter(), generate_problems(slots, ProblemSpec((3,)), seed=77)
    for index in range(rounds):
        result = game.play(ScriptedRound(write, sizes, domain, index, objectives), anchors)
        (turn,) = [turn for turn in result.turns if turn.rollout.role == "conjecturer"]
        asked = [row["operands"] for row in turn.rollout.rows for _ in range(group)]
        measured = zip(asked, turn.rewards_B.tolist(), strict=True)
        played.update(operands for operands, reward in measured if not math.isnan(reward))
    return played, result.metrics


def test_every_operand_count_gets_its_share_of_the_slots_where_the_groups_are_a_multiple_of_the_counts():
    # 4 slots for 32 proposals, half of which ask for 3 numbers: 2 slots each (by row order, all 4 for the first count)
    played, metrics = play_rounds((3, 4), rounds=5)
    assert played == {3: 10, 4: 10}
    assert metrics["conjecturer/played_rate"] == 4 / 32
    assert metrics["conjecturer/played_rate_operands_3"] == metrics["conjecturer/played_rate_operands_4"] == 2 / 16


@pytest.mark.parametrize(("operands", "rounds", "groups", "shares"), [
    ((3, 4), 4, 4, {3: 6, 4: 6}),  # an odd slot goes to each count in turn: 2 + 1, 1 + 2, 2 + 1, 1 + 2
    ((3, 3, 4), 2, 3, {3: 4, 4: 2}),  # a count that is listed twice gets two turns
])  # fmt: skip
def test_three_slots_a_round_are_dealt_in_turns(operands, rounds, groups, shares):
    assert play_rounds(operands, rounds, groups, slots=7)[0] == shares


def names(admission):
    return [problem.key for problem in admission.problems]


def admitted(texts, asked, domain=BOTH, duplicates="reject"):
    candidates = examine(domain, texts, [{"operands": k} for k in asked])
    return candidates, admit(domain, candidates, Archive(), frozenset(), 0, duplicates)


def test_slots_are_dealt_to_counts_and_players_in_turn_and_rewards_find_their_proposals():
    texts = ["2 3 4 = 24", "?", "3 5 7 = 22", "6 5 4 = 15"]
    candidates, admission = admitted(texts, [3] * 4, CountdownDomain.tiny())
    for turn in range(3):
        assert dealt(admission, candidates, [{"operands": 3}], turn) == admission
    # rows ask for 3, 3, 4, 4; the turn begins with 4: 4, 3, 4, 3. The duplicate points where its problem went.
    texts = ["2 3 4 = 24", "3 5 7 = 22", "1 2 3 4 = 10", "4 3 2 1 = 10", "5 6 7 8 = 26"]
    candidates, admission = admitted(texts, [3, 3, 4, 4, 4], duplicates="share")
    found = dealt(admission, candidates, [{"operands": 3}, {"operands": 4}], 1)
    assert names(found) == ["1,2,3,4=10", "2,3,4=24", "5,6,7,8=26", "3,5,7=22"]
    assert found.problem_of == [1, 3, 0, 0, 2] and found.reasons == admission.reasons
    # three proposals of the first player, two of the second: a b a b a in round 0, b a b a a in round 1
    written = {"a": ["2 3 4 = 24", "3 5 7 = 22", "6 5 4 = 15"], "b": ["1 2 3 = 6", "4 5 6 = 34"]}
    domain = CountdownDomain.tiny()
    proposals = [
        p for by, texts in written.items() for p in examine(domain, texts, [{"operands": 3}] * len(texts), by)
    ]
    admission = admit(domain, proposals, Archive(), frozenset(), 0, "reject")
    assert names(admission) == ["2,3,4=24", "3,5,7=22", "4,5,6=15", "1,2,3=6", "4,5,6=34"]
    a0, a1, a2, b0, b1 = names(admission)
    assert names(dealt(admission, proposals, domain.asks, 0)) == [a0, b0, a1, b1, a2]
    assert names(dealt(admission, proposals, domain.asks, 1)) == [b0, a0, b1, a1, a2]


def test_a_proposal_that_ignores_the_count_asked_for_has_its_own_reason_where_the_prompt_asks(monkeypatch):
    texts = ["3 5 7 = 22", "1 2 3 4 = 10", "3 5 = 8", "1 1 1 = 99"]
    candidates, admission = admitted(texts, [4, 4, 4, 4])
    assert admission.reasons == ["not_as_asked", "ok", "out_of_range", "not_as_asked"]
    # the metric says what the solver says
    assert [c.facts.get("solvable", False) for c in candidates] == [True, True, False, False]
    for name in ("json", "completion", "compact"):
        domain = CountdownDomain(conjecturer_prompt=name)  # operands 3 and 4
        assert domain.asks_operands and not domain.as_asked(Problem((3, 5, 7), 22), 4)
    monkeypatch.setitem(CONJECTURER_PROMPTS, "compact", lambda operands, spec: "propose :")
    _, admission = admitted(["3 5 7 = 22"], [4], CountdownDomain(BOTH.spec, conjecturer_prompt="compact"))
    assert admission.reasons == ["ok"]
