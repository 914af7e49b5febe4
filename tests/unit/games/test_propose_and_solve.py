# Tests: games/propose_and_solve.py, games/health.py
"""The joint round without a model: scripted proposals and answers, and what each is credited with."""

from collections import Counter
from types import SimpleNamespace

import pytest
import torch
from tests.toy_domain import CountingDomain
from tests.unit.proposers.test_targets import turn_of

from countdown_selfplay.contract.round import Rollout
from countdown_selfplay.countdown import CountdownDomain, Problem
from countdown_selfplay.games.health import prover_health
from countdown_selfplay.games.propose_and_solve import ProposeAndSolve, Settings
from countdown_selfplay.testing import ScriptedRound

TINY = CountdownDomain.tiny()
ANCHORS = [Problem((1, 2, 3), 6), Problem((2, 2, 2), 8), Problem((4, 5, 6), 15), Problem((9, 1, 1), 9)]
SOLVED = {"3,5,7=22": ["3 * 5 + 7", "3 + 5 + 7", "3 + 5 + 7", "3 * 5 + 7"]}  # 2 of 4 right: p = 0.5


def play(proposals, game=None, **changes):
    """One round of four slots, two of them the anchors', in which the conjecturer writes `proposals` and the prover
    answers SOLVED or always wrongly."""
    count = len(proposals)

    def write(player, row, i):
        if player == "conjecturer":
            return proposals[i]
        return SOLVED.get(Problem(tuple(row["numbers"]), row["target"]).key, ["1 + 1"] * 4)[i]

    sizes = {"prover": (4, 4)} | ({"conjecturer": (count, count)} if count else {})
    played = ScriptedRound(write, sizes)
    game = game or ProposeAndSolve(settings=Settings(samples_per_log=2, **changes))
    return game.play(played, ANCHORS), played, game


def test_a_played_proposal_earns_the_tent_a_refused_one_the_invalid_reward_and_one_without_a_slot_none():
    # rewards: tent(0.5) = 0.75, 0 (unparseable), 0 (unsolvable), tent(0) = 0; leave-one-out over four
    result, asked, _ = play(["3 5 7 = 22", "?", "1 1 1 = 99", "2 3 4 = 24"])
    assert turn_of(result, "conjecturer").advantages_B.tolist() == [0.75, -0.25, -0.25, -0.25]
    assert [row["target"] for row in asked.rows["prover"]] == [22, 24, 6, 8]  # two proposals, then anchors
    assert result.metrics["conjecturer/reward"] == 0.75 / 4
    assert result.metrics["round/solve_rate_mean"] == 0.25 and result.metrics["round/conjectured_slots"] == 2
    assert result.metrics["round/solve_rate_histogram"] == [1, 0, 1, 0, 0]  # four attempts: 0 and 2 of them
    # three admitted, two slots: the third is not measured. Rewards .75, 0, none, 0: baselines over the other two known
    result, _, _ = play(["3 5 7 = 22", "2 3 4 = 24", "6 5 4 = 15", "?"])
    assert turn_of(result, "conjecturer").advantages_B.tolist() == [0.75, -0.375, 0.0, -0.375]
    assert result.metrics["conjecturer/admitted_rate"] == 0.75 and result.metrics["conjecturer/played_rate"] == 0.5


def test_a_starved_round_fills_every_slot_and_truncation_starves_where_fill_does_not():
    result, asked, game = play(["?", "?", "1 1 1 = 99", ""])
    assert result.metrics["round/starved"] == 1 and game.archive.starved_rounds == 1
    assert "round/solve_rate_mean" not in result.metrics and "round/solve_rate_histogram" not in result.metrics
    assert len(asked.rows["prover"]) == 4 and result.metrics["round/anchor_slots"] == 4
    assert not turn_of(result, "conjecturer").advantages_B.any()
    # Seed 001, section 5.2: one valid proposal, multiple of two: nothing is left of it.
    proposals = ["3 5 7 = 22", "?", "?", "?"]
    truncated, _, _ = play(proposals, fill="truncate", truncate_multiple=2)
    filled, _, _ = play(proposals)
    assert truncated.metrics["round/starved"] == 1 and not turn_of(truncated, "conjecturer").advantages_B.any()
    assert filled.metrics["round/starved"] == 0 and turn_of(filled, "conjecturer").advantages_B.any()


def test_the_prover_is_credited_within_each_problems_group_and_examples_carry_it():
    result, _, _ = play(["3 5 7 = 22", "?", "?", "?"])
    advantages = turn_of(result, "prover").advantages_B.reshape(4, 4)
    # scores 1, .1, .1, 1: the others' means are .4, .7, .7, .4
    assert torch.allclose(advantages[0], torch.tensor([0.6, -0.6, -0.6, 0.6]))
    assert torch.equal(advantages[1:], torch.zeros(3, 4))
    assert result.metrics["prover/zero_signal_groups"] == 0.75
    prover = [s for s in result.samples if s["role"] == "prover"]
    conjecturer = [s for s in result.samples if s["role"] == "conjecturer"]
    assert prover[0]["problem"] == "3,5,7=22" and prover[0]["reason"] == "correct" and prover[0]["reward"] == 1.0
    assert conjecturer[0]["reason"] == "ok" and conjecturer[0]["reward"] == 0.75 and conjecturer[1]["problem"] is None
    # Right, wrong, wrong, right are paid 1, 0.1, 0.1, 1: 1 - 1.2 / 3. The other logged answer is the third problem's.
    assert prover[0]["advantage"] == 0.6 and [row["source"] for row in prover] == ["proposal", "data"]
    # Leave one out of 0.75, 0, 0, 0.
    assert [row["advantage"] for row in conjecturer] == [0.75, -0.25]
    assert conjecturer[0]["solve_rate"] == 0.5 and "solve_rate" not in conjecturer[1]


def test_no_text_of_the_conjecturer_reaches_the_prover_and_without_one_the_anchors_are_the_round():
    _, asked, _ = play(["3  5 7 =  22", "3 5 7 = 22", "03 5 7 = 22", "?"])
    known = {"3 5 7 = 22 :", *(TINY.prove_row(anchor)["prompt"] for anchor in ANCHORS)}
    assert {row["prompt"] for row in asked.rows["prover"]} <= known
    result, asked, _ = play([])
    assert [turn.rollout.role for turn in result.turns] == ["prover"] and "round/starved" not in result.metrics
    assert [row["target"] for row in asked.rows["prover"]] == [6, 8, 15, 9]


def test_each_answer_is_judged_once_and_proposals_never():
    domain = CountingDomain(TINY)
    game = ProposeAndSolve(settings=Settings(anchor_fraction=0.5))
    texts = iter(f"{i} + 0" for i in range(99))  # all different, so that a second judgement would be counted
    write = lambda player, row, i: "3 5 7 = 22" if player == "conjecturer" else next(texts)  # noqa: E731
    played = ScriptedRound(write, {"prover": (4, 4), "conjecturer": (4, 4)}, domain)
    for _ in range(2):
        game.play(played, ANCHORS)
        played = played.next()
    assert len(domain.verified) == 2 * 16 and set(domain.verified.values()) == {1}


def test_a_mastered_anchor_comes_last_and_its_answers_are_not_trained_on():
    """The prover solves 1,2,3=6 with 2 of 4 answers a round and is done with a problem after 2."""
    write = lambda player, row, i: "1 + 2 + 3" if i < 2 else "1 + 1"  # noqa: E731
    game = ProposeAndSolve(settings=Settings())
    played = ScriptedRound(write, {"prover": (2, 4)}, limits={"prover": 2})
    first = game.play(played, ANCHORS)
    assert [row["target"] for row in played.rows["prover"]] == [6, 8] and first.metrics["round/mastered_problems"] == 1
    assert game.archive.solved == {"1,2,3=6": 2} and first.solved == [("1,2,3=6", 2, 4), ("2,2,2=8", 0, 4)]
    second = played.next()
    game.play(second, ANCHORS)
    assert [row["target"] for row in second.rows["prover"]] == [8, 15]
    third = second.next()
    result = game.play(third, [ANCHORS[0]] * 2)  # nothing else is at hand
    assert turn_of(result, "prover").selected_B.tolist() == [False] * 8


def test_health_tells_the_format_rate_and_the_entropy_of_problems_of_the_data_set():
    """Right, wrong and of other numbers are three of five; a domain whose verdicts have no vote has no such rate."""
    texts = ["3 * 5", "3 + 5", "1 + 1", "3 * 5 +", "propose"]
    found = Rollout("prover", [{}], texts, 5, rewards_B=torch.zeros(5))
    found.verdicts = CountdownDomain.tiny().verify(texts, [Problem((3, 5), 15)] * 5)
    round = ScriptedRound(lambda *given: "", {"prover": (1, 5)})
    assert prover_health(round, found, torch.zeros(5))["prover/format_rate"] == 0.6
    found.verdicts = [SimpleNamespace(correct=False)] * 5
    assert "prover/format_rate" not in prover_health(round, found, torch.zeros(5))
    # two problems of two answers with three and two, one and three tokens; the first is a proposal
    mask = torch.tensor([[1, 1, 1], [1, 1, 0], [1, 0, 0], [1, 1, 1]])
    logps = torch.tensor([[-9.0, -9, -9], [-9, -9, -9], [-1, -9, -9], [-2, -3, -4]])
    found = Rollout("prover", [{}] * 2, [""] * 4, 2, tensors={"completion_mask": mask, "old_per_token_logps": logps})
    found.rewards_B = torch.zeros(4)
    found.verdicts = CountdownDomain.tiny().verify(["1"] * 4, [Problem((3, 5), 15)] * 4)
    round = ScriptedRound(lambda *given: "", {"prover": (2, 2)})
    health = prover_health(round, found, torch.zeros(4), [False, True])
    assert health["prover/sampled_entropy"] == pytest.approx((1 + 2 + 3 + 4) / 4)
    # all problems: 5 tokens more of 9
    assert prover_health(round, found, torch.zeros(4))["prover/sampled_entropy"] == pytest.approx((10 + 45) / 9)
    # what an engine says of its own sampling comes first; a token that it cannot score counts nowhere
    own = torch.where(logps == -4, torch.nan, logps / 2)
    found.tensors["sampling_per_token_logps"] = own
    assert prover_health(round, found, torch.zeros(4), [False, True])["prover/sampled_entropy"] == 1
    assert "prover/sampled_entropy" not in prover_health(round, found, torch.zeros(4), [False, False])
    found.tensors = {"completion_mask": mask}
    assert "prover/sampled_entropy" not in prover_health(round, found, torch.zeros(4))


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


def collapsed(duplicates):
    """64 proposals: 39 times 1 1 1 = 1, which is always solved, 11 others, which never are, 14 without a solution."""
    proposals = [EASY] * 39 + OTHERS + ["1 1 1 = 99"] * 14
    settings = {**BAND, "truncate_multiple": 16, "duplicate_proposals": duplicates}
    return played(proposals, lambda target, _: 4 * (target == 1), **settings)


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
    assert turn_of(result, "conjecturer").advantages_B.tolist() == [0.75, -0.25, -0.25, -0.25]
    shared, _, _ = played(proposals, right, **band, duplicate_proposals="share")
    assert turn_of(shared, "conjecturer").advantages_B.tolist() == [0.5, 0.5, -0.5, -0.5]
    # Two of four answers right for each copy: 4 in all, so that a prover that is done after 3 is done with it.
    settings = {**BAND, "truncate_multiple": 2, "duplicate_proposals": "keep", "novelty_window": 2}
    result, round, game = played(["3 5 7 = 22"] * 2, lambda *_: 2, limit=3, **settings)
    assert result.solved == [("3,5,7=22", 2, 4)] * 2 and game.archive.mastered(3) == {"3,5,7=22"}
    assert game.archive.played == ["3,5,7=22"] and list(game.archive.last_played) == ["3,5,7=22"]
    assert game.archive.recent_rates == [0.5]
    again = game.play(round.next(), [])  # the window looks at earlier rounds
    assert again.metrics["conjecturer/admitted_rate"] == 0 and again.metrics["round/starved"] == 1


def test_what_truncation_cuts_off_earns_nothing_or_what_is_set():
    """Three solvable ones cut to two: rewards .75, 0, none or 0, 0; leave-one-out over those that have one."""
    proposals, right = ["3 5 7 = 22", *OTHERS[:2], "?"], lambda target, _: 2 * (target == 22)
    for unplayed, advantages in ((None, [0.75, -0.375, 0.0, -0.375]), (0.0, [0.75, -0.25, -0.25, -0.25])):
        result, _, _ = played(proposals, right, **BAND, truncate_multiple=2, unplayed_reward=unplayed)
        assert turn_of(result, "conjecturer").advantages_B.tolist() == advantages
