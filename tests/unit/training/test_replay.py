# Tests: training/replay.py, training/states.py, training/window.py
"""Kept samples: what comes in, what is handed out, on one process and on two."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from countdown_selfplay.distributed.processes import ALONE
from countdown_selfplay.errors import CheckpointError
from countdown_selfplay.objectives.base import Replay
from countdown_selfplay.training import states
from countdown_selfplay.training.replay import SampleReplay
from countdown_selfplay.training.window import RoleBatch

from .test_window import tensors_of, trained

SETTINGS = SimpleNamespace(beta=0.05, temperature=1.0)


def batch(tokens, selected, first=0):
    """Rows of one prompt token and `tokens[i]` completion tokens, all of value first + i; reference -value / 10."""
    tensors = tensors_of([1] * len(tokens), tokens, first - 1)
    tensors["ref_per_token_logps"] = -tensors["completion_ids"] / 10
    chosen = torch.tensor(selected)
    return RoleBatch(tensors, chosen.float(), chosen, torch.arange(len(tokens)) // 2)


def test_fewer_kept_than_rows_leaves_the_other_rows_unselected():
    replay = SampleReplay(Replay(rounds=2), SETTINGS)
    found = replay.play(batch([2, 3, 1, 1], [True, False, True, False]), 4, 0, ("seed",), ALONE)
    tensors = found.tensors
    assert found.selected_B.tolist() == [True, True, False, False] and found.advantages_B.tolist() == [1, 1, 0, 0]
    assert tensors["prompt_ids"][:2, 0].tolist() == [0, 2]
    assert tensors["completion_mask"].tolist() == [[1, 1], [1, 0], [0, 0], [0, 0]]
    assert torch.allclose(tensors["ref_per_token_logps"][1], torch.tensor([-0.2, 0.0]))


def test_weights_are_divided_by_their_mean_over_the_tokens():
    """2 and 3 tokens of weights 1 and .25: the sum over tokens is 2.75, so that the mean over five becomes one by
    weight if the weights are multiplied by 5 / 2.75. Rewards of a tenth of that size make the same step."""
    for size in (1.0, 0.1):
        part = batch([2, 3], [True, True])
        part.advantages_B = torch.tensor([1.0, 0.25]) * size
        found = SampleReplay(Replay(rounds=1, weighted=True), SETTINGS).play(part, 2, 0, ("seed",), ALONE)
        assert found.advantages_B.tolist() == pytest.approx([5 / 2.75, 1.25 / 2.75])
    part.advantages_B = torch.zeros(2)  # nothing counts: nothing is divided
    found = SampleReplay(Replay(rounds=1, weighted=True), SETTINGS).play(part, 2, 0, ("seed",), ALONE)
    assert found.advantages_B.tolist() == [0, 0] and not found.has_signal


def test_samples_leave_after_their_rounds_and_beyond_the_capacity():
    replay = SampleReplay(Replay(rounds=2, capacity=3), SETTINGS)
    for round_ in range(3):
        replay.play(batch([1, 1], [True, True], first=10 * round_), 2, round_, ("seed",), ALONE)
        assert [sample.prompt[0] for sample in replay.kept] == [[0, 1], [1, 10, 11], [11, 20, 21]][round_]


def test_two_processes_hold_the_same_list_and_hand_out_different_rows():
    parts = [batch([1, 1], [True, True]), batch([1, 1], [True, False], first=10)]
    stores = [SampleReplay(Replay(rounds=None), SETTINGS) for _ in parts]
    lists = []  # what each process puts into the gather, found by a first, lonely call
    for part in parts:
        lonely = SimpleNamespace(rank=0, world=1, gather=lambda items: lists.append(items) or items)
        SampleReplay(Replay(rounds=None), SETTINGS).play(part, 2, 0, ("s",), lonely)
    together = [*lists[0], *lists[1]]
    found = [
        store.play(part, 2, 0, ("s",), SimpleNamespace(rank=rank, world=2, gather=lambda items: together))
        for rank, (store, part) in enumerate(zip(stores, parts, strict=True))
    ]
    assert stores[0].kept == stores[1].kept and len(stores[0].kept) == 3
    handed = [number for one in found for number in trained(one)]
    assert sorted(handed) == [0, 1, 10]


def test_more_kept_than_rows_are_drawn_without_repetition_by_the_key_alone():
    draws = []
    for key in (("a",), ("a",), ("b",), ("c",)):
        replay = SampleReplay(Replay(rounds=None), SETTINGS)
        replay.play(batch([1] * 4, [True] * 4), 4, 0, key, ALONE)
        replay.play(batch([1] * 4, [True] * 4, first=10), 4, 1, key, ALONE)
        found = replay.play(batch([1] * 4, [True] * 4, first=20), 4, 2, key, ALONE)
        draws.append(found.tensors["prompt_ids"][:, 0].tolist())
        assert len(set(draws[-1])) == 4 and set(draws[-1]) <= {*range(4), *range(10, 14), *range(20, 24)}
    assert draws[0] == draws[1] and not draws[0] == draws[2] == draws[3]


@pytest.mark.parametrize("tokens", [[2, 1], [], [3]], ids=["two", "none", "one"])
def test_what_is_saved_is_read_back_to_the_last_bit(tokens, tmp_path):
    replay = SampleReplay(Replay(rounds=None), SETTINGS)
    if tokens:
        replay.play(batch(tokens, [True] * len(tokens), first=5), len(tokens), 3, ("s",), ALONE)
    assert len(replay.kept) == len(tokens)
    states.write(tmp_path, {"replay/prover": replay}, {})
    again = SampleReplay(Replay(rounds=None), SETTINGS)
    states.load({"replay/prover": again}, states.read(tmp_path)["states"])
    assert again.kept == replay.kept


def test_the_state_is_arrays_and_refused_where_the_reference_log_probs_would_differ():
    replay = SampleReplay(Replay(rounds=None), SETTINGS)
    replay.play(batch([2, 1], [True] * 2, first=5), 2, 3, ("s",), ALONE)
    state = replay.state_dict()
    assert state.pop("reference") == [True, 1.0] and all(isinstance(value, np.ndarray) for value in state.values())
    assert state["completion"].tolist() == [5, 5, 6] and state["completion_length"].tolist() == [2, 1]
    assert state["round"].tolist() == [3, 3] and state["advantage"].tolist() == [1.0, 1.0]
    other = SampleReplay(Replay(rounds=None), SimpleNamespace(beta=0.0, temperature=1.0))
    with pytest.raises(CheckpointError, match=r"temperature\) = \(True, 1.0\) and this run has \(False, 1.0\)"):
        other.load_state_dict(replay.state_dict())


def test_as_many_rows_are_handed_out_as_the_player_has_whatever_came_in():
    """Two rows of signal come in, eight go out: the two, and copies of the first prompt that are not selected."""
    replay = SampleReplay(Replay(rounds=1), SETTINGS)
    found = replay.play(batch([2, 1], [True] * 2, first=5), 8, 0, ("s",), ALONE)
    assert found.rows == 8 and found.selected_B.tolist() == [True] * 2 + [False] * 6
    assert found.tensors["prompt_ids"][:, 0].tolist() == [5, 6, 5, 5, 5, 5, 5, 5]
    assert found.tensors["completion_mask"].sum(1).tolist() == [2, 1, 0, 0, 0, 0, 0, 0]


def test_kept_samples_take_eight_bytes_a_number(tmp_path):
    replay = SampleReplay(Replay(rounds=None), SETTINGS)
    for round_ in range(64):
        replay.play(batch([512] * 2, [True] * 2), 2, round_, ("s",), ALONE)
    states.write(tmp_path, {"replay/prover": replay}, {})
    # 128 samples of 1 + 512 tokens and 512 log-probs; 5 more numbers a sample and a header of less than 2 kB
    numbers = 128 * (1 + 512 + 512 + 5)
    assert numbers * 8 <= (tmp_path / states.ARRAYS).stat().st_size <= numbers * 8 + 2048
