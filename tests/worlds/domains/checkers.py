"""Functions that worker processes run in tests; what hangs says so in a file first."""

import os
import time
from pathlib import Path

FOREVER = 3600.0


def double(x):
    return 2 * x


def hang(file):
    Path(file).touch()
    time.sleep(FOREVER)


def first(file):
    """Whether this call is the first with that file, over all processes."""
    try:
        Path(file).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def obey(order):
    """["hang", file], ["hang once", file], ["die"], ["die once", file], ["raise"], ["print"], ["eat"], or a value that
    is returned."""
    what, *more = order if isinstance(order, list) else (order,)
    if what == "hang":
        hang(*more)
    elif what == "hang once" and first(*more):
        time.sleep(FOREVER)
    elif what == "die" or (what == "die once" and first(*more)):
        os._exit(9)
    elif what == "raise":
        raise ValueError("no")
    elif what == "print":
        print("[0, 99]")
    elif what == "eat":
        return len(bytearray(1 << 40))
    return [what, os.getpid()]
