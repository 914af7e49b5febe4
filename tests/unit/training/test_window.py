# Tests: training/window.py, training/credit.py, training/micro_batch.py
"""From turns to windows: what is merged, padded, dropped and cut, and that nothing is counted twice."""

from itertools import pairwise

import pytest
import torch

from countdown_selfplay.contract.round import Rollout, Turn
from countdown_selfplay.training.credit import merged
from countdown_selfplay.training.micro_batch import micro_batches, trim
from countdown_selfplay.training.window import RoleBatch, fitted, joined, mask_after_stops, trained_counts, windows

BLANK = {
    "prompt_ids": torch.zeros(1, 1, dtype=torch.long),
    "prompt_mask": torch.ones(1, 1, dtype=torch.long),
    "completion_ids": torch.zeros(1, 1, dtype=torch.long),
    "completion_mask": torch.zeros(1, 1, dtype=torch.long),
}


def masked(lengths, left=False):
    longest = max(lengths)
    mask = (torch.arange(longest)[None] < torch.tensor(lengths)[:, None]).long()
    return mask.flip(1) if left else mask


def tensors_of(prompts, completions, first=0):
    """Rows of so many prompt and completion tokens, each of the row's own number."""
    numbers = (first + 1 + torch.arange(len(prompts)))[:, None]
    prompt, completion = masked(prompts, left=True), masked(completions)
    return {
        "prompt_ids": numbers * prompt,
        "prompt_mask": prompt,
        "completion_ids": numbers * completion,
        "completion_mask": completion,
    }


def turn(prompts, completions, advantages, group, selected=None, first=0, signal=True, **more):
    rollout = Rollout("prover", [], [""] * len(prompts), group, tensors=tensors_of(prompts, completions, first) | more)
    selected_B = None if selected is None else torch.tensor(selected)
    return Turn(rollout, torch.tensor(advantages), selected_B=selected_B, has_signal=signal, group=group)


FIRST = turn([2, 2, 1, 1], [3, 1, 2, 2], [1.0, -1.0, 0.5, -0.5], group=2)
SECOND = turn([3, 3, 3], [1, 4, 2], [0.2, 0.0, -0.2], group=3, selected=[True, False, True], first=4)


def batch(advantages, group=1, selected=None, lengths=None):
    rows = len(advantages)
    selected_B = None if selected is None else torch.tensor(selected)
    groups = torch.arange(rows) // group
    return RoleBatch(tensors_of([1] * rows, lengths or [1] * rows), torch.tensor(advantages), selected_B, groups)


def numbers(found):
    return found.tensors["prompt_ids"][:, -1].tolist()


def trained(found):
    chosen = [True] * found.rows if found.selected_B is None else found.selected_B.tolist()
    return [number for number, one in zip(numbers(found), chosen, strict=True) if one]


# -- merged -----------------------------------------------------------------------------------------------------------


def test_two_turns_of_different_lengths_and_groups_become_one_batch():
    found = merged([FIRST, SECOND], BLANK)
    assert numbers(found) == [1, 2, 3, 4, 5, 6, 7] and found.group_B.tolist() == [0, 0, 1, 1, 2, 2, 2]
    assert found.tensors["prompt_ids"].shape == (7, 3) and found.tensors["completion_ids"].shape == (7, 4)
    assert found.tensors["prompt_ids"][0].tolist() == [0, 1, 1] and found.tensors["prompt_ids"][6].tolist() == [
        7,
        7,
        7,
    ]
    assert found.tensors["completion_ids"][0].tolist() == [1, 1, 1, 0]
    assert found.selected_B.tolist() == [True] * 5 + [False, True] and found.has_signal
    assert found.advantages_B.tolist() == pytest.approx([1.0, -1.0, 0.5, -0.5, 0.2, 0.0, -0.2])
    # 6 completions; 3 + 1 + 2 + 2 tokens, then 1 + 2; 3 groups
    assert trained_counts(found) == [6.0, 11.0, 3.0]
    (only,) = micro_batches({"prover": found}, {"prover": 1})
    by_row = dict(zip(only["prompt_ids"][:, -1].tolist(), only["group_tokens"].tolist(), strict=True))
    assert by_row == {1: 4, 2: 4, 3: 4, 4: 4, 5: 3, 6: 3, 7: 3}  # groups of 3 + 1, 2 + 2 and 1 + 2 tokens


def test_one_turn_is_left_as_it_is_and_an_empty_one_does_not_count():
    empty = Turn(Rollout("prover", [], []), torch.zeros(0))
    found = merged([empty, FIRST], BLANK)
    assert found.selected_B is None and found.group_B.tolist() == [0, 0, 1, 1]
    assert all(found.tensors[name] is FIRST.rollout.tensors[name] for name in BLANK)


def test_without_a_sample_one_blank_row_is_left_which_nobody_trains_on():
    for turns in ([], [Turn(Rollout("prover", [], []), torch.zeros(0), has_signal=False)]):
        found = merged(turns, BLANK)
        assert found.rows == 1 and not found.has_signal and trained_counts(found) == [0.0, 0.0, 0.0]


def test_a_tensor_that_one_turn_lacks_is_left_out_and_signal_is_that_of_any_turn():
    quiet = turn([1], [1], [0.0], group=1, signal=False)
    lonely = turn([1], [2], [1.0], group=1, ref_per_token_logps=torch.zeros(1, 2))
    assert "ref_per_token_logps" in merged([lonely], BLANK).tensors
    found = merged([quiet, lonely], BLANK)
    assert "ref_per_token_logps" not in found.tensors and found.has_signal
    assert joined([batch([1.0]), batch([1.0])]).selected_B is None  # all are selected
    assert not merged([quiet, quiet], BLANK).has_signal
    # of a turn without a row here, whose samples on other processes have credit: this process must step with them
    assert merged([Turn(Rollout("critic", [], []), torch.zeros(0), has_signal=True)], BLANK).has_signal


def test_log_probs_are_padded_beside_the_completions():
    """On the right, where the completion's own padding is."""
    logps = [torch.tensor([[-1.0]]), torch.tensor([[-2.0, -3.0]])]
    parts = [
        turn([1], [length], [1.0], group=1, old_per_token_logps=value)
        for length, value in zip((1, 2), logps, strict=True)
    ]
    assert merged(parts, BLANK).tensors["old_per_token_logps"].tolist() == [[-1.0, 0.0], [-2.0, -3.0]]


# -- fitted -----------------------------------------------------------------------------------------------------------


def test_padding_rows_are_never_selected_and_count_nowhere():
    whole = merged([FIRST, SECOND], BLANK)
    found, dropped = fitted(whole, 10, key=0)
    assert found.rows == 10 and dropped == 0 and trained_counts(found) == trained_counts(whole)
    assert found.selected_B[7:].tolist() == [False] * 3 and found.advantages_B[7:].tolist() == [0.0] * 3
    assert found.tensors["completion_mask"][7:].sum() == 0 and found.group_B[7:].tolist() == [3, 4, 5]
    assert found.tensors["prompt_ids"][7].tolist() == [0, 1, 1]  # the first prompt again
    assert whole.rows == 7 and whole.tensors["completion_mask"].sum() == 3 + 1 + 2 + 2 + 1 + 4 + 2  # as it was


def test_rows_without_credit_go_first():
    whole = batch([0.5, 0.0, -0.5, 0.0, 1.0, 1.0], selected=[True] * 5 + [False])
    found, dropped = fitted(whole, 4, key=0)
    assert numbers(found) == [1, 2, 3, 5] and dropped == 0  # of the idle rows 2, 4 and 6 the first one stays
    found, dropped = fitted(whole, 3, key=0)
    assert numbers(found) == [1, 3, 5] and dropped == 0


def test_what_is_left_of_too_much_credit_is_a_seeded_subset_in_its_order():
    whole = batch([1.0] * 12 + [0.0] * 4)
    found, dropped = fitted(whole, 8, key=5)
    assert dropped == 4 and len(set(numbers(found))) == 8 and set(numbers(found)) <= set(range(1, 13))
    assert numbers(found) == sorted(numbers(found)) == numbers(fitted(whole, 8, key=5)[0])
    assert len({tuple(numbers(fitted(whole, 8, key=key)[0])) for key in range(8)}) > 4


# -- windows ----------------------------------------------------------------------------------------------------------


def test_windows_hold_whole_groups_and_each_row_once():
    whole = batch([1.0, -1.0, 0.5] * 4, group=3)
    cut = windows(whole, 2, key=1)
    assert [part.rows for part in cut] == [6, 6] and sorted(n for part in cut for n in numbers(part)) == [
        *range(1, 13)
    ]
    for part in cut:
        assert all(torch.bincount(part.group_B)[g] == 3 for g in part.group_B.unique())
        assert all(a < b for a, b in pairwise(numbers(part)))
    totals = [sum(counts) for counts in zip(*map(trained_counts, cut), strict=True)]
    assert totals == trained_counts(whole) == [12.0, 12.0, 4.0]


def test_one_window_is_the_batch_and_groups_that_do_not_fit_are_cut():
    whole = batch([1.0] * 6, group=3)
    assert windows(whole, 1, key=0) == [whole] and fitted(whole, 6, key=0)[0] is whole
    cut = windows(whole, 3, key=0)  # two rows a window, three a group
    assert sorted(n for part in cut for n in numbers(part)) == [1, 2, 3, 4, 5, 6] and [p.rows for p in cut] == [
        2,
        2,
        2,
    ]


@pytest.mark.parametrize(
    ("groups", "steps", "rows", "held"),
    [
        (6, 2, 32, [3, 3]),  # 24 rows and 8 of padding, 16 a window: 3 groups of 4 and 4 rows of padding
        (5, 2, 32, [3, 2]),
        (3, 4, 32, [1, 1, 1, 0]),  # 8 rows a window: the fourth is padding alone
        (4, 2, 20, None),  # 10 rows a window, which is no number of groups of 4: those are cut
    ],
)
def test_padding_cuts_no_group_and_is_shared_out(groups, steps, rows, held):
    whole = batch([1.0, -1.0, 0.5, -0.5] * groups, group=4)
    padded, _ = fitted(whole, rows, key=0)
    cut = windows(padded, steps, key=1)
    assert [part.rows for part in cut] == [rows // steps] * steps
    found = [trained_counts(part) for part in cut]
    assert [sum(counts) for counts in zip(*found, strict=True)][:2] == [4.0 * groups, 4.0 * groups]
    if held is None:
        assert [counts[0] for counts in found] == [8.0, 8.0]
    else:  # completions, tokens (one each), and prompts
        assert found == [[4.0 * n, 4.0 * n, float(n)] for n in held]
    by_key = [[numbers(part) for part in windows(padded, steps, key=key)] for key in range(1, 9)]
    assert by_key[0] == [numbers(part) for part in cut] and any(one != by_key[0] for one in by_key)


def test_unselected_rows_of_windows_count_in_none_of_them():
    """Whole groups of two: 1 + 2 selected samples of three groups, one of which has none."""
    whole = batch([1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0], group=2, selected=[True, False, True, True] + [False] * 4)
    totals = [sum(counts) for counts in zip(*map(trained_counts, windows(whole, 2, key=3)), strict=True)]
    assert totals == trained_counts(whole) == [3.0, 3.0, 2.0]


# -- micro-batches ----------------------------------------------------------------------------------------------------


def without_role(part):
    return trim({name: value for name, value in part.items() if name != "role"})


def test_the_longest_rows_come_first_and_every_row_once():
    window = micro_batches({"prover": batch([1.0, 2.0, 3.0, 4.0], 2, lengths=[2, 5, 3, 1])}, {"prover": 2})
    assert [part["prompt_ids"][:, 0].tolist() for part in window] == [[2, 3], [1, 4]]
    assert [part["advantages"].tolist() for part in window] == [[2.0, 3.0], [1.0, 4.0]]
    # groups {1, 2} and {3, 4} hold 2 + 5 and 3 + 1 tokens, wherever their rows went
    assert [part["group_tokens"].tolist() for part in window] == [[7, 4], [7, 4]]
    assert without_role(window[1])["completion_ids"].shape == (2, 2)  # its own longest row; the round's has 5


def test_unselected_rows_are_masked_and_counted_nowhere():
    whole = batch([1.0, 2.0, 3.0, 4.0], 2, [True, True, False, False], [2, 5, 3, 1])
    assert trained_counts(whole) == [2.0, 7.0, 1.0]  # completions, tokens, prompts
    (only,) = micro_batches({"prover": whole}, {"prover": 1})
    assert only["prompt_ids"][:, 0].tolist() == [2, 1, 3, 4]
    assert only["completion_mask"].sum(1).tolist() == [5, 2, 0, 0]
    # with nothing selected the forward pass must still run, for the sake of the other processes
    (none,) = micro_batches({"prover": batch([1.0, 2.0], 2, [False, False], [2, 4])}, {"prover": 1})
    assert without_role(none)["completion_ids"].shape == (2, 1)


def test_only_the_padding_behind_the_end_of_a_stopped_row_is_masked():
    """Padding tokens that were sampled are trained on."""
    pad, end = 0, 2
    ids = torch.tensor([
        [7, pad, 8, 9, pad, pad],  # padding was sampled, then the stop string ended the row at the fourth token
        [7, 8, 9, pad, pad, pad],
        [7, pad, 8, end, pad, pad],  # ended by the end token: TRL's mask is right
        [7, pad, 8, 9, 7, pad],  # no stop string: cut by the limit, or padding is the end token that it sampled
    ])  # fmt: skip
    mask = torch.ones_like(ids)
    mask[2, 4:] = 0
    texts = ["7 8], target=9 </problem>", "8 </problem>", "7 8", "7 8 9 7"]
    mask_after_stops({"completion_ids": ids, "completion_mask": mask}, texts, ["</problem>"], pad)
    assert mask.tolist() == [[1, 1, 1, 1, 0, 0], [1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]]
