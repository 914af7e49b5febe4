# Tests: proposers/symbolic/refresh.py, proposers/symbolic/bandits.py, proposers/symbolic/factorized.py
"""Symbolic proposers in real runs of the tiny model: they train, and a resumed run is the straight run."""

import pytest

from .conftest import equal, goes_on, rounds, weights

COMMON = dict(candidates=32, refresh=2, keep=8)
LEARNED = dict(difficulty="predictor", difficulty_kwargs={"least": 10, "trees": 10}, relabel_every=1, relabel=12)
HARD = dict(played_labels=True, selection="hard_band", selection_kwargs={"low": 0.0, "high": 0.9})
RUN = dict(
    roles={"conjecturer": {"players": 0}}, conjecturer_micro_batches=0, conjecturer_num_generations=None, max_steps=5,
    save_strategy="steps", save_steps=3, anchor_fraction=0.75, guard=True,
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("ucb", {"difficulty": "rollout", "difficulty_kwargs": {"samples": 4}}),
        ("factorized", LEARNED | HARD),
    ],
)
def test_a_resumed_symbolic_run_equals_the_straight_run_bit_for_bit(build, name, more):
    given = {**RUN, "proposer": name, "proposer_kwargs": {**COMMON, **more}}
    straight = build("straight", **given)
    before = weights(straight)
    straight.train()
    assert not equal(before, weights(straight))
    goes_on(straight, build("resumed", **given), 3)
    lines = rounds(straight.args.output_dir)
    assert [line["step"] for line in lines if "proposer/raw" in line] == [1, 3, 5]
    assert all(line["round/conjectured_slots"] == 2 for line in lines)  # a quarter of 32 / 4 slots
