# Tests: lab/rewards/solvability_aware.py
"""What refused proposals and repeated problems are charged in a round."""

from tests.unit.games.test_many_players import game_of, proposed

from countdown_selfplay.rewards import make_conjecturer_reward


def test_refused_proposals_are_charged_by_their_reason_and_lately_played_ones_as_not_novel():
    graded = make_conjecturer_reward("solvability_aware")
    assert graded.invalid_reward("not_as_asked") == graded.invalid_reward("out_of_range") == -0.75
    proposals = ["3 5 7 = 22", "7 5 3 = 22", "?", "1 1 1 = 99"]
    proposals += ["1 1 200 = 99", "1 2 9 = 18", "2 3 4 = 24", "6 5 4 = 15"]
    found = proposed(proposals, game_of(graded), excluded=["1,2,9=18"])
    # tent(.5); duplicate; unreadable; unsolvable; out of range; held out; tent(0); no slot left: not measured
    assert found == [0.75, -0.25, -1, -0.5, -0.75, -0.25, 0, None]
    assert proposed(proposals, game_of("tent", invalid_reward=-0.125))[1:5] == [-0.125] * 4
    game = game_of(make_conjecturer_reward("solvability_aware", {"not_novel": -0.125}), novelty_window=3)
    assert proposed(["3 5 7 = 22", "?"], game) == [0.75, -1]
    assert proposed(["5 3 7 = 22", "?"], game) == [-0.125, -1]
