"""Samples that an optimizer step trains on: tokens and credit of a row, and the tensors of a micro-batch of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
import torch

from ..contract.episodes import Episodes
from ..contract.round import Rollout, Turn

REFERENCE = "ref_per_token_logps"
LOGPS = ("old_per_token_logps", "sampling_per_token_logps", REFERENCE)
"""Columns of TRL with a log-prob for each completion token."""


@dataclass(frozen=True, eq=False)
class Sample:
    """A prompt and what was written after it: an answer, or one move of an episode."""

    prompt: np.ndarray
    """Ids, without padding."""
    completion: np.ndarray
    """Ids, with the end token; none where the sample is masked out."""
    advantage: float = 0.0
    group: int = 0
    """Equal for the samples that shared a baseline."""
    answer: int = 0
    """Equal for the moves of an episode."""
    trained: bool = True
    """Does the objective select it?"""
    imitated: bool = False
    """Is it in the supervised term?"""
    logps: Mapping[str, np.ndarray] = field(default_factory=dict)
    """By their names in TRL, one for each completion token."""
    round: int = 0
    """In which it was written."""

    @property
    def tokens(self) -> int:
        """Of the completion."""
        return len(self.completion)

    @property
    def length(self) -> int:
        """Tokens of prompt and completion."""
        return len(self.prompt) + len(self.completion)

    @property
    def credited(self) -> bool:
        """Does a step learn from it, by its advantage or by the supervised term?"""
        return self.imitated or (self.trained and self.advantage != 0)


def samples_of(turns: Iterable[Turn], round_: int, first: int = 0) -> list[Sample]:
    """The samples of a player's turns on this process. `first`: the least number of their groups and answers, which
    tells them from those of other processes."""
    found: list[Sample] = []
    for turn in turns:
        count = turn.advantages_B.size(0)
        selected = [True] * count if turn.selected_B is None else turn.selected_B.tolist()
        imitated = [False] * count if turn.imitated_B is None else turn.imitated_B.tolist()
        credit, parts = turn.advantages_B.tolist(), [(turn.rollout, list(range(count)))]
        if isinstance(turn.rollout, Episodes):  # the moves of an episode side by side, in their order
            parts = list(zip(turn.rollout.moves, turn.rollout.episode_of, strict=True))
        rows: list[list[Sample]] = [[] for _ in range(count)]
        for rollout, answers in parts:
            for i, (prompt, completion, logps) in zip(answers, _tokens(rollout), strict=True):
                group, answer = first + i // turn.group, first + i
                rows[i].append(
                    Sample(prompt, completion, credit[i], group, answer, selected[i], imitated[i], logps, round_)
                )
        found += [sample for own in rows for sample in own]
        first += count
    return found


def _tokens(rollout: Rollout) -> list[tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]]:
    """Prompt, completion and log-probs of each row, without their padding: prompts' on the left, others' on the
    right."""
    if not rollout.texts:
        return []
    tensors = rollout.tensors
    prompts, completions = tensors["prompt_ids"].cpu().numpy(), tensors["completion_ids"].cpu().numpy()
    columns = {name: _array(tensors[name]) for name in LOGPS if name in tensors}
    starts = (prompts.shape[1] - tensors["prompt_mask"].sum(1)).tolist()
    ends = tensors["completion_mask"].sum(1).tolist()
    return [
        (prompts[i, start:], completions[i, :end], {name: column[i, :end] for name, column in columns.items()})
        for i, (start, end) in enumerate(zip(starts, ends, strict=True))
    ]


def _array(logps: torch.Tensor) -> np.ndarray:
    return (logps.float() if logps.dtype in (torch.bfloat16, torch.float16) else logps).cpu().numpy()


def by_answer(samples: Iterable[Sample]) -> list[list[Sample]]:
    """The rows of each answer, in the order of their first ones."""
    found: dict[int, list[Sample]] = {}
    for sample in samples:
        found.setdefault(sample.answer, []).append(sample)
    return list(found.values())


def collate(
    samples: Sequence[Sample],
    device: torch.device | str = "cpu",
    group_tokens: Mapping[int, int] = MappingProxyType({}),
) -> dict[str, torch.Tensor]:
    """A micro-batch: B rows, prompts padded on the left and completions on the right to the longest one, with TRL's
    names. `completion_mask` is 1 on trained tokens, `sft_mask` (if a row is imitated) on those of the supervised term;
    `group_tokens` (B) and `sequence` (B, if an answer has several rows) as in LossInputs. group_tokens: by group."""
    width, length = max(len(s.prompt) for s in samples), max(1, *(s.tokens for s in samples))
    left, right = (len(samples), width), (len(samples), length)
    arrays = {name: np.zeros(left, np.int64) for name in ("prompt_ids", "prompt_mask")}
    arrays |= {name: np.zeros(right, np.int64) for name in ("completion_ids", "completion_mask")}
    if any(sample.imitated for sample in samples):
        arrays["sft_mask"] = np.zeros(right, np.int64)
    for name in LOGPS:
        kinds = [s.logps[name].dtype for s in samples if name in s.logps]
        if kinds:
            arrays[name] = np.zeros(right, kinds[0])
    for i, sample in enumerate(samples):
        start, end = width - len(sample.prompt), sample.tokens
        arrays["prompt_ids"][i, start:], arrays["prompt_mask"][i, start:] = sample.prompt, 1
        arrays["completion_ids"][i, :end] = sample.completion
        arrays["completion_mask"][i, :end] = sample.trained
        if sample.imitated:
            arrays["sft_mask"][i, :end] = 1
        for name in LOGPS:
            if name in sample.logps:
                arrays[name][i, :end] = sample.logps[name]
            elif name in arrays and name != REFERENCE:  # no policy sampled it: NaN stands for the current log-prob
                arrays[name][i] = np.nan
    found = {name: torch.from_numpy(array) for name, array in arrays.items()}
    found["advantages"] = torch.tensor([s.advantage for s in samples], dtype=torch.float32)
    found["group_tokens"] = torch.tensor([group_tokens.get(s.group, 0) for s in samples])
    if len({s.answer for s in samples}) < len(samples):
        found["sequence"] = torch.tensor([s.answer for s in samples])
    return {name: tensor.to(device) for name, tensor in found.items()}
