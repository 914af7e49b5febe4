"""A player's samples of a round as one batch: fitted into its capacity, cut into windows, one optimizer step each."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import torch
from torch.nn.functional import pad

from ..distributed.processes import Processes


@dataclass
class RoleBatch:
    """A player's samples of a round on this process, with their credit."""

    tensors: dict[str, torch.Tensor]
    """(B, ...) of TRL's names: prompts padded on the left, completions on the right."""
    advantages_B: torch.Tensor
    selected_B: torch.Tensor | None = None
    """(B) bools, the samples that are trained on; None: all."""
    group_B: torch.Tensor | None = None
    """(B) which samples shared a baseline: equal numbers, side by side; None: each its own."""
    has_signal: bool = True
    """Whether any advantage, on any process, differs from 0."""
    counts: tuple[float, ...] = (1.0, 1.0, 1.0)
    """Completions, tokens and prompts that are trained on, over all processes / processes: what a loss is normalised
    by."""
    padding: int = 0
    """How many of the last rows `fitted` added: they are nobody's samples."""
    idle: bool = False
    """Has the role taken all its steps of the round before this window, on all processes?"""
    sequence_B: torch.Tensor | None = None
    """(B) which rows are one answer, the moves of an episode: equal numbers, side by side; None: each its own."""

    @property
    def rows(self) -> int:
        return self.advantages_B.size(0)

    def take(self, index: torch.Tensor) -> RoleBatch:
        """The rows of `index`, in its order."""
        return replace(
            self,
            tensors={name: value[index.to(value.device)] for name, value in self.tensors.items()},
            advantages_B=self.advantages_B[index],
            selected_B=None if self.selected_B is None else self.selected_B[index],
            group_B=None if self.group_B is None else self.group_B[index],
            sequence_B=None if self.sequence_B is None else self.sequence_B[index],
            padding=0,
        )


def mask_after_stops(tensors: dict[str, torch.Tensor], texts: list[str], stops: list[str] | None, fill: int) -> None:
    """Rows that ended on a stop string were filled up with padding (`fill`), which TRL's mask (it knows end tokens)
    lets in; a padding token before the last other token was sampled and stays. Other rows keep their mask: where
    padding is the end token, theirs holds the one that was sampled."""
    if stops:
        ended = torch.tensor([any(stop in text for stop in stops) for text in texts])
        behind = (tensors["completion_ids"] == fill).flip(1).cumprod(1).flip(1).bool()
        tensors["completion_mask"][ended[:, None].to(behind.device) & behind] = 0


def joined(parts: Sequence[RoleBatch]) -> RoleBatch:
    """Batches one below the other, padded to the longest. A tensor that one of them lacks is left out; of the
    supervised term such a batch has no token."""
    if any("sft_mask" in part.tensors for part in parts):
        none = [{"sft_mask": torch.zeros_like(part.tensors["completion_mask"])} for part in parts]
        parts = [replace(part, tensors=own | part.tensors) for part, own in zip(parts, none, strict=True)]
    tensors = {}
    for name in parts[0].tensors:
        if all(name in part.tensors for part in parts):
            values = [part.tensors[name] for part in parts]
            missing = [max(value.size(1) for value in values) - value.size(1) for value in values]
            sides = [(n, 0) if name.startswith("prompt_") else (0, n) for n in missing]
            tensors[name] = torch.cat([pad(value, side) for value, side in zip(values, sides, strict=True)])
    ones = [torch.ones(part.rows, dtype=torch.bool) if part.selected_B is None else part.selected_B for part in parts]
    selected_B = torch.cat(ones)
    episodes = any(part.sequence_B is not None for part in parts)
    return RoleBatch(
        tensors,
        torch.cat([part.advantages_B for part in parts]),
        None if bool(selected_B.all()) else selected_B,
        torch.cat([torch.arange(p.rows) if p.group_B is None else p.group_B for p in parts]),
        any(part.has_signal for part in parts),
        sequence_B=torch.cat(_apart(map(sequences_of, parts))) if episodes else None,
    )


def _apart(numbers: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """Numberings that no two of them share."""
    first, found = 0, []
    for one_B in numbers:
        found.append(one_B + first)
        first += int(one_B.max()) + 1 if len(one_B) else 0
    return found


def fitted(batch: RoleBatch, rows: int, key: int) -> tuple[RoleBatch, int]:
    """The batch with exactly `rows` rows, and how many rows with credit found no place. Too few: copies of the first
    prompt without a completion, which are not selected. Too many: rows that are not selected or have no credit go
    first, then a subset that `key` seeds."""
    if batch.rows == rows:
        return batch, 0
    if batch.rows < rows:
        more = unselected(batch, rows - batch.rows)
        last = 0 if batch.group_B is None else int(batch.group_B.max()) + 1
        more.group_B = torch.arange(more.rows) + last
        return replace(joined([batch, more]), padding=more.rows), 0
    credited_B = credited(batch)
    live, idle = credited_B.nonzero().flatten().tolist(), (~credited_B).nonzero().flatten().tolist()
    dropped = max(len(live) - rows, 0)
    kept = random.Random(key).sample(live, rows) if dropped else live + idle[: rows - len(live)]
    return batch.take(torch.tensor(sorted(kept))), dropped


def unselected(batch: RoleBatch, rows: int) -> RoleBatch:
    """Copies of the first prompt without a completion, which nobody trains on."""
    more = batch.take(torch.zeros(rows, dtype=torch.long))
    for name in ("completion_mask", "sft_mask"):
        if name in more.tensors:
            more.tensors[name] = torch.zeros_like(more.tensors[name])
    more.advantages_B = torch.zeros_like(more.advantages_B)
    more.selected_B, more.group_B = torch.zeros(rows, dtype=torch.bool), torch.arange(rows)
    more.sequence_B = None if batch.sequence_B is None else torch.arange(rows)
    return more


def credited(batch: RoleBatch) -> torch.Tensor:
    """(B) bools: the rows that a step learns from, by a credit or by the supervised term."""
    credited_B = batch.advantages_B != 0
    if batch.selected_B is not None:
        credited_B = credited_B & batch.selected_B
    if "sft_mask" in batch.tensors:
        credited_B = credited_B | batch.tensors["sft_mask"].any(1).to(credited_B.device)
    return credited_B


def credited_as_sampled(
    batch: RoleBatch,
    whole: RoleBatch,
    normalization: str,
    kept: Sequence[float],
    sampled: Sequence[float],
    dropped: int,
) -> RoleBatch:
    """`batch`, what `fitted` left of `whole`, with advantages that give the policy term the gradient of all samples. A
    loss is a mean over the rows that are there (`normalization`), and rows without credit go first: the mean over
    those with credit would be larger by sampled / kept. Where rows with credit were dropped too, a uniform subset of
    them is left, whose gradient is that of all in expectation. kept, sampled: trained_counts of `batch` and of `whole`
    over all processes. KL, entropy and what is logged stay means over the rows that are left."""
    of = {"token": 1, "group": 2}.get(normalization, 0)
    share_B = torch.full((batch.rows,), (kept[of] or 1.0) / (sampled[of] or 1.0) * (1 + dropped / batch.rows))
    if normalization == "group":  # a mean over the group's own tokens first
        groups = int(torch.cat([groups_of(batch), groups_of(whole)]).max()) + 1
        left, everything = _group_tokens(batch, groups), _group_tokens(whole, groups)
        share_B = share_B * (left / everything.clamp(min=1)).cpu()[groups_of(batch)]
    return replace(batch, advantages_B=batch.advantages_B * share_B.to(batch.advantages_B))


def _group_tokens(batch: RoleBatch, groups: int) -> torch.Tensor:
    """(groups) trained tokens of each group."""
    lengths = trained_mask(batch).sum(1)
    return lengths.new_zeros(groups).index_add(0, groups_of(batch).to(lengths.device), lengths)


def windows(batch: RoleBatch, steps: int, key: int) -> list[RoleBatch]:
    """The batch cut into `steps` parts of equally many rows, in an order that `key` seeds; groups stay together where
    a part holds whole groups of one size. Where `fitted` has padded the batch each part gets as many groups as the
    others, or one more, and its share of the padding."""
    if steps == 1:
        return [batch]
    size, real = batch.rows // steps, batch.rows - batch.padding
    unit = whole_group(groups_of(batch)[:real], size)
    order = list(range(real // unit))
    random.Random(key).shuffle(order)
    if batch.padding:
        parts, padding = [order[i::steps] for i in range(steps)], iter(range(real, batch.rows))
    else:
        parts, padding = [order[i * size // unit : (i + 1) * size // unit] for i in range(steps)], iter(())
    rows = [[place * unit + i for place in part for i in range(unit)] for part in parts]
    return [batch.take(torch.tensor(sorted([*own, *islice(padding, size - len(own))]))) for own in rows]


def whole_group(group_B: torch.Tensor, *sizes: int) -> int:
    """How many rows must stay side by side: a group, if all groups are of one size that divides `sizes`, else 1."""
    _, counts = torch.unique_consecutive(group_B, return_counts=True)
    one = int(counts[0]) if len(counts) and bool((counts == counts[0]).all()) else 1
    return 1 if any(size % one for size in sizes) else one


def trained_mask(batch: RoleBatch) -> torch.Tensor:
    """(B, T): the completion mask, all 0 in rows that the objective did not select."""
    mask = batch.tensors["completion_mask"]
    return mask if batch.selected_B is None else mask * batch.selected_B.to(mask.device)[:, None].to(mask.dtype)


def trained_counts(batch: RoleBatch) -> list[float]:
    """Completions (episodes count once), tokens and prompts of this process that the objective trains on."""
    mask = trained_mask(batch)
    rows = torch.ones(mask.size(0), dtype=torch.bool) if batch.selected_B is None else batch.selected_B
    answers, groups = sequences_of(batch)[rows], groups_of(batch)[rows]
    return [float(answers.unique().numel()), float(mask.sum()), float(groups.unique().numel())]


def sft_tokens(batch: RoleBatch) -> float:
    """Tokens of this process in the supervised term."""
    return float(batch.tensors["sft_mask"].sum()) if "sft_mask" in batch.tensors else 0.0


def groups_of(batch: RoleBatch) -> torch.Tensor:
    """(B) which samples shared a baseline."""
    return torch.arange(batch.rows) if batch.group_B is None else batch.group_B


def sequences_of(batch: RoleBatch) -> torch.Tensor:
    """(B) which rows are one answer."""
    return torch.arange(batch.rows) if batch.sequence_B is None else batch.sequence_B


def sequence_windows(
    batch: RoleBatch, rows: int, steps: int, sequences: int, key: int, processes: Processes
) -> tuple[list[RoleBatch], int, int]:
    """Optimizer steps of so many trained answers: the number of a round's steps follows the data (SGS, appendix C.1).

    A role's answers of all processes as `steps` windows, of which each but the last that is filled holds
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
    groups = _apart(torch.unique_consecutive(groups_of(part), return_inverse=True)[1] for part in parts)
    return [replace(part, group_B=group_B) for part, group_B in zip(parts, groups, strict=True)]


def _to(batch: RoleBatch, device: torch.device | str) -> RoleBatch:
    return replace(batch, tensors={name: value.to(device) for name, value in batch.tensors.items()})
