# Tests: games/propose_and_solve.py
"""Slots go to the operand counts in turn, and a proposal of another count than was asked for has its own reason."""

from countdown_selfplay.countdown import CountdownDomain, Problem, ProblemSpec
from countdown_selfplay.countdown.prompts import CONJECTURER_PROMPTS
from countdown_selfplay.curriculum import Archive
from countdown_selfplay.curriculum.admission import admit, dealt, examine

BOTH = CountdownDomain(ProblemSpec((3, 4), 1, 12, 1, 99), conjecturer_prompt="compact", prover_prompt="compact")


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
