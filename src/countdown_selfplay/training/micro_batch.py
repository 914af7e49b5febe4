"""Micro-batches of one role: a window's batches sorted by length, cut and trimmed, and the loss of each."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..config import JointSelfPlayConfig
from ..distributed.ddp import Engine
from ..distributed.processes import Processes
from ..errors import GameError
from ..policies.forward import Watched
from ..policies.mixed_adapters import MixedRows
from .learners import Learner
from .losses import RoleLoss
from .window import RoleBatch, groups_of, joined, sequences_of, trained_mask, unselected

_PER_ROW = ("advantages", "group_tokens", "sequence")
Part = tuple[str, dict[str, torch.Tensor]]
"""A player's rows in a pass."""


@dataclass(eq=False)
class WindowLoss:
    """Losses of a window's micro-batches: rows with credit get a gradient, the others are only measured. It knows the
    micro-batch at hand, and with it which players of the window have no signal or have taken all their steps."""

    args: JointSelfPlayConfig
    learners: Mapping[str, Learner]
    engine: Engine
    processes: Processes
    score: Callable[..., Any]
    """TRL's (model, ids, mask, length) -> log-probs and entropies."""
    signalless: frozenset[str] = frozenset()
    idle: frozenset[str] = frozenset()
    """Players that have taken all their steps of the round (`sequences_per_step`)."""

    def __post_init__(self) -> None:
        self.drop_signalless = self.args.drop_signalless_gradients
        self.first = self.last = True

    def begin(self, inputs: Mapping[str, Any], first: bool, last: bool) -> None:
        """Before the passes of a micro-batch, the first or the last one of its optimizer step."""
        self.signalless, self.idle = inputs["signalless"], inputs["idle"]
        self.first, self.last = first, last

    def __call__(self, model: torch.nn.Module, inputs: dict[str, Any], optimizer: Any) -> torch.Tensor:
        """Forward pass and loss of a micro-batch, as the engine wants it. Where the loss is proportional to the
        advantages, a sample with advantage 0 has gradient 0: its forward pass runs without a graph, for entropy and
        the other metrics, and no backward pass follows. The gradient is the same. `model`: the wrapped one; passes
        without a graph go to the bare module, for their number differs between processes."""
        parts = [part for part in inputs.get("parts", [inputs]) if not self.is_empty(part)]
        if not parts:
            return torch.zeros((), device=self.engine.accelerator.device, requires_grad=True)
        live, rest = list[Part](), list[Part]()
        for part in parts:
            role, batch = part["role"], {name: value for name, value in part.items() if torch.is_tensor(value)}
            loss = self.learners[role].loss
            loss.normalise_by(*part["counts"])
            if skips_idle_rows(loss, self.engine):
                batch, idle = split_idle(batch)
                rest += [] if idle is None else [(role, trim(idle))]
            live.append((role, trim(batch)))
        if rest:
            with torch.no_grad():
                self._scored(self.engine.policies.module, rest)
        found = self._scored(model, live)
        if self.last:
            self.engine.before_last_backward(optimizer, self.held_roles())
        return self.engine.before_backward(found, parts[0]["role"], self._log_probs, model, self.first)

    def held_roles(self) -> frozenset[str]:
        """The roles whose weights this window must not move."""
        return self.engine.policies.without_signal(self.signalless) if self.drop_signalless else frozenset()

    def without_empty(self, window: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The micro-batches of an optimizer step without those that have nothing to compute, but one at least."""
        return [inputs for inputs in window if not self.is_empty(inputs)] or window[-1:]

    def is_empty(self, inputs: dict[str, Any]) -> bool:
        """Has a micro-batch nothing to compute, on all processes? DDP sums gradients in a window's last backward pass:
        with several processes, only a window that all roles are through with is passed over."""
        if "parts" in inputs:
            return all(self.is_empty(part) for part in inputs["parts"])
        alone, idle = self.processes.world == 1, inputs["idle"]
        if self.engine.name != "ddp":
            return False
        through = inputs["role"] in idle and (alone or idle == frozenset(self.learners))
        if through and self.drop_signalless:
            return True
        if "sequence" not in inputs or not alone:  # the empty end of a window of episodes: others may have rows there
            return False
        return not inputs["completion_mask"].any() and not ("sft_mask" in inputs and inputs["sft_mask"].any())

    def _scored(self, model: torch.nn.Module, parts: list[Part]) -> torch.Tensor:
        """The sum of the losses of players' rows, which share a pass where they are several."""
        policies, batches = self.engine.policies, [batch for _, batch in parts]
        whole = batches[0] if len(parts) == 1 else side_by_side(batches)
        policies.activate(parts[0][0])
        if len(parts) > 1:
            width = whole["prompt_ids"].size(1)
            owners = [(policies.mixed.number(policies.weights_of[role]), batch) for role, batch in parts]
            rows = [(i, len(batch["prompt_ids"]), width - batch["prompt_ids"].size(1)) for i, batch in owners]
            policies.mixed.begin(MixedRows.of(rows))
        imitates = any(self.learners[role].loss.imitates for role, _ in parts)
        watched = Watched(model) if imitates else None
        found = list(self._log_probs(watched or model, whole))
        if watched is not None:
            found.append(watched.top1_BT(found[0].size(1)))
        sizes = [len(batch["prompt_ids"]) for batch in batches]
        split = [[value] if len(parts) == 1 else value.split(sizes) for value in found]
        losses = []
        for (role, batch), own in zip(parts, zip(*split, strict=True), strict=True):
            loss, length = self.learners[role].loss, batch["completion_ids"].size(1)
            logps_BT, entropies_BT, *top1 = own if length == own[0].size(1) else [value[:, :length] for value in own]
            if loss.imitates:
                loss.count_accuracy(top1[0], batch)
            losses.append(loss(logps_BT, entropies_BT, batch))
        return functools.reduce(torch.add, losses)

    def _log_probs(self, model: Any, batch: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        """(B, T) log-probs and entropies of the completions' tokens under `model`."""
        ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
        answers = batch["completion_mask"]
        if "sft_mask" in batch:  # the supervised term also reads rows that the objective did not select
            answers = torch.maximum(answers, batch["sft_mask"])
        mask = torch.cat([batch["prompt_mask"], answers], 1)
        logps, entropies, *_ = self.score(model, ids, mask, batch["completion_ids"].size(1), compute_entropy=True)
        return logps, entropies


def skips_idle_rows(loss: RoleLoss, engine: Engine) -> bool:
    """One process and DDP only. Where weights are sharded (ZeRO-3, FSDP2) every process must run the same passes;
    under ZeRO-1 and 2 a pass beside DeepSpeed's wrapper is untested: all rows go through it."""
    return loss.proportional and engine.name == "ddp"


def micro_batches(
    batches: dict[str, RoleBatch],
    counts: dict[str, int],
    idle_last: frozenset[str] = frozenset(),
    most: int = 0,
    by_prompt: bool = False,
) -> list[dict[str, Any]]:
    """One dict of tensors per micro-batch of a window, with its "role"; the roles one after the other, the same order
    on all processes.

    The rows of a role are sorted by length, the longest first: each micro-batch is then trimmed to about its own
    length, processes meet with rows of like length, and a round that does not fit in memory fails at its first
    micro-batch. For the roles in `idle_last` the rows without credit come after all others, for they are only measured
    (see WindowLoss). `by_prompt`: with the longest of a group come its others, so that passes share their prompts. The
    losses do not depend on the order (their normalisers are the window's). Where answers are
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
        if by_prompt:
            lengths = group_first(lengths, group_B, tensors["advantages"] != 0)
        order = torch.argsort(lengths, descending=True, stable=True)
        tensors = {name: value[order] for name, value in tensors.items()}
        size = batch.rows // count
        for i in range(count):
            window.append({name: value[i * size : (i + 1) * size] for name, value in tensors.items()} | {"role": role})
    return window


def mixed_passes(cut: list[dict[str, Any]], told: dict[str, Any]) -> list[dict[str, Any]]:
    """A window's micro-batches side by side: each holds one of every player that has so many, its `parts`. `told`:
    what all of them say."""
    by_role: dict[str, list[dict[str, Any]]] = {}
    for part in cut:
        by_role.setdefault(part["role"], []).append(part)
    rows = [[parts[i] for parts in by_role.values() if i < len(parts)] for i in range(max(map(len, by_role.values())))]
    return [{"role": parts[0]["role"], "parts": parts} | told for parts in rows]


def side_by_side(batches: Sequence[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    """What a pass reads of players' rows, one below the other, padded to the longest."""
    found = {}
    for name in ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask", "sft_mask"):
        like = "completion_mask" if name == "sft_mask" else name
        if not any(name in batch for batch in batches):
            continue
        width = max(batch[like].size(1) for batch in batches)
        whole = batches[0][like].new_zeros(sum(len(batch[like]) for batch in batches), width)
        first = 0
        for batch in batches:
            count, length = batch[like].shape
            if name in batch:
                columns = slice(width - length, width) if name.startswith("prompt_") else slice(length)
                whole[first : first + count, columns] = batch[name]
            first += count
        found[name] = whole
    return found


def group_first(lengths_B: torch.Tensor, group_B: torch.Tensor, credited_B: torch.Tensor) -> torch.Tensor:
    """Sort keys that keep the rows of a group together, at the place of its longest one; those with credit apart."""
    part_B = 2 * group_B + credited_B
    longest = lengths_B.new_zeros(2 * lengths_B.numel()).scatter_reduce(0, part_B, lengths_B, "amax")
    return longest[part_B] * 2 * lengths_B.numel() + part_B


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


def split_idle(batch: dict[str, torch.Tensor]) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor] | None]:
    """The rows with credit, and those without that have a token to measure (None if there are none). Without any
    credit the shortest row stays among the first: every micro-batch has a backward pass."""
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
    columns = {name: slice(prompt, None) if name.startswith("prompt_") else slice(length) for name in batch}
    return {name: value if name in _PER_ROW else value[:, columns[name]] for name, value in batch.items()}
