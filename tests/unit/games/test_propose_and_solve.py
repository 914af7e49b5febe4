"""The joint round without a model: scripted proposals and answers, and what each is credited with."""

import math

import torch

from countdown_selfplay.countdown import CountdownDomain, Problem
from countdown_selfplay.curriculum import CurriculumState
from countdown_selfplay.games.base import GameSettings, Rollout, RoundContext
from countdown_selfplay.games.propose_and_solve import ProposeAndSolve
from countdown_selfplay.objectives import make_objective
from countdown_selfplay.rewards import make_conjecturer_reward

TINY = CountdownDomain.tiny()
ANCHORS = [Problem((1, 2, 3), 6), Problem((2, 2, 2), 8), Problem((4, 5, 6), 15), Problem((9, 1, 1), 9)]
SOLVED = {"3,5,7=22": ["3 * 5 + 7", "3 + 5 + 7", "3 + 5 + 7", "3 * 5 + 7"]}  # 2 of 4 right: p = 0.5


def play(proposals, settings=None, state=None, world=1, rank=0, **changes):
    """One round in which the conjecturer writes `proposals` and the prover answers SOLVED or always wrongly."""
    values = dict(slots=4, anchor_slots=2, proposals=len(proposals), prover_group=4, conjecturer_group=len(proposals))
    settings = GameSettings(**values, operands=(3,), samples=2, **changes)
    asked = {}

    def rollout(role, rows):
        asked[role] = rows
        if role == "conjecturer":
            return Rollout(role, rows, list(proposals), torch.full((len(proposals),), math.nan), {})
        texts = []
        for i, row in enumerate(rows):
            key = Problem(tuple(row["numbers"]), row["target"]).key
            texts.append(SOLVED.get(key, ["1 + 1"] * 4)[i % 4])
        scores = [
            TINY.verify(t, Problem(tuple(r["numbers"]), r["target"])).score for t, r in zip(texts, rows, strict=True)
        ]
        return Rollout(role, rows, texts, torch.tensor(scores), {})

    context = RoundContext(
        settings=settings, domain=TINY, state=state or CurriculumState(),
        conjecturer_reward=make_conjecturer_reward("tent"),
        objectives={role: make_objective("rloo") for role in ("prover", "conjecturer")},
        excluded=frozenset(), rollout=rollout, gather=lambda items: items, rank=rank, world=world,
    )  # fmt: skip
    return ProposeAndSolve().play(context, ANCHORS), asked, context.state


def test_a_played_proposal_earns_the_tent_and_a_refused_one_the_invalid_reward():
    # rewards: tent(0.5) = 0.75, 0 (unparseable), 0 (unsolvable), tent(0) = 0; leave-one-out over four
    result, asked, _ = play(["3 5 7 = 22", "?", "1 1 1 = 99", "2 3 4 = 24"])
    assert result.batches["conjecturer"].advantages_B.tolist() == [0.75, -0.25, -0.25, -0.25]
    assert [row["target"] for row in asked["prover"][::4]] == [22, 24, 6, 8]  # two proposals, then anchors
    assert result.metrics["conjecturer/reward"] == 0.75 / 4
    assert result.metrics["round/solve_rate_mean"] == 0.25 and result.metrics["round/conjectured_slots"] == 2
    assert result.metrics["round/solve_rate_histogram"] == [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0]


def test_a_proposal_that_found_no_slot_has_no_reward_and_is_in_no_baseline():
    # three admitted, two slots: the third is not measured. Rewards .75, 0, none, 0: baselines over the other two known
    result, _, _ = play(["3 5 7 = 22", "2 3 4 = 24", "6 5 4 = 15", "?"])
    assert result.batches["conjecturer"].advantages_B.tolist() == [0.75, -0.375, 0.0, -0.375]
    assert result.metrics["conjecturer/admitted_rate"] == 0.75 and result.metrics["conjecturer/played_rate"] == 0.5


def test_a_starved_round_logs_no_solve_rate_fills_every_slot_and_gives_the_conjecturer_no_signal():
    result, asked, state = play(["?", "?", "1 1 1 = 99", ""])
    assert result.metrics["round/starved"] == 1 and state.starved_rounds == 1
    assert "round/solve_rate_mean" not in result.metrics and "round/solve_rate_histogram" not in result.metrics
    assert len(asked["prover"]) == 16 and result.metrics["round/anchor_slots"] == 4
    assert not result.batches["conjecturer"].has_signal


def test_truncation_starves_where_fill_does_not():
    """Seed 001, section 5.2: one valid proposal, multiple of two: nothing is left of it."""
    proposals = ["3 5 7 = 22", "?", "?", "?"]
    truncated, _, _ = play(proposals, fill="truncate", truncate_multiple=2)
    filled, _, _ = play(proposals)
    assert truncated.metrics["round/starved"] == 1 and not truncated.batches["conjecturer"].has_signal
    assert filled.metrics["round/starved"] == 0 and filled.batches["conjecturer"].has_signal


def test_the_solve_rate_comes_from_the_verifier_and_not_from_the_reward():
    result, _, _ = play(["3 5 7 = 22", "?", "?", "?"])
    # wrong answers score 0.1 as rewards, but solve nothing: p = 2 / 4 = 0.5, not (1 + .1 + .1 + 1) / 4 = 0.55
    assert result.metrics["round/solve_rate_mean"] == 0.5


def test_the_prover_is_credited_within_each_problems_group():
    result, _, _ = play(["3 5 7 = 22", "?", "?", "?"])
    advantages = result.batches["prover"].advantages_B.reshape(4, 4)
    # scores 1, .1, .1, 1: the others' means are .4, .7, .7, .4
    assert torch.allclose(advantages[0], torch.tensor([0.6, -0.6, -0.6, 0.6]))
    assert torch.equal(advantages[1:], torch.zeros(3, 4))
    assert result.metrics["prover/zero_signal_groups"] == 0.75


def test_without_proposals_the_anchors_are_the_round():
    result, asked, _ = play([])
    assert "conjecturer" not in result.batches and "round/starved" not in result.metrics
    assert [row["target"] for row in asked["prover"][::4]] == [6, 8, 15, 9]


def test_no_text_of_the_conjecturer_reaches_the_prover():
    _, asked, _ = play(["3  5 7 =  22", "3 5 7 = 22", "03 5 7 = 22", "?"])
    assert {row["prompt"] for row in asked["prover"]} <= {"3 5 7 = 22 :"} | {
        TINY.prove_row(anchor)["prompt"] for anchor in ANCHORS
    }


def test_examples_for_the_report_carry_reasons_and_rewards():
    result, _, _ = play(["3 5 7 = 22", "?", "?", "?"])
    prover = [s for s in result.samples if s["role"] == "prover"]
    conjecturer = [s for s in result.samples if s["role"] == "conjecturer"]
    assert prover[0]["problem"] == "3,5,7=22" and prover[0]["reason"] == "correct" and prover[0]["reward"] == 1.0
    assert conjecturer[0]["reason"] == "ok" and conjecturer[0]["reward"] == 0.75 and conjecturer[1]["problem"] is None
