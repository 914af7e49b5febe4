"""Optimizer steps of so many trained answers: the number of a round's steps follows the data (SGS, appendix C.1)."""

from __future__ import annotations

import random
from dataclasses import replace

import torch

from ..distributed.processes import Processes
from .window import RoleBatch, credited, groups_of, joined, sequences_of, unselected, whole_group


def sequence_windows(
    batch: RoleBatch,
    rows: int,
    steps: int,
    sequences: int,
    key: int,
    processes: Processes,
) -> tuple[list[RoleBatch], int, int]:
    """A role's answers of all processes as `steps` windows, of which each but the last that is filled holds
    `sequences` answers with credit and the others none; how many were filled; and how many with credit found no place.

    An answer is a row, or the rows of an episode. Those without credit are in no window. They are in an order that
    `key`, equal on all processes, seeds; groups that all have one size stay together where it divides a step. More
    answers than `steps` x `sequences`: the steps grow alike. `rows`: what this process's micro-batches of a window
    hold; the others hold as many. Episodes are not filled up. Called by all.
    """
    mine = batch.take(credited(batch).nonzero().flatten())
    rank, world = processes.rank, processes.world
    parts = [part for part in processes.gather([_to(mine, "cpu") if world > 1 else mine]) if part.rows]
    if not parts:
        empty = unselected(batch, rows if batch.sequence_B is None else 1)
        return [replace(empty, has_signal=False) for _ in range(steps)], 0, 0
    everyones, episodes = joined(_numbered(parts)), batch.sequence_B is not None
    _, counts = torch.unique_consecutive(sequences_of(everyones), return_counts=True)
    answers = [part.tolist() for part in torch.arange(everyones.rows).split(counts.tolist())]
    size = max(sequences, -(-len(answers) // steps))
    size = size if episodes else min(size, rows * world)
    unit = 1 if episodes else whole_group(groups_of(everyones), size, rows)
    order = list(range(len(answers) // unit))
    random.Random(key).shuffle(order)
    each, device = size // unit, batch.tensors["completion_ids"].device
    cut = []
    for step in range(steps):
        units = order[step * each : (step + 1) * each]
        own = units[len(units) * rank // world : len(units) * (rank + 1) // world]
        places = torch.tensor([i for one in sorted(own) for a in answers[unit * one : unit * (one + 1)] for i in a])
        filler = unselected(batch, int(not len(places)) if episodes else rows - len(places))
        filler.group_B = groups_of(filler) + everyones.rows
        parts = [_to(everyones.take(places.long()), device)] if len(places) else []
        cut.append(joined([*parts, filler]) if filler.rows else parts[0])
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
