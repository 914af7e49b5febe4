# Tests: rewards/prover/verifier.py
"""The soft overlong charge: equation 13 of DAPO by hand, and against TRL's own."""

import pytest
from tests.joint_config import joint_config

from countdown_selfplay.rewards.prover.verifier import default_reward_funcs, make_soft_overlong


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
        rewards = default_reward_funcs(
            "countdown_reward", args.length_penalty, args.soft_overlong, args.role("prover").max_completion_length
        )
        return [reward.__name__ for reward in rewards], rewards[-1]

    assert names()[0] == ["countdown_reward"]
    both, last = names(soft_overlong=0.2, length_penalty=0.1)
    assert both == ["countdown_reward", "length_penalty", "soft_overlong"]
    assert last([""], [[0] * 45]) == [-0.5]  # of 50 tokens the last 10
    changes = {"prover_objective": "cispo", "soft_overlong": 0.2, "overlong": "replace", "overlong_on": "correct"}
    args = joint_config(str(tmp_path), use_cpu=True, **changes)
    assert args.role("conjecturer").overlong_on == "correct"
    assert args.added_overlong == 0 and {args.role(r).soft_overlong for r in ("prover", "conjecturer")} == {0.2}
