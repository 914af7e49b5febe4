# Tests: config/inherited.py, config/part_rules.py
"""Several GPUs that one process sees, without a GPU: Trainer counts them by `torch.cuda.device_count`."""

import pytest
import torch
from transformers.utils.logging import warning_once

from countdown_selfplay.config import JointSelfPlayConfig
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


def test_a_process_group_outlasts_a_server_that_is_waited_for():
    """By hand: 6 tries of 600 s and pauses of 2, 4, 8, 16 and 32 s; 2 tries of 60 s and one of 2 s."""
    asked = dict(use_cpu=True, report_to="none")
    for client, seconds in (({}, 6 * 600 + 62), (dict(vllm_request_timeout=60, vllm_request_retries=1), 122)):
        timeout = JointSelfPlayConfig("run", generation_backend="vllm_server", **client, **asked).ddp_timeout
        assert timeout == (seconds + 1800 if seconds > 1800 else 1800)
    assert JointSelfPlayConfig("run", **asked).ddp_timeout == 1800
    assert JointSelfPlayConfig("run", generation_backend="vllm_server", ddp_timeout=4000, **asked).ddp_timeout == 4000
