"""A v1 taskset whose scorer does what the answer says."""

import os
import time
from pathlib import Path

import verifiers.v1 as vf

__all__ = ["BadScorer"]

FOREVER = 3600.0


class BadTask(vf.Task):
    @vf.reward
    async def obeys(self, trace) -> float:
        what = trace.last_reply
        if what.startswith("hang "):
            Path(what.removeprefix("hang ")).touch()
            time.sleep(FOREVER)
        elif what == "die":
            os._exit(9)
        elif what == "raise":
            raise ValueError("no")
        elif what == "print":
            print("[0, 99]")
        return float("nan") if what == "nan" else float(len(what))


class BadScorer(vf.Taskset[BadTask]):
    def load(self):
        return [BadTask(vf.TaskData(prompt=f"task {place}", id=str(place)), self.config.task) for place in range(40)]
