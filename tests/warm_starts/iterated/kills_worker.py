"""`python -m tests.warm_starts.iterated.kills_worker FOLDER KILLS`: one iterated run in peace, then the same run
killed by SIGKILL at points of its course and resumed until it is finished, until KILLS deaths; each must end in the
same files.

The processes are forked from this one, which imports everything once and computes nothing. A process kills itself when
it begins one of its pieces of work (a batch of generation, an optimizer step), at one of its file operations, or just
before a chunk of play or a role's data set gets its name; which one is drawn with a fixed seed. Prints, as JSON, in
which phase each death fell and the runs that ended otherwise."""

import json
import os
import random
import signal
import sys
from pathlib import Path

from tests.warm_starts.iterated.test_driver import PROBLEMS, ROLES, driver, files
from torch.optim.optimizer import register_optimizer_step_pre_hook
from transformers import GenerationMixin

CHUNKS = -(-len(PROBLEMS) // 5)
LATEST = {"work": 12, "file": 12, "chunk": 3, "data set": 3}  # a life of a process is a part of the run at most
WRITES = ("os.rename", "os.mkdir", "os.remove", "open")


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def dying_at(folder, how, count):
    """An audit hook: dies at the `count`-th operation on files of the run, or before a role's data set is named."""

    def hook(event, arguments):
        nonlocal count
        if event not in WRITES or not arguments or str(folder) not in str(arguments[0]):
            return
        if how in ("chunk", "data set"):
            target = Path(str(arguments[1])).name if event == "os.rename" else ""
            count -= target.endswith(".parquet") and target.startswith("played") == (how == "chunk")
        elif event != "open" or (isinstance(arguments[1], str) and set(arguments[1]) & set("wax")):
            count -= 1
        if count < 0:
            die()

    sys.addaudithook(hook)


def dying_before(count):
    """Dies before the piece of work that `count` others precede."""

    def begins(*_):
        nonlocal count
        count -= 1
        if count < 0:
            die()

    generate = GenerationMixin.generate

    def generates(self, *arguments, **options):
        begins()
        return generate(self, *arguments, **options)

    GenerationMixin.generate = generates
    register_optimizer_step_pre_hook(begins)


def attempt(folder, how="peace", count=0):
    """Whether a forked process finished the run in `folder`."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            if how == "work":
                dying_before(count)
            elif how != "peace":
                dying_at(folder, how, count)
            driver(folder).run()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status):
        assert os.WEXITSTATUS(status) == 0, f"{folder}: the run failed, see above"
        return True
    assert os.WTERMSIG(status) == signal.SIGKILL
    return False


def phase_of(folder):
    """Where a run stands that was killed."""
    log = folder / "iterations.jsonl"
    lines = log.read_text().splitlines() if log.exists() else []
    iteration, finished = divmod(len(lines), 1 + len(ROLES))
    played = len(list(folder.glob(f"iteration-{iteration + 1}/played-*.parquet")))
    if not finished or played < CHUNKS:
        return "collection"
    next_role = list(ROLES)[finished - 1]
    return "retraining" if (folder / f"iteration-{iteration + 1}" / f"{next_role}.parquet").exists() else "filtering"


def main(root, kills):
    draw = random.Random(0)
    attempt(root / "straight")
    whole = files(root / "straight")
    deaths, other, attempts, runs = [], [], 0, 0
    while len(deaths) < kills and attempts < 6 * kills:
        folder = root / f"killed-{runs}"
        while attempts < 6 * kills:
            attempts += 1
            how = draw.choice(["work", "work", "file", "chunk", "data set"])
            if attempt(folder, how, draw.randrange(LATEST[how])):
                break
            deaths.append(phase_of(folder))
        runs += 1
        found = files(folder)
        other += [f"{folder.name}/{name}" for name in whole if found.get(name) != whole[name]]
    print(json.dumps({"deaths": deaths, "other": other, "runs": runs, "files": len(whole)}))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), int(sys.argv[2]))
