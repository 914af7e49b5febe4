"""Lock that reserves a folder for one run; the operating system releases it when the process ends."""

from __future__ import annotations

import json
import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from accelerate import PartialState
from accelerate.utils import gather_object
from filelock import FileLock, Timeout

from ..data.jsonl import json_file
from ..distributed.launch import refuse_lone_process
from ..distributed.processes import Processes
from ..errors import DataError, RunFolderError

logger = logging.getLogger(__name__)

LOCK = ".lock"


@contextmanager
def run_lock(output: str | Path) -> Iterator[None]:
    """Hold the lock of `output` inside the block. All processes of a launch enter together, and if the folder is in
    use or cannot be written, each raises the same RunFolderError."""
    refuse_lone_process()
    state, folder = PartialState(), Path(os.path.realpath(output))  # Path.resolve raises for a link to itself
    # One lock per path and process: a command and its trainer lock the same folder.
    lock = FileLock(folder / LOCK, timeout=0, thread_local=False, is_singleton=True, fallback_to_soft=False)
    mine = state.is_main_process and not lock.is_locked
    problem = _acquire(lock, folder) if mine else None
    if state.num_processes > 1:
        problem = next(filter(None, gather_object([problem])), None)
    if problem is not None:
        raise RunFolderError(problem)
    if mine:
        print(f"{Processes(0, state.num_processes, state.device)}: {output}", flush=True)
    try:
        yield
    finally:
        if mine:
            with suppress(OSError):  # a refused run leaves no folder
                if [path.name for path in folder.iterdir()] == [LOCK]:
                    (folder / LOCK).unlink()
                    folder.rmdir()
            lock.release()


def _acquire(lock: FileLock, folder: Path) -> str | None:
    path = folder / LOCK
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.open("a").close()
    except OSError as error:
        return _unwritable(folder, error)
    try:
        lock.acquire()
    except Timeout:
        owner = "another run"
        with suppress(DataError):
            held = json_file(path, pid=int, host=str)
            owner = f"process {held['pid']} on {held['host']}"
        cure = "wait for that run or stop it, or choose another folder"
        return f"`output_dir` ({folder}) is in use by {owner}; {cure}."
    except OSError as error:
        logger.warning("%s has no file locks (%s): see to it that one run at a time uses it.", folder, error.strerror)
        return None
    with suppress(OSError):  # the disk may be full: the lock works without its owner's name
        path.write_text(json.dumps({"host": socket.gethostname(), "pid": os.getpid()}))
    return None


def make_folder(output: str | Path) -> None:
    """Create the output folder. Raises RunFolderError on failure."""
    try:
        Path(output).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunFolderError(_unwritable(Path(output).absolute(), error)) from error


def _unwritable(folder: Path, error: OSError) -> str:
    return f"`output_dir` ({folder}) cannot be written ({error.strerror}); choose another folder."
