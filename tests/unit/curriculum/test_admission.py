# Tests: curriculum/admission.py, games/propose_and_solve.py
"""Which proposals may be played, decided on gathered records, and in which order they get slots."""

import pytest

from countdown_selfplay.countdown import CountdownDomain, Problem, ProblemSpec
from countdown_selfplay.countdown.prompts import CONJECTURER_PROMPTS
from countdown_selfplay.curriculum import Archive
from countdown_selfplay.curriculum.admission import PLAYED_LIMIT, RATES_LIMIT, admit, dealt, examine, slots_filled

TINY = CountdownDomain.tiny()
TEXTS = [
    "3 5 7 = 22",  # 3 * 5 + 7
    "no problem",
    "3 5 = 8",  # two operands where three are asked for
    "1 1 1 = 99",  # 1, 2, 3 and fractions are all that three ones make
    "7 5 3 = 22",  # the first again, in another order
    "2 3 4 = 24",  # 2 * 3 * 4
]


def reasons(excluded=frozenset(), duplicates="reject"):
    candidates = examine(TINY, TEXTS, [{"operands": 3}] * len(TEXTS))
    found = admit(TINY, candidates, Archive(), excluded, 0, duplicates)
    return found.reasons, found.problem_of, [p.key for p in found.problems]


def test_each_refusal_has_its_reason_and_the_first_of_equal_problems_is_admitted():
    why, problem_of, keys = reasons()
    assert [w for i, w in enumerate(why) if i != 1] == ["ok", "out_of_range", "unsolvable", "duplicate", "ok"]
    assert why[1] not in ("ok", "out_of_range")  # the parser's own word for it
    assert problem_of == [0, None, None, None, None, 1] and keys == ["3,5,7=22", "2,3,4=24"]
    # a shared duplicate points at the first one and takes no slot
    why, problem_of, keys = reasons(duplicates="share")
    assert why[4] == "duplicate" and problem_of[4] == 0 and len(keys) == 2
    why, problem_of, _ = reasons(excluded=frozenset({"3,5,7=22"}))
    assert why[0] == why[4] == "held_out" and problem_of[0] is None


# The starvation bug of seed 001, section 5.2, its fix, and the other ways to fill a round, as arithmetic


@pytest.mark.parametrize(("admitted", "slots", "how", "filled"), [
    # accumulation 8, 16 slots of which 8 are anchors (anchored_shaped); the authors' starved step plays 8 fixed ones
    *((n, 16, (0.5, "truncate", 8), (0, 8)) for n in range(1, 8)),
    *((n, 16, (0.5, "anchor", 8), (n, 16 - n)) for n in range(1, 8)),
    *((n, 16, (0.0, "none"), (min(n, 16), 0)) for n in (0, 5, 20)),
    # as the authors pad: n_fixed = max(n_valid, 8), the batch to a multiple of 8: 1 + 8 = 9 -> 16, 9 + 9 = 18 -> 24
    *((n, 64, (0.5, "keep_all", 8), (n, anchors)) for n, anchors in (
        (0, 8), (1, 15), (7, 9), (8, 8), (9, 15), (12, 12), (20, 20), (32, 32))),
    # 8 slots: two proposals and two anchors already make 4; 5 + 5 = 10 would not fit, 4 + 4 = 8 does
    (30, 8, (0.5, "keep_all", 2), (4, 4)),
    # a quarter of fixed data: 9 proposals want 3 anchors (9 x .25 / .75, no fraction of a float more)
    (9, 99, (0.25, "keep_all", 1), (9, 3)), (3, 99, (0.0, "keep_all", 4), (3, 1)),
    (0, 99, (0.0, "keep_all", 4), (0, 0)),
])  # fmt: skip
def test_slots_are_filled(admitted, slots, how, filled):
    assert slots_filled(admitted, slots, *how) == filled


def test_a_problem_is_not_novel_for_exactly_the_window_and_lists_are_bounded():
    state, seen = Archive(), []
    state.record_round(["a"], window=2, starved=False)  # played in round 0
    for _ in range(3):  # asked in rounds 1, 2, 3
        seen.append(state.played_within("a", 2))
        state.record_round([], window=2, starved=False)
    assert seen == [True, True, False]
    for i in range(PLAYED_LIMIT + 10):
        state.record_played([str(i)], [i / 1000])
    assert len(state.played) == PLAYED_LIMIT and state.played[0] == "10"
    assert len(state.recent_rates) == RATES_LIMIT and state.recent_rates[-1] == (PLAYED_LIMIT + 9) / 1000
    state.record_played([f"new {i}" for i in range(PLAYED_LIMIT + 3)], [0.1] * (PLAYED_LIMIT + 3))
    assert len(state.played) == PLAYED_LIMIT and state.played[-1] == f"new {PLAYED_LIMIT + 2}"
    old = Archive()
    old.load_state_dict({"rounds": 4, "last_played": {"a": 3}})  # from before there was an archive
    assert old.rounds == 4 and old.played == [] and old.recent_rates == []


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
    proposals = [p for by, own in written.items() for p in examine(domain, own, [{"operands": 3}] * len(own), by)]
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
