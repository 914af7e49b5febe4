# Tests: training/window.py
"""Steps of so many trained sequences (SGS, appendix C.1: 32): how many, of which rows, on one process and on two."""

from collections import Counter
from types import SimpleNamespace

import pytest
import torch

from countdown_selfplay.distributed.processes import ALONE
from countdown_selfplay.training.window import RoleBatch, sequence_windows, trained_counts

from .test_window import batch, tensors_of, trained


def test_seventy_trained_sequences_at_32_a_step_are_three_steps_of_32_32_and_6():
    rows = batch([1.0, 0.0] * 70)  # every second one is a wrong answer: 70 of 140 have credit
    cut, filled, dropped = sequence_windows(rows, 40, 5, 32, 7, ALONE)
    assert filled == 3 and dropped == 0 and len(cut) == 5 and {window.rows for window in cut} == {40}
    # What each loss is divided by: the window's own completions, of one token each.
    assert [trained_counts(window)[:2] for window in cut] == [[32, 32], [32, 32], [6, 6], [0, 0], [0, 0]]
    assert [window.has_signal for window in cut] == [True] * 3 + [False] * 2
    found = [number for window in cut for number in trained(window)]
    assert sorted(found) == list(range(1, 141, 2)) and found != sorted(found)
    assert all(float(window.advantages_B.sum()) == len(trained(window)) for window in cut)


@pytest.mark.parametrize(
    "credited, steps, expected",
    [
        (0, 3, [0, 0, 0]),
        (32, 3, [32, 0, 0]),
        (33, 3, [32, 1, 0]),
        (97, 3, [33, 33, 31]),  # more than 3 x 32: ceil(97 / 3) = 33 a step
        (130, 3, [40, 40, 40]),  # and no more than the 40 rows that a step holds: 10 are dropped
        (70, 1, [40]),
    ],
)
def test_steps_grow_where_the_most_steps_of_a_round_are_too_few(credited, steps, expected):
    cut, filled, dropped = sequence_windows(batch([0.0] * 10 + [1.0] * credited), 40, steps, 32, 7, ALONE)
    assert [len(trained(window)) for window in cut] == expected
    assert filled == sum(map(bool, expected)) and dropped == credited - sum(expected)


def test_groups_of_one_size_that_divides_a_step_stay_whole():
    """CISPO's loss is a mean over the tokens of a group: 12 groups of 4, in steps of 8, are 2 groups a step."""
    cut, filled, _ = sequence_windows(batch([0.5] * 48, group=4), 8, 8, 8, 3, ALONE)
    assert filled == 6
    for window in cut[:6]:
        assert sorted(Counter((number - 1) // 4 for number in trained(window)).values()) == [4, 4]
        assert trained_counts(window)[2] == 2


def test_rows_of_the_supervised_term_count_as_trained():
    rows = batch([0.0] * 6)
    rows.tensors["sft_mask"] = torch.tensor([[0], [1], [0], [1], [1], [0]])
    cut, filled, _ = sequence_windows(rows, 4, 2, 2, 0, ALONE)
    assert filled == 2 and [int(window.tensors["sft_mask"].sum()) for window in cut] == [2, 1]


@pytest.mark.parametrize("second", [20, 0])
def test_two_processes_take_the_steps_of_one(second):
    """50 trained rows on the first process and 20 or none on the second: 32 a step over both, half of them each."""
    first = RoleBatch(tensors_of([1] * 50, [2] * 50), torch.ones(50))
    other = RoleBatch(tensors_of([3] * 30, [1] * 30, first=50), torch.tensor([1.0] * second + [0.0] * (30 - second)))
    sent = []
    for own in (first, other):
        spy = SimpleNamespace(rank=0, world=2, gather=lambda items: sent.extend(items) or items)
        sequence_windows(own, 20, 4, 32, 7, spy)
    ranks = [
        sequence_windows(own, 20, 4, 32, 7, SimpleNamespace(rank=rank, world=2, gather=lambda items: sent))
        for rank, own in enumerate((first, other))
    ]
    whole = RoleBatch(tensors_of([1] * 50 + [3] * second, [2] * 50 + [1] * second), torch.ones(50 + second))
    one, filled, _ = sequence_windows(whole, 40, 4, 32, 7, ALONE)
    assert [found[1:] for found in ranks] == [(filled, 0)] * 2 and filled == (3 if second else 2)
    for step, window in enumerate(one):
        parts = [trained(found[0][step]) for found in ranks]
        assert sorted(parts[0] + parts[1]) == trained(window)
        assert abs(len(parts[0]) - len(parts[1])) <= 1
        assert [found[0][step].rows for found in ranks] == [20, 20]
        counts = [trained_counts(found[0][step]) for found in ranks]
        assert [a + b for a, b in zip(*counts, strict=True)] == trained_counts(window)
