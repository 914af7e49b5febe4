"""A v1 taskset without ids and end: partial reward, a hook, a system prompt, a chat of messages."""

import itertools

import verifiers.v1 as vf
from small_sums import value_of

__all__ = ["NearSums"]


class NearData(vf.TaskData):
    target: int


class NearState(vf.State):
    begun: bool = False


class NearTask(vf.Task[NearData, NearState]):
    async def setup(self, trace):
        trace.state.begun = True

    @vf.reward
    async def near(self, trace) -> float:
        assert trace.state.begun and [one.role for one in trace.messages] == ["system", "user", "assistant"]
        value, _ = value_of(trace.last_reply)
        return 0.0 if value is None else float(1 / (1 + abs(value - self.data.target)))


class NearSums(vf.Taskset[NearTask]):
    INFINITE = True

    def load(self):
        for n in itertools.count():
            numbers = (1 + n % 12, 1 + n // 12 % 12, 1 + n // 144 % 12)
            target = numbers[0] + numbers[1] + numbers[2]
            prompt = [vf.UserMessage(content=f"{' '.join(map(str, numbers))} = {target} :")]
            yield NearTask(NearData(prompt=prompt, system_prompt="add", target=target), self.config.task)
