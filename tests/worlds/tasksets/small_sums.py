"""A v1 taskset as a package would export one: reach the target with the three numbers, in the tiny model's words."""

import random
import re
from fractions import Fraction

import verifiers.v1 as vf

__all__ = ["SmallSums"]

WORD = re.compile(r"\d+|[-+*/()]")


def value_of(text):
    """The value of an expression without division by zero, or None; numbers in it, sorted."""
    words = WORD.findall(text)
    if not words or "".join(words) != text.replace(" ", ""):
        return None, []
    try:
        value = eval(" ".join(f"Fraction({w})" if w.isdigit() else w for w in words), {"Fraction": Fraction})
    except (SyntaxError, TypeError, ZeroDivisionError):
        return None, []
    return value, sorted(int(w) for w in words if w.isdigit())


class SumData(vf.TaskData):
    numbers: list[int]
    target: int
    level: int
    """1: the target is below 50; 2: it is not."""


class SumTask(vf.Task[SumData]):
    @vf.reward(weight=0.9)
    async def reached(self, task, trace) -> float:
        value, used = value_of(trace.last_reply)
        return float(value == task.target and used == sorted(task.numbers))

    @vf.reward(weight=0.1)
    async def numbers_used(self, task, trace) -> float:
        return float(value_of(trace.last_reply)[1] == sorted(task.numbers))

    @vf.metric
    async def turns(self, trace) -> float:
        return trace.num_turns


class SumsConfig(vf.TasksetConfig):
    count: int = 60
    seed: int = 0


class SmallSums(vf.Taskset[SumTask, SumsConfig]):
    def load(self):
        draw = random.Random(self.config.seed)
        for place in range(self.config.count):
            while True:
                a, b, c = (draw.randint(1, 12) for _ in range(3))
                target = draw.choice([a + b + c, a * b + c, a * b - c])
                if 1 <= target <= 99:
                    break
            data = SumData(
                id=f"sum-{place}", prompt=f"{a} {b} {c} = {target} :", numbers=[a, b, c], target=target,
                level=1 if target < 50 else 2,
            )  # fmt: skip
            yield SumTask(data, self.config.task)
