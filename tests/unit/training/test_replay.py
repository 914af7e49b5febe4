# Tests: training/learners.py, training/checkpoints.py, contract/stateful.py
"""Kept answers: what comes in, what each step trains on; what a checkpoint holds of them and of other parts."""

import json
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from safetensors.numpy import load_file

from countdown_selfplay.contract.metric import declaration_of, for_players
from countdown_selfplay.contract.trainer_metrics import TRAINER_METRICS
from countdown_selfplay.errors import CheckpointError
from countdown_selfplay.objectives.base import Replay
from countdown_selfplay.training import checkpoints
from countdown_selfplay.training.learners import ReplayQueue
from countdown_selfplay.training.plan import by_answer

from .test_plan import numbers
from .test_samples import episode_samples, sample

KEY = ("seed",)


def queue(beta=0.05, sequences=0, **rule):
    settings = SimpleNamespace(beta=beta, temperature=1.0, role="prover", sequences_per_step=sequences)
    return ReplayQueue(Replay(**{"rounds": None, **rule}), settings)


def played(tokens, selected=None, first=1, round_=0, credit=1.0):
    """Rows of so many tokens in groups of two; reference log-probs are -number / 10."""
    found = []
    for i, n in enumerate(tokens):
        logps = {name: np.full(n, -(first + i) / 10, np.float32) for name in ("ref_per_token_logps", "old")}
        trained = selected is None or selected[i]
        found.append(sample(first + i, n, credit * trained, i // 2, trained=trained, logps=logps, round=round_))
    return found


def episodes(right, round_=0):
    made = episode_samples([float(bit) for bit in right], [bool(bit) for bit in right])
    return [replace(one, round=round_) for one in made]


def answers(steps):
    """Of each step its answers' numbers."""
    return [[numbers(rows)[0] for rows in by_answer(step)] for step in steps]


def test_a_round_trains_on_what_is_kept_and_each_answer_is_a_group_of_its_own():
    kept = queue(rounds=2)
    (step,) = kept.steps(played([2, 3, 1, 1], [True, False, True, False]), 0, 1, KEY)
    assert numbers(step) == [1, 3] and [s.tokens for s in step] == [2, 1]
    assert [s.answer for s in step] == [s.group for s in step] == [0, 1] and all(s.trained for s in step)
    assert step[1].logps.keys() == {"ref_per_token_logps"}  # the other policies have moved since
    assert step[1].logps["ref_per_token_logps"].tolist() == pytest.approx([-0.3])
    assert kept.logged("a") == {"a/replay_samples": 2}
    assert sorted(map(len, kept.steps([], 1, 3, KEY))) == [0, 0, 0]  # of no more answers than the round has sampled


def test_more_kept_than_sampled_are_drawn_without_repetition_by_the_key_alone():
    draws = []
    for key in (("a",), ("a",), ("b",), ("c",)):
        kept = queue()
        for round_ in range(3):
            steps = kept.steps(played([1] * 4, first=10 * round_ + 1, round_=round_), round_, 2, key)
        draws.append([n for step in answers(steps) for n in step])
        assert len(set(draws[-1])) == 4 and set(draws[-1]) <= {n + i for n in (1, 11, 21) for i in range(4)}
        assert [len(step) for step in steps] == [2, 2]
    assert draws[0] == draws[1] and not draws[0] == draws[2] == draws[3]
    kept = queue(rounds=2, all_kept=True)
    for round_ in range(3):
        (step,) = kept.steps(played([1] * 4, first=10 * round_ + 1, round_=round_), round_, 1, KEY)
    assert numbers(step) == [11, 12, 13, 14, 21, 22, 23, 24]


def test_samples_leave_after_their_rounds_and_beyond_the_capacity():
    kept, found = queue(rounds=2, capacity=3), []
    for round_ in range(3):
        kept.steps(played([1, 1], first=10 * round_ + 1, round_=round_), round_, 1, KEY)
        found.append([numbers(answer)[0] for answer in kept.kept])
    assert found == [[1, 2], [2, 11, 12], [12, 21, 22]]
    kept.steps([], 4, 1, KEY)
    assert not kept.kept


def test_weights_are_divided_by_their_mean_over_the_tokens():
    """2 and 3 tokens of weights 1 and .25: the sum over tokens is 2.75, so that the mean over five becomes one by
    weight if the weights are multiplied by 5 / 2.75. Rewards of a tenth of that size make the same step."""
    for size in (1.0, 0.1, 0.0):
        made = [sample(1, 2, size), sample(2, 3, 0.25 * size)]
        (step,) = queue(rounds=1, weighted=True).steps(made, 0, 1, KEY)
        expected = [5 / 2.75, 1.25 / 2.75] if size else [0, 0]  # nothing counts: nothing is divided
        assert [s.advantage for s in step] == pytest.approx(expected)
    # an episode's weight is that of all its tokens: 2 of weight 1 and 9 of .25 make 4.25 over 11
    made = episode_samples((1.0, 0.0, 0.25, 0.0), [True, False, True, False])
    (step,) = queue(rounds=1, weighted=True).steps(made, 0, 1, KEY)
    assert [s.advantage for s in step] == pytest.approx([11 / 4.25] * 2 + [0.25 * 11 / 4.25] * 3)
    assert [s.answer for s in step] == [0, 0, 1, 1, 1]


def test_right_answers_buy_steps_and_what_is_owed_waits():
    """Episodes 0, 2 and 3 are right, 2 and 3 of one group, of which one is kept: two new answers, each to be seen 4
    times, in steps of 2: 4 steps are owed, of which a round may take 3."""
    kept = queue(reuse=4, per_problem=1, sequences=2)
    steps = kept.steps(episodes([1, 0, 1, 1]), 0, 3, KEY)
    assert [len(by_answer(step)) for step in steps] == [2, 2, 2] and kept.owed == 1.0
    assert kept.logged("a") == {"a/replay_samples": 2, "a/new_answers": 2, "a/owed_steps": 1.0}
    again = queue(reuse=4, per_problem=1, sequences=2)
    again.load_state_dict(kept.state_dict())
    assert states_equal(again, kept) and again.owed == 1.0
    assert [len(by_answer(step)) for step in again.steps(episodes([0] * 4), 1, 3, KEY)] == [2] and again.owed == 0
    assert again.steps(episodes([0] * 4), 2, 3, KEY) == []
    # an answer that was kept is new again, and kept once
    assert len(kept.steps(episodes([1, 0, 0, 0], round_=3), 3, 9, KEY)) == 1 + 2 and len(kept.kept) == 2
    assert [answer[0].round for answer in kept.kept] == [0, 3]


def test_the_newest_are_kept_and_nothing_solved_takes_no_step():
    kept = queue(reuse=4, sequences=2, capacity=1)
    assert kept.steps(episodes([0] * 4), 0, 3, KEY) == [] and kept.owed == 0
    assert kept.steps(episodes([1] * 4), 1, 3, KEY) and kept.new == 4 and len(kept.kept) == 1


def test_carried_answers_are_in_one_step_each_and_a_remainder_waits():
    """Three answers with credit a round, steps of 2: round 0 fills one and carries one; with round 1 four wait, which
    are two steps: the oldest goes first."""
    kept = queue(carry=True, sequences=2)
    right = [*played([1, 2, 3]), sample(4, 1, 0.0, 1)]  # the one without credit is in no step
    (first,) = kept.steps(right, 0, 4, KEY)
    assert kept.new == 3 and kept.owed == 0.5 and len(kept.kept) == 1
    again = queue(carry=True, sequences=2)
    again.load_state_dict(kept.state_dict())
    (second,) = again.steps(played([1, 2, 3], first=11, round_=1), 1, 1, KEY)
    assert again.owed == 1.0 and len(again.kept) == 2  # a second step was full, and the round had one
    assert Counter(numbers(first) + numbers(second)[:1]) == Counter([1, 2, 3]) and numbers(second)[1] > 10
    assert again.logged("a") == {"a/replay_samples": 2, "a/new_answers": 3, "a/owed_steps": 1.0}


def test_carried_answers_that_find_no_room_are_counted():
    """Three a round, room for four and one step of 2 a round: 3 - 2 = 1 waits, then 4 - 2 = 2; with the 3 of round 2
    five wait, of which the oldest goes, and so again in round 3."""
    kept, dropped = queue(carry=True, sequences=2, capacity=4), []
    for round_ in range(4):
        kept.steps(episodes([1, 0, 1, 1], round_), round_, 1, KEY)
        dropped.append(kept.logged("a").get("a/dropped_answers", 0))
    assert dropped == [0, 0, 1, 1] and len(kept.kept) == 2  # 12 came, 8 were in steps, 2 wait
    known = for_players(TRAINER_METRICS, {"prover": ["prover"]})
    assert all(declaration_of(name, known) for name in kept.logged("prover"))


# -- checkpoints ------------------------------------------------------------------------------------------------------


def states_equal(one, other):
    """Of two queues what they save."""
    a, b = one.state_dict(), other.state_dict()
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("made", [played([2, 1], first=5), [], played([3]), episodes([1, 0, 1, 1])])
def test_what_is_saved_is_read_back_to_the_last_bit(made, tmp_path):
    kept, again = queue(), queue()
    kept.steps(made, 3, 1, KEY)
    checkpoints.write_states(tmp_path, {"replay/prover": kept}, {})
    checkpoints.load_states({"replay/prover": again}, checkpoints.read_states(tmp_path)["states"])
    assert states_equal(kept, again) and len(kept.kept) == len(by_answer(s for s in made if s.trained))
    for one, other in zip(kept.kept, again.kept, strict=True):
        assert [repr(vars(row) | {"answer": 0, "group": 0}) for row in one] == [repr(vars(row)) for row in other]
        assert [row.prompt.dtype for row in one] == [row.prompt.dtype for row in other]


def test_the_supervised_term_has_no_kept_answer():
    """What a game marks for it is of one round; a resumed run would not know it."""
    (step,) = queue().steps([sample(1, 2, imitated=True)], 0, 1, KEY)
    assert not step[0].imitated


def test_the_state_is_arrays_and_refused_where_the_reference_log_probs_would_differ():
    kept = queue()
    kept.steps(played([2, 1], first=5, round_=3), 3, 1, KEY)
    state = kept.state_dict()
    assert (state.pop("reference"), state.pop("owed")) == ([True, 1.0], 0.0)
    assert all(isinstance(value, np.ndarray) for value in state.values())
    assert state["completion"].tolist() == [5, 5, 6] and state["completion_length"].tolist() == [2, 1]
    assert state["round"].tolist() == [3, 3] and state["advantage"].tolist() == [1.0, 1.0]
    assert state["answer_rows"].tolist() == [1, 1]
    with pytest.raises(CheckpointError, match=r"temperature\) = \(True, 1.0\) and this run has \(False, 1.0\)"):
        queue(beta=0.0).load_state_dict(kept.state_dict())


def test_kept_samples_take_eight_bytes_a_number(tmp_path):
    kept = queue()
    for round_ in range(64):
        kept.steps(played([512] * 2, round_=round_), round_, 1, KEY)
    checkpoints.write_states(tmp_path, {"replay/prover": kept}, {})
    # 128 samples of 1 + 512 tokens and 512 log-probs; 6 more numbers a sample and a header of less than 2 kB
    count = 128 * (1 + 512 + 512 + 6)
    assert count * 8 <= (tmp_path / checkpoints.ARRAYS).stat().st_size <= count * 8 + 2048


# -- states of any part: JSON values in one file, arrays in another ---------------------------------------------------


class Part:
    def __init__(self, state=None):
        self.state = state

    def state_dict(self):
        return self.state

    def load_state_dict(self, state):
        self.state = state


class Other(Part):
    pass


def test_values_and_arrays_are_read_back_at_any_depth(tmp_path):
    arms = np.array([[0.1, 0.2], [1 / 3, np.pi]])
    plain = {"round": 3, "name": "ucb", "none": None, "rates": [0.5, 0.25]}
    parts = {"game": Part(plain | {"arms": {"values": arms, "list": [arms[0]]}}), "frame": Part({"rounds": 2})}
    checkpoints.write_states(tmp_path, parts, {"settings": {"beta": 0.0}})
    found = checkpoints.read_states(tmp_path)
    assert found["settings"] == {"beta": 0.0} and found["states"]["frame"] == {"class": "Part", "state": {"rounds": 2}}
    part = Part()
    checkpoints.load_states({"game": part}, found["states"])
    assert {key: part.state[key] for key in plain} == plain
    assert part.state["arms"]["values"].tobytes() == arms.tobytes() and part.state["arms"]["values"].shape == (2, 2)
    assert part.state["arms"]["list"][0].tolist() == [0.1, 0.2]


def test_arrays_go_to_safetensors_and_the_rest_to_json(tmp_path):
    checkpoints.write_states(tmp_path, {"game": Part({"rates": np.arange(3), "best": np.float64(0.5)})}, {})
    packed = json.loads((tmp_path / checkpoints.STATES).read_text())["states"]["game"]["state"]
    assert packed == {"rates": {"__array__": "game/rates"}, "best": 0.5}
    assert load_file(tmp_path / checkpoints.ARRAYS)["game/rates"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("array", [np.array(0.5), np.zeros((0, 3)), np.arange(12).reshape(3, 4).T, np.array([True])])
def test_an_array_keeps_its_shape_and_kind(tmp_path, array):
    checkpoints.write_states(tmp_path, {"game": Part({"x": array})}, {})
    found = checkpoints.read_states(tmp_path)["states"]["game"]["state"]["x"]
    assert found.shape == array.shape and found.dtype == array.dtype and found.tolist() == array.tolist()


def test_a_part_of_another_class_starts_anew_and_a_new_one_too(tmp_path):
    checkpoints.write_states(tmp_path, {"objective/prover": Part({"baseline": 0.5})}, {})
    saved = checkpoints.read_states(tmp_path)["states"]
    other, new, same = Other("fresh"), Part("fresh"), Part("fresh")
    checkpoints.load_states({"objective/prover": other, "replay/prover": new}, saved)
    assert other.state == new.state == "fresh"
    checkpoints.load_states({"objective/prover": same}, saved)
    assert same.state == {"baseline": 0.5}
