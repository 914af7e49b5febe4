"""Cutting a round's samples into role-homogeneous micro-batches, and trimming their padding."""

from __future__ import annotations

from typing import Any

import torch

from ..games import RoleBatch

_KEPT = (
    "prompt_ids",
    "prompt_mask",
    "completion_ids",
    "completion_mask",
    "old_per_token_logps",
    "sampling_per_token_logps",
    "ref_per_token_logps",
)
_PER_ROW = ("advantages", "group_tokens")


def mask_after_stops(tensors: dict[str, torch.Tensor], texts: list[str], stops: list[str] | None, pad: int) -> None:
    """Rows that ended on a stop string were filled up with padding, which TRL's mask (it knows end tokens) lets in. A
    padding token before the last other token was sampled and stays.

    Other rows keep their mask: where padding is the end token, theirs holds the one that was sampled.
    """
    if stops:
        ended = torch.tensor([any(stop in text for stop in stops) for text in texts])
        behind = (tensors["completion_ids"] == pad).flip(1).cumprod(1).flip(1).bool()
        tensors["completion_mask"][ended[:, None].to(behind.device) & behind] = 0


def trained_mask(batch: RoleBatch) -> torch.Tensor:
    """(B, T): the completion mask, all 0 in rows that the objective did not select."""
    mask = batch.rollout.tensors["completion_mask"]
    return mask if batch.selected_B is None else mask * batch.selected_B.to(mask.device)[:, None].to(mask.dtype)


def trained_counts(batch: RoleBatch) -> list[float]:
    """Completions, tokens and prompts of this process that the objective trains on."""
    mask = trained_mask(batch)
    rows = torch.ones(mask.size(0), dtype=torch.bool) if batch.selected_B is None else batch.selected_B
    groups = rows.reshape(-1, batch.group).any(1)
    return [float(rows.sum()), float(mask.sum()), float(groups.sum())]


def micro_batches(
    batches: dict[str, RoleBatch], counts: dict[str, int], idle_last: frozenset[str] = frozenset()
) -> list[dict[str, Any]]:
    """One dict of tensors per micro-batch, with its "role"; the roles one after the other, the same order on all
    processes.

    The rows of a role are sorted by length, the longest first: each micro-batch is then trimmed to about its own
    length, processes meet with rows of like length, and a round that does not fit in memory fails at its first
    micro-batch. For the roles in `idle_last` the rows without credit come after all others, for they are only measured
    (see micro_batch). The losses do not depend on the order (their normalisers are the round's).
    """
    window: list[dict[str, Any]] = []
    for role, count in counts.items():
        batch = batches[role]
        tensors = {name: batch.rollout.tensors[name] for name in _KEPT if name in batch.rollout.tensors}
        tensors["completion_mask"] = trained_mask(batch)
        tensors["advantages"] = batch.advantages_B.to(tensors["completion_ids"].device)
        group_tokens = tensors["completion_mask"].sum(1).reshape(-1, batch.group).sum(1)
        tensors["group_tokens"] = group_tokens.repeat_interleave(batch.group)
        lengths = tensors["completion_mask"].sum(1)
        if role in idle_last:
            lengths = lengths + (lengths.max() + 1) * (tensors["advantages"] != 0)
        order = torch.argsort(lengths, descending=True, stable=True)
        tensors = {name: value[order] for name, value in tensors.items()}
        size = batch.advantages_B.size(0) // count
        for i in range(count):
            window.append({name: value[i * size : (i + 1) * size] for name, value in tensors.items()} | {"role": role})
    return window


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
    used = batch["completion_mask"].any(0).nonzero()
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
