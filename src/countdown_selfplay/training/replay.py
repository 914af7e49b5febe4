"""Kept samples that an objective trains on: the last rounds' (expert iteration), a growing data set (ReST), episodes
where answers are given in moves, and answers that buy optimizer steps (expert iteration's `reuse`, REINFORCE^1/2's
`carry`)."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from ..config import Role
from ..distributed.processes import Processes
from ..errors import CheckpointError, ConfigError
from ..objectives.base import Replay
from .window import RoleBatch, groups_of, sequences_of, unselected

_ALIGNED = ("ref_per_token_logps",)
"""Columns per completion token that are kept with a row; the reference never changes. A row that no policy sampled
(a demonstration) has none, and is in no term that reads one: its values are 0."""


@dataclass(frozen=True)
class Kept:
    """A row as lists of ids, without padding."""

    round: int
    advantage: float
    prompt: list[int]
    completion: list[int]
    aligned: dict[str, list[float]]


@dataclass(frozen=True)
class Answer:
    """A kept answer: a row, or the moves of an episode."""

    rows: tuple[Kept, ...]

    @property
    def round(self) -> int:
        return self.rows[0].round

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal answers to the same prompts are one."""
        return tuple((tuple(row.prompt), tuple(row.completion)) for row in self.rows)


class SampleReplay:
    """The selected samples of a role, gathered over the processes, so that every process holds the same list."""

    def __init__(self, rule: Replay, settings: Role) -> None:
        self.rule = rule
        self.reference = [settings.beta > 0, settings.temperature]
        self.kept: list[Any] = []

    def play(
        self, batch: RoleBatch, rows: int, round_: int, key: tuple[object, ...], processes: Processes
    ) -> RoleBatch:
        """Take in the round's selected samples and hand out a batch of `rows` rows made of kept ones. If more are kept
        than all processes have rows, they are drawn without repetition, by `key` alone; if fewer, the rest of the rows
        is not selected. Called by all processes."""
        new = [row for _, row in kept_rows(batch, round_)]
        chosen = of_mean_one(self._drawn(new, rows * processes.world, round_, key, processes), self.rule.weighted)
        signal = any(sample.advantage for sample in chosen)
        return _batch_of(batch, rows, chosen[processes.rank :: processes.world], signal)

    def _drawn(
        self, new: list[Any], most: int, round_: int, key: tuple[object, ...], processes: Processes
    ) -> list[Any]:
        """At most `most` of those that are kept with the new ones of all processes."""
        self.kept = _retained(self.kept + processes.gather(new), self.rule, round_)
        return self.kept if len(self.kept) <= most else random.Random(repr(key)).sample(self.kept, most)

    def state_dict(self) -> dict[str, Any]:
        """The kept samples as flat arrays of tokens with their lengths."""
        return {"reference": self.reference, **flat(self.kept)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """CheckpointError if the kept reference log-probs are not those that this run's settings give."""
        check_reference(state["reference"], self.reference)
        self.kept = kept_of(state)


class EpisodeReplay(SampleReplay):
    """Differs from SampleReplay in that what is kept, counted and drawn is an episode, the rows of all its moves: its
    room is a number of episodes of all processes, and there is no filling up."""

    kept: list[Answer]

    def play(
        self, batch: RoleBatch, rows: int, round_: int, key: tuple[object, ...], processes: Processes
    ) -> RoleBatch:
        new = [answer for _, answer in _answers_in(batch, round_)]
        chosen = self._drawn(new, rows, round_, key, processes)
        credit = of_mean_one([row for answer in chosen for row in answer.rows], self.rule.weighted)
        numbered = iter(credit)
        answers = [[next(numbered) for _ in answer.rows] for answer in chosen]
        signal = any(row.advantage for row in credit)
        return batch_of(batch, answers[processes.rank :: processes.world], signal)

    def state_dict(self) -> dict[str, Any]:
        """The rows of the kept episodes as flat arrays of tokens with their lengths, and how many each has."""
        return {"reference": self.reference, **_flat_answers(self.kept)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.kept = _answers_of(state)


class AnswerBuffer:
    """The newest `capacity` selected answers of a role, equal ones once, on every process the same list. A new answer
    is owed `reuse` / (answers of a step) steps. What is owed is taken in whole steps of `sequences_per_step` answers,
    drawn with repetition from all that are kept; a remainder, and what a round has no steps left for, waits. So each
    answer is seen `reuse` times on the mean, and a role that solves nothing does not step."""

    def __init__(self, rule: Replay, settings: Role) -> None:
        if not settings.sequences_per_step:
            raise ConfigError(
                f"`{'carry' if rule.carry else 'reuse'}` of the {settings.role}'s objective trains in steps of whole "
                "`sequences_per_step` answers, and that is 0: set it for the role, such as 32."
            )
        self.rule, self.sequences = rule, settings.sequences_per_step
        self.reference = [settings.beta > 0, settings.temperature]
        self.kept: list[Answer] = []
        self.owed = 0.0
        """Steps."""
        self.dropped = 0
        """Answers that the last round had no room for and that are in no step; 0 where kept ones are drawn anyway."""

    def take_in(self, batch: RoleBatch, round_: int, key: Sequence[object], processes: Processes) -> int:
        """Keep the round's selected answers of all processes, of a group's distinct ones at most `per_problem`; how
        many there were. Called by all processes."""
        generator = random.Random(repr((*key, "chosen", processes.rank)))
        new = processes.gather(_distinct_answers(batch, round_, self.rule.per_problem, generator))
        kept = {answer.key: answer for answer in self.kept}
        for answer in new:
            kept.pop(answer.key, None)
            kept[answer.key] = answer
        self.kept = _retained(list(kept.values()), self.rule, round_)
        self.owed += len(new) * (self.rule.reuse or 0) / self.sequences
        return len(new)

    def steps(
        self, batch: RoleBatch, most: int, key: Sequence[object], processes: Processes
    ) -> tuple[list[RoleBatch], int]:
        """`most` windows for this process, of which the first hold answers and the others none; and how many hold
        some. `batch`: rows of the role, which say what tensors look like."""
        filled = min(int(self.owed + 1e-9), most) if self.kept else 0
        self.owed = max(self.owed - filled, 0.0) if self.kept else 0.0
        cut = []
        for step in range(most):
            drawn = self._step(step, key) if step < filled else []
            own = [answer.rows for answer in drawn[processes.rank :: processes.world]]
            cut.append(batch_of(batch, own, step < filled))
        return cut, filled

    def _step(self, step: int, key: Sequence[object]) -> list[Answer]:
        """The answers of a round's step."""
        return random.Random(repr((*key, "step", step))).choices(self.kept, k=self.sequences)

    def state_dict(self) -> dict[str, Any]:
        """The kept answers as flat arrays of tokens with their lengths, and the steps that are owed."""
        return {"reference": self.reference, "owed": self.owed, **_flat_answers(self.kept)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """CheckpointError if the kept reference log-probs are not those that this run's settings give."""
        check_reference(state["reference"], self.reference)
        self.kept, self.owed = _answers_of(state), float(state["owed"])


class CarriedAnswers(AnswerBuffer):
    """Differs from AnswerBuffer in that an answer with credit, equal ones too, is in one step and then gone: the
    oldest come first, those of a round in an order that the key seeds. Where more than `capacity` wait, the oldest of
    them are in no step: `dropped`."""

    def take_in(self, batch: RoleBatch, round_: int, key: Sequence[object], processes: Processes) -> int:
        found = [answer for _, answer in _answers_in(batch, round_) if any(row.advantage for row in answer.rows)]
        new = processes.gather(found)
        random.Random(repr((*key, "order"))).shuffle(new)
        waiting = self.kept + new
        self.kept = _retained(waiting, self.rule, round_)
        self.dropped = len(waiting) - len(self.kept)
        self.owed = len(self.kept) / self.sequences
        return len(new)

    def _step(self, step: int, key: Sequence[object]) -> list[Answer]:
        taken, self.kept = self.kept[: self.sequences], self.kept[self.sequences :]
        return taken


def _retained(kept: list[Any], rule: Replay, round_: int) -> list[Any]:
    """The newest ones that the rule keeps in round `round_`."""
    if rule.rounds is not None:
        kept = [one for one in kept if round_ - one.round < rule.rounds]
    return kept[-rule.capacity :]


def check_reference(there: Any, here: list[Any]) -> None:
    """CheckpointError unless kept reference log-probs are of this run: (KL on, temperature)."""
    if there != here:
        raise CheckpointError(
            "The checkpoint's kept samples have reference log-probs for (KL on, temperature) = "
            f"{tuple(there)} and this run has {tuple(here)}; keep beta's switch and the temperature when you resume."
        )


def flat(kept: Sequence[Kept]) -> dict[str, Any]:
    """Kept rows as flat arrays of tokens with their lengths."""
    arrays: dict[str, Any] = {
        "round": np.array([s.round for s in kept], dtype=np.int64),
        "advantage": np.array([s.advantage for s in kept], dtype=np.float64),
        **_flat("prompt", [s.prompt for s in kept], np.int64),
        **_flat("completion", [s.completion for s in kept], np.int64),
    }
    for name in kept[0].aligned if kept else ():
        arrays |= _flat(name, [s.aligned[name] for s in kept], np.float64)
    return arrays


def kept_of(state: Mapping[str, Any]) -> list[Kept]:
    """The inverse of `flat`."""
    aligned = {name: _lists(state, name) for name in _ALIGNED if name in state}
    columns = (
        state["round"].tolist(),
        state["advantage"].tolist(),
        _lists(state, "prompt"),
        _lists(state, "completion"),
    )
    return [
        Kept(round_, advantage, prompt, completion, {name: values[i] for name, values in aligned.items()})
        for i, (round_, advantage, prompt, completion) in enumerate(zip(*columns, strict=True))
    ]


def of_mean_one(samples: list[Kept], weighted: bool) -> list[Kept]:
    """With advantages whose mean over the samples' tokens is 1, if `weighted`; as they are if none counts."""
    tokens = sum(len(sample.completion) for sample in samples)
    total = sum(sample.advantage * len(sample.completion) for sample in samples)
    if not weighted or total <= 0:
        return samples
    return [replace(sample, advantage=sample.advantage * tokens / total) for sample in samples]


def _flat(name: str, lists: list[list[Any]], dtype: Any) -> dict[str, np.ndarray]:
    return {
        name: np.array([value for values in lists for value in values], dtype=dtype),
        f"{name}_length": np.array([len(values) for values in lists], dtype=np.int64),
    }


def _lists(arrays: Mapping[str, np.ndarray], name: str) -> list[list[Any]]:
    ends = np.cumsum(arrays[f"{name}_length"])
    return [part.tolist() for part in np.split(arrays[name], ends[:-1])] if len(ends) else []


def kept_rows(batch: RoleBatch, round_: int) -> list[tuple[int, Kept]]:
    """The selected rows with their places in the batch."""
    tensors = {name: value.cpu() for name, value in batch.tensors.items()}
    found = []
    for i in range(batch.rows):
        if batch.selected_B is not None and not batch.selected_B[i]:
            continue
        prompt, answer = tensors["prompt_mask"][i].bool(), tensors["completion_mask"][i].bool()
        row = Kept(
            round_,
            float(batch.advantages_B[i]),
            tensors["prompt_ids"][i][prompt].tolist(),
            tensors["completion_ids"][i][answer].tolist(),
            {name: tensors[name][i][answer].tolist() for name in _ALIGNED if name in tensors},
        )
        found.append((i, row))
    return found


def batch_of(batch: RoleBatch, answers: Sequence[Sequence[Kept]], has_signal: bool) -> RoleBatch:
    """Kept answers, each of one or several rows, with tensors as those of `batch`; without any a row that is not
    selected."""
    rows = [row for answer in answers for row in answer]
    made = _batch_of(batch, len(rows), rows, has_signal) if rows else unselected(batch, 1)
    numbers = [i for i, answer in enumerate(answers) for _ in answer] or [0]
    return replace(made, sequence_B=torch.tensor(numbers, dtype=torch.long), has_signal=has_signal)


def _batch_of(batch: RoleBatch, rows: int, samples: list[Kept], has_signal: bool) -> RoleBatch:
    """`samples`, then copies of the first row of `batch` that are not selected."""
    old = batch.tensors
    device = old["completion_ids"].device
    fill = old["prompt_ids"][0][old["prompt_mask"][0].bool()].tolist()
    prompts = [s.prompt for s in samples] + [fill] * (rows - len(samples))
    answers = [s.completion for s in samples] + [[]] * (rows - len(samples))
    prompt_length, length = max(map(len, prompts)), max([len(a) for a in answers] + [1])

    def padded(lists: list[list[Any]], size: int, left: bool, dtype: torch.dtype) -> torch.Tensor:
        pads = [[0] * (size - len(values)) for values in lists]
        rows = [p + v if left else v + p for p, v in zip(pads, lists, strict=True)]
        return torch.tensor(rows, dtype=dtype, device=device)

    def ones(lists: list[list[Any]]) -> list[list[int]]:
        return [[1] * len(values) for values in lists]

    mask = old["completion_mask"].dtype
    tensors = {
        "prompt_ids": padded(prompts, prompt_length, True, old["prompt_ids"].dtype),
        "prompt_mask": padded(ones(prompts), prompt_length, True, mask),
        "completion_ids": padded(answers, length, False, old["completion_ids"].dtype),
        "completion_mask": padded(ones(answers), length, False, mask),
    }
    for name in _ALIGNED:
        if name in old:
            values = [s.aligned.get(name, []) for s in samples] + [[]] * (rows - len(samples))
            tensors[name] = padded(values, length, False, old[name].dtype)
    selected = torch.arange(rows) < len(samples)
    credit = torch.zeros(rows)
    credit[: len(samples)] = torch.tensor([s.advantage for s in samples])
    return RoleBatch(tensors, credit, None if bool(selected.all()) else selected, has_signal=has_signal)


def _flat_answers(kept: Sequence[Answer]) -> dict[str, Any]:
    lengths = np.array([len(answer.rows) for answer in kept], dtype=np.int64)
    return {"answer_rows": lengths, **flat([row for answer in kept for row in answer.rows])}


def _answers_of(state: dict[str, Any]) -> list[Answer]:
    """The inverse of `_flat_answers`."""
    rows = iter(kept_of(state))
    return [Answer(tuple(next(rows) for _ in range(n))) for n in state["answer_rows"].tolist()]


def _answers_in(batch: RoleBatch, round_: int) -> list[tuple[int, Answer]]:
    """The selected answers of this process, in the order of its rows, with the place of their first row."""
    own: dict[int, list[tuple[int, Kept]]] = {}
    numbers = sequences_of(batch).tolist()
    for place, row in kept_rows(batch, round_):
        own.setdefault(numbers[place], []).append((place, row))
    return [(rows[0][0], Answer(tuple(row for _, row in rows))) for rows in own.values()]


def _distinct_answers(batch: RoleBatch, round_: int, most: int | None, generator: random.Random) -> list[Answer]:
    """The distinct selected answers of this process, of each group at most `most`."""
    groups, by_group = groups_of(batch).tolist(), dict[int, dict[Any, Answer]]()
    for place, answer in _answers_in(batch, round_):
        by_group.setdefault(groups[place], {})[answer.key] = answer
    found: list[Answer] = []
    for answers in by_group.values():
        distinct = list(answers.values())
        if most is not None and len(distinct) > most:
            distinct = [distinct[i] for i in sorted(generator.sample(range(len(distinct)), most))]
        found += distinct
    return found
