# Tests: training/rollouts.py
"""The rows of `log_completions` where processes have unequally many."""

from collections import defaultdict

import torch

from countdown_selfplay.contract.round import Rollout, Turn
from countdown_selfplay.training.rollouts import completion_table


def log(prompts, **rewards):
    named = {"rewards": defaultdict(list, rewards), "extra": defaultdict(list)}
    return {"images": [], "prompt": prompts, "completion": [p.upper() for p in prompts], "advantages": [], **named}


def turn(role, rewards, judged):
    rollout = Rollout(role, [], [""] * len(rewards), verdicts=[None] * len(rewards) if judged else None)
    return Turn(rollout, torch.tensor(rewards) - 1.0, torch.tensor(rewards))


def test_rows_that_fill_up_a_process_are_left_out_and_every_turn_is_there():
    """Two processes: 2 samples here and 1 there, of 2 each; then none here and 1 there; then one of another role."""
    turns = [turn("prover", [1.0, 2.0], True), turn("prover", [], True), turn("critic", [5.0], False)]
    never = turn("prover", [], True)  # sampled on no process
    there = iter([[1], [3.0], [2.0], [1], [4.0], [3.0], [1], [6.0], [5.0]])  # counts, rewards, advantages of each
    logs = {
        id(turns[0].rollout): log(["a", "b", "c", "fill"], f=[1.0, 2.0, 3.0, 0.0]),
        id(turns[1].rollout): log(["fill", "d"], f=[0.0, 4.0]),
        id(turns[2].rollout): log(["e", "g"], f=[0.0, 0.0]),
    }
    played = [turns[0], turns[1], never, turns[2]]
    table = completion_table(played, logs, ["prover", "critic"], lambda items: [*items, *next(there)])
    assert table["prompt"] == ["a", "b", "c", "d", "e", "g"] and table["completion"] == ["A", "B", "C", "D", "E", "G"]
    assert table["rewards"]["reward"] == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    assert table["advantages"] == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert table["extra"]["role"] == ["prover"] * 4 + ["critic"] * 2
    judged = table["rewards"]["f"]
    assert judged[:4] == [1.0, 2.0, 3.0, 4.0] and all(value != value for value in judged[4:])
