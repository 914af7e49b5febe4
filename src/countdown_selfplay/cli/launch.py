"""Relaunch of a trainer command through `accelerate launch`, in as many processes as the launch options request."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import Any, NoReturn

from ..config.recipes import read_yaml
from ..errors import ConfigError, MissingExtraError
from ..registry import nearest

_LEAST = {"num_processes": 1, "num_machines": 1, "machine_rank": 0, "main_process_port": 0}
LAUNCH_OPTIONS = ("accelerate_config", "main_process_ip", *_LEAST)
"""Options of the launcher, all but the first named as in `accelerate launch`; all other options go to the command."""

LAUNCHED = "COUNTDOWN_SELFPLAY_LAUNCHED"
"""Environment variable that is set in the processes that this program launches."""


def config_folder() -> Path:
    """Return accelerate_configs/ of the installed package, or of the checkout in an editable installation."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "accelerate_configs", package.parents[1] / "accelerate_configs"):
        if folder.is_dir():
            return folder
    raise ConfigError(
        f"There is no accelerate_configs folder in '{package}' or beside its source tree; pass a path to "
        "--accelerate_config, or install the package again."
    )


def config_path(name: str) -> Path:
    """Return the accelerate config called `name`: an existing file, or the stem of a file in accelerate_configs/."""
    if Path(name).is_file():
        return Path(name)
    known = sorted(path.stem for path in config_folder().glob("*.yaml"))
    if name.removesuffix(".yaml") in known:
        return config_folder() / f"{name.removesuffix('.yaml')}.yaml"
    raise ConfigError(
        f"`--accelerate_config` ({name}) is neither a file nor a config of this package.{nearest(name, known)}"
    )


def split_launch_options(argv: list[str]) -> tuple[dict[str, str], list[str]]:
    """Split `argv` into launch options and the other arguments; reads `--name value` and `--name=value`."""
    options: dict[str, str] = {}
    rest: list[str] = []
    words = iter(argv)
    for word in words:
        flag, equals, value = word.partition("=")
        name = flag.removeprefix("--")
        if name == flag or name not in LAUNCH_OPTIONS:
            rest.append(word)
            continue
        if not equals and (value := next(words, "--")).startswith("--"):
            raise ConfigError(f"`{flag}` needs a value.")
        least = _LEAST.get(name)
        if least is not None and not (value.isascii() and value.isdigit() and int(value) >= least):
            raise ConfigError(f"`{flag}` ({value}) must be a whole number of at least {least}.")
        options[name] = value
    return options, rest


def launch_command(command: str, options: dict[str, str], argv: list[str]) -> tuple[list[str], dict[str, str]]:
    """Return the command line that starts `command` under accelerate, and the variables to add to its environment."""
    if "LOCAL_RANK" in os.environ:
        raise ConfigError(
            f"`--{next(iter(options))}` cannot be used here: a launcher started this process (LOCAL_RANK is set); "
            "give the option to that launcher."
        )
    line = [sys.executable, "-m", "accelerate.commands.accelerate_cli", "launch"]
    environment: dict[str, str] = {}
    if "accelerate_config" in options:
        path = config_path(options["accelerate_config"])
        line += ["--config_file", str(path)]
        config = _read_config(path)
        engine = config.get("distributed_type")
        if engine == "DEEPSPEED" and importlib.util.find_spec("deepspeed") is None:
            raise MissingExtraError(
                f"`--accelerate_config` ({path}) needs DeepSpeed, which is not installed; install the extra with "
                "pip install 'countdown-selfplay[deepspeed]'."
            )
        cpu = path.stem.startswith("cpu_zero") or any(a.partition("=")[0] == "--use_cpu" for a in argv)
        if not cpu and engine != "MULTI_CPU" and config.get("use_cpu", engine == "NO") is False:
            _check_devices(path, config, options)
        if config.get("use_cpu") and engine == "MULTI_GPU":  # with it DeepSpeed's configs silently run DDP
            environment["ACCELERATE_USE_CPU"] = "true"
        elif path.stem.startswith("cpu_zero") and not any(a.partition("=")[0] == "--use_cpu" for a in argv):
            argv = [*argv, "--use_cpu", "true"]  # these files cannot say it: Accelerate would turn DeepSpeed off
    elif int(options.get("num_processes", 1)) > 1 and options.get("num_machines", "1") == "1":
        # Here accelerate 1.15 would start one process and say nothing, with too few devices as well as with none.
        devices = _accelerators()
        if 0 < devices < int(options["num_processes"]):
            raise ConfigError(
                f"`--num_processes` ({options['num_processes']}) must not exceed the {devices} accelerator(s) of this "
                "machine; use fewer, or --accelerate_config cpu_ddp to try several processes on the CPU."
            )
        if devices == 0:
            line.append("--multi_gpu")
            if "main_process_port" not in options:
                line += ["--main_process_port", "0"]  # any free port: several runs can share a machine
            environment["ACCELERATE_USE_CPU"] = "true"
    for name, value in options.items():
        if name != "accelerate_config":
            line += [f"--{name}", value]
    return [*line, "-m", "countdown_selfplay.cli.main", command, *argv], environment


def _check_devices(path: Path, config: dict[str, Any], options: dict[str, str]) -> None:
    """Raise ConfigError for a launch on more accelerators than this machine has. Otherwise each process would load
    torch before it fails, and a single one would silently train on the CPU."""
    machines, processes = (int(options.get(n, config.get(n) or 1)) for n in ("num_machines", "num_processes"))
    requested, devices = max(processes // max(machines, 1), 1), _accelerators()
    if devices < requested:
        cure = (
            "lower --num_processes" if devices else "use cpu_ddp, cpu_zero2, cpu_zero3 or cpu_fsdp2, or leave it out"
        )
        raise ConfigError(
            f"`--accelerate_config` ({path.stem}) asks for {requested} accelerator(s) on this machine, which has "
            f"{devices}; {cure}."
        )


def planned(options: dict[str, str]) -> Any:
    """Return the Launch that these options describe, for a memory estimate; without a config file, DDP on this
    machine's device."""
    from ..planning.memory import planned_launch

    processes = int(options["num_processes"]) if "num_processes" in options else None
    if "accelerate_config" in options:
        return planned_launch(_read_config(config_path(options["accelerate_config"])), processes)
    on_cpu = _accelerators() == 0
    return planned_launch({"use_cpu": on_cpu, "mixed_precision": "no" if on_cpu else "bf16"}, processes)


def _read_config(path: Path) -> dict[str, Any]:
    try:
        content = read_yaml(path)
    except ConfigError:
        content = None
    if not isinstance(content, dict):
        raise ConfigError(f"`--accelerate_config` ({path}) must be a YAML mapping, as `accelerate config` writes it.")
    return content


def _accelerators() -> int:
    import torch

    return torch.accelerator.device_count() if torch.accelerator.is_available() else 0


def launch(command: str, options: dict[str, str], argv: list[str]) -> NoReturn:
    """Replace this process by `accelerate launch` of `command`, which then receives the signals and sets the exit
    code."""
    line, environment = launch_command(command, options, argv)
    sys.stdout.flush()
    os.execve(sys.executable, line, {**os.environ, **environment, LAUNCHED: "1"})
