"""`countdown-selfplay headroom`: whether a curriculum can pay in a setting, before anybody trains one."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trl import ModelConfig

from ...cli.joint import build_arguments
from ...cli.options import parse_options
from ...config import JointSelfPlayConfig
from ...config.script import check_starts
from ...domains import domain_from
from ...errors import ConfigError
from ..headroom.settings import HeadroomArguments


def parse(argv: list[str]) -> tuple[HeadroomArguments, JointSelfPlayConfig, ModelConfig]:
    """Recipe < config file < flags, as joint."""
    found = parse_options("headroom", argv)
    if found[1].resume_from_checkpoint:
        raise ConfigError(
            f"`resume_from_checkpoint` ({found[1].resume_from_checkpoint}) is for a run, and headroom plays several "
            "short ones; leave it out."
        )
    if any(os.environ.get(f"ACCELERATE_USE_{engine}") == "true" for engine in ("DEEPSPEED", "FSDP")):
        raise ConfigError(
            "headroom trains several runs in one process, which sharded engines cannot; launch it with ddp or "
            "cpu_ddp, or leave the launch out."
        )
    return found


def main(argv: list[str] | None = None) -> int:
    argv = list(sys.argv[1:] if argv is None else argv)
    asked, training, model = parse(argv)
    check_starts(model.model_name_or_path, *(player.model for player in training.all_roles.values()))
    domain_from(training)  # what it refuses is said before a folder is made
    from ...training.run import quiet_loading
    from ...training.run_lock import run_lock
    from ..headroom.measure import measure_gates
    from ..headroom.runs import Runs

    def options(changes: Mapping[str, Any]) -> tuple[JointSelfPlayConfig, dict[str, Any]]:
        words = [(f"--{name}", json.dumps(v) if isinstance(v, dict) else str(v)) for name, v in changes.items()]
        found = parse([*argv, *(word for pair in words for word in pair)])  # the last of a flag counts
        return found[1], build_arguments(*found)

    quiet_loading()
    folder = Path(training.output_dir)
    folder = folder if folder.name == "headroom" else folder / "headroom"
    with run_lock(str(folder)):
        runs = Runs(options, folder, asked.gate_rounds, asked.gate_problems)
        measure_gates(asked, runs)
        if runs.processes.main:
            print(f"Written: {folder / 'headroom.json'} and headroom.svg")
    return 0
