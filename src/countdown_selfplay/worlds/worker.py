"""A process that checks answers for `Workers`: python -m countdown_selfplay.worlds.worker MODULE:FUNCTION MEGABYTES
FIRST. FIRST, in JSON, is an item for the function before the worker is ready; null for none.

A line of JSON in, [number, item]; a line out, [number, result], or [number, null, "error: ..."].
A function that raises SystemExit(result) ends its process after [number, result, ""]: the next item has a fresh one.
"""

import importlib
import json
import os
import sys


def main(task: str, megabytes: int, first: str) -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # output of the function must not mix with the answers
    module, _, name = task.partition(":")
    function = getattr(importlib.import_module(module), name)
    _limit_memory(megabytes)
    if first != "null":
        function(json.loads(first))
    print(json.dumps("ready"), file=answers, flush=True)
    last = False
    while not last and (line := sys.stdin.readline()):
        number, item = json.loads(line)
        try:
            reply = [number, function(item)]
        except SystemExit as end:
            reply, last = [number, end.code, ""], True
        except Exception as error:  # any error of the checker is a verdict on the text, not the end of the worker
            reply = [number, None, f"{type(error).__name__}: {error}"[:200]]
        print(json.dumps(reply), file=answers, flush=True)


def _limit_memory(megabytes: int) -> None:
    """Limit the address space: an excess allocation is a MemoryError here, and not the end of a training run."""
    try:
        import resource
    except ImportError:  # not on this platform; the deadline still holds
        return
    wanted = megabytes << 20
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (wanted if hard < 0 else min(wanted, hard), hard))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
