# Tests: config/settled.py, config/generation_rules.py
"""Several GPUs that one process sees, without a GPU: Trainer counts them by `torch.cuda.device_count`."""

import pytest
import torch
from transformers.utils.logging import warning_once

from countdown_selfplay.config import JointSelfPlayConfig
from countdown_selfplay.config.recipes import chain, recipes, written
from countdown_selfplay.warm_starts.configs import IPOSettings, SFTSettings


@pytest.mark.parametrize("kind", [JointSelfPlayConfig, SFTSettings, IPOSettings])
def test_one_of_several_visible_gpus_is_used_and_said(kind, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    warning_once.cache_clear()
    args = kind(output_dir=str(tmp_path), report_to="none", per_device_train_batch_size=8, bf16=False)
    # Before, 8: TRL ended in "does not support nn.DataParallel", and a batch was 8 times as large.
    assert args.n_gpu == 1 and args.train_batch_size == 8 and args.parallel_mode.name == "NOT_PARALLEL"
    said = [record.getMessage() for record in caplog.records if "GPUs are visible" in record.getMessage()]
    assert len(said) == 1 and "8 GPUs" in said[0] and "--accelerate_config ddp --num_processes 8" in said[0]


def test_a_run_on_a_cpu_says_nothing_of_gpus(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    warning_once.cache_clear()
    args = JointSelfPlayConfig(output_dir=str(tmp_path), report_to="none", use_cpu=True)
    assert args.n_gpu == 0 and "GPUs are visible" not in caplog.text


def test_a_process_group_outlasts_a_server_that_is_waited_for():
    """By hand: 6 tries of 600 s and pauses of 2, 4, 8, 16 and 32 s; 2 tries of 60 s and one of 2 s."""
    asked = dict(use_cpu=True, report_to="none")
    for client, seconds in (({}, 6 * 600 + 62), (dict(vllm_request_timeout=60, vllm_request_retries=1), 122)):
        timeout = JointSelfPlayConfig("run", generation_backend="vllm_server", **client, **asked).ddp_timeout
        assert timeout == (seconds + 1800 if seconds > 1800 else 1800)
    assert JointSelfPlayConfig("run", **asked).ddp_timeout == 1800
    assert JointSelfPlayConfig("run", generation_backend="vllm_server", ddp_timeout=4000, **asked).ddp_timeout == 4000


@pytest.mark.parametrize("command", ["joint", "sft", "ipo"])
def test_recipes_for_a_gpu_keep_few_checkpoints(command):
    """One of two policies of 0.5B with their optimizers takes 15.8 GB: 2 x 494M weights x 16 bytes, weights twice."""
    kept = {}
    for name in recipes(command):
        settings = {}
        for _, own in reversed(chain(name, recipes(command), written)):
            settings |= own
        if not name.startswith("tiny/") and (
            settings.get("save_steps") or settings.get("save_strategy", "no") != "no"
        ):
            kept[name] = settings.get("save_total_limit")
    assert kept and all(limit in (1, 2, 3) for limit in kept.values()), kept
