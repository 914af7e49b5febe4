"""Shared prefixes in passes with gradients: a prompt is read once for all of its answers, P + G x R tokens instead of
G x (P + R).

Rows with equal prompts are concatenated behind one copy of the prompt, [prompt][answer 1][answer 2]..., and a 4-D mask
lets a token attend to its prompt and its answer only. The beginning that all prompts share (the rules of a chat
prompt) is read once per pack: [beginning][rest of prompt 1][answers to it][rest of prompt 2]... Each token keeps the
position of its original row, so that log-probs and gradients equal those of the plain pass up to rounding. Attention
over all answers of a pack costs more than it saves if answers are long: a group is split into runs of the cheapest
size.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from .base import cut_up
from .decode import common_start
from .forward import ANSWER, alone, heads_in, laid_back, left_padded, misread, padding_of, states_changed, tokens

logger = logging.getLogger(__name__)

GAIN = 0.9
"""Largest estimated cost, as a share of the plain pass's, at which `auto` packs rows."""
ATTENTION = 2.0
"""Time of an operation in attention, relative to one in a linear layer."""
SHARDED = "is cut up over processes, each of which would pack its own batches, and check them, in other passes"
_START = -2  # run of the beginning that the runs of a pack share
_OWN = {"input_ids", "attention_mask", "labels", "fused_lm_head"}

Plan = list[list[list[int]]]
"""Packs, each a list of runs; a run lists the indices of rows that share one copy of their prompt."""


@dataclass(frozen=True)
class Rows:
    """Rows of left-padded prompts, `prompt` columns wide, followed by right-padded answers."""

    ids_BC: np.ndarray
    mask_BC: np.ndarray
    prompt: int
    owner_B: np.ndarray | None = None
    """Index of each row's adapter, and (`shift_B`) the columns by which the row is shifted right, in a pass with rows
    of several players (mixed_adapters.py)."""
    shift_B: np.ndarray | None = None
    start: int = 0
    """Number of tokens with which all prompts begin, read once per pack; less than the length of any prompt."""

    @property
    def answers_B(self) -> np.ndarray:
        """Number of tokens of each answer."""
        return np.asarray(self.mask_BC[:, self.prompt :].sum(1))

    @property
    def prompts_B(self) -> np.ndarray:
        """Number of tokens of each prompt."""
        return np.asarray(self.mask_BC[:, : self.prompt].sum(1))

    def regular(self) -> bool:
        """Return whether padding is only left of the prompts and right of the answers."""
        before, behind = self.mask_BC[:, : self.prompt], self.mask_BC[:, self.prompt :]
        ordered = (before[:, 1:] >= before[:, :-1]).all() and (behind[:, 1:] <= behind[:, :-1]).all()
        return bool(ordered and before[self.answers_B > 0, -1].all())

    def groups(self) -> list[list[int]]:
        """Return the indices of rows with an answer, grouped by prompt and owner."""
        key_BP = np.ascontiguousarray(((self.ids_BC + 1) * self.mask_BC)[:, : self.prompt])
        if self.owner_B is not None:
            key_BP = np.ascontiguousarray(np.column_stack([self.owner_B, key_BP]))
        found: dict[bytes, list[int]] = {}
        for row in np.flatnonzero(self.answers_B):
            found.setdefault(key_BP[row].tobytes(), []).append(int(row))
        return list(found.values())


def arranged(rows: Rows, keys: float) -> tuple[Plan, float]:
    """Return the cheapest packs, and their estimated cost divided by the plain pass's; no packs if no two rows share a
    prompt or its beginning. `keys`: number of keys at which a token's attention costs as much as the rest of a
    layer."""
    groups, answers_B, prompts_B = rows.groups(), rows.answers_B, rows.prompts_B - rows.start
    size, best, plan = max(map(len, groups), default=1), float("inf"), list[Any]()
    while size > 1 or (size == 1 and rows.start):
        runs = [group[i : i + size] for group in groups for i in range(0, len(group), size)]
        lengths = [int(prompts_B[run[0]] + answers_B[run].sum()) for run in runs]
        owners = None if rows.owner_B is None else [int(rows.owner_B[run[0]]) for run in runs]
        most = max(lengths)
        while True:
            packs = binned(lengths, most, owners)
            longest = rows.start + max(sum(lengths[i] for i in pack) for pack in packs)
            cost = len(packs) * longest * (keys + longest)
            if cost < best:
                best, plan = cost, [[runs[i] for i in pack] for pack in packs]
            if not rows.start or most >= sum(lengths):
                break
            most *= 2  # more runs behind one copy of the beginning
        size = 0 if size == 1 else -(-size // 2)
    count, width = rows.mask_BC.shape
    return plan, best / (count * width * (keys + width))


def binned(lengths: list[int], most: int, owners: list[int] | None = None) -> list[list[int]]:
    """Distribute the indices of `lengths` over bins of size `most` by first-fit decreasing; a bin has one owner."""
    bins: list[list[int]] = []
    room: list[int] = []
    whose = owners or [0] * len(lengths)
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        fits = (j for j, left in enumerate(room) if left >= lengths[i] and whose[bins[j][0]] == whose[i])
        place = next(fits, len(bins))
        if place == len(bins):
            bins.append([])
            room.append(most)
        bins[place].append(i)
        room[place] -= lengths[i]
    return bins


@dataclass(frozen=True)
class Packs:
    """Layout of packed rows: N packs of L tokens, and the indices of the M predictions."""

    ids_NL: torch.Tensor
    positions_NL: torch.Tensor
    visible_NLL: torch.Tensor
    """Mask, true where a token (row) attends to another one (column); padding attends to itself."""
    source_M: torch.Tensor
    """Indices, in the flattened (N, L), of the tokens that predict the answers' tokens."""
    target_M: torch.Tensor
    """Indices of the predicted tokens in the flattened (B, C) rows."""


def packed(rows: Rows, plan: Plan, device: torch.device | str = "cpu") -> Packs:
    """Return the tensors of a plan. Segments: common beginning of the prompts, rest of a prompt, answer."""
    answers_B, prompts_B, (_, width) = rows.answers_B, rows.prompts_B, rows.mask_BC.shape
    padding_B, shift_B = rows.prompt - prompts_B, rows.shift_B
    if rows.start:
        shift_B = padding_B  # a beginning has one place, whichever row it is taken from
    segments = []  # pack, row, first column, tokens, run, answer (-1: none)
    run_now = 0
    for pack, runs in enumerate(plan):
        if rows.start:
            segments.append((pack, runs[0][0], int(padding_B[runs[0][0]]), rows.start, _START, -1))
        for run in runs:
            first = int(padding_B[run[0]]) + rows.start
            segments.append((pack, run[0], first, rows.prompt - first, run_now, -1))
            segments += [(pack, row, rows.prompt, int(answers_B[row]), run_now, row) for row in run]
            run_now += 1
    pack_S, row_S, column_S, length_S, run_S, answer_S = np.array(segments).T
    begin_S = np.cumsum(length_S) - length_S  # in all tokens laid end to end
    pack_begin = begin_S[np.searchsorted(pack_S, np.arange(len(plan)))]
    segment_T = np.repeat(np.arange(len(segments)), length_S)
    offset_T = np.arange(length_S.sum()) - begin_S[segment_T]
    column_T = column_S[segment_T] + offset_T
    longest = int(np.diff([*pack_begin, len(segment_T)]).max())
    place_T = pack_S[segment_T] * longest + np.arange(len(segment_T)) - pack_begin[pack_S[segment_T]]
    flat_T = row_S[segment_T] * width + column_T

    def laid_out(values_T: np.ndarray, blank: int) -> np.ndarray:
        found = np.full(len(plan) * longest, blank)
        found[place_T] = values_T
        return found.reshape(len(plan), longest)

    run_NL, answer_NL = laid_out(run_S[segment_T], -1), laid_out(answer_S[segment_T], -2)
    # An answer's first token is predicted by the last one of its prompt, the others by the one before.
    heads_S = np.where(answer_S < 0, begin_S + length_S - 1, -1)
    last_S = np.maximum.accumulate(heads_S)
    scored_T = answer_S[segment_T] >= 0
    before_T = np.where(offset_T > 0, np.arange(len(segment_T)) - 1, last_S[segment_T])[scored_T]
    position_T = column_T if shift_B is None else column_T - shift_B[row_S[segment_T]]
    ids, positions = laid_out(rows.ids_BC.reshape(-1)[flat_T], 0), laid_out(position_T, 0)
    numbers = (ids, positions, run_NL, answer_NL, place_T[before_T], flat_T[scored_T])
    ids_NL, positions_NL, part_NL, reply_NL, source_M, target_M = (torch.from_numpy(n).to(device) for n in numbers)
    order = torch.arange(longest, device=device)
    visible = (part_NL[:, :, None] == part_NL[:, None, :]) | (part_NL[:, None, :] == _START)
    visible &= order[:, None] >= order
    visible &= (reply_NL[:, None, :] == -1) | (reply_NL[:, :, None] == reply_NL[:, None, :])
    return Packs(
        ids_NL, positions_NL, visible | torch.eye(longest, dtype=torch.bool, device=device), source_M, target_M
    )


def obstacle(model: Any) -> str:
    """Return the reason why a causal LM cannot read packs, as a phrase that follows its name; "" if none is known."""
    if cut_up(model):
        return SHARDED
    kind = model.config._attn_implementation
    if kind not in ("sdpa", "eager"):
        return f"runs attention '{kind}', and packs need sdpa or eager"
    if drops(model):
        return "has dropout, which rows with a prompt of their own draw apart"
    return misread(model, laid_out)


def laid_out(base: Any, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return hidden states of rows in packs and of each row alone, for `misread`: two answers behind one copy of their
    prompt, and one to another prompt with the same beginning."""
    first, second, answers = tokens(base, length)
    ids, mask = left_padded([first, first, second])
    ends = answers[[0, 1, 0]]
    both, seen = torch.cat([ids, ends], 1).cpu().numpy(), torch.cat([mask, torch.ones_like(ends)], 1).cpu().numpy()
    rows = Rows(both, seen, len(first), start=common_start(ids, mask, 1))
    packs = packed(rows, [[[0, 1], [2]]], base.device)
    given = {"position_ids": packs.positions_NL, "attention_mask": mask_of(base, packs)}
    found = base.base_model(input_ids=packs.ids_NL, **given).last_hidden_state.flatten(0, 1)[packs.source_M]
    each = [torch.cat([prompt, end]) for prompt, end in zip([first, first, second], ends, strict=True)]
    return found[packs.target_M.argsort()].view(3, ANSWER, -1), alone(base, each)[:, :-1]


def mask_of(model: Any, packs: Packs) -> torch.Tensor:
    """Return the attention mask of packs, (N, 1, L, L), in the form that the model's attention takes."""
    visible: torch.Tensor = packs.visible_NLL[:, None]
    weight = model.get_input_embeddings().weight
    autocast = torch.is_autocast_enabled(weight.device.type)
    if model.config._attn_implementation == "eager" or not autocast:
        added = torch.zeros(visible.shape, dtype=weight.dtype, device=visible.device)
        return added.masked_fill(~visible, -torch.inf)
    return visible


def drops(module: torch.nn.Module) -> bool:
    """Return whether a module in training mode drops values at random, so that two passes differ."""
    configs = [part.config.get_text_config() for part in module.modules() if isinstance(part, PreTrainedModel)]
    return any(getattr(config, "attention_dropout", 0) for config in configs) or any(
        isinstance(part, torch.nn.Dropout) and part.p > 0 for part in module.modules()
    )


class SharedPrefix:
    """Forward passes of one model that share prompts."""

    def __init__(self, model: Any, always: bool) -> None:
        """Estimate the cost of attention. `always`: pack whenever rows share a prompt, not only if that is cheaper."""
        config = model.config.get_text_config()
        layers = sum(p.numel() for p in model.base_model.parameters()) - model.get_input_embeddings().weight.numel()
        keys = layers / config.num_hidden_layers / (2 * config.hidden_size * ATTENTION)
        self.keys, self.always = keys, always

    def score(self, model: Any, fused: Any, given: dict[str, Any]) -> Any:
        """Return the output of a pass over packs, in the layout of the rows; None if the rows are not packed. `fused`:
        the model's forward with TRL's head."""
        if not {name for name, value in given.items() if value is not None} <= _OWN:
            return None
        ids, mask, labels = given["input_ids"], given["attention_mask"], given["labels"]
        first = int((labels != -100).any(0).int().argmax())
        if why := misread(model, laid_out, ids.size(1)):  # rows beyond a window that shorter ones did not reach
            logger.warning("`shared_prefix` is not used: %s %s.", type(model).__name__, why)
            model.shared_prefix = None
            return None
        mixed = None if model.mixed is None or model.mixed.owner_B is None else model.mixed
        owner_B, shift_B = (None, None) if mixed is None else (np.array(mixed.owner_B), np.array(mixed.shift_B))
        if padding_of(model, ids.size(1)) == "placed":
            shift_B = (mask[:, :first] == 0).sum(1).cpu().numpy()
        start = common_start(ids[:, :first], (mask[:, :first] != 0).long())
        rows = Rows(ids.cpu().numpy(), (mask != 0).long().cpu().numpy(), first, owner_B, shift_B, start)
        if first == 0 or not rows.regular():
            return None
        plan, cost = arranged(rows, self.keys)
        if not plan or not (self.always or cost <= GAIN):
            return None
        if mixed is not None:
            plan.sort(key=lambda pack: mixed.owner_B[pack[0][0]])
            mixed.read([mixed.owner_B[pack[0][0]] for pack in plan])
        packs = packed(rows, plan, ids.device)

        def apart(value: torch.Tensor) -> torch.Tensor:
            flat = value.new_zeros(mask.numel()).index_copy(0, packs.target_M, value[0])
            return flat.view(mask.shape)[:, 1:]

        inputs = {"input_ids": packs.ids_NL, "position_ids": packs.positions_NL}
        inputs |= {"attention_mask": mask_of(model, packs), "shift_labels": labels.flatten()[packs.target_M][None]}
        # The head gets the tokens that predict a scored one.
        with states_changed(model, lambda states: states.flatten(0, 1).index_select(0, packs.source_M)[None]):
            return laid_back(fused(fused_lm_head=True, **inputs), apart)


def share_prefixes(modules: Iterable[torch.nn.Module], mode: str, sharded: bool = False) -> bool:
    """Let every causal LM with TRL's head inside `modules` share prompts; return whether one of them does. `mode`: on,
    or auto (on a CPU, if cheaper). `sharded`: the engine will shard the weights. A warning names the first model that
    cannot."""
    heads = [head for module in modules for head in heads_in(module)]
    if mode == "auto":
        heads = [head for head in heads if all(p.device.type == "cpu" for p in head.parameters())]
    refused = []
    for head in heads:
        reason = SHARDED if sharded else obstacle(head)
        head.shared_prefix = None if reason else SharedPrefix(head, always=mode == "on")
        refused += [f"{type(head).__name__} {reason}"] if reason else []
    if refused:
        logger.warning("`shared_prefix` is not used: %s.", refused[0])
    return len(refused) < len(heads)
