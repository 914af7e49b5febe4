# Tests: training/anchor_order.py
"""The rows of a round are read once, though TRL's sampler asks for them at each micro-batch."""

import torch
from accelerate.utils import send_to_device
from datasets import Dataset

from countdown_selfplay.training.anchor_order import RoundRows


class Counted:
    """A data set that knows which rows it was asked for."""

    def __init__(self, rows):
        self.rows, self.asked = rows, []

    def __len__(self):
        return len(self.rows)

    def __getitems__(self, indices):
        self.asked.append(indices)
        return self.rows.__getitems__(indices)


def test_the_micro_batches_of_a_round_share_one_reading_of_its_distinct_rows():
    rows = Counted(Dataset.from_list([{"prompt": str(i)} for i in range(4)]))
    order = [2, 2, 0, 0] * 3 + [1, 1, 3, 3]  # two problems twice each, three micro-batches; then the next round
    loader = torch.utils.data.DataLoader(RoundRows(rows), batch_size=4, sampler=order, collate_fn=lambda batch: batch)
    batches = [[row["prompt"] for row in batch] for batch in loader]
    assert batches == [["2", "2", "0", "0"]] * 3 + [["1", "1", "3", "3"]]
    assert rows.asked == [[2, 0], [1, 3]]


def test_accelerate_hands_the_batch_on_as_it_is():
    rows = RoundRows(Dataset.from_list([{"nums": [1, 2]}]))
    batch = rows.__getitems__([0])
    assert send_to_device(batch, torch.device("cpu")) is batch
