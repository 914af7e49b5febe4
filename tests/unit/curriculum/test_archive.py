# Tests: curriculum/admission.py
"""Rounds, novelty, and the rolling list of played problems and mean solve rates that rewards look back at."""

from countdown_selfplay.curriculum import Archive
from countdown_selfplay.curriculum.admission import PLAYED_LIMIT, RATES_LIMIT


def test_a_problem_is_not_novel_for_exactly_the_window():
    state = Archive()
    state.record_round(["a"], window=2, starved=False)  # played in round 0
    seen = []
    for _ in range(3):  # asked in rounds 1, 2, 3
        seen.append(state.played_within("a", 2))
        state.record_round([], window=2, starved=False)
    assert seen == [True, True, False]


def test_both_are_bounded():
    state = Archive()
    for i in range(PLAYED_LIMIT + 10):
        state.record_played([str(i)], [i / 1000])
    assert len(state.played) == PLAYED_LIMIT and state.played[0] == "10"
    assert len(state.recent_rates) == RATES_LIMIT and state.recent_rates[-1] == (PLAYED_LIMIT + 9) / 1000
    state.record_played([f"new {i}" for i in range(PLAYED_LIMIT + 3)], [0.1] * (PLAYED_LIMIT + 3))
    assert len(state.played) == PLAYED_LIMIT and state.played[-1] == f"new {PLAYED_LIMIT + 2}"


def test_a_state_from_before_the_archive_loads_with_an_empty_one():
    state = Archive()
    state.load_state_dict({"rounds": 4, "last_played": {"a": 3}})
    assert state.rounds == 4 and state.played == [] and state.recent_rates == []
