# Tests: config/countdown_fields.py, countdown/rules.py
"""Settings with which seed 001 is run as its authors ran it: where they reach, and what is refused."""

from typing import get_args, get_type_hints

from tests.joint_config import joint_config

from countdown_selfplay.config.countdown_fields import EvaluationFields
from countdown_selfplay.evaluation.setting import PRESETS, TRAINING, preset


def config(tmp_path, **changes):
    return joint_config(str(tmp_path), use_cpu=True, report_to="none", **changes)


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
