"""Tasks of verifiers (Prime Intellect, v1 interface, 0.4): any installed taskset whose tasks are one question
and one answer."""

import hashlib
import importlib.util
import json
import logging
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import distributions
from itertools import islice
from typing import Annotated, Any

from annotated_types import Gt, Lt

from ..contract.domain import BaseDomain, Checked
from ..errors import ConfigError, DataError
from ..options import is_whole
from ..registry import Count, suggestion
from .workers import Pooled, PoolVerdict, Reason, Unchecked

logger = logging.getLogger(__name__)

_ROUNDING = 1e-9
"""Tolerance: weights of .7, .2 and .1 add up to slightly less than 1."""


@dataclass(frozen=True)
class VerifiersTask:
    """Problem: a task of the taskset."""

    id: str
    """The `id` of its data, the key that its class makes, or a hash of its data."""
    messages: tuple[tuple[str, str], ...]
    """(role, content) of the prompt."""
    data: str = field(repr=False)
    """TaskData as JSON."""


@dataclass(frozen=True)
class TaskVerdict(PoolVerdict):
    """Judgement of one answer."""

    score: float = 0.0
    """Weighted sum of the taskset's rewards."""


@dataclass
class VerifiersTasks(Pooled, BaseDomain[VerifiersTask]):
    """Tasks of an installed taskset, scored by its rewards (extra `verifiers`). A domain without proposals: its tasks
    are drawn, chosen by rung, or used as targets. Rewards that need a runtime, judges, tools and environments of
    several turns are refused by name.

    taskset: id of `vf-eval`: the name of the package. config: fields of its configuration. tasks: number of tasks,
    from the first on; None: all. right: smallest reward of an answer that counts as right in solve rates; the score is
    the reward. rung_field: whole-number field of its data with a task's difficulty, for proposers over rungs and
    tables; None: no rungs. chat: false for a model without a chat template, whose prompt is the text alone.
    held_out_share: share of the tasks, by a hash of their ids, excluded from training, with all tasks of the same
    prompt. workers: processes that score. deadline: seconds per answer."""

    taskset: str
    config: Mapping[str, Any] = field(default_factory=dict)
    tasks: Count | None = None
    right: float = 1.0
    rung_field: str | None = None
    chat: bool = True
    held_out_share: Annotated[float, Gt(0), Lt(1)] = 0.1
    workers: Count = 2
    deadline: Annotated[float, Gt(0)] = 10.0
    _warned: bool = field(default=False, init=False, repr=False, compare=False)

    columns = ("task_id",)
    checker = "countdown_selfplay.worlds.verifiers_check:check"

    def __post_init__(self) -> None:
        self._config = json.dumps(dict(self.config), sort_keys=True)
        loaded = _loaded(self.taskset, self._config, self.tasks)
        self._tasks: dict[str, VerifiersTask] = {}
        self._rung_of: dict[str, int] = {}
        for task, given in loaded:
            if self._tasks.setdefault(task.id, task).messages != task.messages:
                raise ConfigError(
                    f"Two tasks of the taskset '{self.taskset}' have the id {task.id!r}; ids must differ."
                )
            if self.rung_field is not None:
                self._rung_of[task.id] = _whole(given, self.rung_field, self.taskset)
        if self.rung_field is None:
            self.rung = self.random_of_rung = self.held_out_of_rung = None  # type: ignore[assignment,method-assign]
        outside = {task.messages for task in self._tasks.values() if _place(task.id) < self.held_out_share}
        self._outside = {task.id for task in self._tasks.values() if task.messages in outside}
        if not 0 < len(self._outside) < len(self._tasks):
            raise ConfigError(
                f"`held_out_share` ({self.held_out_share:g}) puts {len(self._outside)} of {len(self._tasks)} tasks of "
                f"'{self.taskset}' on the held-out side, and both sides need some; choose another share."
            )

    def problem(self, row: Mapping[str, Any], index: int = 0) -> VerifiersTask:
        name = row.get("task_id")
        if name not in self._tasks:
            close = suggestion(str(name), list(self._tasks))
            raise DataError(
                f"row {index}, column 'task_id': {str(name)[:60]!r} is not among the {len(self._tasks)} tasks of "
                f"'{self.taskset}'; rows name tasks by their ids.{close}"
            )
        return self._tasks[str(name)]

    def key(self, problem: VerifiersTask) -> str:
        return problem.id

    def prove_row(self, problem: VerifiersTask) -> dict[str, Any]:
        prompt: Any = [{"role": role, "content": content} for role, content in problem.messages]
        if not self.chat:
            prompt = "\n\n".join(content for _, content in problem.messages)
        return {"prompt": prompt, "task_id": problem.id}

    def verify(self, texts: Sequence[str], problems: Sequence[VerifiersTask]) -> list[TaskVerdict]:
        """Return the taskset's rewards, from the pool, of each distinct pair of task and answer."""
        pairs = [(problem.data, str(text)) for text, problem in zip(texts, problems, strict=True)]
        distinct = list(dict.fromkeys(pairs))
        loaded = [self.taskset, self._config]
        scores = self.checked([[*loaded, *pair] for pair in distinct], first=loaded)
        raised = [one.detail for one in scores if isinstance(one, Unchecked) and one.detail]
        if raised and not self._warned:
            self._warned = True
            message = "Scoring by the taskset '%s' raised on %d of %d answers, which count as not right; the first: %s"
            logger.warning(message, self.taskset, len(raised), len(distinct), raised[0])
        verdict_of = {pair: self._verdict(one) for pair, one in zip(distinct, scores, strict=True)}
        return [verdict_of[pair] for pair in pairs]

    def _verdict(self, scored: Any) -> TaskVerdict:
        if isinstance(scored, Unchecked):
            return TaskVerdict(Reason(scored.reason))
        if not math.isfinite(scored):
            return TaskVerdict(Reason.ERROR)
        reason = Reason.CORRECT if scored >= self.right - _ROUNDING else Reason.PARTIAL if scored > 0 else Reason.WRONG
        return TaskVerdict(reason, scored)

    def stop_strings(self, role: str) -> list[str] | None:
        return None

    def to_dict(self) -> dict[str, Any]:
        """Return the recorded settings; `digest` is of the ids and data of all tasks."""
        every = sorted((task.id, task.data) for task in self._tasks.values())
        return {
            "domain": "verifiers", "taskset": self.taskset, "config": dict(self.config), "tasks": len(every),
            "digest": hashlib.sha256(json.dumps(every).encode()).hexdigest()[:16],
            **{name: getattr(self, name) for name in ("right", "chat", "held_out_share", "deadline")},
        }  # fmt: skip

    # Drawing and choosing

    def is_held_out(self, problem: VerifiersTask) -> bool:
        """Return whether a task is held out, by a hash of the id, so that a growing taskset keeps its sides; and by
        the prompt's text."""
        return problem.id in self._outside

    def held_out(self, n: int) -> list[VerifiersTask]:
        """Return the first n of the held-out side, in the order of the hashes."""
        return self._ordered(self._outside)[:n]

    def random(self, n: int, seed: int, exclude: frozenset[str] = frozenset()) -> list[VerifiersTask]:
        """Return n tasks of the training side, or all if there are fewer."""
        return self._drawn(self._ordered(self._tasks.keys() - self._outside), n, seed, exclude)

    def _drawn(self, tasks: list[VerifiersTask], n: int, seed: int, exclude: frozenset[str]) -> list[VerifiersTask]:
        free = [task for task in tasks if task.id not in exclude]
        return random.Random(seed).sample(free, min(n, len(free)))

    def _ordered(self, ids: Any) -> list[VerifiersTask]:
        return [self._tasks[name] for name in sorted(ids, key=lambda name: (_place(name), name))]

    @property
    def longest(self) -> VerifiersTask:
        return max(self._tasks.values(), key=lambda task: sum(len(content) for _, content in task.messages))

    def check(self, problems: Sequence[VerifiersTask], requests: Sequence[Any]) -> list[Checked]:
        """Accept every task that is not held out."""
        return [Checked("held_out" if self.is_held_out(problem) else "ok") for problem in problems]

    @property
    def rungs(self) -> list[int]:
        return sorted(set(self._rung_of.values()))

    def rung(self, problem: VerifiersTask) -> int:
        return self._rung_of[problem.id]

    def random_of_rung(self, n: int, rung: int, seed: int, exclude: frozenset[str]) -> list[VerifiersTask]:
        tasks = [task for task in self._ordered(self._tasks.keys() - self._outside) if self.rung(task) == rung]
        return self._drawn(tasks, n, seed, exclude)

    def held_out_of_rung(self, n: int, rung: int) -> list[VerifiersTask]:
        return [task for task in self._ordered(self._outside) if self.rung(task) == rung][:n]


def _place(name: str) -> float:
    """Map an id to a number between 0 and 1."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") / 2**64


def _whole(given: Mapping[str, Any], name: str, taskset: str) -> int:
    value = given.get(name)
    if not is_whole(value):
        whole = [key for key, one in given.items() if is_whole(one)]
        raise ConfigError(
            f"`rung_field` ({name}) must be a whole number of each task of '{taskset}', and one has {value!r:.40}; "
            f"whole numbers there: {', '.join(whole)}."
        )
    return value


@lru_cache(maxsize=2)  # a run builds its domain more than once
def _loaded(name: str, config: str, most: int | None) -> list[tuple[VerifiersTask, dict[str, Any]]]:
    """Return the tasks, and the fields of each. Raises ConfigError for a taskset that is absent or not playable."""
    try:
        there = importlib.util.find_spec("verifiers.v1") is not None
    except ModuleNotFoundError:
        there = False
    if not there:
        raise ConfigError(
            "The domain 'verifiers' needs verifiers 0.4 or later, which is not installed; "
            "`pip install 'countdown-selfplay[verifiers]'`."
        )
    from . import verifiers_check as theirs

    try:
        taskset = theirs.built(name, config)
    except ModuleNotFoundError as error:
        lacking = f", or lacks a package ({error.name})" if error.name else ""
        raise ConfigError(
            f"`taskset` ({name}) is not installed{lacking}; install it with pip.{suggestion(name, _installed())}"
        ) from None
    except Exception as error:  # a taskset may raise anything
        raise ConfigError(f"The taskset '{name}' cannot be built ({_first_line(error)}); see its `config`.") from None
    if not taskset.bounded and most is None:
        raise ConfigError(f"The taskset '{name}' makes tasks without end; say with `tasks` how many are to be taken.")
    try:
        tasks = list(islice(taskset, most))
    except Exception as error:
        raise ConfigError(f"The taskset '{name}' cannot load its tasks ({_first_line(error)}).") from None
    if not tasks:
        raise ConfigError(f"The taskset '{name}' has no tasks with this `config`; choose another one.")
    if why := theirs.refusal(name, taskset, tasks):
        raise ConfigError(
            f"The taskset '{name}' cannot be played: {why}; this domain plays one question and one answer, scored "
            "without a sandbox."
        )
    listed = []
    for task in tasks:
        messages = tuple((one["role"], one["content"]) for one in theirs.messages_of(task.data))
        problem = VerifiersTask(theirs.identity(task), messages, task.data.model_dump_json())
        listed.append((problem, theirs.own_fields(task)))
    return listed


def _first_line(error: Exception) -> str:
    """Return the line of pydantic's message on the first field."""
    if hasattr(error, "errors") and (errors := error.errors()):
        return f"{'.'.join(map(str, errors[0]['loc']))}: {errors[0]['msg']}"
    return f"{type(error).__name__}: {error}".splitlines()[0][:200]


def _installed() -> list[str]:
    """Return the installed packages that need verifiers, as tasksets do."""
    return [
        one.metadata["Name"]
        for one in distributions()
        if any(need.split(";")[0].strip().startswith("verifiers") for need in one.requires or ())
    ]
