"""Kept answers that an objective trains on (`Replay`, objectives/base.py): those of the last rounds (expert
iteration), a growing data set (ReST), and answers that buy optimizer steps (`reuse`, `carry`)."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..config import Role
from ..errors import CheckpointError, ConfigError
from ..objectives.base import Replay
from ..random_state import seed_from
from .plan import equal_steps
from .samples import REFERENCE, Sample, by_answer

Answer = Sequence[Sample]
"""A kept answer: a row, or the moves of an episode."""


class ReplayQueue:
    """The selected answers of a role, those of all processes, so that every process holds the same list.

    Without `reuse` and `carry` a round trains on what is kept; of more answers than the role has sampled in the round,
    on so many of them, drawn without repetition (`all_kept`: on all). With `reuse` a new answer, of which equal ones
    are kept once, is owed `reuse` / `sequences_per_step` optimizer steps. What is owed is taken in whole steps of
    `sequences_per_step` answers, drawn with repetition from all that are kept; a remainder, and what a round has no
    steps left for, waits: each answer is seen `reuse` times on the mean, and a role that solves nothing does not step.
    With `carry` an answer with credit is in one step and then gone, the oldest first.
    """

    def __init__(self, rule: Replay, settings: Role) -> None:
        self.rule, self.sequences = rule, settings.sequences_per_step
        self.buys_steps = rule.carry or rule.reuse is not None
        if self.buys_steps and not self.sequences:
            raise ConfigError(
                f"`{'carry' if rule.carry else 'reuse'}` of the {settings.role}'s objective trains in steps of whole "
                "`sequences_per_step` answers, and that is 0: set it for the role, such as 32."
            )
        self.reference = [settings.beta > 0, settings.temperature]
        self.kept: list[Answer] = []
        self.owed = 0.0
        """Steps."""
        self.new = self.dropped = 0
        """Answers that the last round brought; and those that it dropped and that were in no step."""

    def steps(self, samples: Sequence[Sample], round_: int, most: int, key: tuple[object, ...]) -> list[list[Sample]]:
        """Take in the round's samples; the samples of each of at most `most` optimizer steps, exactly so many where
        answers buy no steps."""
        if self.buys_steps:
            new = self._take_in(samples, round_, key)
            self.owed = len(self.kept) / self.sequences if self.rule.carry else self.owed + self._bought(len(new))
            filled = min(int(self.owed + 1e-9), most) if self.kept else 0
            self.owed = max(self.owed - filled, 0.0) if self.kept else 0.0
            return [numbered(self._step(step, key)) for step in range(filled)]
        self.kept = self._retained([*self.kept, *_selected(samples)], round_)
        count = len({sample.answer for sample in samples})
        drawn = self.kept
        if len(drawn) > count and not self.rule.all_kept:
            drawn = random.Random(repr(key)).sample(drawn, count)
        return equal_steps(of_mean_one(numbered(drawn), self.rule.weighted), most, seed_from(*key, "windows", 0))

    def _take_in(self, samples: Sequence[Sample], round_: int, key: tuple[object, ...]) -> list[Answer]:
        """Keep the round's answers; those that are new."""
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

    def _bought(self, answers: int) -> float:
        return answers * (self.rule.reuse or 0) / self.sequences

    def _step(self, step: int, key: tuple[object, ...]) -> list[Answer]:
        """The answers of a round's step."""
        if not self.rule.carry:
            return random.Random(repr((*key, "step", step))).choices(self.kept, k=self.sequences)
        taken, self.kept = self.kept[: self.sequences], self.kept[self.sequences :]
        return taken

    def _retained(self, answers: list[Answer], round_: int) -> list[Answer]:
        """The newest ones that the rule keeps in round `round_`."""
        if self.rule.rounds is not None:
            answers = [answer for answer in answers if round_ - answer[0].round < self.rule.rounds]
        return answers[-self.rule.capacity :]

    def logged(self, role: str) -> dict[str, float]:
        """Metrics of the last round."""
        found: dict[str, float] = {f"{role}/replay_samples": len(self.kept)}
        if self.buys_steps:
            found |= {f"{role}/new_answers": self.new, f"{role}/owed_steps": self.owed}
        return found | ({f"{role}/dropped_answers": self.dropped} if self.dropped else {})

    def state_dict(self) -> dict[str, Any]:
        """The rows of the kept answers as flat arrays of tokens with their lengths, how many rows each answer has, and
        the steps that are owed."""
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
            state[name] = np.concatenate([np.zeros(0, np.int64), *arrays]) if name != REFERENCE else _joined(arrays)
            state[f"{name}_length"] = np.array([len(array) for array in arrays], dtype=np.int64)
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """CheckpointError if the kept reference log-probs are not those that this run's settings give."""
        if state["reference"] != self.reference:
            raise CheckpointError(
                "The checkpoint's kept samples have reference log-probs for (KL on, temperature) = "
                f"{tuple(state['reference'])} and this run has {tuple(self.reference)}; keep beta's switch and the "
                "temperature when you resume."
            )
        rows = iter(_rows_of(state))
        lengths = state.get("answer_rows", np.ones(len(state["round"]), np.int64))  # once kept by rows alone
        self.kept = [[next(rows) for _ in range(n)] for n in lengths.tolist()]
        self.owed = float(state.get("owed", 0.0))


def _joined(arrays: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate(arrays).astype(np.float64)


def _rows_of(state: Mapping[str, Any]) -> list[Sample]:
    def column(name: str) -> list[np.ndarray]:
        ends = np.cumsum(state[f"{name}_length"])
        return np.split(state[name], ends[:-1]) if len(ends) else []

    logps = [{REFERENCE: values.astype(np.float32)} for values in column(REFERENCE)] if REFERENCE in state else None
    tokens = zip(column("prompt"), column("completion"), strict=True)
    return [
        Sample(prompt, completion, float(advantage), logps=logps[i] if logps else {}, round=int(round_))
        for i, ((prompt, completion), advantage, round_) in enumerate(
            zip(tokens, state["advantage"], state["round"], strict=True)
        )
    ]


def numbered(answers: Sequence[Answer]) -> list[Sample]:
    """The rows of answers that may be of several rounds, or the same one twice: each is a group of its own."""
    return [replace(row, answer=i, group=i) for i, answer in enumerate(answers) for row in answer]


def of_mean_one(samples: list[Sample], weighted: bool) -> list[Sample]:
    """With advantages whose mean over the samples' tokens is 1, if `weighted`; as they are if none counts."""
    tokens = sum(sample.tokens for sample in samples)
    total = sum(sample.advantage * sample.tokens for sample in samples)
    if not weighted or total <= 0:
        return samples
    return [replace(sample, advantage=sample.advantage * tokens / total) for sample in samples]


def _selected(samples: Sequence[Sample]) -> list[Answer]:
    """The answers that the objective selects, with what is kept of them."""
    return [*by_answer(_kept(sample) for sample in samples if sample.trained)]


def _kept(sample: Sample) -> Sample:
    """Without the log-probs of the policies that move and the mark of its round's supervised term, and not the view
    into the arrays of its round."""
    logps = {REFERENCE: sample.logps[REFERENCE].copy()} if REFERENCE in sample.logps else {}
    prompt, completion = sample.prompt.copy(), sample.completion.copy()
    return replace(sample, prompt=prompt, completion=completion, imitated=False, logps=logps)


def _key(answer: Answer) -> tuple[Any, ...]:
    """Equal answers to the same prompts are one."""
    return tuple((tuple(row.prompt.tolist()), tuple(row.completion.tolist())) for row in answer)


def _distinct(samples: Sequence[Sample], most: int | None, generator: random.Random) -> list[Answer]:
    """The distinct selected answers, of each group at most `most`."""
    groups: dict[int, dict[Any, Answer]] = {}
    for answer in _selected(samples):
        groups.setdefault(answer[0].group, {})[_key(answer)] = answer
    found: list[Answer] = []
    for answers in groups.values():
        distinct = list(answers.values())
        if most is not None and len(distinct) > most:
            distinct = [distinct[i] for i in sorted(generator.sample(range(len(distinct)), most))]
        found += distinct
    return found
