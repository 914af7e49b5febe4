"""What the trainer asks of a set of policies, whatever they share."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import nn
from torch.distributed.fsdp import FSDPModule

Placing = Callable[[nn.Module], nn.Module]


def inner_name(name: str) -> str:
    """A player's name where modules, adapters and folders are named: "prover_0" for "prover/0"."""
    return name.replace("/", "_")


def plain_role(role: str) -> str:
    """The role whose fields hold for this player: "prover" for "prover/0"."""
    return role.partition("/")[0]


class PolicySet(ABC):
    """Roles mapped to weights inside one module, so that there is one optimizer, one engine and one checkpoint.
    `module` is what the Trainer trains and saves. `weights_of` maps a role (a player) to the name of its weights;
    several may have the same name. `frozen`: names of weights that are as they were passed in: sampled, never trained,
    and neither saved nor exported."""

    module: Any
    weights_of: dict[str, str]
    frozen: frozenset[str] = frozenset()
    origins: Mapping[str, str] = MappingProxyType({})
    """Name of the weights -> the folder or hub id that they were loaded from; "" for an object without a path."""
    version: str = ""
    """What tells weights that nothing changes while they are here from others of their names; "": their bits do."""
    top1: bool = False
    """Set before `prepare`: forward passes also say of each token whether it is the likeliest (token accuracy)."""
    shares_prompts: bool = False
    """Set after `prepare`: passes read a prompt once for all of its answers."""
    mixed: Any = None
    """Set after `prepare`: the passes in which each row has its player's adapter (MixedAdapters); None: there are
    none."""
    _now: str

    @property
    def frozen_copies(self) -> tuple[nn.Module, ...]:
        """References that stand outside `module`."""
        return ()

    @property
    def roles(self) -> tuple[str, ...]:
        return tuple(self.weights_of)

    def shared_by(self, name: str) -> tuple[str, ...]:
        """The roles that the weights called `name` play."""
        return tuple(role for role, weights in self.weights_of.items() if weights == name)

    @property
    def weight_names(self) -> tuple[str, ...]:
        """The weights that are trained."""
        return tuple(name for name in dict.fromkeys(self.weights_of.values()) if name not in self.frozen)

    def activate(self, role: str) -> None:
        """Make `role` the active one until the next switch: gradient checkpointing runs the forward pass again inside
        backward, and it must find the same adapter there."""
        self._switch(self.weights_of[role])

    def without_signal(self, roles: Set[str]) -> frozenset[str]:
        """The first role of each set of weights that only `roles` play: a step must not move them when no role of
        these has a signal."""
        shared = [self.shared_by(name) for name in self.weight_names]
        return frozenset(first for first, *others in shared if {first, *others} <= roles)

    @contextmanager
    def active(self, role: str) -> Iterator[None]:
        """Inside the block the module's forward and generate are those of `role`."""
        before = self._now
        self._switch(self.weights_of[role])
        try:
            yield
        finally:
            self._switch(before)

    @abstractmethod
    def _switch(self, name: str) -> None:
        """Make the weights called `name` the active ones, `_now`."""

    @abstractmethod
    def named_parameters(self, name: str) -> list[tuple[str, nn.Parameter]]:
        """The trainable parameters of the weights called `name`, in a fixed order."""

    def enable_gradients(self) -> None:
        """Let every policy's parameters receive gradients. `requires_grad` is never the role switch: PEFT's
        set_adapter freezes the other adapters, and loading a checkpoint leaves the second adapter frozen."""
        for name in self.weight_names:
            for _, parameter in self.named_parameters(name):
                parameter.requires_grad_(True)

    @abstractmethod
    def prepare(self, temperatures: dict[str, float], anchored: list[str], tokenizer: Any, place: Placing) -> None:
        """Called once, after the Trainer was built: LM heads, frozen references, stop strings in generate.
        `anchored`: roles with a reference. `place`: puts a frozen copy where the engine runs it."""

    @abstractmethod
    @contextmanager
    def reference(self, role: str, model: nn.Module) -> Iterator[nn.Module]:
        """A model whose log-probs are those of the weights that were passed in. `model`: the wrapped module."""

    @abstractmethod
    def export(self, name: str, folder: Path, state: Mapping[str, Any] | None = None) -> None:
        """Write the weights called `name` as a plain Hugging Face or PEFT folder. `state`: the module's whole state
        dict, where no process holds whole weights."""

    def base_beside(self, name: str) -> str:
        """The folder that must lie beside an export of these weights, an adapter over a base that nothing
        else names; "": they need none."""
        return ""

    def export_base(self, name: str, folder: Path, place: Path, state: Mapping[str, Any] | None = None) -> None:
        """Write that base to `folder`, which will then be `place`: checkpoints of the adapters name it so. `state`: as
        of `export`."""
        raise NotImplementedError

    @abstractmethod
    def rebuilt(self, name: str, state: Mapping[str, Any] | None = None) -> nn.Module:
        """A new model in float32 on the CPU that holds the weights called `name` as they are now, without what the
        trainer has patched: what an export must be equal to. `state`: as of `export`."""

    @abstractmethod
    def restore(self, name: str, folder: Path) -> None:
        """Put what `export` wrote to `folder` in the place of the weights called `name`. Whole weights only."""

    @abstractmethod
    def export_start(self, folder: Path, state: Mapping[str, Any] | None = None) -> None:
        """Write a model that an inference engine can start from: any full weights, or the base of the adapters."""


def empty_of(model: Any) -> Any:
    """A model of the kind of `model`, in float32 on the CPU, whose weights are NaN."""
    config = copy.deepcopy(model.config)
    config._attn_implementation = None  # that of a CPU
    empty = type(model)(config).float()
    for weight in empty.parameters():
        weight.data.fill_(torch.nan)
    return empty


def holding(model: Any, state: Mapping[str, Any]) -> Any:
    """`model` with the tensors of `state` in their places; weights without one stay as they are."""
    model.load_state_dict(state, strict=False)
    return model


def cut_up(module: nn.Module) -> bool:
    """Has ZeRO-3 or FSDP2 cut `module` up, so that no process holds the whole of it? Then each forward pass is a
    collective of all processes."""
    return any(isinstance(part, FSDPModule) for part in module.modules()) or by_zero3(module.parameters())


def by_zero3(parameters: Iterable[nn.Parameter]) -> bool:
    """Has DeepSpeed's ZeRO-3 cut them up?"""
    return any(hasattr(parameter, "ds_id") for parameter in parameters)


@contextmanager
def gathered(parameters: Iterable[nn.Parameter]) -> Iterator[None]:
    """Inside the block the parameters are whole on every process, to be read only. Without DeepSpeed's ZeRO-3 they are
    anyway. All processes must enter together."""
    parameters = list(parameters)
    if by_zero3(parameters):
        import deepspeed

        with deepspeed.zero.GatheredParameters(parameters):
            yield
    else:
        yield
