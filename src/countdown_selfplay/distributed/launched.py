"""Whether the launcher started as many processes as it was asked for.

accelerate 1.15 goes by `--multi_gpu` (or a config file's kind of engine) and not by `--num_processes`: with `--cpu`,
or on a machine with one GPU or none, `accelerate launch --num_processes 2` starts one process and says nothing.
"""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Any

from ..errors import ConfigError

_WORLD = ("WORLD_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE")  # torchrun's and those of MPI


def refuse_lone_process() -> None:
    """ConfigError in the only process of an `accelerate launch` that was asked for several."""
    world = max(int(os.environ.get(name, "1")) for name in _WORLD)
    if world > 1 or "ACCELERATE_MIXED_PRECISION" not in os.environ:  # which the launcher always sets
        return
    asked = asked_for(_parents_line())
    if asked > 1:
        raise ConfigError(
            f"`accelerate launch` was asked for {asked} processes and has started one: with --cpu, and without "
            f"--multi_gpu on fewer than {asked} GPUs, it reads no number. For {asked} processes on a CPU: "
            f"ACCELERATE_USE_CPU=true accelerate launch --multi_gpu --num_processes {asked} "
            f"{shlex.join(sys.orig_argv[1:])}; for one pass --num_processes 1."
        )


def asked_for(line: list[str]) -> int:
    """The number of processes that a command line of `accelerate launch`, or its config file, names; 1 without one and
    for any other command line."""
    names = [Path(part).name for part in line]
    if "accelerate-launch" in names:
        start = names.index("accelerate-launch")
    elif "launch" in names and "accelerate" in " ".join(names[: names.index("launch")]):
        start = names.index("launch")
    else:
        return 1
    from accelerate.commands.config.config_args import default_config_file, load_config_from_file
    from accelerate.commands.launch import launch_command_parser

    try:
        options: Any = launch_command_parser().parse_args(line[start + 1 :])
        if options.num_processes is not None:
            return int(options.num_processes)
        if options.config_file is None and (options.cpu or not Path(default_config_file).is_file()):
            return 1
        return int(getattr(load_config_from_file(options.config_file), "num_processes", None) or 1)
    except (SystemExit, OSError, ValueError):  # not a launch after all
        return 1


def _parents_line() -> list[str]:
    """The command line of the process that started this one; [] where the system does not tell."""
    import psutil  # comes with accelerate

    try:
        parent = psutil.Process().parent()
        return [] if parent is None else parent.cmdline()
    except psutil.Error:
        return []
