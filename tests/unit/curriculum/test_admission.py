# Tests: curriculum/admission.py, curriculum/archive.py
"""Which proposals may be played, decided on gathered records: every reason once."""

from countdown_selfplay.countdown import CountdownDomain
from countdown_selfplay.curriculum import Archive
from countdown_selfplay.curriculum.admission import admit, examine

TINY = CountdownDomain.tiny()
TEXTS = [
    "3 5 7 = 22",  # 3 * 5 + 7
    "no problem",
    "3 5 = 8",  # two operands where three are asked for
    "1 1 1 = 99",  # 1, 2, 3 and fractions are all that three ones make
    "7 5 3 = 22",  # the first again, in another order
    "2 3 4 = 24",  # 2 * 3 * 4
]


def reasons(excluded=frozenset(), window=0, duplicates="reject", state=None):
    candidates = examine(TINY, TEXTS, [{"operands": 3}] * len(TEXTS))
    found = admit(TINY, candidates, state or Archive(), excluded, window, duplicates)
    return found.reasons, found.problem_of, [p.key for p in found.problems]


def test_each_refusal_has_its_reason_and_the_first_of_equal_problems_is_admitted():
    why, problem_of, keys = reasons()
    assert [w for i, w in enumerate(why) if i != 1] == ["ok", "out_of_range", "unsolvable", "duplicate", "ok"]
    assert why[1] not in ("ok", "out_of_range")  # the parser's own word for it
    assert problem_of == [0, None, None, None, None, 1] and keys == ["3,5,7=22", "2,3,4=24"]


def test_a_shared_duplicate_points_at_the_first_one_and_takes_no_slot():
    why, problem_of, keys = reasons(duplicates="share")
    assert why[4] == "duplicate" and problem_of[4] == 0 and len(keys) == 2


def test_held_out_problems_are_refused():
    why, problem_of, _ = reasons(excluded=frozenset({"3,5,7=22"}))
    assert why[0] == why[4] == "held_out" and problem_of[0] is None


def test_a_problem_of_a_recent_round_is_not_novel():
    state = Archive()
    state.record_round(["2,3,4=24"], window=2, starved=False)
    assert reasons(window=2, state=state)[0][5] == "not_novel"
    assert reasons(window=0, state=state)[0][5] == "ok"
