"""The end of a process of a distributed run.

A thread of gloo may still hold the tensors of the last collective when the interpreter shuts down. To free them it
then asks for Python's lock, is ended for it, and takes the whole process along with SIGABRT ("terminate called without
an active exception"), after all work was done.
"""

from __future__ import annotations

import atexit
import gc
import logging
import sys
import time

logger = logging.getLogger(__name__)

_PAUSE = 0.2  # seconds for gloo's threads to let go; microseconds are enough unless the machine is busy


def leave_process_group() -> None:
    """End torch.distributed after a run that went well, if it was started: all processes wait for each other, so that
    none closes a connection that another still reads from, and the group's threads are joined.

    Wrapped models keep the group's threads alive, so they are collected first: ending the group then joins them.
    """
    torch = sys.modules.get("torch")
    if torch is None or not torch.distributed.is_available() or not torch.distributed.is_initialized():
        return
    from accelerate.utils import wait_for_everyone

    try:
        wait_for_everyone()
    except RuntimeError as error:  # another process has died, which its launcher says
        logger.warning("Not all processes of the run reached its end: %s", str(error).partition("\n")[0])
    gc.collect()
    torch.distributed.destroy_process_group()
    _let_go()


def pause_at_exit() -> None:
    """For programs that do not end the group themselves. After an error ending it could wait for the others for ever,
    so at exit there is a pause and no more."""
    atexit.unregister(_let_go)
    atexit.register(_let_go)


def _let_go() -> None:
    time.sleep(_PAUSE)
