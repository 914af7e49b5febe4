# Tests: training/window.py
"""Behind a stop string there is padding, which is not trained on; padding tokens that were sampled are."""

import torch

from countdown_selfplay.training.window import mask_after_stops

PAD, END = 0, 2


def test_only_the_padding_behind_the_end_of_a_stopped_row_is_masked():
    ids = torch.tensor([
        [7, PAD, 8, 9, PAD, PAD],  # padding was sampled, then the stop string ended the row at the fourth token
        [7, 8, 9, PAD, PAD, PAD],
        [7, PAD, 8, END, PAD, PAD],  # ended by the end token: TRL's mask is right
        [7, PAD, 8, 9, 7, PAD],  # no stop string: cut by the limit, or padding is the end token that it sampled
    ])  # fmt: skip
    mask = torch.ones_like(ids)
    mask[2, 4:] = 0
    texts = ["7 8], target=9 </problem>", "8 </problem>", "7 8", "7 8 9 7"]
    mask_after_stops({"completion_ids": ids, "completion_mask": mask}, texts, ["</problem>"], PAD)
    assert mask.tolist() == [[1, 1, 1, 1, 0, 0], [1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]]
