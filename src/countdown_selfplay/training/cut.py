"""A window's batches as micro-batches of one role: sorted by length, cut, trimmed; what need not run taken out."""

from __future__ import annotations

from typing import Any

import torch

from ..errors import GameError
from .window import RoleBatch, groups_of, joined, sequences_of, trained_mask, unselected

_PER_ROW = ("advantages", "group_tokens", "sequence")


def micro_batches(
    batches: dict[str, RoleBatch], counts: dict[str, int], idle_last: frozenset[str] = frozenset(), most: int = 0
) -> list[dict[str, Any]]:
    """One dict of tensors per micro-batch of a window, with its "role"; the roles one after the other, the same order
    on all processes.

    The rows of a role are sorted by length, the longest first: each micro-batch is then trimmed to about its own
    length, processes meet with rows of like length, and a round that does not fit in memory fails at its first
    micro-batch. For the roles in `idle_last` the rows without credit come after all others, for they are only measured
    (see micro_batch). The losses do not depend on the order (their normalisers are the window's). Where answers are
    episodes, each is in one micro-batch, whole, and these have `most` rows at most; the last ones may have nothing.
    """
    window: list[dict[str, Any]] = []
    for role, count in counts.items():
        batch = batches[role]
        if batch.sequence_B is not None:
            batch = joined([batch, unselected(batch, 1)])
        tensors = dict(batch.tensors)
        tensors["completion_mask"] = trained_mask(batch)
        tensors["advantages"] = batch.advantages_B.to(tensors["completion_ids"].device)
        lengths = tensors["completion_mask"].sum(1)
        _, group_B = groups_of(batch).to(lengths.device).unique(return_inverse=True)
        tensors["group_tokens"] = lengths.new_zeros(batch.rows).index_add(0, group_B, lengths)[group_B]
        if batch.sequence_B is not None:
            tensors["sequence"] = batch.sequence_B.to(lengths.device)
            for rows in whole_answers(batch, count, most):
                place = torch.tensor(rows, device=lengths.device)
                window.append({name: value[place] for name, value in tensors.items()} | {"role": role})
            continue
        if role in idle_last:
            lengths = lengths + (lengths.max() + 1) * (tensors["advantages"] != 0)
        order = torch.argsort(lengths, descending=True, stable=True)
        tensors = {name: value[order] for name, value in tensors.items()}
        size = batch.rows // count
        for i in range(count):
            window.append({name: value[i * size : (i + 1) * size] for name, value in tensors.items()} | {"role": role})
    return window


def whole_answers(batch: RoleBatch, count: int, most: int) -> list[list[int]]:
    """The rows of `count` micro-batches of at most `most` rows, longest first; one that has nothing to learn from gets
    the last row, which has no trained token. GameError if they do not fit."""
    learnt_B = trained_mask(batch).any(1)
    if "sft_mask" in batch.tensors:
        learnt_B = learnt_B | batch.tensors["sft_mask"].any(1)
    lengths = (batch.tensors["prompt_mask"].sum(1) + batch.tensors["completion_mask"].sum(1)).tolist()
    answers: dict[int, list[int]] = {}
    for row, (sequence, learnt) in enumerate(zip(sequences_of(batch).tolist(), learnt_B.tolist(), strict=True)):
        if learnt:
            answers.setdefault(sequence, []).append(row)
    cut: list[list[int]] = [[]]
    for rows in sorted(answers.values(), key=lambda rows: -max(lengths[row] for row in rows)):
        if len(cut[-1]) + len(rows) > most:
            cut.append([])
        cut[-1] += rows
    if len(cut) > count:
        raise GameError(
            f"{sum(map(len, cut))} rows of {len(answers)} episodes do not fit into {count} micro-batches of {most} "
            "rows, in which episodes stay whole; raise the role's micro_batches."
        )
    return [rows or [batch.rows - 1] for rows in cut] + [[batch.rows - 1]] * (count - len(cut))


def split_idle(
    batch: dict[str, torch.Tensor],
) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor] | None]:
    """The rows with credit, and those without that have a token to measure (None if there are none).

    Without any credit the shortest row stays among the first: every micro-batch has a backward pass.
    """
    lengths = batch["completion_mask"].sum(1)
    live = (batch["advantages"] != 0) & (lengths > 0)
    if not bool(live.any()):
        live[lengths.argmin()] = True
    idle = ~live & (lengths > 0)
    if bool(live.all()):
        return batch, None
    rest = {name: value[idle] for name, value in batch.items()} if bool(idle.any()) else None
    return {name: value[live] for name, value in batch.items()}, rest


def trim(batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Drop columns that are padding in every row of this micro-batch: prompts on the left, completions on the
    right."""
    prompt = int(batch["prompt_mask"].any(0).int().argmax())
    mask = batch["completion_mask"] + batch["sft_mask"] if "sft_mask" in batch else batch["completion_mask"]
    used = mask.any(0).nonzero()
    length = int(used[-1]) + 1 if used.numel() else 1
    trimmed = {}
    for name, value in batch.items():
        if name.startswith("prompt_"):
            trimmed[name] = value[:, prompt:]
        elif name in _PER_ROW:
            trimmed[name] = value
        else:
            trimmed[name] = value[:, :length]
    return trimmed
