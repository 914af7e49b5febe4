"""Passes over a shared base with rows of several players, each through its adapter: the base is computed once for all,
and the players' A and B are one batched product each.

PEFT refuses batches of several adapters in training. Here each LoRA layer reads stacked copies of its players' A and
B, (players, ...), from which every row takes its owner's. In one process a stacked copy is a leaf with a contiguous
gradient, and the players' `grad` are views of it: one pass accumulates the gradients of separate passes without an
operation per player. Under DDP, whose buckets wait for each parameter, the copy is part of the graph."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import torch
import torch.distributed as dist
from peft.tuners.lora.layer import Linear, LoraLayer
from peft.utils import AuxiliaryTrainingWrapper

from .base import PolicySet, cut_up, inner_name
from .forward import difference, misread, placed
from .lora import LoraPolicies
from .shared_prefix import drops

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class Stacked:
    """Weights A or B of a LoRA layer, one per player, and the stacked tensor that the layer reads."""

    parameters: list[torch.Tensor]
    value: torch.Tensor = field(default_factory=lambda: torch.empty(0))
    leaf: torch.Tensor = field(default_factory=lambda: torch.empty(0))
    rows: torch.Tensor = field(default_factory=lambda: torch.empty(0))
    """Rows of the leaf, (players x rows of a weight, columns), in the order of the players."""
    views: list[torch.Tensor] = field(default_factory=list)
    """Views of the leaf's gradient, one per player."""

    def fits(self) -> bool:
        """Return whether the leaf has the weights' dtype and device."""
        first = self.parameters[0]
        return bool(self.views) and self.leaf.device == first.device and self.leaf.dtype == first.dtype

    def stand_in(self, gradient: torch.Tensor) -> None:
        """Create a new leaf whose gradient is a view of the buffer `gradient`."""
        first = self.parameters[0]
        shape = (len(self.parameters), *first.shape)
        self.leaf = torch.empty(shape, dtype=first.dtype, device=first.device, requires_grad=True)
        self.rows, self.leaf.grad = self.leaf.data.flatten(0, 1), gradient.view(shape)
        self.views = list(self.leaf.grad.unbind(0))

    def read(self, graph: bool) -> None:
        """Copy the current weights. graph: gradients reach the parameters through the graph, not through `views`."""
        if graph:
            self.value = torch.cat(self.parameters).view(self.leaf.shape)
            return
        with torch.no_grad():
            torch.cat(self.parameters, out=self.rows)
        self.value = self.leaf


@dataclass(eq=False)
class GroupedLinear:
    """LoRA layer of PEFT with the stacked copies of its adapters. alone: PEFT's forward, of the active adapter."""

    mixed: MixedAdapters
    layer: Any
    a: Stacked
    b: Stacked
    scale: float
    alone: Any

    def forward(self, x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        """Compute PEFT's forward, (..., in) -> (..., out), with each row's A and B. See `MixedAdapters.read`."""
        if self.mixed.owner_B is None or self.layer.disable_adapters:
            return self.alone(x, *args, **kwargs)
        owner_N, result = self.mixed.owner_N, self.layer.base_layer(x, *args, **kwargs)
        a_NRI, b_NOR = self.a.value, self.b.value
        if owner_N is not None:
            a_NRI, b_NOR = a_NRI.index_select(0, owner_N), b_NOR.index_select(0, owner_N)
        x_NLI = self.layer._cast_input_dtype(x, a_NRI.dtype).contiguous().view(len(a_NRI), -1, x.size(-1))
        delta = torch.bmm(torch.bmm(x_NLI, a_NRI.transpose(1, 2)), b_NOR.transpose(1, 2))
        return torch.add(result, delta.view(result.shape), alpha=self.scale).to(result.dtype)


@dataclass(eq=False)
class MixedAdapters:
    """State of passes through one base whose rows use different adapters. `names`: adapters, indexed by `owner_B`."""

    names: list[str]
    stacked: list[Stacked] = field(default_factory=list)
    """A and B of each layer in turn."""
    owner_B: list[int] | None = None
    """Owner of each row of the current pass; None: the active adapter alone."""
    shift_B: list[int] = field(default_factory=list)
    """Number of columns by which each row is shifted right compared with a pass of its player alone, so that positions
    equal those of separate passes."""
    owner_N: torch.Tensor | None = None
    """Owners of the equal parts into which layers split their input; None: one part per player in turn. It stays until
    the next pass, because gradient checkpointing runs layers again inside backward."""
    _gradient: torch.Tensor = field(init=False)

    def number(self, name: str) -> int:
        """Return the owner index of the weights called `name`."""
        return self.names.index(inner_name(name))

    def begin(self, parts: Sequence[tuple[int, int, int]]) -> None:
        """Set the rows of the next pass, whose backward pass adds to the `grad` of their owners. `parts`: (owner,
        number of rows, shift) of consecutive rows."""
        self.owner_B = [owner for owner, count, _ in parts for _ in range(count)]
        self.shift_B = [shift for _, count, shift in parts for _ in range(count)]
        self.read(self.owner_B)
        if not all(stacked.fits() for stacked in self.stacked):
            sizes = [sum(p.numel() for p in stacked.parameters) for stacked in self.stacked]
            self._gradient = self.stacked[0].parameters[0].new_zeros(sum(sizes))
            for stacked, gradient in zip(self.stacked, self._gradient.split(sizes), strict=True):
                stacked.stand_in(gradient)
        training = torch.is_grad_enabled()
        graph = training and dist.is_initialized() and dist.get_world_size() > 1
        for stacked in self.stacked:
            stacked.read(graph)
        if training and not graph:
            self._attach(list(dict.fromkeys(self.owner_B)))

    def _attach(self, owners: Sequence[int]) -> None:
        """Replace the `grad` of the owners' parameters by views of the buffer to which a backward pass adds."""
        if all(p.grad is None for stacked in self.stacked for p in stacked.parameters):
            self._gradient.zero_()
            for stacked in self.stacked:
                for i in owners:
                    stacked.parameters[i].grad = stacked.views[i]
        for p, view in [(s.parameters[i], s.views[i]) for s in self.stacked for i in owners]:
            if p.grad is not view:  # None, or the gradient of a pass of its player alone in the same step
                view.zero_() if p.grad is None else view.copy_(p.grad)
                p.grad = view

    def read(self, owners: Sequence[int]) -> None:
        """Set the owners of the rows, or packs, that layers read. Adjacent rows of one owner are one part, if all
        parts have one size, so that no weights are copied per row."""
        runs = [(owner, len(list(same))) for owner, same in groupby(owners)]
        parts = [owner for owner, _ in runs] if len({count for _, count in runs}) == 1 else list(owners)
        alike = parts == list(range(len(self.names)))
        self.owner_N = None if alike else torch.tensor(parts, device=self.stacked[0].parameters[0].device)

    def end(self) -> None:
        self.owner_B = self.owner_N = None

    def positioned(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return the forward arguments `given` with the rows' position ids, and set the owners that layers read."""
        if self.owner_B is None:
            return given
        self.read(self.owner_B)
        ids = given["input_ids"]
        shift_B1 = torch.tensor(self.shift_B, device=ids.device)[:, None]
        return given | {"position_ids": (torch.arange(ids.size(1), device=ids.device) - shift_B1).clamp(min=0)}


def obstacle(module: Any, config: Any) -> str:
    """Return the reason why a PEFT model's adapters cannot share passes, or "". `config`: settings of all adapters."""
    base = module.get_base_model()
    layers: list[Any] = [part for part in module.modules() if isinstance(part, LoraLayer)]
    if any(isinstance(part, AuxiliaryTrainingWrapper) for part in module.modules()):
        return "trains whole modules beside its adapters (modules_to_save or trainable tokens)"
    if config.lora_bias:  # PEFT itself refuses `bias` for several adapters
        return "trains biases in its adapters (lora_bias)"
    if any(layer.lora_variant for layer in layers if hasattr(layer, "lora_variant")):
        return f"has adapters of another kind than plain LoRA ({'DoRA' if config.use_dora else 'a variant'})"
    if other := sorted({type(layer).__name__ for layer in layers if type(layer) is not Linear}):
        return f"has adapters on layers that are not linear ({', '.join(other)})"
    if drops(module):
        return "has dropout (`lora_dropout` or its own), which separate passes draw apart"
    if len({(p.device, p.dtype) for layer in layers for p in layer.parameters() if p.requires_grad}) > 1:
        return "has its adapters on several devices, or in several precisions"
    if any(p._post_accumulate_grad_hooks for p in module.parameters()):
        return "has hooks on the gradients of single weights"
    return "is cut up over processes" if cut_up(module) else misread(base, placed)


def mixed_adapters(module: Any, names: Sequence[str]) -> MixedAdapters:
    """Set up mixed passes of a PEFT model that has no `obstacle`; return them. `names`: names of the adapters."""
    layers: list[Any] = [part for part in module.modules() if isinstance(part, Linear)]
    mixed = MixedAdapters(list(names))
    for layer in layers:
        a, b = (Stacked([weights[name].weight for name in names]) for weights in (layer.lora_A, layer.lora_B))
        mixed.stacked += [a, b]
        layer.forward = GroupedLinear(mixed, layer, a, b, float(layer.scaling[names[0]]), layer.forward).forward
    module.get_base_model().mixed = mixed
    return mixed


def unlike_alone(module: Any, mixed: MixedAdapters) -> float:
    """Return the largest difference between hidden states of a mixed pass and of each adapter alone, 0 if it is due to
    rounding. LoRA's B, which is 0 at the start of a run, is temporarily filled."""
    backbone = module.get_base_model().base_model
    kept = [(p, p.detach().clone()) for b in mixed.stacked[1::2] for p in b.parameters]
    device = kept[0][0].device
    generator = torch.Generator().manual_seed(0)
    ids = torch.arange(len(mixed.names) * 4, device=device).view(-1, 4) % module.get_input_embeddings().num_embeddings
    try:
        with torch.no_grad():
            for p, _ in kept:
                p.copy_(torch.randn(p.shape, generator=generator) / p.size(1) ** 0.5)
            mixed.begin([(i, 1, 0) for i in range(len(ids))])
            together = backbone(input_ids=ids).last_hidden_state
            mixed.end()
            apart = []
            for name, row in zip(mixed.names, ids, strict=True):
                module.set_adapter(name)
                apart.append(backbone(input_ids=row[None]).last_hidden_state)
            return difference(together.flatten(0, 1), torch.cat(apart).flatten(0, 1))
    finally:
        mixed.end()
        with torch.no_grad():
            for p, value in kept:
                p.copy_(value)


SMALL = 20e6
"""Largest number of weights at which `auto` mixes players in a pass on a CPU, where calls dominate arithmetic."""


def allow_mixed(policies: PolicySet, mode: str, engine: str, packed: bool) -> None:
    """Set `policies.mixed`, after `prepare`; log a warning if something prevents it. `mode`: on, or auto (only up to
    SMALL weights, on a CPU). `packed`: whether rows are concatenated (`padding_free`)."""
    names, weights = policies.weight_names, list(policies.module.parameters())
    pays = sum(p.numel() for p in weights) <= SMALL and all(p.device.type == "cpu" for p in weights)
    if len(names) < 2 or (mode == "auto" and not pays):
        return
    mixed = None
    if not isinstance(policies, LoraPolicies):
        why = "has adapters over several models"
    elif engine != "ddp":
        why = f"runs under {engine}, which cuts up weights or steps inside backward"
    elif packed:
        why = "lays rows end to end (`padding_free`)"
    else:
        why = obstacle(policies.module, policies.module.peft_config[inner_name(names[0])])
    if not why:
        mixed = mixed_adapters(policies.module, [inner_name(name) for name in names])
        gap = unlike_alone(policies.module, mixed)
        why = f"reads a row per player otherwise than each alone (hidden states differ by {gap:.2g})" if gap else ""
        policies.activate(policies.shared_by(names[0])[0])
    if why:
        logger.warning("`mixed_adapters` is not used: the run %s.", why)
    policies.mixed = None if why else mixed
