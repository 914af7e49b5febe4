"""Optimizer steps of so many trained sequences: the number of a round's steps follows the data (SGS, appendix C.1)."""

from __future__ import annotations

import random
from dataclasses import replace

import torch

from ..distributed.processes import Processes
from .window import RoleBatch, credited, groups_of, joined, unselected, whole_group


def sequence_windows(
    batch: RoleBatch,
    rows: int,
    steps: int,
    sequences: int,
    key: int,
    processes: Processes,
) -> tuple[list[RoleBatch], int, int]:
    """A role's samples of all processes as `steps` windows, of which each but the last that is filled holds
    `sequences` rows with credit and the others none; how many were filled; and how many rows with credit found no
    place.

    Rows without credit are in no window. They are in an order that `key`, equal on all processes, seeds; groups that
    all have one size stay together where it divides a step. More rows than `steps` x `sequences`: the steps grow
    alike. `rows`: what this process's micro-batches of a window hold; the others hold as many. Called by all.
    """
    mine = batch.take(credited(batch).nonzero().flatten())
    rank, world = processes.rank, processes.world
    parts = [part for part in processes.gather([_to(mine, "cpu") if world > 1 else mine]) if part.rows]
    if not parts:
        empty = unselected(batch, rows)
        return [replace(empty, has_signal=False) for _ in range(steps)], 0, 0
    everyones = joined(_numbered(parts))
    size = min(max(sequences, -(-everyones.rows // steps)), rows * world)
    unit = whole_group(groups_of(everyones), size, rows)
    order = list(range(everyones.rows // unit))
    random.Random(key).shuffle(order)
    each, device = size // unit, batch.tensors["completion_ids"].device
    cut = []
    for step in range(steps):
        units = order[step * each : (step + 1) * each]
        own = units[len(units) * rank // world : len(units) * (rank + 1) // world]
        places = torch.tensor([unit * place + i for place in sorted(own) for i in range(unit)], dtype=torch.long)
        filler = unselected(batch, rows - len(places))
        filler.group_B = groups_of(filler) + everyones.rows
        cut.append(joined([_to(everyones.take(places), device), filler]) if len(places) else filler)
        cut[-1].has_signal = bool(units)
    taken = min(len(order), steps * each)
    return cut, -(-taken // each), (len(order) - taken) * unit


def _numbered(parts: list[RoleBatch]) -> list[RoleBatch]:
    """With groups that no two of them share."""
    first, found = 0, []
    for part in parts:
        _, group_B = torch.unique_consecutive(groups_of(part), return_inverse=True)
        found.append(replace(part, group_B=group_B + first))
        first += int(group_B.max()) + 1
    return found


def _to(batch: RoleBatch, device: torch.device | str) -> RoleBatch:
    return replace(batch, tensors={name: value.to(device) for name, value in batch.tensors.items()})
