# Tests: training/plan.py, training/rollouts.py, contract/round.py
"""From turns to samples, and from samples to a micro-batch: nothing is padded twice, counted twice or lost."""

from collections import defaultdict

import numpy as np
import pytest
import torch

from countdown_selfplay.contract.episodes import Episodes
from countdown_selfplay.contract.round import Rollout, Turn
from countdown_selfplay.training.plan import Sample, by_answer, collate, samples_of
from countdown_selfplay.training.rollouts import completion_table, mask_after_stops
from countdown_selfplay.training.round import token_counts


def sample(number, tokens=1, advantage=1.0, group=0, prompt=1, **more):
    """An answer of one row, whose prompt and completion are its number over and over."""
    given = {"answer": number, **more}
    return Sample(np.full(prompt, number), np.full(tokens, number), advantage, group, **given)


def masked(lengths, left=False):
    mask = (torch.arange(max(lengths))[None] < torch.tensor(lengths)[:, None]).long()
    return mask.flip(1) if left else mask


def tensors_of(prompts, completions, first=0):
    """Rows of so many prompt and completion tokens, each of the row's own number; beside them stands 99."""
    numbers, found = (first + 1 + torch.arange(len(prompts)))[:, None], {}
    for name, mask in (("prompt", masked(prompts, left=True)), ("completion", masked(completions))):
        found |= {f"{name}_ids": numbers * mask + 99 * (1 - mask), f"{name}_mask": mask}
    return found


def turn(prompts, completions, advantages, group, first=0, selected=None, imitated=None, **more):
    rollout = Rollout("prover", [], [""] * len(prompts), group, tensors=tensors_of(prompts, completions, first) | more)
    marks = [None if mark is None else torch.tensor(mark) for mark in (selected, imitated)]
    return Turn(rollout, torch.tensor(advantages), selected_B=marks[0], imitated_B=marks[1], group=group)


def rows(samples):
    return [(s.prompt.tolist(), s.completion.tolist()) for s in samples]


def test_turns_of_other_lengths_and_groups_become_samples_without_padding():
    second = turn([3, 3, 3], [1, 4, 2], [0.5, 0.0, -0.5], 3, 4, [True, False, True], [False, True, False])
    found = samples_of([turn([2, 2, 1, 1], [3, 1, 2, 0], [1.0, -1.0, 0.25, -0.25], 2), second], 7, first=100)
    assert rows(found) == [
        ([1] * 2, [1] * 3), ([2] * 2, [2]), ([3], [3] * 2), ([4], []),
        ([5] * 3, [5]), ([6] * 3, [6] * 4), ([7] * 3, [7] * 2),
    ]  # fmt: skip
    assert [s.advantage for s in found] == [1.0, -1.0, 0.25, -0.25, 0.5, 0.0, -0.5]
    assert [s.answer for s in found] == [*range(100, 107)]
    groups = [s.group for s in found]
    assert groups == [100, 100, 101, 101, 104, 104, 104]  # two and three that shared a baseline
    assert [s.trained for s in found] == [True] * 5 + [False, True] and {s.round for s in found} == {7}
    assert [s.imitated for s in found] == [False] * 5 + [True, False]
    # a step learns from a selected row with an advantage, and from an imitated one
    assert [s.credited for s in found] == [True] * 7
    assert not sample(1, advantage=0.0).credited and not sample(1, trained=False).credited
    assert (found[0].tokens, len(found[0].prompt)) == (3, 2)


def test_a_turn_without_a_sample_gives_none():
    assert samples_of([], 0) == samples_of([Turn(Rollout("prover", [], []), torch.zeros(0))], 0) == []


@pytest.mark.parametrize("kind, kept", [(torch.bfloat16, np.float32), (torch.float64, np.float64)])
def test_log_probs_are_those_of_the_rows_own_tokens(kind, kept):
    logps = torch.tensor([[-0.5, -9.0], [-0.25, -0.125]], dtype=kind)
    one, two = samples_of([turn([1, 1], [1, 2], [1.0, 1.0], 1, old_per_token_logps=logps)], 0)
    assert one.logps["old_per_token_logps"].tolist() == [-0.5]
    assert two.logps["old_per_token_logps"].tolist() == [-0.25, -0.125]
    assert two.logps["old_per_token_logps"].dtype == kept


def four_episodes():
    """Moves 2, 1, 3, 2; the completion of episode e's move m has e + 1 tokens of value e + 1, its prompt 6 - m."""
    episode_of = [[0, 1, 2, 3], [0, 2, 3], [2]]
    moves = []
    for m, own in enumerate(episode_of):
        lengths, numbers = [e + 1 for e in own], torch.tensor(own)[:, None] + 1
        tensors = {"prompt_mask": masked([6 - m] * len(own), left=True), "completion_mask": masked(lengths)}
        tensors |= {name.replace("mask", "ids"): numbers * mask for name, mask in tensors.items()}
        moves.append(Rollout("prover", [], ["x"] * len(own), 1, tensors=tensors))
    return Episodes("prover", [], ["x"] * 4, 2, moves=moves, episode_of=episode_of)


def episode_samples(advantages=(1.0, 0.0, 0.5, -0.5), selected=None):
    selected_B = None if selected is None else torch.tensor(selected)
    return samples_of([Turn(four_episodes(), torch.tensor(advantages), selected_B=selected_B, group=2)], 0)


def test_every_move_has_the_credit_of_its_episode_and_the_moves_are_side_by_side():
    found = episode_samples(selected=[True, False, True, True])
    assert [s.answer for s in found] == [0, 0, 1, 2, 2, 2, 3, 3] and [s.group for s in found] == [0] * 3 + [1] * 5
    assert [s.advantage for s in found] == [1, 1, 0, 0.5, 0.5, 0.5, -0.5, -0.5]
    assert [s.trained for s in found] == [True] * 2 + [False] + [True] * 5
    assert [(len(s.prompt), s.tokens) for s in found] == [
        (6, 1), (5, 1), (6, 2), (6, 3), (5, 3), (4, 3), (6, 4), (5, 4)
    ]  # fmt: skip
    assert [len(answer) for answer in by_answer(found)] == [2, 1, 3, 2]
    assert token_counts(four_episodes()) == [1, 2, 3, 4]


# -- collate ----------------------------------------------------------------------------------------------------------


def test_a_micro_batch_pads_prompts_on_the_left_and_completions_on_the_right():
    found = collate([sample(5, 2, 0.5, 8), sample(6, 1, -1.0, 9, prompt=3, trained=False)], group_tokens={8: 11})
    assert found["prompt_ids"].tolist() == [[0, 0, 5], [6, 6, 6]]
    assert found["prompt_mask"].tolist() == [[0, 0, 1], [1, 1, 1]]
    assert found["completion_ids"].tolist() == [[5, 5], [6, 0]]
    assert found["completion_mask"].tolist() == [[1, 1], [0, 0]]  # a row that is not selected is in no mean
    assert found["advantages"].tolist() == [0.5, -1.0] and found["group_tokens"].tolist() == [11, 0]
    assert found.keys() == {
        *("prompt_ids", "prompt_mask", "completion_ids", "completion_mask", "advantages", "group_tokens")
    }


def test_a_row_without_a_token_has_a_column():
    found = collate([sample(5, 0)])
    assert found["completion_ids"].shape == (1, 1) and not found["completion_mask"].any()


def test_what_no_policy_sampled_is_in_no_ratio_and_only_imitated_rows_are_in_the_supervised_term():
    """NaN stands for the current log-prob; a reference that a row lacks is masked with the row."""
    names = ("old_per_token_logps", "sampling_per_token_logps", "ref_per_token_logps")
    scored = sample(5, 2, logps={name: np.array([-1.0, -2.0]) for name in names})
    found = collate([scored, sample(6, 3, trained=False, imitated=True)])
    for name in names:
        assert found[name][0].tolist() == [-1.0, -2.0, 0.0] and found[name].dtype == torch.float64
    assert found[names[0]][1].isnan().all() and found[names[1]][1].isnan().all() and not found[names[2]][1].any()
    assert found["sft_mask"].tolist() == [[0, 0, 0], [1, 1, 1]]
    assert found["completion_mask"].tolist() == [[1, 1, 0], [0, 0, 0]]


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


# -- the rows of `log_completions` where processes have unequally many ------------------------------------------------


def table_log(prompts, **rewards):
    named = {"rewards": defaultdict(list, rewards), "extra": defaultdict(list)}
    return {"images": [], "prompt": prompts, "completion": [p.upper() for p in prompts], "advantages": [], **named}


def credited(role, rewards, judged):
    rollout = Rollout(role, [], [""] * len(rewards), verdicts=[None] * len(rewards) if judged else None)
    return Turn(rollout, torch.tensor(rewards) - 1.0, torch.tensor(rewards))


def test_rows_that_fill_up_a_process_are_left_out_and_every_turn_is_there():
    """Two processes: 2 samples here and 1 there, of 2 each; then none here and 1 there; then one of another role."""
    turns = [credited("prover", [1.0, 2.0], True), credited("prover", [], True), credited("critic", [5.0], False)]
    never = credited("prover", [], True)  # sampled on no process
    there = iter([[1], [3.0], [2.0], [1], [4.0], [3.0], [1], [6.0], [5.0]])  # counts, rewards, advantages of each
    logs = {
        id(turns[0].rollout): table_log(["a", "b", "c", "fill"], f=[1.0, 2.0, 3.0, 0.0]),
        id(turns[1].rollout): table_log(["fill", "d"], f=[0.0, 4.0]),
        id(turns[2].rollout): table_log(["e", "g"], f=[0.0, 0.0]),
    }
    played = [turns[0], turns[1], never, turns[2]]
    table = completion_table(played, logs, ["prover", "critic"], lambda items: [*items, *next(there)])
    assert table["prompt"] == ["a", "b", "c", "d", "e", "g"] and table["completion"] == ["A", "B", "C", "D", "E", "G"]
    assert table["rewards"]["reward"] == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    assert table["advantages"] == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert table["extra"]["role"] == ["prover"] * 4 + ["critic"] * 2
    judged = table["rewards"]["f"]
    assert judged[:4] == [1.0, 2.0, 3.0, 4.0] and all(value != value for value in judged[4:])
