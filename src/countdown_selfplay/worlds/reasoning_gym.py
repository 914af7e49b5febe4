"""The tasks of reasoning-gym as a domain: problems by task, levels and seed, scored by the task's own scorer
(Stojanovski et al. 2025, "Reasoning Gym: Reasoning Environments for Reinforcement Learning with Verifiable Rewards",
arXiv 2505.24760)."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from random import Random
from typing import Annotated, Any, Literal

from annotated_types import Gt, MinLen

from ..contract.domain import BaseDomain, Checked
from ..contract.game import Proposal
from ..errors import DataError
from ..options import is_whole
from ..random_state import seed_from
from ..registry import Count
from .gym_tasks import Task, levels_of_sum, read_proposal, table, tasks_of
from .workers import Pooled, PoolVerdict, Reason, Unchecked

HELD_OUT = 1 << 30
"""First held-out seed; training draws smaller ones."""
SEEDS = 1 << 31
TRIES = 6
"""Number of draws for problems that could not be made, or are equal to others."""
KEPT = 20_000
"""Number of problems whose texts are cached; others are regenerated."""
MAKING = 12
"""Multiple of the deadline for making a problem: no text of a model is involved, one may take 1.5 s of CPU time
(gym_tasks.py), and the set of problems must not depend on the machine's load."""
MAX_ANSWER = 1 << 16
"""Largest number of characters of an answer that is scored; those of the tasks have at most some 20,000."""
ASKED = (
    "Solve the problem step by step. Put the answer alone, without any explanation, between <answer> and </answer>. "
    "Where the problem shows an example of an answer, write it in the same form."
)


@dataclass(frozen=True)
class GymProblem:
    """Problem of a task: equal ones have equal task, levels and seed."""

    task: str
    levels: tuple[int, ...]
    """Levels of the settings of the task's curriculum, in its order."""
    seed: int | None = None
    """None for a proposal; the problem of these levels is drawn when it is played."""
    question: str = field(default="", compare=False)
    answer: str = field(default="", compare=False, repr=False)
    """Answer of the task."""


@dataclass(frozen=True)
class GymVerdict(PoolVerdict):
    """Judgement of one answer."""

    score: float = 0.0
    """Score of the task's scorer, 0 to 1: a reward; the solve rate counts only full scores."""
    answer: str | None = None

    @property
    def vote(self) -> str | None:
        return self.answer


@dataclass
class ReasoningGym(Pooled, BaseDomain[GymProblem]):
    """Problems of one task of reasoning-gym (extra `gym`), or of a mixture of tasks in equal parts. A proposal names a
    task and a level of each of its settings, "chain_sum: num_terms=3, num_digits=1"; the problem of these levels is
    drawn (`drawn`). A rung is the sum of the levels.

    task: a name, or a list of names. levels: lowest and highest level of each setting of a task's curriculum, or a
    single one, {"num_terms": [0, 3]}; of a mixture {task: {setting: range}}. None: all levels that were playable when
    the table of tasks was measured (docs/gym_tasks.md). prompt: "chat", messages that require <answer> tags; "text",
    the same as plain text; "bare", the question alone, and the whole completion is the answer. workers: processes that
    make problems and score answers. deadline: seconds per answer."""

    task: str | Annotated[Sequence[str], MinLen(1)]
    levels: dict[str, Any] | None = None
    prompt: Literal["chat", "text", "bare"] = "chat"
    workers: Count = 2
    deadline: Annotated[float, Gt(0)] = 10.0

    columns = ("task", "levels", "seed")
    checker = "countdown_selfplay.worlds.gym_worker:run"
    facts = ("in_range",)

    def __post_init__(self) -> None:
        self._texts: dict[GymProblem, GymProblem] = {}
        self._mixture = tasks_of(self.task, self.levels)
        self._tasks = {task.name: task for task in self._mixture}
        if not any(task.ranges for task in self._mixture):  # nothing to propose
            self.propose_row = self.parse = self.check = self.drawn = None  # type: ignore[assignment,method-assign]

    # Problems

    def problem(self, row: Mapping[str, Any], index: int = 0) -> GymProblem:
        """Return the problem of a row with `task`, `levels` (a list, or a mapping from setting to
        level) and `seed`."""
        problem = self._read_row(row, index)
        (made,) = self._made([problem])
        if isinstance(made, Unchecked):
            raise DataError(f"row {index}: {_written(problem)} is not made ({_said(made)}); leave the row out.")
        return made

    def _read_row(self, row: Mapping[str, Any], index: int) -> GymProblem:
        task = self._tasks.get(str(row.get("task")))
        if task is None:
            raise DataError(
                f"row {index}, column 'task': {row.get('task')!r:.60} is not one of the domain's tasks, which are "
                f"{', '.join(self._tasks)}."
            )
        given = row.get("levels")
        named = [given.get(name) for name in task.settings] if isinstance(given, Mapping) else given
        levels: list[Any] = list(named) if isinstance(named, Iterable) and not isinstance(named, str) else [None]
        if len(levels) != len(task.ranges) or not all(is_whole(level, 0) for level in levels):
            raise DataError(
                f"row {index}, column 'levels': {given!r:.60} must be whole numbers, one for each setting of "
                f"'{task.name}': {', '.join(task.settings) or 'none, []'}."
            )
        if not task.admits(levels):
            raise DataError(f"row {index}, column 'levels': {_outside(task, levels)}.")
        seed: Any = row.get("seed")
        if not is_whole(seed, 0) or seed >= SEEDS:
            raise DataError(f"row {index}, column 'seed': {seed!r:.60} must be a whole number below {SEEDS}.")
        return GymProblem(task.name, tuple(levels), seed)

    def key(self, problem: GymProblem) -> str:
        """Return the task and the words of the question: the same question from another seed is the same problem."""
        if problem.seed is None:
            return _written(problem)
        words = " ".join(problem.question.split())
        return f"{problem.task} {hashlib.blake2b(words.encode(), digest_size=12).hexdigest()}"

    def outside(self, problem: GymProblem) -> str | None:
        task = self._tasks[problem.task]
        return None if task.admits(problem.levels) else _outside(task, problem.levels)

    def is_held_out(self, problem: GymProblem) -> bool:
        return problem.seed is not None and problem.seed >= HELD_OUT

    def random(self, n: int, seed: int, exclude: Iterable[str] = ()) -> list[GymProblem]:
        """Draw problems: tasks in equal parts, levels uniform."""
        return self._draw(n, None, seed, exclude, 0)

    def held_out(self, n: int) -> list[GymProblem]:
        return self._draw(n, None, 0, (), HELD_OUT)

    @cached_property
    def rungs(self) -> Sequence[int]:
        return sorted({total for task in self._mixture for total in range(task.lowest, task.highest + 1)})

    def rung(self, problem: GymProblem) -> int:
        return sum(problem.levels)

    def axes(self, problem: GymProblem) -> dict[str, Any]:
        """Return the sum of the levels, and the level of each setting of its task."""
        task = self._tasks[problem.task]
        return {"rung": self.rung(problem)} | {
            f"{task.name}.{name}": level for name, level in zip(task.settings, problem.levels, strict=True)
        }

    def random_of_rung(self, n: int, rung: int, seed: int, exclude: Iterable[str] = ()) -> list[GymProblem]:
        return self._draw(n, rung, seed, exclude, 0)

    def held_out_of_rung(self, n: int, rung: int) -> list[GymProblem]:
        return self._draw(n, rung, 0, (), HELD_OUT)

    @cached_property
    def longest(self) -> GymProblem:
        """Return some problems of the highest levels of each task, and random ones."""
        top = [GymProblem(t.name, tuple(high for _, _, high in t.ranges), s) for t in self._mixture for s in range(8)]
        made = [one for one in self._made(top) if isinstance(one, GymProblem)]
        return max([*made, *self.random(32, 0)], key=lambda problem: len(problem.question))

    def _levels(self, generator: Random, rung: int | None) -> tuple[str, tuple[int, ...]]:
        """Draw a task and its levels: uniform ones, or those of a rung."""
        if rung is None:
            task = generator.choice(self._mixture)
            return task.name, tuple(generator.randint(low, high) for _, low, high in task.ranges)
        task = generator.choice([task for task in self._mixture if task.lowest <= rung <= task.highest])
        return task.name, generator.choice(levels_of_sum(task, rung))

    def _draw(self, n: int, rung: int | None, seed: int, exclude: Iterable[str], low: int) -> list[GymProblem]:
        """Draw at most n problems, distinct by their questions; seeds from `low` on. Levels without a problem are left
        out. Raises an error for one that exceeds the deadline, because another process might be faster."""
        generator, exclude = Random(seed_from("reasoning_gym", seed, low)), frozenset(exclude)
        drawn: dict[str, GymProblem] = {}
        failed = Unchecked("error", "equal to another one")
        for _ in range(TRIES):
            chosen = [self._levels(generator, rung) for _ in range(n - len(drawn))]
            wanted = [GymProblem(task, levels, low + generator.randrange(HELD_OUT)) for task, levels in chosen]
            for problem, made in zip(wanted, self._made(wanted), strict=True):
                if isinstance(made, GymProblem):
                    if (key := self.key(made)) not in exclude:
                        drawn.setdefault(key, made)
                    continue
                if made.reason != "error":
                    raise DataError(
                        f"{_written(problem)}, seed {problem.seed}, is not made: {_said(made)} ({MAKING} "
                        f"times the `deadline` of {self.deadline:g} s); give the task lower `levels`, or a longer one."
                    )
                failed = made
        if n and not drawn:
            raise DataError(
                f"None of {n} problems of {', '.join(self._tasks)} is made; the last one: {_said(failed)}; give other "
                "`levels`."
            )
        return list(drawn.values())

    def _made(self, problems: Sequence[GymProblem]) -> list[GymProblem | Unchecked]:
        """Return the problems with their texts, made in the pool."""
        missing = [problem for problem in dict.fromkeys(problems) if problem not in self._texts]
        items = [["make", problem.task, problem.levels, problem.seed] for problem in missing]
        results = self.checked(items, MAKING * self.deadline)
        known: dict[GymProblem, GymProblem | Unchecked] = {p: self._texts[p] for p in problems if p in self._texts}
        if len(self._texts) > KEPT:
            self._texts.clear()
        for problem, one in zip(missing, results, strict=True):
            if isinstance(one, Unchecked):
                known[problem] = one
                continue
            made = GymProblem(problem.task, problem.levels, problem.seed, one[0], str(one[1]))
            known[problem] = self._texts[problem] = made
        return [known[problem] for problem in problems]

    # Answers

    def prove_row(self, problem: GymProblem) -> dict[str, Any]:
        prompts = {
            "chat": [{"role": "system", "content": ASKED}, {"role": "user", "content": problem.question}],
            "text": f"{ASKED}\n\n{problem.question}\n",
            "bare": f"{problem.question}\n",
        }
        fields = {"task": problem.task, "levels": list(problem.levels), "seed": problem.seed}
        return {"prompt": prompts[self.prompt], **fields}

    def verify(self, texts: Iterable[object], problems: Sequence[GymProblem]) -> list[GymVerdict]:
        """Return the verdicts; each distinct answer to a problem is scored once, in the pool."""
        answers = [self._answer(str(text)) for text in texts]
        unscored = {
            (problem, answer): None
            for problem, answer in zip(problems, answers, strict=True)
            if answer is not None and len(answer) <= MAX_ANSWER
        }
        marks = self.checked([["score", p.task, p.levels, p.seed, answer] for p, answer in unscored])
        scores = dict(zip(unscored, marks, strict=True))
        return [_judged(answer, scores.get((p, answer or ""))) for p, answer in zip(problems, answers, strict=True)]

    def _answer(self, text: str) -> str | None:
        if self.prompt == "bare":
            return text.strip() or None
        _, opened, inside = text.rpartition("<answer>")
        answer, closed, _ = inside.partition("</answer>")
        return answer.strip() if opened and closed else None

    def stop_strings(self, role: str) -> list[str] | None:
        """Return the end of a proposal in plain text, which is one line."""
        return ["\n"] if self.prompt == "text" and role.split("/")[0] == "conjecturer" else None

    def to_dict(self) -> dict[str, Any]:
        levels = {task.name: {name: [low, high] for name, low, high in task.ranges} for task in self._mixture}
        settings = {"tasks": [task.name for task in self._mixture], "levels": levels, "prompt": self.prompt}
        version = table()["reasoning_gym"]
        return {"domain": "reasoning_gym", "reasoning_gym": version, "deadline": self.deadline, **settings}

    # Proposals

    @property
    def asks(self) -> Sequence[Mapping[str, Any]]:
        return tuple({"task": task.name} for task in self._mixture if task.ranges)

    def propose_row(self, task: str) -> dict[str, Any]:
        chosen = self._tasks[task]
        ranges = "; ".join(f"{name} from {low} to {high}" for name, low, high in chosen.ranges)
        example = chosen.written([low for _, low, _ in chosen.ranges])
        text = (
            f"You set exercises of the task {task} for a student. Choose how hard the next one is by a level of each "
            f"of its settings: {ranges}. Higher levels are harder. Write one line of this form and nothing else:\n"
            f"{example}"
        )
        prompts = {"chat": [{"role": "user", "content": text}], "text": f"{text}\n\n", "bare": f"propose {task}:\n"}
        return {"prompt": prompts[self.prompt], "task": task}

    def parse(self, texts: Iterable[object]) -> list[Proposal]:
        """Return task and levels, in the order of the task's settings; the seed is drawn later."""
        return [self._read(str(text)) for text in texts]

    def _read(self, text: str) -> Proposal:
        proposal = read_proposal(text) if len(text) < 1000 else None
        if proposal is None:
            return Proposal(None, "unreadable")
        task = self._tasks.get(proposal[0])
        if task is None:
            return Proposal(None, "unknown_task")
        if tuple(proposal[1]) != task.settings:
            return Proposal(None, "other_settings")
        return Proposal(GymProblem(task.name, tuple(proposal[1].values())))

    def check(
        self, problems: Sequence[GymProblem], requests: Sequence[Mapping[str, Any] | None] | None = None
    ) -> list[Checked]:
        """Check that levels are in range, and of the requested task. `drawn` finds those without a problem."""
        checks = []
        for problem, ask in zip(problems, requests or [None] * len(problems), strict=True):
            inside = self._tasks[problem.task].admits(problem.levels)
            wanted = (ask or {}).get("task", problem.task)
            reason = "not_as_asked" if wanted != problem.task else "ok"
            checks.append(Checked(reason if inside else "out_of_range", {"in_range": inside}))
        return checks

    def undrawn(self, problem: GymProblem) -> GymProblem:
        return GymProblem(problem.task, problem.levels)

    def drawn(self, problems: Sequence[GymProblem], seed: int, exclude: Iterable[str] = ()) -> list[GymProblem | None]:
        """Return for each proposal a problem of its levels, all distinct, or None."""
        generator, taken = Random(seed_from("drawn", seed)), set(exclude)
        results: list[GymProblem | None] = [None] * len(problems)
        for _ in range(TRIES):
            left = [i for i, one in enumerate(results) if one is None]
            wanted = [GymProblem(problems[i].task, problems[i].levels, generator.randrange(HELD_OUT)) for i in left]
            for i, made in zip(left, self._made(wanted), strict=True):
                if isinstance(made, GymProblem) and (key := self.key(made)) not in taken:
                    taken.add(key)
                    results[i] = made
        return results

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_texts": {}}


def _judged(answer: str | None, scored: Any) -> GymVerdict:
    if answer is None or scored is None:
        return GymVerdict(Reason.NO_ANSWER if answer is None else Reason.TOO_LONG)
    if isinstance(scored, Unchecked):
        return GymVerdict(Reason(scored.reason), answer=answer)
    return GymVerdict(Reason.CORRECT if scored == 1 else Reason.WRONG, scored, answer)


def _written(problem: GymProblem) -> str:
    return f"{problem.task} at levels {json.dumps(list(problem.levels))}"


def _outside(task: Task, levels: Sequence[int]) -> str:
    faults = [
        f"{name} {level} (0 is the lowest level)"
        if level < 0
        else f"{name} is {level}, and it goes from {low} to {high}"
        for level, (name, low, high) in zip(levels, task.ranges, strict=True)
        if not low <= level <= high
    ]
    return "; ".join(faults)


def _said(failed: Unchecked) -> str:
    return failed.detail or failed.reason.replace("_", " ")
