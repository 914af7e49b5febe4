# Tests: config/countdown_fields.py, countdown/rules.py
"""Settings with which seed 001 is run as its authors ran it: where they reach, and what is refused."""

from typing import get_args, get_type_hints

from tests.joint_config import joint_config

from countdown_selfplay.config.countdown_fields import EvaluationFields
from countdown_selfplay.countdown import Problem, Rules, verify
from countdown_selfplay.domains import domain_from
from countdown_selfplay.evaluation.setting import PRESETS, TRAINING, preset


def config(tmp_path, **changes):
    return joint_config(str(tmp_path), use_cpu=True, report_to="none", **changes)


def test_rules_of_the_yaml_reach_the_verifier_and_the_results(tmp_path):
    domain = domain_from(config(tmp_path, use_all=False, leading_minus=True))
    assert domain.to_dict()["rules"]["leading_minus"] is True and domain.to_dict()["rules"]["use_all"] is False
    some, minus = Problem((3, 7, 9), 10), Problem((3, 7), 4)
    assert verify("<answer> 3 + 7 </answer>", some, domain.rules).correct  # 9 is left out
    assert verify("<answer> -3 + 7 </answer>", minus, domain.rules).correct
    assert not verify("<answer> --3 + 7 </answer>", minus, domain.rules).correct  # a chain
    tagged = domain_from(config(tmp_path, score_tagged=0.1))
    assert verify("<answer> = 4 </answer>", minus, tagged.rules).score == 0.1  # their program; their text: 0
    assert tagged.to_dict()["rules"]["score_tagged"] == 0.1
    plain = domain_from(config(tmp_path))
    assert plain.rules == Rules()


def test_shaped_maxrl_reads_the_charge(tmp_path):
    assert config(tmp_path, prover_objective="maxrl", prover_objective_kwargs={"shaped": True}, length_penalty=0.1)


def test_the_papers_stops_leave_its_prompts_readable(tmp_path):
    stops = dict(prover_stop=["</answer>"], conjecturer_stop=["</problem>", "\n\n"])
    for prompt in ("completion", "six_shots"):
        assert config(tmp_path, conjecturer_prompt=prompt, **stops)
    assert config(tmp_path, conjecturer_prompt="json", conjecturer_stop=["</answer>"])


def test_presets_are_the_papers_and_those_that_the_field_names():
    """Seed 001, section 4: temp 0.6, top-p 0.95, top-k 20, max_tokens 2048. Seed 002, appendix A, majority voting:
    8,192 tokens, temperature 0.95, top-k 10."""
    off = {"min_p": 0.0, "repetition_penalty": 1.0, "stop_strings": [], "generation_kwargs": {}}
    joint = {"temperature": 0.6, "top_p": 0.95, "top_k": 20, "max_new_tokens": 2048, **off}
    assert preset("joint_rloo", {"stop_strings": ["</answer>"], "min_p": 0.1}) == joint
    assert preset("cdg", {}) == {"temperature": 0.95, "top_p": 1.0, "top_k": 10, "max_new_tokens": 8192, **off}
    assert preset(TRAINING, {"temperature": 2.0}) == {"temperature": 2.0}
    assert get_args(get_type_hints(EvaluationFields)["eval_preset"]) == (TRAINING, *PRESETS)
