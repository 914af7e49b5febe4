"""Functions that worker processes run in tests."""

import os
import time
from pathlib import Path


def double(x):
    return 2 * x


def obey(order):
    """["sleep", s], ["die"], ["die once", file], ["raise"], ["print"], ["eat"], or a value that is returned."""
    what, *more = order if isinstance(order, list) else (order,)
    if what == "sleep":
        time.sleep(more[0])
    elif what == "die":
        os._exit(9)
    elif what == "die once" and not Path(more[0]).exists():
        Path(more[0]).touch()
        os._exit(9)
    elif what == "sleep once" and not Path(more[0]).exists():
        Path(more[0]).touch()
        time.sleep(60)
    elif what == "raise":
        raise ValueError("no")
    elif what == "print":
        print("[0, 99]")
    elif what == "eat":
        return len(bytearray(1 << 40))
    return [what, os.getpid()]
