"""`countdown-selfplay headroom`: whether a curriculum can pay in a setting, before a full training run."""

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
    """Parse settings: recipe < config file < flags, as joint."""
    parsed = parse_options("headroom", argv)
    if at := parsed[1].resume_from_checkpoint:
        raise ConfigError(
            f"`resume_from_checkpoint` ({at}) is for a run, and headroom plays several short ones; leave it out."
        )
    if any(os.environ.get(f"ACCELERATE_USE_{engine}") == "true" for engine in ("DEEPSPEED", "FSDP")):
        raise ConfigError(
            "headroom trains several runs in one process, which sharded engines cannot; launch it with ddp or "
            "cpu_ddp, or leave the launch out."
        )
    return parsed


def main(argv: list[str] | None = None) -> int:
    argv = list(sys.argv[1:] if argv is None else argv)
    arguments, training, model = parse(argv)
    check_starts(model.model_name_or_path, *(player.model for player in training.all_roles.values()))
    domain_from(training)  # fails before a folder is made
    from ...training.run import quiet_loading
    from ...training.run_lock import run_lock
    from ..headroom.measure import measure_gates
    from ..headroom.runs import Runs

    def options(changes: Mapping[str, Any]) -> tuple[JointSelfPlayConfig, dict[str, Any]]:
        words = [(f"--{name}", json.dumps(v) if isinstance(v, dict) else str(v)) for name, v in changes.items()]
        parsed = parse([*argv, *(word for pair in words for word in pair)])  # the last one of a repeated flag counts
        return parsed[1], build_arguments(*parsed)

    quiet_loading()
    folder = Path(training.output_dir)
    folder = folder if folder.name == "headroom" else folder / "headroom"
    with run_lock(str(folder)):
        runs = Runs(options, folder, arguments.gate_rounds, arguments.gate_problems)
        measure_gates(arguments, runs)
        if runs.processes.main:
            print(f"Written: {folder / 'headroom.json'} and headroom.svg")
    return 0
