"""Kept samples that an objective trains on: expert iteration's last rounds, ReST's growing data set."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from ..config import Role
from ..errors import CheckpointError
from ..objectives.base import Replay
from .window import RoleBatch

_ALIGNED = ("ref_per_token_logps",)  # per completion token; the reference never changes, so its log-probs may be kept


@dataclass(frozen=True)
class Kept:
    """A row as lists of ids, without padding."""

    round: int
    advantage: float
    prompt: list[int]
    completion: list[int]
    aligned: dict[str, list[float]]


class SampleReplay:
    """The selected samples of a role, gathered over the processes, so that every process holds the same list."""

    def __init__(self, rule: Replay, settings: Role) -> None:
        self.rule = rule
        self.reference = [settings.beta > 0, settings.temperature]
        self.kept: list[Any] = []

    def play(
        self,
        batch: RoleBatch,
        rows: int,
        round_: int,
        key: tuple[object, ...],
        gather: Callable[[list[Any]], list[Any]],
        rank: int,
        world: int,
    ) -> RoleBatch:
        """Take in the round's selected samples and hand out a batch of `rows` rows made of kept ones.

        If more are kept than all processes have rows, they are drawn without repetition, by `key` alone; if fewer, the
        rest of the rows is not selected. Called by all processes.
        """
        self.kept += gather([row for _, row in kept_rows(batch, round_)])
        if self.rule.rounds is not None:
            self.kept = [sample for sample in self.kept if round_ - sample.round < self.rule.rounds]
        self.kept = self.kept[-self.rule.capacity :]
        chosen = self.kept
        if len(chosen) > rows * world:
            chosen = random.Random(repr(key)).sample(chosen, rows * world)
        chosen = of_mean_one(chosen, self.rule.weighted)
        return _batch_of(batch, rows, chosen[rank::world], has_signal=any(sample.advantage for sample in chosen))

    def state_dict(self) -> dict[str, Any]:
        """The kept samples as flat arrays of tokens with their lengths."""
        return {"reference": self.reference, **flat(self.kept)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """CheckpointError if the kept reference log-probs are not those that this run's settings give."""
        check_reference(state["reference"], self.reference)
        self.kept = kept_of(state)


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


def batch_of(batch: RoleBatch, rows: Sequence[Kept], sequences: Sequence[int], has_signal: bool) -> RoleBatch:
    """Kept rows, of which `sequences` says which are one answer, with tensors as those of `batch`."""
    made = _batch_of(batch, len(rows), list(rows), has_signal)
    return replace(made, sequence_B=torch.tensor(sequences, dtype=torch.long))


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
            values = [s.aligned[name] for s in samples] + [[]] * (rows - len(samples))
            tensors[name] = padded(values, length, False, old[name].dtype)
    selected = torch.arange(rows) < len(samples)
    credit = torch.zeros(rows)
    credit[: len(samples)] = torch.tensor([s.advantage for s in samples])
    return RoleBatch(tensors, credit, None if bool(selected.all()) else selected, has_signal=has_signal)
