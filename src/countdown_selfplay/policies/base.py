"""Interface between the trainer and a set of policies."""

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
    """Return a player's name in modules, adapters and folders: "prover_0" for "prover/0"."""
    return name.replace("/", "_")


def plain_role(role: str) -> str:
    """Return the role whose settings apply to a player: "prover" for "prover/0"."""
    return role.partition("/")[0]


class PolicySet(ABC):
    """Roles mapped to weights inside one module, so that there is one optimizer, one engine and one checkpoint.

    `module` is trained and saved by the Trainer. `weights_of` maps a role (a player) to the name of its
    weights; several may share a name. `frozen`: names of weights that stay as passed: sampled, but not trained,
    saved or exported."""

    module: Any
    weights_of: dict[str, str]
    frozen: frozenset[str] = frozenset()
    origins: Mapping[str, str] = MappingProxyType({})
    """Name of the weights -> folder or hub id from which they were loaded; "" for an object without a path."""
    version: str = ""
    """Identifier of weights that never change; "": changes are detected by a fingerprint of the values."""
    top1: bool = False
    """Whether forward passes also mark each token that is the most likely one (accuracy); set before `prepare`."""
    shares_prompts: bool = False
    """Whether passes read a prompt once for all of its answers; set after `prepare`."""
    mixed: Any = None
    """MixedAdapters for passes in which each row has its player's adapter, or None; set after `prepare`."""
    _now: str

    @property
    def frozen_copies(self) -> tuple[nn.Module, ...]:
        """Frozen reference models that are outside `module`."""
        return ()

    @property
    def roles(self) -> tuple[str, ...]:
        return tuple(self.weights_of)

    def shared_by(self, name: str) -> tuple[str, ...]:
        """Return the roles that use the weights called `name`."""
        return tuple(role for role, weights in self.weights_of.items() if weights == name)

    @property
    def weight_names(self) -> tuple[str, ...]:
        """Names of the trained weights."""
        return tuple(name for name in dict.fromkeys(self.weights_of.values()) if name not in self.frozen)

    def activate(self, role: str) -> None:
        """Make `role` active until the next switch, also for recomputation by gradient checkpointing in backward."""
        self._switch(self.weights_of[role])

    def without_signal(self, roles: Set[str]) -> frozenset[str]:
        """Return the first role of each set of trained weights that only `roles` use: a step must not move them."""
        shared = [self.shared_by(name) for name in self.weight_names]
        return frozenset(first for first, *others in shared if {first, *others} <= roles)

    @contextmanager
    def active(self, role: str) -> Iterator[None]:
        """Let the module's `forward` and `generate` act as `role` inside the block."""
        before = self._now
        self._switch(self.weights_of[role])
        try:
            yield
        finally:
            self._switch(before)

    @abstractmethod
    def _switch(self, name: str) -> None:
        """Activate the weights called `name`, and store the name in `_now`."""

    @abstractmethod
    def named_parameters(self, name: str) -> list[tuple[str, nn.Parameter]]:
        """Return the trainable parameters of the weights called `name`, in a fixed order."""

    def enable_gradients(self) -> None:
        """Enable gradients of all trained parameters, also of inactive roles: PEFT's set_adapter freezes the other
        adapters, and loading a checkpoint leaves the second adapter frozen."""
        for name in self.weight_names:
            for _, parameter in self.named_parameters(name):
                parameter.requires_grad_(True)

    @abstractmethod
    def prepare(self, temperatures: dict[str, float], anchored: list[str], tokenizer: Any, place: Placing) -> None:
        """Set up LM heads, frozen references and stop strings in generate; called once, after the Trainer was built.
        `anchored`: roles with a reference. `place`: moves a frozen copy to its device."""

    @abstractmethod
    @contextmanager
    def reference(self, role: str, model: nn.Module) -> Iterator[nn.Module]:
        """Yield a model that scores with the initial weights of `role`. `model`: the wrapped module."""

    @abstractmethod
    def export(self, name: str, folder: Path, state: Mapping[str, Any] | None = None) -> None:
        """Write the weights called `name` as a plain Hugging Face or PEFT folder. `state`: the module's state dict, if
        no process holds whole weights."""

    def base_beside(self, name: str) -> str:
        """Return the name of the folder of base weights that an exported adapter needs beside it, or ""."""
        return ""

    def export_base(self, name: str, folder: Path, place: Path, state: Mapping[str, Any] | None = None) -> None:
        """Write an adapter's base to `folder`. `place`: path by which adapters name it. `state`: as in `export`."""
        raise NotImplementedError

    @abstractmethod
    def rebuilt(self, name: str, state: Mapping[str, Any] | None = None) -> nn.Module:
        """Return a new model in float32 on the CPU with the current weights called `name` and without the trainer's
        patches, to verify exports. `state`: as in `export`."""

    @abstractmethod
    def restore(self, name: str, folder: Path) -> None:
        """Replace the weights called `name` by those that `export` wrote to `folder`. Weights must not be sharded."""

    @abstractmethod
    def export_start(self, folder: Path, state: Mapping[str, Any] | None = None) -> None:
        """Write a model from which an inference engine can start: any full weights, or the base of the adapters."""


def empty_of(model: Any) -> Any:
    """Return a model of the architecture of `model`, in float32 on the CPU, with NaN weights."""
    config = copy.deepcopy(model.config)
    config._attn_implementation = None  # NaN from the CPU
    empty = type(model)(config).float()
    for weight in empty.parameters():
        weight.data.fill_(torch.nan)
    return empty


def part_of(state: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return the entries of a state dict whose names begin with `prefix`, under their names without it."""
    return {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """Set evaluation mode inside the block, and restore each submodule's mode after it (a frozen one may differ)."""
    modules = list(model.modules()) if hasattr(model, "modules") else []
    modes, whole = [module.training for module in modules], getattr(model, "training", False)
    model.eval()
    try:
        yield
    finally:
        if not modules:  # a wrapper
            model.train(whole)
        for module, mode in zip(modules, modes, strict=True):
            module.training = mode


def cut_up(module: nn.Module) -> bool:
    """Return whether ZeRO-3 or FSDP2 has sharded `module`, so that each forward pass is a collective."""
    return any(isinstance(part, FSDPModule) for part in module.modules()) or by_zero3(module.parameters())


def by_zero3(parameters: Iterable[nn.Parameter]) -> bool:
    """Return whether DeepSpeed's ZeRO-3 has sharded the parameters."""
    return any(hasattr(parameter, "ds_id") for parameter in parameters)


@contextmanager
def gathered(parameters: Iterable[nn.Parameter]) -> Iterator[None]:
    """Gather whole parameters for reading inside the block, under ZeRO-3. All processes enter together."""
    parameters = list(parameters)
    if by_zero3(parameters):
        import deepspeed

        with deepspeed.zero.GatheredParameters(parameters):
            yield
    else:
        yield
