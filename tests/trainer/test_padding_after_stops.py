"""Behind a stop string there is padding, which is not trained on; padding tokens that were sampled are."""

import torch

from countdown_selfplay.countdown import CountdownDomain


def test_only_the_padding_behind_the_end_of_a_stopped_row_is_masked(build):
    trainer = build()
    trainer.domain = CountdownDomain()  # proposals end with the stop string </problem>
    pad, end = trainer.processing_class.pad_token_id, trainer.processing_class.eos_token_id
    ids = torch.tensor([
        [7, pad, 8, 9, pad, pad],  # padding was sampled, then the stop string ended the row at the fourth token
        [7, 8, 9, pad, pad, pad],
        [7, pad, 8, end, pad, pad],  # ended by the end token: TRL's mask is right
        [7, pad, 8, 9, 7, pad],  # cut by the limit: all six were sampled
    ])  # fmt: skip
    mask = torch.ones_like(ids)
    mask[2, 4:] = 0
    texts = ["7 8], target=9 </problem>", "8 </problem>", "7 8", "7 8 9 7"]
    trainer._mask_after_stops("conjecturer", texts, {"completion_ids": ids, "completion_mask": mask})
    assert mask.tolist() == [[1, 1, 1, 1, 0, 0], [1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]]
