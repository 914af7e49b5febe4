"""One run per folder: a lock that the operating system lets go of when the process ends, however it ends."""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path

from accelerate import PartialState
from accelerate.utils import gather_object

from ..data.jsonl import json_file
from ..distributed.launch import refuse_lone_process
from ..distributed.processes import Processes
from ..errors import DataError, RunFolderError

logger = logging.getLogger(__name__)

LOCK = ".lock"
_held: dict[Path, FileIO] = {}  # by this process: a command holds the folder that its trainer asks for again


@contextmanager
def run_lock(output: str | Path) -> Iterator[None]:
    """Inside the block no other process can train into `output`. All processes of a launch enter together: if the main
    one finds the folder in use, each raises the same RunFolderError. The main one says how many there are."""
    refuse_lone_process()
    state, folder = PartialState(), Path(os.path.realpath(output))  # Path.resolve raises for a link to itself
    mine = folder not in _held and state.is_main_process
    problem = _acquire(folder) if mine else None
    if state.num_processes > 1:
        problem = next(filter(None, gather_object([problem])), None)
    if problem is not None:
        raise RunFolderError(problem)
    if mine:
        print(f"{Processes(0, state.num_processes, state.device)}: {output}", flush=True)
    try:
        yield
    finally:
        file = _held.pop(folder, None) if mine else None
        if file is not None:
            with suppress(OSError):  # a run that was refused leaves no folder
                if [path.name for path in folder.iterdir()] == [LOCK]:
                    (folder / LOCK).unlink()
                    folder.rmdir()
            file.close()


def _acquire(folder: Path) -> str | None:
    """Take the lock; a sentence if another process has it."""
    path = folder / LOCK
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = FileIO(path, "a+")
    except OSError as error:
        return _unwritable(folder, error)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            logger.warning(
                "%s has no file locks (%s): see to it that one run at a time uses it.", folder, error.strerror
            )
            return None
        return (
            f"`output_dir` ({folder}) is in use by {_owner(path)}; wait for that run or stop it, or choose another "
            "folder."
        )
    with suppress(OSError):  # the disk may be full: the lock holds without its owner's name
        file.truncate(0)
        file.write(json.dumps({"host": socket.gethostname(), "pid": os.getpid()}).encode())
    _held[folder] = file
    return None


def make_folder(output: str | Path) -> None:
    """The folder that the stock Trainer's constructor makes; RunFolderError where it cannot."""
    try:
        Path(output).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunFolderError(_unwritable(Path(output).absolute(), error)) from error


def _unwritable(folder: Path, error: OSError) -> str:
    return f"`output_dir` ({folder}) cannot be written ({error.strerror}); choose another folder."


def _owner(path: Path) -> str:
    try:
        said = json_file(path, pid=int, host=str)
        return f"process {said['pid']} on {said['host']}"
    except DataError:
        return "another run"
