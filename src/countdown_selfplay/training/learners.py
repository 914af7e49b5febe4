"""Trained players: objective, loss, replay of answers (`Replay`, objectives/base.py), and demonstrations."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..config import JointSelfPlayConfig, Role
from ..config.role_rules import refuse_ignored_charges
from ..contract.domain import in_moves
from ..errors import CheckpointError, ConfigError
from ..evaluation.sampling import many_ids
from ..objectives import check_objective, make_objective
from ..objectives.base import Objective, Replay
from ..random_state import seed_from
from .checkpoints import check_state, refuse_class
from .losses import RoleLoss
from .plan import REFERENCE, Sample, by_answer, equal_steps, filled_steps

Answer = Sequence[Sample]
"""Answer in a replay queue: one sample, or the moves of an episode."""
Demonstrations = Callable[[Sequence[object]], Sequence[Sample]]
"""Function from the key of a seed to the samples that an optimizer step imitates."""


class ReplayQueue:
    """Replay queue of a role: its selected answers over all processes, the same list on each. Without `reuse` and
    `carry` a round trains on the kept answers, at most as many as the role sampled in the round, drawn without
    repetition (`all_kept`: on all of them). With `reuse` each new distinct answer adds `reuse` / `sequences_per_step`
    optimizer steps. Whole steps of `sequences_per_step` answers are drawn with repetition from all kept answers, and
    the remainder waits, so that each answer is seen `reuse` times on average and a role that solves nothing takes no
    step. With `carry` an answer with credit is used in one step, the oldest first, and then removed."""

    def __init__(self, rule: Replay, settings: Role) -> None:
        self.rule, self.sequences = rule, settings.sequences_per_step
        self.buys_steps = rule.carry or rule.reuse is not None
        if self.buys_steps and not self.sequences:
            name = "carry" if rule.carry else "reuse"
            raise ConfigError(
                f"`{name}` of the {settings.role}'s objective trains in steps of whole `sequences_per_step` answers, "
                "and that is 0: set it, such as 32."
            )
        self.reference = [settings.beta > 0, settings.temperature]
        self.kept: list[Answer] = []
        self.owed = 0.0  # optimizer steps that are due
        self.new = self.dropped = 0  # answers that the last round added, and that it dropped unused

    def steps(self, samples: Sequence[Sample], round_: int, most: int, key: tuple[object, ...]) -> list[list[Sample]]:
        """Add the samples of round `round_`; return the samples of each optimizer step. There are at most `most`
        steps, and exactly `most` without `reuse` and `carry`. `key`: parts of the random seed."""
        if self.buys_steps:
            new = self._take_in(samples, round_, key)
            bought = len(new) * (self.rule.reuse or 0) / self.sequences
            self.owed = len(self.kept) / self.sequences if self.rule.carry else self.owed + bought
            filled = min(int(self.owed + 1e-9), most) if self.kept else 0
            self.owed = max(self.owed - filled, 0.0) if self.kept else 0.0
            return [numbered(self._step(step, key)) for step in range(filled)]
        self.kept = self._retained([*self.kept, *_selected(samples)], round_)
        count = len({sample.answer for sample in samples})
        drawn = self.kept
        if len(drawn) > count and not self.rule.all_kept:
            drawn = random.Random(repr(key)).sample(drawn, count)
        rows = numbered(drawn)
        return equal_steps(of_mean_one(rows) if self.rule.weighted else rows, most, seed_from(*key, "windows", 0))

    def _take_in(self, samples: Sequence[Sample], round_: int, key: tuple[object, ...]) -> list[Answer]:
        if self.rule.carry:
            new = [answer for answer in _selected(samples) if any(row.advantage for row in answer)]
            random.Random(repr((*key, "order"))).shuffle(new)
            waiting = [*self.kept, *new]
        else:
            new = _distinct(samples, self.rule.per_problem, random.Random(repr((*key, "chosen", 0))))
            kept = {_key(answer): answer for answer in self.kept}
            for answer in new:
                kept.pop(_key(answer), None)
                kept[_key(answer)] = answer
            waiting = list(kept.values())
        self.kept = self._retained(waiting, round_)
        self.dropped = len(waiting) - len(self.kept) if self.rule.carry else 0
        self.new = len(new)
        return new

    def _step(self, step: int, key: tuple[object, ...]) -> list[Answer]:
        if not self.rule.carry:
            return random.Random(repr((*key, "step", step))).choices(self.kept, k=self.sequences)
        taken, self.kept = self.kept[: self.sequences], self.kept[self.sequences :]
        return taken

    def _retained(self, answers: list[Answer], round_: int) -> list[Answer]:
        if self.rule.rounds is not None:
            answers = [answer for answer in answers if round_ - answer[0].round < self.rule.rounds]
        return answers[-self.rule.capacity :]

    def logged(self, role: str) -> dict[str, float]:
        """Return the metrics of the last round."""
        numbers: dict[str, float] = {f"{role}/replay_samples": len(self.kept)}
        if self.buys_steps:
            numbers |= {f"{role}/new_answers": self.new, f"{role}/owed_steps": self.owed}
        return numbers | ({f"{role}/dropped_answers": self.dropped} if self.dropped else {})

    def state_dict(self) -> dict[str, Any]:
        """Return the kept answers as flat arrays of tokens with lengths, rows per answer, and due steps."""
        rows = [row for answer in self.kept for row in answer]
        state: dict[str, Any] = {
            "reference": self.reference,
            "owed": self.owed,
            "answer_rows": np.array([len(answer) for answer in self.kept], dtype=np.int64),
            "round": np.array([row.round for row in rows], dtype=np.int64),
            "advantage": np.array([row.advantage for row in rows], dtype=np.float64),
        }
        columns = {"prompt": [row.prompt for row in rows], "completion": [row.completion for row in rows]}
        if rows and REFERENCE in rows[0].logps:
            columns[REFERENCE] = [row.logps[REFERENCE] for row in rows]
        for name, arrays in columns.items():
            kind = np.float64 if name == REFERENCE else np.int64
            state[name] = np.concatenate([np.zeros(0, kind), *arrays])
            state[f"{name}_length"] = np.array([len(array) for array in arrays], dtype=np.int64)
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state. Raises CheckpointError if `reference` (KL on or off, temperature) differs."""
        if state["reference"] != self.reference:
            differs = f"{tuple(state['reference'])} and this run has {tuple(self.reference)}"
            cure = "keep beta's switch and the temperature when you resume"
            raise CheckpointError(f"Kept samples were scored with (KL on, temperature) = {differs}; {cure}.")
        rows = iter(_rows_of(state))
        self.kept = [[next(rows) for _ in range(n)] for n in state["answer_rows"].tolist()]
        self.owed = float(state["owed"])


def _rows_of(state: Mapping[str, Any]) -> list[Sample]:
    def column(name: str) -> list[np.ndarray]:
        ends = np.cumsum(state[f"{name}_length"])
        return np.split(state[name], ends[:-1]) if len(ends) else []

    prompts, credits, rounds = column("prompt"), state["advantage"].tolist(), state["round"].tolist()
    logps: list[dict[str, np.ndarray]] = [{} for _ in prompts]
    if REFERENCE in state:
        logps = [{REFERENCE: values.astype(np.float32)} for values in column(REFERENCE)]
    columns = zip(prompts, column("completion"), credits, logps, rounds, strict=True)
    return [Sample(prompt, text, credit, logps=kept, round=n) for prompt, text, credit, kept, n in columns]


def numbered(answers: Sequence[Answer]) -> list[Sample]:
    """Return the rows of all answers, with `answer` and `group` set to the position of the answer in `answers`. An
    answer that is listed twice thus counts as two answers in different groups."""
    return [replace(row, answer=i, group=i) for i, answer in enumerate(answers) for row in answer]


def of_mean_one(samples: list[Sample]) -> list[Sample]:
    """Return the samples with their advantages scaled to a mean of 1 over tokens."""
    tokens = sum(sample.tokens for sample in samples)
    total = sum(sample.advantage * sample.tokens for sample in samples)
    if total <= 0:
        return samples
    return [replace(sample, advantage=sample.advantage * tokens / total) for sample in samples]


def _selected(samples: Sequence[Sample]) -> list[Answer]:
    """Return copies of the answers that the objective selects, without log-probs of trained policies and without the
    mark of the round's supervised term."""
    rows = []
    for row in (sample for sample in samples if sample.trained):
        logps = {name: values.copy() for name, values in row.logps.items() if name == REFERENCE}
        rows += [replace(row, prompt=row.prompt.copy(), completion=row.completion.copy(), imitated=False, logps=logps)]
    return [*by_answer(rows)]


def _key(answer: Answer) -> tuple[Any, ...]:
    """Return a key that is equal for equal answers to equal prompts."""
    return tuple((tuple(row.prompt.tolist()), tuple(row.completion.tolist())) for row in answer)


def _distinct(samples: Sequence[Sample], most: int | None, generator: random.Random) -> list[Answer]:
    groups: dict[int, dict[Any, Answer]] = {}
    for answer in _selected(samples):
        groups.setdefault(answer[0].group, {})[_key(answer)] = answer
    result: list[Answer] = []
    for answers in groups.values():
        distinct = list(answers.values())
        if most is not None and len(distinct) > most:
            distinct = [distinct[i] for i in sorted(generator.sample(range(len(distinct)), most))]
        result += distinct
    return result


@dataclass
class Learner:
    """Trained player: its objective, loss, replay queue and demonstrations."""

    objective: Objective
    loss: RoleLoss
    replay: ReplayQueue | None = None
    """Queue of kept answers, for an objective that trains on them."""
    episodes: bool = False
    """Whether the player's answers are given in moves."""
    demonstrations: Demonstrations | None = None

    def cut(
        self, samples: list[Sample], settings: Role, round_: int, most: int, key: tuple[object, ...]
    ) -> tuple[list[list[Sample]], dict[str, Any]]:
        """Return the samples of each optimizer step of a round, and metrics. `samples`: the player's in round `round_`
        of all processes; `most`: `steps_per_round`; `key`: of the seed."""
        role, size, replay, metrics = settings.role, settings.sequences_per_step, self.replay, dict[str, Any]()
        if replay is not None:
            steps = replay.steps(samples, round_, most if replay.buys_steps or not size else 1, key)
            metrics = replay.logged(role)
            samples = [sample for step in steps for sample in step]
        if size and not (replay and replay.buys_steps):
            steps = filled_steps(samples, size, most, seed_from(*key, "sequences"))
        elif replay is None:
            steps = equal_steps(samples, most, seed_from(*key, "windows", 0))
        trained = sum(len({sample.answer for sample in step if sample.trained}) for step in steps)
        return steps, metrics | ({f"{role}/steps": len(steps)} if size else {}) | {f"{role}/trained_samples": trained}


def learners_of(
    args: JointSelfPlayConfig, domain: Any, roles: Mapping[str, Role], given: Mapping[str, Objective | str] | None
) -> dict[str, Learner]:
    """Return the learners by role. `given`: a user's objectives, which override those of `args`."""
    trained = args.trained_roles
    if given is not None and not isinstance(given, Mapping):
        raise ConfigError(f"`objectives` ({given!r}) must be a dict with an objective per role: {', '.join(trained)}.")
    given = dict(given or {})
    if unknown := [role for role in given if role not in trained]:
        raise ConfigError(f"`objectives` names {', '.join(unknown)}; the trained roles are {', '.join(trained)}.")
    most_moves = int(domain.most_moves) if in_moves(domain) else 0
    if args.per_device_train_batch_size < most_moves:
        size = f"`per_device_train_batch_size` ({args.per_device_train_batch_size})"
        raise ConfigError(
            f"{size} must hold the moves of an episode, all in one micro-batch: raise it to at least {most_moves}."
        )
    learners = {}
    for role in trained:
        objective = given.get(role, roles[role].objective)
        if isinstance(objective, str):
            arguments = {} if role in given else roles[role].objective_kwargs
            low, high = args.importance_clip_low, args.importance_clip_high
            objective = make_objective(objective, arguments, low=low, high=high)
        refuse_class(f"objectives[{role!r}]", objective)
        check_objective(f"The {role}'s objective ({objective!r})", objective)
        refuse_ignored_charges(args, roles[role].kind, f"objectives[{role!r}]", type(objective).__name__, objective)
        check_state(f"objective/{role}", objective)
        replay = None if objective.replay is None else ReplayQueue(objective.replay, roles[role])
        episodes = most_moves > 0 and roles[role].kind == args.solver.kind
        loss = RoleLoss(objective, roles[role], most_moves if episodes else 1)
        learners[role] = Learner(objective, loss, replay, episodes)
    return learners


def states_of(learners: Mapping[str, Learner]) -> dict[str, object]:
    """Return the parts of learners that may have a state, by their names in a checkpoint."""
    states: dict[str, object] = {f"objective/{role}": learner.objective for role, learner in learners.items()}
    states |= {f"entropy/{role}": learner.loss.entropy for role, learner in learners.items()}
    return states | {f"replay/{role}": learner.replay for role, learner in learners.items()}


def demonstrations_of(
    role: str, settings: Role, domain: Any, tokenizer: Any, rungs: Sequence[int] | None
) -> Demonstrations | None:
    """Return a function that makes a role's demonstrations for one optimizer step, equal on all processes, on problems
    of `rungs` (None: all); None if `demonstrations_per_step` is 0. Raises ConfigError if the domain has none."""
    if not settings.demonstrations_per_step:
        return None
    make: Any = domain.demonstrations
    if make is None:
        setting = f"`demonstrations_per_step` ({settings.demonstrations_per_step}) of the {role}"
        raise ConfigError(f"{setting} needs `demonstrations`, which {type(domain).__name__} lacks; set it to 0.")

    def encoded(n: int, seed: int) -> list[Sample]:
        answers = make(n, seed, tuple(rungs) if rungs else None)
        prompts, texts = zip(*((row["prompt"], text) for answer in answers for row, text in answer), strict=True)
        numbers = [-1 - i for i, answer in enumerate(answers) for _ in answer]  # those of rounds are at least 0
        return [
            Sample(np.array(prompt), np.array(completion), 0.0, i, i, trained=False, imitated=True)
            for i, (prompt, completion) in zip(numbers, many_ids(tokenizer, prompts, texts), strict=True)
        ]

    encoded(1, 0)  # reports missing demonstrations before the run starts
    return lambda key: encoded(settings.demonstrations_per_step, seed_from(*key, "demonstrations"))
