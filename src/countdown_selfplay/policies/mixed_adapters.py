"""Rows of several players in one pass over a shared base, each through its own adapter: the base is computed once for
all of them, and the players' A and B are one batched product each.

PEFT refuses batches of several adapters in training. Here each LoRA layer reads stand-ins, (players, ...) copies of
its players' A and B, from which every row takes its owner's. In one process a stand-in is a leaf whose gradient lies
in one piece, and the players' own `grad` are views of it: one pass accumulates what separate passes would, without an
operation per player. Under DDP, whose buckets wait for each parameter, it is stacked in the graph.
"""

from __future__ import annotations

import types
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import torch
import torch.distributed as dist
from peft.tuners.lora.layer import Linear, LoraLayer
from peft.utils import AuxiliaryTrainingWrapper
from torch import nn

from .base import cut_up, inner_name
from .shared_prefix import difference, reads_positions


@dataclass(frozen=True)
class MixedRows:
    """Whose the rows of a pass are, and by how many columns each is shifted right against a pass of its player's rows
    alone: positions stay those of the separate passes."""

    owner_B: list[int]
    shift_B: list[int]

    @classmethod
    def of(cls, parts: Sequence[tuple[int, int, int]]) -> MixedRows:
        """`parts`: (owner, rows, shift), one below the other."""
        return cls(*([part[i] for part in parts for _ in range(part[1])] for i in (0, 2)))


class Stacked:
    """The weights of one name of a layer (A or B), one per player, as one tensor."""

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        self.parameters: list[torch.Tensor] = list(parameters)
        self.value = self.rows = torch.empty(0)
        self.views: list[torch.Tensor] = []

    def read(self, graph: bool) -> None:
        """Take the weights as they are now. graph: gradients reach the parameters by the graph, not by views."""
        first = self.parameters[0]
        shape, known = (len(self.parameters), *first.shape), self.value
        if graph:
            self.value = torch.cat(self.parameters).view(shape)
            return
        alike = known.shape == shape and known.device == first.device and known.dtype == first.dtype
        if not (alike and known.is_leaf and known.requires_grad):
            self.value = torch.empty(shape, dtype=first.dtype, device=first.device, requires_grad=True)
            self.value.grad = torch.zeros_like(self.value)
            self.views = list(self.value.grad.unbind(0))
            self.rows = self.value.data.flatten(0, 1)
        with torch.no_grad():
            torch.cat(self.parameters, out=self.rows)

    def attach(self, owners: Sequence[int]) -> None:
        """Let the gradients of `owners` be those that a backward pass adds to, from what they are now."""
        fresh = [i for i in owners if self.parameters[i].grad is not self.views[i]]
        if len(fresh) == len(self.parameters) and all(p.grad is None for p in self.parameters):
            self.value.grad.zero_()  # type: ignore[union-attr]
        else:
            for i in fresh:
                before = self.parameters[i].grad  # of a pass of its player alone, in the same window
                self.views[i].zero_() if before is None else self.views[i].copy_(before)
        for i in fresh:
            self.parameters[i].grad = self.views[i]


@dataclass(eq=False)
class GroupedLinear:
    """A LoRA layer of PEFT with the stand-ins of its adapters."""

    layer: Any
    a: Stacked
    b: Stacked
    scale: float

    def __call__(self, owner_N: torch.Tensor | None, x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        """(..., in) -> (..., out). As PEFT's forward, with each row's own A and B. See `MixedAdapters.read`."""
        result = self.layer.base_layer(x, *args, **kwargs)
        a_NRI, b_NOR = self.a.value, self.b.value
        if owner_N is not None:
            a_NRI, b_NOR = a_NRI.index_select(0, owner_N), b_NOR.index_select(0, owner_N)
        x_NLI = self.layer._cast_input_dtype(x, a_NRI.dtype).reshape(len(a_NRI), -1, x.size(-1))
        delta = torch.bmm(torch.bmm(x_NLI, a_NRI.transpose(1, 2)), b_NOR.transpose(1, 2))
        return torch.add(result, delta.view(result.shape), alpha=self.scale).to(result.dtype)


@dataclass(eq=False)
class MixedAdapters:
    """The mixed passes of one base. `names`: its adapters, by the numbers of `MixedRows.owner_B`."""

    layers: list[GroupedLinear]
    names: list[str]
    rows: MixedRows | None = None
    """Of the pass at hand; None: the active adapter alone."""
    owner_N: torch.Tensor | None = None
    """Whose the parts of equal size are into which layers cut what they read; None: a part of each player in turn.
    It stays until the next pass: gradient checkpointing runs layers again inside backward."""
    _stacked: list[Stacked] = field(init=False)

    def __post_init__(self) -> None:
        self._stacked = [stacked for layer in self.layers for stacked in (layer.a, layer.b)]

    def number(self, name: str) -> int:
        """The owner that weights called `name` are."""
        return self.names.index(inner_name(name))

    def begin(self, rows: MixedRows) -> None:
        """The next pass reads these rows; with gradients on, it adds to the `grad` of their owners."""
        self.rows = rows
        self.read(rows.owner_B)
        training = torch.is_grad_enabled()
        graph = training and dist.is_initialized() and dist.get_world_size() > 1
        for stacked in self._stacked:
            stacked.read(graph)
        if training and not graph:
            owners = list(dict.fromkeys(rows.owner_B))
            for stacked in self._stacked:
                stacked.attach(owners)

    def read(self, owners: Sequence[int]) -> None:
        """What layers read from now on is rows, or packs, of these owners. Neighbours of one owner are one part, if
        all parts then have one size: no row takes a copy of its weights."""
        runs = [(owner, len(list(same))) for owner, same in groupby(owners)]
        parts = [owner for owner, _ in runs] if len({count for _, count in runs}) == 1 else list(owners)
        alike = parts == list(range(len(self.names)))
        self.owner_N = None if alike else torch.tensor(parts, device=self.layers[0].a.parameters[0].device)

    def end(self) -> None:
        self.rows = self.owner_N = None

    def positioned(self, given: dict[str, Any]) -> dict[str, Any]:
        """The arguments of a pass over the rows, which are what the layers read now."""
        if self.rows is None:
            return given
        self.read(self.rows.owner_B)
        ids = given["input_ids"]
        shift_B1 = torch.tensor(self.rows.shift_B, device=ids.device)[:, None]
        return given | {"position_ids": (torch.arange(ids.size(1), device=ids.device) - shift_B1).clamp(min=0)}


def obstacle(module: Any, config: Any) -> str:
    """Why the adapters of a PEFT model cannot share passes, a phrase after "the run"; "" if they can. `config`: of
    the adapters, which is one for all of them."""
    base = module.get_base_model()
    layers = [part for part in module.modules() if isinstance(part, LoraLayer)]
    text = base.config.get_text_config()
    if any(isinstance(part, AuxiliaryTrainingWrapper) for part in module.modules()):
        return "trains whole modules beside its adapters (modules_to_save or trainable tokens)"
    if config.lora_bias:  # PEFT itself refuses `bias` for several adapters
        return "trains biases in its adapters (lora_bias)"
    if any(layer.lora_variant for layer in layers if hasattr(layer, "lora_variant")):
        return f"has adapters of another kind than plain LoRA ({'DoRA' if config.use_dora else 'a variant'})"
    if other := sorted({type(layer).__name__ for layer in layers if type(layer) is not Linear}):
        return f"has adapters on layers that are not linear ({', '.join(other)})"
    if any(isinstance(part, nn.Dropout) and part.p > 0 for part in module.modules()):
        return "has dropout (`lora_dropout` or its own), which separate passes draw apart"
    if getattr(text, "attention_dropout", 0):
        return "has dropout in its attention, which separate passes draw apart"
    if base._is_stateful or text.is_encoder_decoder or not reads_positions(base):
        return "takes no position ids, or carries a state besides attention"
    if any(p._post_accumulate_grad_hooks for p in module.parameters()):
        return "has hooks on the gradients of single weights"
    return "is cut up over processes" if cut_up(module) else ""


def mixed_adapters(module: Any, names: Sequence[str]) -> MixedAdapters:
    """The mixed passes of a PEFT model without an `obstacle`; its layers and its base know of them from now on."""
    layers: list[Any] = [part for part in module.modules() if isinstance(part, Linear)]
    grouped = []
    for layer in layers:
        a, b = ([weights[name].weight for name in names] for weights in (layer.lora_A, layer.lora_B))
        grouped.append(GroupedLinear(layer, Stacked(a), Stacked(b), float(layer.scaling[names[0]])))
    mixed = MixedAdapters(grouped, list(names))
    for layer, one in zip(layers, grouped, strict=True):
        layer.forward = types.MethodType(_forward(mixed, one, layer.forward), layer)
    module.get_base_model().mixed = mixed
    return mixed


def misread(module: Any, mixed: MixedAdapters) -> float:
    """By how much hidden states of a row per player differ from those of its adapter alone, where that is more than
    rounding; else 0. With values in B for the time, which is 0 at the start of a run."""
    backbone = module.get_base_model().base_model
    kept = [(p, p.detach().clone()) for layer in mixed.layers for p in layer.b.parameters]
    device = kept[0][0].device
    generator = torch.Generator().manual_seed(0)
    ids = torch.arange(len(mixed.names) * 4, device=device).view(-1, 4) % module.get_input_embeddings().num_embeddings
    try:
        with torch.no_grad():
            for p, _ in kept:
                p.copy_(torch.randn(p.shape, generator=generator) / p.size(1) ** 0.5)
            mixed.begin(MixedRows.of([(i, 1, 0) for i in range(len(ids))]))
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


def _forward(mixed: MixedAdapters, grouped: GroupedLinear, alone: Any) -> Any:
    def forward(self: Any, x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        if mixed.rows is None or self.disable_adapters:
            return alone(x, *args, **kwargs)
        return grouped(mixed.owner_N, x, *args, **kwargs)

    return forward
