"""A v1 taskset whose reward runs a program, which needs a sandbox."""

import verifiers.v1 as vf

__all__ = ["NeedsSandbox"]


class Program(vf.Task):
    @vf.reward
    async def tests_pass(self, trace, runtime) -> float:
        return 1.0


class NeedsSandbox(vf.Taskset[Program]):
    def load(self):
        return [Program(vf.TaskData(prompt=f"task {place}", id=str(place)), self.config.task) for place in range(40)]
