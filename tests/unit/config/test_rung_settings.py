# Tests: config/joint.py, config/script.py
"""Proposers over rungs and the placebo as settings: what is refused before a model loads."""

from tests.joint_config import joint_config

from countdown_selfplay.config.script import EvaluationArguments

NOBODY = {"conjecturer": {"players": 0}}
RUNGS = dict(proposer="uniform_rungs", roles=NOBODY, anchor_fraction=0.0)


def config(**changes):
    return joint_config("unused", use_cpu=True, **changes)


def test_rungs_are_the_operand_counts_of_the_run():
    assert config(**RUNGS, proposer_kwargs={"rungs": [4]}).proposer_arguments == {"rungs": [4]}
    assert config(shuffled_rewards=True).game_settings.shuffled_rewards is True
    assert config(proposer="policies", proposer_kwargs={"repair": True}).proposer_arguments == {"repair": True}


def test_the_rungs_of_an_evaluation_that_is_off_are_no_fault():
    assert EvaluationArguments(eval_problems=0, eval_rungs=[3, 4]).eval_problems == 0
