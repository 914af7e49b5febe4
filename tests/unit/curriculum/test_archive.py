# Tests: curriculum/archive.py
"""Rounds, novelty, JSON round trip."""

import json

from countdown_selfplay.curriculum import Archive


def test_a_problem_is_not_novel_for_exactly_the_window():
    state = Archive()
    state.record_round(["a"], window=2, starved=False)  # played in round 0
    seen = []
    for _ in range(3):  # asked in rounds 1, 2, 3
        seen.append(state.played_within("a", 2))
        state.record_round([], window=2, starved=False)
    assert seen == [True, True, False]


def test_the_archive_does_not_outgrow_the_window():
    state = Archive()
    for i in range(100):
        state.record_round([f"problem {i}"], window=3, starved=False)
    assert len(state.last_played) == 3


def test_without_a_window_everything_is_novel_and_nothing_is_kept():
    state = Archive()
    state.record_round(["a"], window=0, starved=True)
    assert not state.played_within("a", 0) and state.last_played == {} and state.starved_rounds == 1


def test_state_survives_a_round_trip_through_json():
    state = Archive()
    state.record_round(["a", "b"], window=5, starved=False)
    state.record_solved([("a", 3), ("b", 0)], limit=2)
    other = Archive()
    other.load_state_dict(json.loads(json.dumps(state.state_dict())))
    assert other == state
