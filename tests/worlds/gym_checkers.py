"""The worker of reasoning_gym with scorers that misbehave: what an answer says happens."""

import os
import time
from pathlib import Path

from countdown_selfplay.worlds import gym_worker

FOREVER = 3600.0
BUSY = 1.0
"""Seconds that a problem takes on a machine that does much else."""


def busy(item):
    if item[0] == "make":
        time.sleep(BUSY)
    return run(item)


def run(item):
    answer = item[4] if item[0] == "score" else ""
    if answer.startswith("hang"):
        if answer != "hang":
            Path(answer.removeprefix("hang ")).touch()
        time.sleep(FOREVER)
    elif answer == "die":
        os._exit(9)
    elif answer == "raise":
        raise ValueError("no")
    elif answer == "ask the date":
        return 1.0 if str(gym_worker.DATASETS["time_intervals"][0].__init__.__globals__["date"].today()) else 0.0
    return gym_worker.run(item)
