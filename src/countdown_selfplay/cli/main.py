"""Entry point of `countdown-selfplay`: finds the command, imports only its module, and prints an error in one line.

Exit codes: 0 done, 1 a negative result (solve, verify, env), 2 a wrong command, setting or input, or an unusable file
(one line on stderr), 130 interrupted, 141 broken pipe. Any other exception keeps its traceback.
"""

from __future__ import annotations

import errno
import os
import sys
import zlib
from collections.abc import Callable
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import NoReturn

from .. import __version__
from ..data.run_files import disk_was_full
from ..errors import ConfigError, CountdownSelfPlayError, UnknownNameError
from ..packages import CALLED, absent_package, attribute_of, need
from ..registry import nearest
from .commands import COMMANDS, JOINT, NAMES, ONLINE, TRAINERS, Trainer

PROG = "countdown-selfplay"


def usage() -> str:
    """Return the text of `--help`: one line per command."""
    absent = {name: absent_package(COMMANDS[name].module) for name in NAMES}
    rows = {name: COMMANDS[name].help + (f" (needs {absent[name]})" if absent[name] else "") for name in NAMES}
    width = max(map(len, rows))
    trainers = ", ".join(sorted({*TRAINERS} - {ONLINE}))
    commands = "\n".join(f"  {name:<{width}}  {text}" for name, text in rows.items())
    return (
        f"usage: {PROG} [--help] [--version] command [options]\n\ncommands:\n{commands}\n\n"
        f"`{PROG} command --help` lists the options of a command. Launch options of {trainers}:\n"
        "  --accelerate_config NAME_OR_FILE  relaunch through `accelerate launch` with a file of accelerate_configs/\n"
        "                                    (single_gpu, ddp, zero2, zero3, fsdp2, cpu_ddp, cpu_zero2, cpu_zero3,\n"
        "                                    cpu_fsdp2)\n"
        "                                    or one of your own\n"
        "  --num_processes N                 relaunch in N processes; also --num_machines, --machine_rank,\n"
        "                                    --main_process_ip and --main_process_port, as in `accelerate launch`"
    )


def run(argv: list[str]) -> int:
    """Dispatch `argv` and return the command's exit code. Errors of the library propagate."""
    if not argv or argv[0] in ("-h", "--help"):
        print(usage())
        return 0
    if argv[0] in ("-V", "--version"):
        print(f"{PROG} {__version__}")
        return 0
    name, rest = argv[0], argv[1:]
    try:
        here = str(Path.cwd())
    except OSError as error:
        raise ConfigError(f"The working folder cannot be used ({error.strerror}); go to one that is there.") from None
    if here not in sys.path:  # where a user's own domain, game or proposer lies
        sys.path.append(here)
    if name not in NAMES:
        raise UnknownNameError(f"Unknown command '{name}'.{nearest(name, NAMES)}")
    return _train(name, rest) if name in TRAINERS else _left(program(name), rest)


def _train(name: str, argv: list[str]) -> int:
    """Run the checks that need no torch, then relaunch under accelerate or run the command in this process."""
    from ..config.recipes import flags_of, underscored
    from .help import help_text, print_parts
    from .launch import LAUNCHED, launch, split_launch_options
    from .sources import HELP_FLAGS, check_early

    argv = [underscored(argument) for argument in argv]
    if "--help_part" in argv:
        kind, part, *_ = [*flags_of(argv)["help_part"], "", ""]
        print_parts(kind, part or None)
        return 0
    command, arguments = resolved(name, argv)
    how = COMMANDS[command]
    assert isinstance(how, Trainer)
    need(how.module, f"`{PROG} {name}`")
    if how.start is not None and "--prepare" in arguments:
        return int(attribute_of(CALLED["prepare"], "`--prepare`")(name, arguments))
    options, arguments = split_launch_options(arguments)
    planned = check_early(command, arguments) and how.plans_launch
    if any(argument in HELP_FLAGS for argument in arguments):
        print(help_text(command, "--help_all" in arguments), end="")
        return 0
    if "torch" not in sys.modules and LAUNCHED not in os.environ and os.environ.get("RANK", "0") == "0":
        # to import both takes up to half a minute, in which nothing else is said
        print(f"{PROG} {name}: loading PyTorch and TRL ...", file=sys.stderr, flush=True)
    if options and planned:
        return int(program(command)(arguments, options))
    if options:
        launch(name, options, split_launch_options(argv)[1])
    return _left(program(command), arguments)


def resolved(name: str, argv: list[str]) -> tuple[str, list[str]]:
    """Return the command's key in TRAINERS and its arguments: `cdg` has a key for each value of --training."""
    from ..config.recipes import flags_of, without

    if name != "cdg":
        return name, argv
    way = (flags_of(argv).get("training") or ["iterated"])[0]
    if way not in ("iterated", "online"):
        raise ConfigError(f"`training` ({way}) must be iterated or online.")
    return (ONLINE, without(argv, "--training")) if way == "online" else (name, argv)


def program(command: str) -> Callable[..., int]:
    """Import and return the `main` of an entry of COMMANDS; the `main` of a trainer also takes launch options."""
    module = COMMANDS[command].module
    entry: Callable[..., int] = attribute_of(f"{module}:main", f"`{PROG} {command}`")
    return partial(entry, command=command) if module == JOINT else entry


def _left(command: Callable[[list[str]], int], argv: list[str]) -> int:
    """Run the command, leave torch.distributed if it was initialized, and return the exit code."""
    code = command(argv)
    if "torch" in sys.modules:  # else nothing was started, and the import would load torch
        from ..distributed.launch import leave_process_group

        leave_process_group()
    return code


def _is_news(message: str) -> bool:
    """Return whether this process is the first on its machine to report `message`: in a launch, all processes fail
    with the same error. torchrun gives each process an error folder under one parent, in which the first creates a
    marker file. Without torchrun every process reports."""
    error_file = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if not error_file:
        return True
    try:
        (Path(error_file).parents[1] / f"said-{zlib.crc32(message.encode()):08x}").touch(exist_ok=False)
    except FileExistsError:
        return False
    except (OSError, IndexError):
        return True
    return True


def guarded(command: Callable[[list[str]], int], argv: list[str]) -> int:
    """Run `command(argv)` and turn the library's errors and refused file operations into one line on stderr and exit
    code 2. Characters that the terminal cannot encode are printed as escapes."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
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
        refused = error if isinstance(error, OSError) else OSError()
        number = errno.ENOSPC if disk_was_full(error) else refused.errno
        if number not in _REFUSED:
            raise
        place = "a file" if refused.filename is None else f"'{refused.filename}'"
        return _report(f"{place} cannot be written or read: {os.strerror(number)}; {_REFUSED[number]}.")


def as_program(command: Callable[[list[str]], int]) -> NoReturn:
    """Run `command` on this script's arguments, with the error handling of `countdown-selfplay`."""
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
"""Map of the errno of a file operation to a remedy. Other failures of the system keep their traceback."""


def _report(error: str) -> int:
    """Print the error in one line on stderr, unless another process did (`_is_news`), and return exit code 2."""
    message = " ".join(error.split())
    if _is_news(message):
        rank = os.environ.get("RANK", "0")
        print(f"{PROG}{'' if rank == '0' else f' (rank {rank})'}: error: {message}", file=sys.stderr)
    return 2


def main(argv: list[str] | None = None) -> int:
    """Run the program and return its exit code. `argv` defaults to the command line."""
    return guarded(run, sys.argv[1:] if argv is None else argv)


if __name__ == "__main__":
    raise SystemExit(main())
