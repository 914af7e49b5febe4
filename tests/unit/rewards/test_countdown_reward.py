# Tests: rewards/prover/verifier.py
"""The prover's reward callables, called as TRL calls them; the soft overlong charge by hand and against TRL's own."""

from types import SimpleNamespace

import numpy as np
import pytest
from tests.joint_config import joint_config

from countdown_selfplay.countdown import Rules
from countdown_selfplay.rewards.prover.verifier import (
    checked_reward_funcs,
    countdown_reward,
    default_reward_funcs,
    make_countdown_reward,
    make_length_penalty,
    make_soft_overlong,
)

ANSWERS = ["<answer>44+19+35</answer>", "<answer>44+19-35</answer>", "44+19+35", "<answer>44+19+</answer>"]
SCORES = [1.0, 0.1, 0.0, 0.0]


@pytest.mark.parametrize("columns", [
    {"numbers": [[44, 19, 35]] * 4, "target": [98] * 4},
    {"nums": [[44, 19, 35]] * 4, "target": [98] * 4},
    {"nums": np.array([[44, 19, 35]] * 4), "target": np.array([98] * 4)},
    {"ground_truth": [{"numbers": [44, 19, 35], "target": 98}] * 4},
    {"ground_truth": [{"numbers": [44, 19, 35], "target": 98}] * 4, "target": [98] * 4, "nums": [[44, 19, 35]] * 4},
])  # fmt: skip
def test_every_public_schema_is_scored(columns):
    extra = {"prompts": ["p"] * 4, "completion_ids": [[1]] * 4, "trainer_state": None}
    assert countdown_reward(completions=ANSWERS, **columns, **extra) == SCORES


def test_each_completion_is_scored_on_its_own_problem_by_the_rules_that_it_was_made_with():
    texts = ["<answer>3+4</answer>", "<answer>3*4</answer>"]
    assert countdown_reward(texts, numbers=[[3, 4], [3, 4]], target=[7, 7]) == [1.0, 0.1]
    assert countdown_reward(texts, numbers=[[3, 4], [3, 4]], target=[12, 12]) == [0.1, 1.0]
    [tagged], [bare] = (checked_reward_funcs(countdown_reward, rules) for rules in (None, Rules(answer_format="bare")))
    problem = {"numbers": [[3, 4]] * 2, "target": [7] * 2}
    assert (tagged(["3+4", texts[0]], **problem), bare(["3+4", "3*4"], **problem)) == ([0.0, 1.0], [1.0, 0.1])
    chats = [[{"role": "assistant", "content": text}] for text in ANSWERS]
    assert countdown_reward(chats, numbers=[[44, 19, 35]] * 4, target=[98] * 4) == SCORES
    bare = make_countdown_reward(Rules(answer_format="bare", score_wrong=0.25))
    assert bare.__name__ == countdown_reward.__name__ == "countdown_reward"
    assert bare(["3 + 4", "3 * 4"], numbers=[[3, 4]] * 2, target=[7] * 2) == [1.0, 0.25]


def test_the_length_penalty_is_the_share_of_the_longest_and_may_have_a_floor():
    # seed 001, section 3.2: -alpha * len / max_len; 0, 256 and 1024 of 1024 tokens at alpha 0.1
    penalty = make_length_penalty(0.1, 1024)
    ids = [[], [1] * 256, [1] * 1024]
    found = penalty(completions=["", "a", "b"], completion_ids=ids, prompts=["p"] * 3)
    assert found == pytest.approx([0, -0.025, -0.1])
    assert penalty.__name__ == "length_penalty"
    # The authors' clamp: max(0, score - 0.1 len / max). Full length: 0 stays 0, .05 loses .05 only, 1 becomes .9.
    penalty = make_length_penalty(0.1, 10, floor=0.0)
    verdicts = [SimpleNamespace(score=score) for score in (0.0, 0.05, 1.0)]
    ids = [[1] * 10] * 3
    assert penalty(["a"] * 3, ids, verdict=verdicts) == pytest.approx([0.0, -0.05, -0.1])


def test_the_charge_grows_over_the_last_share_of_the_budget():
    # 100 tokens, the last 20: 0 up to 80, -1/4 at 85, -1/2 at 90, -1 at 100 and beyond
    charge = make_soft_overlong(0.2, 100)
    ids = [[1] * n for n in (0, 50, 80, 85, 90, 100, 120)]
    found = charge(completions=[""] * 7, completion_ids=ids, prompts=["p"] * 7)
    assert found == pytest.approx([0, 0, 0, -0.25, -0.5, -1, -1])
    assert charge.__name__ == "soft_overlong"


@pytest.mark.parametrize(("share", "length"), [(0.2, 100), (0.2, 16), (0.5, 7), (1.0, 5), (0.01, 10)])
def test_the_values_are_those_of_trl(share, length):
    from trl.rewards import get_soft_overlong_punishment

    ids = [[1] * n for n in range(length + 3)]
    theirs = get_soft_overlong_punishment(length, max(1, round(share * length)))(ids)
    assert make_soft_overlong(share, length)([""] * len(ids), ids) == pytest.approx(theirs)


def test_the_configuration_switches_it_on(tmp_path):
    def names(**changes):
        args = joint_config(str(tmp_path), use_cpu=True, prover_max_completion_length=50, **changes)
        longest = args.role("prover").max_completion_length
        rewards = default_reward_funcs("countdown_reward", args.length_penalty, args.soft_overlong, longest)
        return [reward.__name__ for reward in rewards], rewards[-1]

    assert names()[0] == ["countdown_reward"]
    both, last = names(soft_overlong=0.2, length_penalty=0.1)
    assert both == ["countdown_reward", "length_penalty", "soft_overlong"]
    assert last([""], [[0] * 45]) == [-0.5]  # of 50 tokens the last 10
    changes = {"prover_objective": "cispo", "soft_overlong": 0.2, "overlong": "replace", "overlong_on": "correct"}
    args = joint_config(str(tmp_path), use_cpu=True, **changes)
    assert args.role("conjecturer").overlong_on == "correct"
    assert args.added_overlong == 0 and {args.role(r).soft_overlong for r in ("prover", "conjecturer")} == {0.2}
