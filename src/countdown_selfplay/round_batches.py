"""Cutting a round's samples into role-homogeneous micro-batches, and trimming their padding."""

from __future__ import annotations

from typing import Any

import torch

from .games import RoleBatch

_KEPT = (
    "prompt_ids",
    "prompt_mask",
    "completion_ids",
    "completion_mask",
    "old_per_token_logps",
    "sampling_per_token_logps",
    "ref_per_token_logps",
)


def micro_batches(batches: dict[str, RoleBatch], counts: dict[str, int]) -> list[dict[str, Any]]:
    """One dict of tensors per micro-batch, with its "role"; the roles one after the other, the same order on all
    processes."""
    window: list[dict[str, Any]] = []
    for role, count in counts.items():
        batch = batches[role]
        tensors = {name: batch.rollout.tensors[name] for name in _KEPT if name in batch.rollout.tensors}
        tensors["advantages"] = batch.advantages_B.to(tensors["completion_ids"].device)
        size = batch.advantages_B.size(0) // count
        for i in range(count):
            window.append({name: value[i * size : (i + 1) * size] for name, value in tensors.items()} | {"role": role})
    return window


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
        elif name == "advantages":
            trimmed[name] = value
        else:
            trimmed[name] = value[:, :length]
    return trimmed
