"""Plays runs one after the other, each in a fork of a process that has only imported, and kills them as told.

Started by test_deaths.py with a list of jobs as JSON on standard input; prints one line of JSON per job. A job:
`output`, `config` (of make_trainer), `lora`, and `kill`, the number of the file operation in the output folder before
which the process kills itself with SIGKILL (null: never); `kill_in`, the number of the pass. A run goes on from its
newest checkpoint, if it has one.
"""

import json
import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.trainer.conftest import digest, held, make_trainer, optimizer_state, rounds, weights
from tests.trainer.test_round import LORA

OPERATIONS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "shutil.rmtree"}


def killing_before(operation, folder):
    """Count the operations that change files under `folder`; die before the one numbered `operation`."""
    seen = []

    def hook(event, arguments):
        if event not in OPERATIONS or not str(arguments[0]).startswith(folder):
            return
        if event == "open" and not set(str(arguments[1] or "r")) & set("wax+"):
            return
        seen.append(event)
        if len(seen) == operation:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    return seen


def killing_in(number, trainer):
    """Count the passes of all optimizer steps; die in the one numbered `number`, when its loss is known."""
    seen, measure = [], trainer.optimizer_steps.measure

    def measured(*arguments):
        loss = measure(*arguments)
        seen.append(arguments)
        if len(seen) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return loss

    trainer.optimizer_steps.measure = measured
    return seen


def tripping(trainer):
    """The guard trips after round 4 of the first attempt, over rounds 3 and 4, and is content otherwise."""
    observe = trainer.guard.observe

    def sees(metrics):
        bad = trainer.state.global_step in (3, 4) and trainer.counts.attempt == 0
        return observe({"conjecturer/parseable_rate": 0.0 if bad else 1.0, "round/starved": 0})

    trainer.guard.observe = sees


def play(job):
    seen = killing_before(job["kill"], job["output"])
    extra = {"trainer": {"peft_config": LORA}, "policy_sharing": "lora"} if job.get("lora") else {}
    trainer = make_trainer(job["output"], **job["config"], **extra)
    tripping(trainer)
    passes = killing_in(job.get("kill_in"), trainer)
    trainer.train(resume_from_checkpoint="auto")
    found = {
        "weights": digest(weights(trainer)),
        # none where the life before had reached the end: there is nothing left to train
        "optimizer": digest(optimizer_state(trainer)) if trainer.optimizer is not None else None,
        "held": held(trainer),
        "rounds": rounds(job["output"]),
        "operations": len(seen),
        "passes": len(passes),
    }
    print(json.dumps(found), flush=True)


def child(job):
    try:
        play(job)
    except Exception as error:
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    for line in sys.stdin:
        if (pid := os.fork()) == 0:
            child(json.loads(line))
        if os.WIFSIGNALED(os.waitpid(pid, 0)[1]):
            print(json.dumps({"killed": True}), flush=True)
