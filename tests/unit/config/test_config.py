# Tests: config/rules.py, config/settled.py, config/fields.py, config/joint.py, config/part_rules.py
"""Every cross-field rule: the message names field, value, rule and cure, before any model is loaded."""

import copy
import os
import pickle
from typing import get_args, get_type_hints

import pytest
import torch
from tests.joint_config import joint_config
from transformers.utils.logging import warning_once

from countdown_selfplay import JointConjecturerProverTrainer, JointSelfPlayConfig
from countdown_selfplay.config.fields import EvaluationFields
from countdown_selfplay.config.role_rules import check_tokens
from countdown_selfplay.config.script import EvaluationArguments
from countdown_selfplay.config.settled import check_output
from countdown_selfplay.errors import ConfigError
from countdown_selfplay.evaluation.setting import PRESETS, TRAINING, preset


def config(**changes):
    return joint_config(output_dir="unused", use_cpu=True, **changes)


def test_processes_share_prompts_that_need_not_divide():
    """9 problems on 2 processes: 5 on one of them, 40 answers; 3 prompts of 8 proposals: 2, 16 proposals."""
    c = config(problems_per_round=9, proposals_per_round=24)
    assert c.samples(2) == {"prover": 40, "conjecturer": 16}
    assert c.samples(9) == c.samples(100) == {"prover": 8, "conjecturer": 8}


def test_the_critic_game_says_itself_what_a_round_may_sample():
    """3 problems of 2 answers, all wrong: 6 x 4 critiques, each revised 4 times: 6 + 96; on 2 processes 2 problems."""
    sizes = {"game": "critic_discernment", "problems_per_round": 3, "prover_num_generations": 2}
    c = config(**sizes, roles={"helpful": {"num_generations": 4}})
    assert c.trained_roles == ("prover", "helpful")
    assert c.samples() == {"prover": 102, "helpful": 24} and c.samples(2) == {"prover": 4 + 64, "helpful": 16}


def test_a_token_budget_holds_a_sequence_of_each_trained_role():
    assert config(max_tokens_per_micro_batch=257, max_completion_length=256).max_tokens_per_micro_batch == 257
    frozen = {"conjecturer": {"weights": "start"}}
    budget = dict(max_tokens_per_micro_batch=11, conjecturer_max_completion_length=90, prover_max_completion_length=10)
    assert config(roles=frozen, **budget)
    check_tokens(config(max_tokens_per_micro_batch=20, max_completion_length=10), {"prover": 10})


def test_a_token_survives_copies_but_neither_pickles_nor_prints():
    c = config(hub_token="hf_secret")
    assert copy.copy(c).hub_token == copy.deepcopy(c).hub_token == "hf_secret"
    assert pickle.loads(pickle.dumps(c)).hub_token is None
    assert "hf_secret" not in repr(c) + str(c)


def test_precision_is_decided_by_the_device():
    assert config().bf16 is False
    assert config(bf16=True).bf16 is True


def test_an_output_folder_that_cannot_be_is_refused_by_a_run_and_not_by_a_config(tmp_path):
    (tmp_path / "file").write_text("")
    args = joint_config(output_dir=str(tmp_path / "file" / "run"), use_cpu=True)  # another machine's, perhaps
    with pytest.raises(ConfigError, match=r"`output_dir` \(.*/file/run\) must be a folder .*/file is a file"):
        JointConjecturerProverTrainer("no such model", args=args)
    (tmp_path / "locked").mkdir(mode=0o500)
    if not os.access(tmp_path / "locked", os.W_OK):  # root may write anywhere
        with pytest.raises(ConfigError, match="/locked is not writable"):
            check_output(str(tmp_path / "locked" / "run"))


def test_rungs_are_the_operand_counts_of_the_run_and_those_of_no_evaluation_are_no_fault():
    nobody = {"conjecturer": {"players": 0}}
    rungs = config(proposer="uniform_rungs", roles=nobody, anchor_fraction=0.0, proposer_kwargs={"rungs": [4]})
    assert rungs.proposer_arguments == {"rungs": [4]}
    assert config(proposer="policies", proposer_kwargs={"repair": True}).proposer_arguments == {"repair": True}
    assert config(shuffled_rewards=True).game_settings.shuffled_rewards is True
    assert EvaluationArguments(eval_problems=0, eval_rungs=[3, 4]).eval_problems == 0


def test_the_papers_stops_leave_its_prompts_readable_and_shaped_maxrl_reads_the_charge():
    assert config(prover_objective="maxrl", prover_objective_kwargs={"shaped": True}, length_penalty=0.1)
    stops = dict(prover_stop=["</answer>"], conjecturer_stop=["</problem>", "\n\n"])
    for prompt in ("completion", "six_shots"):
        assert config(conjecturer_prompt=prompt, **stops)
    assert config(conjecturer_prompt="json", conjecturer_stop=["</answer>"])


def test_presets_are_the_papers_and_those_that_the_field_names():
    """Seed 001, section 4: temp 0.6, top-p 0.95, top-k 20, max_tokens 2048. Seed 002, appendix A, majority voting:
    8,192 tokens, temperature 0.95, top-k 10."""
    off = {"min_p": 0.0, "repetition_penalty": 1.0, "stop_strings": [], "generation_kwargs": {}}
    joint = {"temperature": 0.6, "top_p": 0.95, "top_k": 20, "max_new_tokens": 2048, **off}
    assert preset("joint_rloo", {"stop_strings": ["</answer>"], "min_p": 0.1}) == joint
    assert preset("cdg", {}) == {"temperature": 0.95, "top_p": 1.0, "top_k": 10, "max_new_tokens": 8192, **off}
    assert preset(TRAINING, {"temperature": 2.0}) == {"temperature": 2.0}
    assert get_args(get_type_hints(EvaluationFields)["eval_preset"]) == (TRAINING, *PRESETS)


@pytest.mark.parametrize("name", ["JointSelfPlayConfig", "SFTSettings", "IPOSettings"])
def test_one_of_several_visible_gpus_is_used_and_said(name, tmp_path, monkeypatch, caplog):
    """Without a GPU: Trainer counts them by `torch.cuda.device_count`."""
    place = "config" if name == "JointSelfPlayConfig" else "warm_starts.configs"
    kind = getattr(pytest.importorskip(f"countdown_selfplay.{place}"), name)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    warning_once.cache_clear()
    args = kind(output_dir=str(tmp_path), report_to="none", per_device_train_batch_size=8, bf16=False)
    # Before, 8: TRL ended in "does not support nn.DataParallel", and a batch was 8 times as large.
    assert args.n_gpu == 1 and args.train_batch_size == 8 and args.parallel_mode.name == "NOT_PARALLEL"
    said = [record.getMessage() for record in caplog.records if "GPUs are visible" in record.getMessage()]
    assert len(said) == 1 and "8 GPUs" in said[0] and "--accelerate_config ddp --num_processes 8" in said[0]


def test_a_process_group_outlasts_a_server_that_is_waited_for():
    """By hand: 6 tries of 600 s and pauses of 2, 4, 8, 16 and 32 s; 2 tries of 60 s and one of 2 s."""
    asked = dict(use_cpu=True, report_to="none")
    for client, seconds in (({}, 6 * 600 + 62), (dict(vllm_request_timeout=60, vllm_request_retries=1), 122)):
        timeout = JointSelfPlayConfig("run", generation_backend="vllm_server", **client, **asked).ddp_timeout
        assert timeout == (seconds + 1800 if seconds > 1800 else 1800)
    assert JointSelfPlayConfig("run", **asked).ddp_timeout == 1800
    assert JointSelfPlayConfig("run", generation_backend="vllm_server", ddp_timeout=4000, **asked).ddp_timeout == 4000
