# Tests: training/metrics_buffer.py, training/round.py
"""From the metrics of rounds to a log entry, and what counts as cut at the token limit."""

import torch

from countdown_selfplay.contract.round import Rollout
from countdown_selfplay.training.metrics_buffer import averaged_rounds
from countdown_selfplay.training.round import truncated_rows

END, PAD = 2, 0


def rollout(ids, mask, texts):
    tensors = {"completion_ids": torch.tensor(ids), "completion_mask": torch.tensor(mask)}
    return Rollout("prover", [], texts, tensors=tensors)


def test_only_a_full_row_without_end_token_and_stop_string_is_truncated():
    """Four tokens at most. By hand: a full row that ends on a word is cut; one that ends on the end token is not; one
    whose text holds the stop string is not, in the last column (TRL counts that one as cut) or before; a short row is
    not, whatever it ends on (a backend may leave the stop string out of the text)."""
    rows = [
        ([5, 6, 7, 8], [1, 1, 1, 1], "a b c d", True),
        ([5, 6, 7, END], [1, 1, 1, 1], "a b c", False),
        ([5, 6, 7, 9], [1, 1, 1, 1], "a b c </s>", False),
        ([5, 9, PAD, PAD], [1, 1, 0, 0], "a </s>", False),
        ([5, 6, 7, PAD], [1, 1, 1, 0], "a b c", False),
    ]
    ids, mask, texts, expected = zip(*rows, strict=True)
    assert truncated_rows(rollout(ids, mask, texts), {END}, ("</s>",), 4) == list(expected)


def test_an_end_token_that_is_also_the_padding_is_read_at_the_end_of_the_mask():
    """Padding and end token are both 2: the row's own last token decides, not the last column."""
    ids, mask = [[5, 2, 2, 2], [5, 6, 7, 2], [5, 6, 7, 8]], [[1, 1, 0, 0], [1, 1, 1, 1], [1, 1, 1, 1]]
    found = truncated_rows(rollout(ids, mask, ["a", "a b c", "a b c d"]), {2}, (), 4)
    assert found == [False, False, True]


def test_a_metric_that_a_round_does_not_have_is_left_out_of_the_mean():
    rounds = [{"prover/truncated_rate": 0.5}, {"prover/truncated_rate": 0.0, "round/solve_rate_mean": 0.3}]
    assert averaged_rounds(rounds) == {"prover/truncated_rate": 0.25, "round/solve_rate_mean": 0.3}
