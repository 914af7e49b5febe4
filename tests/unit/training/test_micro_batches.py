# Tests: training/micro_batch.py, training/window.py
"""Cutting a round: longest rows first, nothing lost, unselected rows masked."""

import torch

from countdown_selfplay.training.micro_batch import micro_batches, trim
from countdown_selfplay.training.window import RoleBatch, trained_counts


def role_batch(lengths, selected=None, group=2):
    """Rows that hold their own number as token and advantage."""
    rows, longest = len(lengths), max(lengths)
    mask = (torch.arange(longest)[None] < torch.tensor(lengths)[:, None]).long()
    tensors = {
        "prompt_ids": torch.arange(rows)[:, None],
        "prompt_mask": torch.ones(rows, 1, dtype=torch.long),
        "completion_ids": torch.arange(rows)[:, None].expand(rows, longest),
        "completion_mask": mask,
    }
    selected = None if selected is None else torch.tensor(selected)
    return RoleBatch(tensors, torch.arange(rows).float(), selected, torch.arange(rows) // group)


def test_the_longest_rows_come_first_and_every_row_once():
    window = micro_batches({"prover": role_batch([2, 5, 3, 1])}, {"prover": 2})
    assert [batch["prompt_ids"][:, 0].tolist() for batch in window] == [[1, 2], [0, 3]]
    assert [batch["advantages"].tolist() for batch in window] == [[1.0, 2.0], [0.0, 3.0]]
    # groups {0, 1} and {2, 3} hold 2 + 5 and 3 + 1 tokens, wherever their rows went
    assert [batch["group_tokens"].tolist() for batch in window] == [[7, 4], [7, 4]]
    second = trim({name: value for name, value in window[1].items() if name != "role"})
    assert second["completion_ids"].shape == (2, 2)  # its own longest row has 2 tokens, the round's has 5


def test_unselected_rows_are_masked_and_counted_nowhere():
    batch = role_batch([2, 5, 3, 1], selected=[True, True, False, False])
    assert trained_counts(batch) == [2.0, 7.0, 1.0]  # completions, tokens, prompts
    (only,) = micro_batches({"prover": batch}, {"prover": 1})
    assert only["prompt_ids"][:, 0].tolist() == [1, 0, 2, 3]
    assert only["completion_mask"].sum(1).tolist() == [5, 2, 0, 0]


def test_nothing_selected_leaves_one_column_to_run_through():
    """The forward pass must still run, for the sake of the other processes."""
    (only,) = micro_batches({"prover": role_batch([2, 4], selected=[False, False])}, {"prover": 1})
    assert trim({k: v for k, v in only.items() if k != "role"})["completion_ids"].shape == (2, 1)
