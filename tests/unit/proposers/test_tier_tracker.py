# Tests: proposers/tiers.py
"""The tracker of a pool's tiers: Multimodal LLM Self-Play, section 3.8 and algorithm 1, step 7."""

import json

from countdown_selfplay.proposers.tiers import TierTracker


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
