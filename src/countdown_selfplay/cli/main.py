"""The `countdown-selfplay` program: finds the command, imports only that one, and turns errors into one line.

Exit codes: 0 done, 2 a wrong command, setting or input, or a disk that is full or refuses (one line on stderr), 130
interrupted. Anything else that is raised is a bug or a failure of the machine and keeps its traceback.
"""

from __future__ import annotations

import errno
import importlib
import importlib.util
import os
import re
import sys
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NoReturn

from .. import __version__
from ..data.run_files import disk_was_full
from ..errors import CountdownSelfPlayError, UnknownNameError
from ..registry import nearest
from .systems import SYSTEMS

PROG = "countdown-selfplay"

COMMANDS = {
    name: f"countdown_selfplay.cli.{'systems' if name in SYSTEMS else name.replace('-', '_')}"
    for name in (
        *("joint", "sft", "ipo", "rloo", *SYSTEMS, "cdg", "headroom"),
        *("recipes", "ask", "push"),
        *("eval", "compare", "fit-scaling", "solve", "verify", "report", "dataset", "env"),
    )
}
"""Command name -> module. A command whose module is not part of the installation is neither listed nor accepted."""

TRAINERS = frozenset({"joint", "sft", "ipo", "rloo", *SYSTEMS, "cdg", "headroom"})
"""Commands that take the launch options and can run in several processes."""

PREPARED = frozenset({"cdg", "pool", "sgs"})
"""Commands with --prepare."""

_PLANNERS = frozenset({"joint", "rloo", *SYSTEMS, "cdg"})
"""Commands whose --dry_run tells what a launch would need, on a machine that could not run it; nothing is launched."""


def available_commands() -> dict[str, str]:
    """The commands of this installation, in the order of COMMANDS; nothing is imported."""
    return {name: module for name, module in COMMANDS.items() if importlib.util.find_spec(module) is not None}


def help_line(command: str) -> str:
    """The HELP of a command's module, read from its source: to import a trainer command takes seconds."""
    if command in SYSTEMS:
        return SYSTEMS[command].help
    spec = importlib.util.find_spec(COMMANDS[command])
    source = Path(spec.origin).read_text(encoding="utf-8") if spec is not None and spec.origin else ""
    found = re.search(r'^HELP = "(.*)"$', source, re.MULTILINE)
    return found[1] if found else ""


def usage() -> str:
    """The text of `--help`: one line per command."""
    rows = {name: help_line(name) for name in available_commands()}
    width = max(map(len, rows))
    commands = "\n".join(f"  {name:<{width}}  {text}" for name, text in rows.items())
    return (
        f"usage: {PROG} [--help] [--version] command [options]\n\ncommands:\n{commands}\n\n"
        f"`{PROG} command --help` lists the options of a command. Launch options of {', '.join(sorted(TRAINERS))}:\n"
        "  --accelerate_config NAME_OR_FILE  relaunch through `accelerate launch` with a file of accelerate_configs/\n"
        "                                    (single_gpu, ddp, zero2, zero3, fsdp2, cpu_ddp, cpu_zero2, cpu_zero3)\n"
        "                                    or one of your own\n"
        "  --num_processes N                 relaunch in N processes; also --num_machines, --machine_rank,\n"
        "                                    --main_process_ip and --main_process_port, as in `accelerate launch`"
    )


def run(argv: list[str]) -> int:
    """Dispatch `argv`; returns the exit code of the command and lets the library's errors through."""
    if not argv or argv[0] in ("-h", "--help"):
        print(usage())
        return 0
    if argv[0] in ("-V", "--version"):
        print(f"{PROG} {__version__}")
        return 0
    name, rest = argv[0], argv[1:]
    if str(Path.cwd()) not in sys.path:  # where a user's own domain, game or proposer lies
        sys.path.append(str(Path.cwd()))
    known = available_commands()
    if name not in known:
        raise UnknownNameError(f"Unknown command '{name}'.{nearest(name, list(known))}")
    if name in TRAINERS:
        from .countdown_options import has_flag, underscored
        from .early_check import check_early
        from .launch import launch, split_launch_options

        rest = [underscored(argument) for argument in rest]
        if name in PREPARED and has_flag(rest, "--prepare"):
            from .prepare import prepare

            return prepare(name, rest)
        options, rest = split_launch_options(rest)
        check_early(name, rest)
        _say_that_it_loads(name, rest)
        if options and name in _PLANNERS and _asks_for_dry_run(rest):
            return int(program(name)(rest, options))
        if options:
            launch(name, options, rest)
    return _left(program(name), rest)


def _say_that_it_loads(command: str, argv: list[str]) -> None:
    """The first line of a run: to import torch and TRL takes up to half a minute, in which nothing else is said."""
    asks = any(argument in ("-h", "--help", "--help-all", "--help_all") for argument in argv)
    if "torch" not in sys.modules and not asks and os.environ.get("RANK", "0") == "0":
        print(f"{PROG} {command}: loading PyTorch and TRL ...", file=sys.stderr, flush=True)


def program(command: str) -> Callable[..., int]:
    """The `main` of a command, imported now: exit code of its arguments, and of the launch for a trainer."""
    found = importlib.import_module(available_commands()[command]).main
    return partial(found, command) if command in SYSTEMS else found


def _left(command: Callable[[list[str]], int], argv: list[str]) -> int:
    """Run it, and end torch.distributed if it was started."""
    code = command(argv)
    if "torch" in sys.modules:  # else nothing was started, and the import would load torch
        from ..distributed.exit import leave_process_group

        leave_process_group()
    return code


def _asks_for_dry_run(argv: list[str]) -> bool:
    """As the command's own parser will read it: `--dry_run`, `--dry_run true` or `--dry_run=true`."""
    from .countdown_options import flag_value, has_flag

    said = (flag_value(argv, "--dry_run") or "").lower()
    return has_flag(argv, "--dry_run") and said not in ("false", "f", "no", "n", "0")


def _is_news(message: str) -> bool:
    """Whether this process is the first on its machine to say `message`: in a launch all processes meet the same wrong
    setting, and a full disk or a lost server may hit one alone. torchrun gives each process a file for its errors, in
    folders side by side; the first leaves a mark there. Under another launcher each process speaks."""
    own = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if not own:
        return True
    try:
        (Path(own).parents[1] / f"said-{zlib.crc32(message.encode()):08x}").touch(exist_ok=False)
    except FileExistsError:
        return False
    except (OSError, IndexError):
        return True
    return True


def guarded(command: Callable[[list[str]], int], argv: list[str]) -> int:
    """Run `command(argv)`: the library's own errors become one line on stderr and exit code 2."""
    try:
        return command(argv)
    except CountdownSelfPlayError as error:
        return _report(str(error))
    except KeyboardInterrupt:
        print(f"{PROG}: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader went away, as in `countdown-selfplay solve ... | head -1`
        sys.stderr.close()
        return 141
    except Exception as error:
        number = errno.ENOSPC if disk_was_full(error) else getattr(error, "errno", None)
        if number not in _REFUSED:
            raise
        name = getattr(error, "filename", None)
        place = "a file" if name is None else f"'{name}'"
        return _report(f"{place} cannot be written or read: {os.strerror(number)}; {_REFUSED[number]}.")


def as_program(command: Callable[[list[str]], int]) -> NoReturn:
    """Run `command` on the arguments of this script, as `countdown-selfplay` runs its own."""
    raise SystemExit(guarded(lambda argv: _left(command, argv), sys.argv[1:]))


_REFUSED = {
    errno.ENOSPC: "make room, or name a folder on another disk",
    errno.EDQUOT: "make room, or name a folder on another disk",
    errno.EROFS: "name a folder that can be written to",
    errno.EACCES: "name a place that you may use",
    errno.EPERM: "name a place that you may use",
    errno.EISDIR: "name a file",
    errno.ENOTDIR: "name a folder",
    errno.ENAMETOOLONG: "use a shorter name",
    errno.ELOOP: "name a place that is not a link to itself",
}
"""What a disk refuses whoever asks, and the cure. Other failures of the system keep their traceback."""


def _report(error: str) -> int:
    """Say it in one line on stderr; the exit code."""
    message = " ".join(error.split())
    if _is_news(message):
        rank = os.environ.get("RANK", "0")
        print(f"{PROG}{'' if rank == '0' else f' (rank {rank})'}: error: {message}", file=sys.stderr)
    return 2


def main(argv: list[str] | None = None) -> int:
    """Entry point. `argv` defaults to the command line."""
    return guarded(run, sys.argv[1:] if argv is None else argv)


if __name__ == "__main__":
    raise SystemExit(main())
