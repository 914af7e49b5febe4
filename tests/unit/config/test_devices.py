# Tests: config/settled.py
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


def test_a_run_on_a_cpu_says_nothing_of_gpus(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    warning_once.cache_clear()
    args = JointSelfPlayConfig(output_dir=str(tmp_path), report_to="none", use_cpu=True)
    assert args.n_gpu == 0 and "GPUs are visible" not in caplog.text
