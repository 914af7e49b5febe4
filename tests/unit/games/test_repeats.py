# Tests: games/propose_and_solve.py
"""`duplicate_proposals: keep`: a repeat is a problem of its own, as in the program of seed 001's authors."""

from collections import Counter

import pytest

from countdown_selfplay.games.propose_and_solve import ProposeAndSolve, Settings
from countdown_selfplay.testing import ScriptedRound

EASY = "1 1 1 = 1"
OTHERS = [f"{a} {a + 1} {a + 2} = {3 * a + 3}" for a in range(1, 11)] + ["9 1 1 = 11"]  # sums of their numbers
SOLUTIONS = {1: "1 * 1 * 1", 22: "3 * 5 + 7"}
BAND = {"fill": "truncate", "anchor_fraction": 0.0, "easy_above": 0.95}


def played(proposals, right, answers=4, limit=None, **settings):
    """A round with a slot for each proposal. right: (problem's target, how often it was attempted before) -> how many
    of its answers are right."""
    seen = Counter()

    def write(player, row, i):
        if player == "conjecturer":
            return proposals[i]
        target = row["target"]
        attempt = seen[target] // answers
        seen[target] += 1
        solution = SOLUTIONS.get(target, " + ".join(map(str, row["numbers"])))
        return solution if i < right(target, attempt) else "1"

    sizes = {"prover": (len(proposals), answers), "conjecturer": (len(proposals), len(proposals))}
    round = ScriptedRound(write, sizes, limits={} if limit is None else {"prover": limit})
    game = ProposeAndSolve(settings=Settings(**settings))
    return game.play(round, []), round, game


def credit_of(result):
    (turn,) = [turn for turn in result.turns if turn.rollout.role == "conjecturer"]
    return turn.advantages_B.tolist()


def collapsed(duplicates):
    """64 proposals: 39 times 1 1 1 = 1, which is always solved, 11 others, which never are, 14 without a solution."""
    proposals = [EASY] * 39 + OTHERS + ["1 1 1 = 99"] * 14
    return played(
        proposals, lambda target, _: 4 * (target == 1), **BAND, truncate_multiple=16, duplicate_proposals=duplicates
    )


def test_truncation_and_the_means_count_every_repeat_which_shared_ones_hide_as_starvation():
    """50 solvable ones of 12 problems: the authors' program cuts 50 to 48 = 3 x 16, in the order of the proposals: the
    39 easy ones and 9 others. Mean p-hat and share too easy 39 / 48."""
    result, round, _ = collapsed("keep")
    assert result.metrics["conjecturer/admitted_rate"] == 50 / 64
    assert result.metrics["conjecturer/played_rate"] == 48 / 64
    assert [row["target"] for row in round.rows["prover"]].count(1) == 39 and len(round.rows["prover"]) == 48
    assert result.metrics["round/solve_rate_mean"] == result.metrics["round/too_easy_share"] == 39 / 48
    assert result.metrics["round/too_hard_share"] == 9 / 48 and result.metrics["round/starved"] == 0
    assert result.metrics["conjecturer/unique_rate"] == 13 / 64  # of what can be read: the unsolvable one too
    result, _, _ = collapsed("share")  # 12 problems are no 16
    assert result.metrics["round/starved"] == 1 and "round/solve_rate_mean" not in result.metrics


def test_each_repeat_has_a_solve_rate_of_its_own_and_what_is_kept_by_problem_lists_it_once():
    """Twice 3 5 7 = 22, solved 2 and 4 times of 4: the tent gives .75 at p = .5 and 0 at p = 1; two that cannot be
    read earn 0. Leave-one-out: .75 - 0 and 0 - .25. Shared: both earn .75, so .75 - .75 / 3 and 0 - 1.5 / 3."""
    proposals, right = ["3 5 7 = 22", "7 5 3 = 22", "?", "?"], lambda target, attempt: 2 if attempt == 0 else 4
    band = {**BAND, "truncate_multiple": 1}
    result, round, _ = played(proposals, right, **band, duplicate_proposals="keep")
    assert len(round.rows["prover"]) == 2 and result.metrics["round/solve_rate_mean"] == 0.75
    assert credit_of(result) == [0.75, -0.25, -0.25, -0.25]
    shared, _, _ = played(proposals, right, **band, duplicate_proposals="share")
    assert credit_of(shared) == [0.5, 0.5, -0.5, -0.5]
    # Two of four answers right for each copy: 4 in all, so that a prover that is done after 3 is done with it.
    settings = {**BAND, "truncate_multiple": 2, "duplicate_proposals": "keep", "novelty_window": 2}
    result, round, game = played(["3 5 7 = 22"] * 2, lambda *_: 2, limit=3, **settings)
    assert result.solved == [("3,5,7=22", 2, 4)] * 2 and game.archive.mastered(3) == {"3,5,7=22"}
    assert game.archive.played == ["3,5,7=22"] and list(game.archive.last_played) == ["3,5,7=22"]
    assert game.archive.recent_rates == [0.5]
    again = game.play(round.next(), [])  # the window looks at earlier rounds
    assert again.metrics["conjecturer/admitted_rate"] == 0 and again.metrics["round/starved"] == 1


@pytest.mark.parametrize(
    "unplayed, advantages", [(None, [0.75, -0.375, 0.0, -0.375]), (0.0, [0.75, -0.25, -0.25, -0.25])]
)
def test_what_truncation_cuts_off_earns_nothing_or_what_is_set(unplayed, advantages):
    """Three solvable ones cut to two: rewards .75, 0, none or 0, 0; leave-one-out over those that have one."""
    proposals = ["3 5 7 = 22", *OTHERS[:2], "?"]
    result, _, _ = played(
        proposals, lambda target, _: 2 * (target == 22), **BAND, truncate_multiple=2, unplayed_reward=unplayed
    )
    assert credit_of(result) == advantages
