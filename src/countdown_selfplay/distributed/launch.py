"""Check of a distributed launch at its start, and orderly end of a process of the run."""

from __future__ import annotations

import atexit
import gc
import logging
import os
import shlex
import sys
import time
from pathlib import Path
from typing import Any

from ..errors import ConfigError

logger = logging.getLogger(__name__)

_PAUSE = 0.2  # seconds for gloo's threads to finish; microseconds suffice unless the machine is busy
_WORLD = ("WORLD_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE")  # torchrun's and those of MPI


def refuse_lone_process() -> None:
    """Raise ConfigError if a variable of the launcher is invalid, or if `accelerate launch` was asked for several
    processes and started one, as accelerate 1.15 silently does with `--cpu`, or with at most one GPU and no
    `--multi_gpu`."""
    for name in _WORLD:
        if not os.environ.get(name, "1").isdecimal():
            raise ConfigError(f"The variable {name} ({os.environ[name]}) must be a whole number; unset it.")
    precision = os.environ.get("ACCELERATE_MIXED_PRECISION", "no").lower()
    if precision not in ("no", "fp16", "bf16", "fp8"):
        raise ConfigError(f"The variable ACCELERATE_MIXED_PRECISION ({precision}) must be no, bf16 or fp8; unset it.")
    world = max(int(os.environ.get(name, "1")) for name in _WORLD)
    if world > 1 or "ACCELERATE_MIXED_PRECISION" not in os.environ:  # which the launcher always sets
        return
    options = asked_for(_parents_line())
    if options > 1:
        raise ConfigError(
            f"`accelerate launch` was asked for {options} processes and has started one: with --cpu, and without "
            f"--multi_gpu on fewer than {options} GPUs, it reads no number. For {options} processes on a CPU: "
            f"ACCELERATE_USE_CPU=true accelerate launch --multi_gpu --num_processes {options} "
            f"{shlex.join(sys.orig_argv[1:])}; for one pass --num_processes 1."
        )


def asked_for(line: list[str]) -> int:
    """Return the number of processes that a command line of `accelerate launch`, or its config file, names; 1 without
    one and for any other command line."""
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
    """Return the command line of the parent process, [] if the system does not give it."""
    import psutil  # comes with accelerate

    try:
        parent = psutil.Process().parent()
        return [] if parent is None else parent.cmdline()
    except psutil.Error:
        return []


def leave_process_group() -> None:
    """End torch.distributed after a successful run, if it was started: all processes wait for each other, so that none
    closes a connection that another reads, and the group's threads are joined.

    Wrapped models keep these threads alive and are collected first. Otherwise, a gloo thread with the tensors of the
    last collective would request the GIL at shutdown to free them, and abort the process with SIGABRT ("terminate
    called without an active exception")."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.distributed.is_available() or not torch.distributed.is_initialized():
        return
    from accelerate.utils import wait_for_everyone

    try:
        wait_for_everyone()
    except RuntimeError as error:  # another process has died, which its launcher reports
        logger.warning("Not all processes of the run reached its end: %s", str(error).partition("\n")[0])
    gc.collect()
    torch.distributed.destroy_process_group()
    _let_go()


def pause_at_exit() -> None:
    """Register a pause at exit for programs that do not end the process group, which could hang after an error."""
    atexit.unregister(_let_go)
    atexit.register(_let_go)


def _let_go() -> None:
    time.sleep(_PAUSE)
