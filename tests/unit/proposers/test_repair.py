# Tests: proposers/__init__.py
"""Policies whose proposals are put right before they are played."""

from countdown_selfplay.countdown import CountdownDomain, Problem, ProblemSpec, Rules
from countdown_selfplay.games.propose_and_solve import ProposeAndSolve, Settings
from countdown_selfplay.proposers import make_proposer
from countdown_selfplay.testing import ScriptedRound, in_ranks

MOVES = CountdownDomain(
    ProblemSpec((3, 4, 7), 1, 12, 1, 99), Rules(answer_format="bare"), "compact_moves", "compact_any", answers="moves"
)
# whole answers: solvable, unsolvable, unreadable, out of range (13), of the wrong size, unsolvable
TEXTS = ["3 5 7 = 22", "1 1 1 = 99", "?", "3 5 13 = 21", "1 2 = 3", "2 2 2 = 97"]


def proposed(texts=TEXTS, domain=None, repair=True, rank=0, world=1, gather=list):
    """Proposals of groups of two."""
    count = iter(texts[rank * len(texts) // world :])
    sizes = {"conjecturer": (len(texts), 2), "prover": (4, 4)}
    made = ScriptedRound(
        lambda *_: next(count), sizes, domain or CountdownDomain.tiny(), rank=rank, world=world, gather=gather
    )
    proposer = make_proposer("policies", {"repair": repair})
    return proposer.propose(made, []), proposer


def test_what_is_readable_and_in_range_and_not_solvable_gets_another_target():
    plain, quiet = proposed(repair=False)
    assert quiet.logged() == {}
    found, proposer = proposed()
    assert [p.reason for p in plain] == [
        "ok", "unsolvable", plain[2].reason, "out_of_range", "out_of_range", "unsolvable",
    ]  # fmt: skip
    assert [p.reason for p in found] == ["ok", "ok", plain[2].reason, "out_of_range", "out_of_range", "ok"]
    # three ones reach 1 (1 * 1 / 1, 1 + 1 - 1), 2 and 3; three twos 1 to 8
    assert found[1].problem.numbers == (1, 1, 1) and found[1].problem.target in (1, 2, 3)
    assert found[5].problem.numbers == (2, 2, 2) and found[5].problem.target in range(1, 9)
    assert [p.problem for p in (found[0], *found[2:5])] == [p.problem for p in (plain[0], *plain[2:5])]
    assert found[1].facts["solvable"] is False  # of what was written
    assert proposer.logged() == {"proposer/repaired_rate": 2 / 6}


def test_in_moves_every_proposal_in_range_is_put_right_alike_on_all_processes_or_refused():
    texts = ["3 5 7 = 22", "1 1 1 = 99", "1 2 3 4 5 6 7 = 50", "?"]
    found, proposer = proposed(texts, MOVES)
    assert [len(p.problem.numbers) for p in found[:3]] == [3, 3, 7] and found[3].problem is None
    assert found[0].problem.numbers == (3, 5, 7) and proposer.logged() == {"proposer/repaired_rate": 0.75}
    assert [p.reason for p in found[:3]] == ["ok"] * 3
    texts = ["1 2 3 4 5 6 7 = 50"] * 8
    alone = [p.problem for p in proposed(texts, MOVES)[0]]
    assert len(set(alone)) > 1  # 8 draws from dozens of targets
    both = in_ranks(2, lambda rank, gather: proposed(texts, MOVES, rank=rank, world=2, gather=gather)[0])
    assert [p.problem for p in both[0]] == [p.problem for p in both[1]] == alone
    domain = CountdownDomain(
        ProblemSpec((3,), 1, 12, 80, 99), MOVES.rules, "compact_moves", "compact", answers="moves"
    )
    assert [p.reason for p in proposed(["1 1 1 = 90"] * 2, domain)[0]] == ["unsolvable"] * 2


def test_the_player_is_credited_for_what_it_wrote():
    """1 1 1 = 99 is played as 1 1 1 = t, t in {1, 2, 3}, and solved by two of four answers: tent(.5) = .75."""
    right = {1: "1 + 1 - 1", 2: "1 + 1 * 1", 3: "1 + 1 + 1"}

    def write(player, row, i):
        if player == "conjecturer":
            return ["1 1 1 = 99", "?"][i]
        return right[row["target"]] if row["numbers"] == [1, 1, 1] and i < 2 else "no"

    game = ProposeAndSolve(make_proposer("policies", {"repair": True}), settings=Settings(anchor_fraction=0.5))
    made = ScriptedRound(write, {"prover": (2, 4), "conjecturer": (2, 2)})
    result = game.play(made, [Problem((1, 2, 3), 6), Problem((2, 2, 2), 8)])
    assert result.turns[-1].rewards_B.tolist() == [0.75, 0.0] and result.turns[-1].rollout.texts[0] == "1 1 1 = 99"
    assert result.metrics["proposer/repaired_rate"] == 0.5
    assert result.metrics["conjecturer/solvable_rate"] == 0.0 and result.metrics["conjecturer/admitted_rate"] == 0.5
