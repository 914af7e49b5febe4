"""Countdown's held-out problems as tasks of OpenEnv (0.10): its task API, and an environment that it serves.
`HeldOutTasks` has the methods of a TaskProvider (openenv/core/env_server/interfaces.py) and imports nothing of
OpenEnv. `served` is its application: an episode is a task and one answer, judged by the verifier."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ..countdown import CountdownDomain, Problem
from ..errors import ConfigError, DataError

SPLIT = "test"


class NoTask(DataError, IndexError):
    """Error for an unknown split or index: OpenEnv's server answers an IndexError with status 400."""


@dataclass(frozen=True)
class HeldOutTasks:
    """Tasks of the single split, `test`: held-out problems as in `countdown-selfplay eval`."""

    problems: int = 512
    """Number of problems."""
    domain: CountdownDomain = field(default_factory=CountdownDomain)
    """Ranges, prompt and rules; answers are whole expressions."""

    def __post_init__(self) -> None:
        if self.domain.answers != "whole":
            raise ConfigError(
                f"The tasks of OpenEnv are answered by one expression, and this domain's `answers` are "
                f"{self.domain.answers}; set them to whole, or take CountdownMovesEnvironment."
            )

    @cached_property
    def held_out(self) -> list[Problem]:
        """Return the problems; a task's index is its position here."""
        return self.domain.held_out(self.problems)

    def problem(self, split: str, index: int) -> Problem:
        """Return the problem of a task. Raises NoTask for an unknown one."""
        count = self.num_tasks(split)
        if not 0 <= index < count:
            raise NoTask(f"Task {index} of the split '{split}' is not there; its tasks are 0 to {count - 1}.")
        return self.held_out[index]

    def list_splits(self) -> list[str]:
        return [SPLIT]

    def num_tasks(self, split: str) -> int:
        if split != SPLIT:
            raise NoTask(f"There is no split '{split}'; the held-out problems are the split '{SPLIT}'.")
        return len(self.held_out)

    def get_task(self, split: str, index: int) -> dict[str, Any]:
        """Return id, index, and the prover's row: prompt, numbers, target."""
        problem = self.problem(split, index)
        return {"id": self.domain.key(problem), "index": index, **self.domain.prove_row(problem)}

    def get_task_range(self, split: str, start: int | None = None, stop: int | None = None) -> list[dict[str, Any]]:
        return [self.get_task(split, index) for index in range(self.num_tasks(split))[start:stop]]

    def list_tasks(self, split: str) -> list[dict[str, Any]]:
        return self.get_task_range(split)


def served(tasks: HeldOutTasks) -> Any:
    """Return the FastAPI application of OpenEnv's server, with `tasks` as the environment "countdown". `reset` takes
    `split` and `index`, or a `seed`; a step is {"text": the answer}, and its reward the verifier's score."""
    try:
        from openenv.core.env_server import Action, Environment, Observation, State, create_fastapi_app
    except ImportError as error:
        raise ConfigError(
            f"OpenEnv cannot be imported ({error}); pip install openenv==0.10.0, in an environment without the extra "
            "verifiers, which needs another version of mcp."
        ) from error

    class Answer(Action):
        text: str

    class Said(Observation):
        text: str

    class Countdown(Environment):
        SUPPORTS_CONCURRENT_SESSIONS = True
        list_splits, num_tasks, list_tasks = tasks.list_splits, tasks.num_tasks, tasks.list_tasks
        get_task, get_task_range = tasks.get_task, tasks.get_task_range
        problem: Problem | None = None
        now = State()

        def reset(
            self,
            seed: int | None = None,
            episode_id: str | None = None,
            split: str = SPLIT,
            index: int | None = None,
            **_: Any,
        ) -> Said:
            place = (seed or 0) % tasks.num_tasks(split) if index is None else index
            self.problem, self.now = tasks.problem(split, place), State(episode_id=episode_id)
            return Said(text=str(tasks.domain.prove_row(self.problem)["prompt"]))

        def step(self, action: Answer, timeout_s: float | None = None, **_: Any) -> Said:
            if self.problem is None:
                raise DataError("An episode begins with `reset` and ends with its first answer; reset it.")
            (verdict,) = tasks.domain.verify([action.text], [self.problem])
            self.problem, self.now = None, State(episode_id=self.now.episode_id, step_count=1)
            return Said(text=str(verdict.reason), done=True, reward=float(verdict.score))

        @property
        def state(self) -> State:
            return self.now

    return create_fastapi_app(Countdown, Answer, Said, env_name="countdown", max_concurrent_envs=64)
