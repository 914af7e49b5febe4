"""LoRA policies: a frozen base and one adapter per role, with the memory of one model."""

from __future__ import annotations

import copy
import functools
import logging
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from peft import PeftConfig, get_peft_model, load_peft_weights, set_peft_model_state_dict
from torch import nn
from transformers import PreTrainedModel

from ..data.run_files import BASE
from ..errors import ConfigError
from .adapters import base_left_alone, check_heads
from .base import Placing, PolicySet, empty_of, holding, inner_name
from .forward import check_head, score_completions_only, scored_at
from .full import PolicyModule, generate_with_stops
from .mixed_adapters import mixed_adapters, obstacle, unlike_alone

logger = logging.getLogger(__name__)


def _one_temperature(temperatures: Mapping[str, float], roles: Sequence[str]) -> float:
    """Return the temperature of roles over one base (rule 17 of the design). Raises ConfigError if temperatures
    differ, which checks of the configuration miss if two names denote one model."""
    first = temperatures[roles[0]]
    for role in roles:
        if temperatures[role] != first:
            raise ConfigError(
                f"The temperatures of {roles[0]} ({first}) and {role} ({temperatures[role]}) must be equal under "
                "policy_sharing='lora', where both play over one model; set `temperature` alone, or use 'full'."
            )
    return first


class LoraPolicies(PolicySet):
    """Adapters named after their roles (see inner_name); a checkpoint holds one PEFT folder per adapter, which the
    stock Trainer loads. The reference of every role, and the policy of a frozen one, is the base without adapters."""

    def __init__(
        self,
        base: PreTrainedModel,
        peft_config: PeftConfig,
        weights_of: dict[str, str],
        frozen: frozenset[str] = frozenset(),
        named: bool = True,
    ) -> None:
        """Wrap `base` in PEFT with one adapter per name in `weights_of` (role -> name of its weights). frozen: names
        whose policy is the base without an adapter. named: whether the base has a folder or hub id; if not, the
        adapters name a folder of the run."""
        self.weights_of, self.frozen, self.named = weights_of, frozen, named
        first, *others = self.weight_names
        self._now = first
        with base_left_alone(base, peft_config):
            self.module = get_peft_model(base, peft_config, adapter_name=inner_name(first))
            for name in others:
                self.module.add_adapter(inner_name(name), peft_config)
        check_heads(self.module)
        self._call_base(BASE)
        self._switch(first)

    def _call_base(self, folder: str) -> None:
        """Name `folder`, in the run folder, as base in the adapters' configs if the base has no path or hub id."""
        self.folder = "" if self.named else folder
        for config in self.module.peft_config.values() if self.folder else ():
            config.base_model_name_or_path = folder

    def base_beside(self, name: str) -> str:
        return self.folder

    def _switch(self, name: str) -> None:
        if self.mixed is not None:
            self.mixed.end()
        if name in self.frozen:
            self.module.base_model.disable_adapter_layers()
        else:
            if self._now in self.frozen:
                self.module.base_model.enable_adapter_layers()
            self.module.set_adapter(inner_name(name))
        self._now = name
        self.enable_gradients()

    def named_parameters(self, name: str) -> list[tuple[str, nn.Parameter]]:
        return [
            (key, p)
            for key, p in self.module.named_parameters()
            if f".{inner_name(name)}." in key and self.module.base_model.prefix in key
        ]

    def enable_gradients(self) -> None:
        self.module.set_requires_grad([inner_name(name) for name in self.weight_names], True)

    def prepare(self, temperatures: dict[str, float], anchored: list[str], tokenizer: Any, place: Placing) -> None:
        # TRL has patched the base's LM head with the one temperature that both roles share.
        temperature = _one_temperature(temperatures, list(self.weights_of))
        if self.top1:
            scored_at(self.module.get_base_model(), temperature, True)
        else:
            check_head(self.module.get_base_model(), temperature)
            score_completions_only(self.module.get_base_model())
        self.module.generate = functools.partial(generate_with_stops, self.module.generate, tokenizer)

    @contextmanager
    def reference(self, role: str, model: nn.Module) -> Iterator[nn.Module]:
        with self.module.disable_adapter():
            yield model
        self.enable_gradients()  # on leaving the block, restores requires_grad of the active adapter only

    def export(self, name: str, folder: Path, state: Mapping[str, Any] | None = None) -> None:
        """Write adapter files directly into `folder` (PEFT would put a named adapter into a sub-folder)."""
        folder.mkdir(parents=True, exist_ok=True)
        adapter = inner_name(name)
        # In a separate folder, because PEFT writes a model card with the adapters.
        with tempfile.TemporaryDirectory(prefix=".peft-", dir=folder.parent) as scratch:
            self.module.save_pretrained(scratch, selected_adapters=[adapter], state_dict=state)
            for file in (Path(scratch) / adapter).iterdir():
                file.replace(folder / file.name)

    def restore(self, name: str, folder: Path) -> None:
        set_peft_model_state_dict(self.module, load_peft_weights(str(folder)), adapter_name=inner_name(name))
        self.enable_gradients()

    def export_base(self, name: str, folder: Path, place: Path, state: Mapping[str, Any] | None = None) -> None:
        self.export_start(folder, state)
        for config in self.module.peft_config.values():
            config.base_model_name_or_path = str(place)

    def rebuilt(self, name: str, state: Mapping[str, Any] | None = None) -> nn.Module:
        base, adapter = self.module.get_base_model(), inner_name(name)
        config = copy.deepcopy(self.module.peft_config[adapter])
        config.base_model_name_or_path = None  # PEFT says so if it differs from the base's
        model = get_peft_model(empty_of(base), config, adapter_name=adapter)
        return holding(model, self.module.state_dict() if state is None else state)

    def export_start(self, folder: Path, state: Mapping[str, Any] | None = None) -> None:
        state = self.module.state_dict() if state is None else state
        base = {
            key.removeprefix("base_model.model.").replace(".base_layer", ""): value
            for key, value in state.items()
            if self.module.base_model.prefix not in key
        }
        self.module.get_base_model().save_pretrained(folder, state_dict=base)


class SeveralBases(PolicySet):
    """Policies with one adapted base per distinct model, and the unadapted models of frozen roles, in one module. Its
    checkpoint is one safetensors file of all adapters at the folder's root."""

    module: PolicyModule

    def __init__(
        self,
        adapted: list[LoraPolicies],
        bare: Mapping[str, PreTrainedModel],
        weights_of: dict[str, str],
        frozen: frozenset[str],
    ) -> None:
        """Combine adapted bases. bare: name of frozen weights -> base without adapters."""
        self.weights_of, self.frozen, self.bare = weights_of, frozen, bare
        self.parts = {name: part for part in adapted for name in dict.fromkeys(part.weights_of.values())}
        self.keys = {id(part): f"base_{i}" for i, part in enumerate(adapted)}
        for i, part in enumerate(adapted):
            part._call_base(f"{BASE}_{i}")
        modules = {key: part.module for key, part in zip(self.keys.values(), adapted, strict=True)}
        modules |= {inner_name(name): model.requires_grad_(False) for name, model in bare.items()}
        prefix = adapted[0].module.base_model.prefix
        unsaved = [f"policies.{k}.{key}" for k, m in modules.items() for key in m.state_dict() if prefix not in key]
        self.module = PolicyModule(modules, active=self.keys[id(adapted[0])], unsaved=unsaved)
        self._now = self.weight_names[0]
        self._switch(self._now)

    def _key(self, name: str) -> str:
        return inner_name(name) if name in self.bare else self.keys[id(self.parts[name])]

    def _switch(self, name: str) -> None:
        self.module.active, self._now = self._key(name), name
        if name not in self.bare:
            self.parts[name]._switch(name)

    def named_parameters(self, name: str) -> list[tuple[str, nn.Parameter]]:
        return self.parts[name].named_parameters(name)

    def prepare(self, temperatures: dict[str, float], anchored: list[str], tokenizer: Any, place: Placing) -> None:
        self.module.tokenizer = tokenizer
        self.module.__dict__.pop("forward", None)  # TRL's, with one temperature; each base gets a head of its own
        for key in self.module.policies:
            module: Any = self.module.policies[key]
            roles = [role for role, name in self.weights_of.items() if self._key(name) == key]
            head = module.get_base_model() if key in self.keys.values() else module
            scored_at(head, _one_temperature(temperatures, roles), self.top1)

    @contextmanager
    def reference(self, role: str, model: nn.Module) -> Iterator[nn.Module]:
        with self.parts[self.weights_of[role]].reference(role, model):
            yield model

    def _own(self, name: str, state: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        prefix = f"policies.{self._key(name)}."
        if state is None:
            return None
        return {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}

    def export(self, name: str, folder: Path, state: Mapping[str, Any] | None = None) -> None:
        self.parts[name].export(name, folder, self._own(name, state))

    def base_beside(self, name: str) -> str:
        return self.parts[name].folder

    def export_base(self, name: str, folder: Path, place: Path, state: Mapping[str, Any] | None = None) -> None:
        self.parts[name].export_base(name, folder, place, self._own(name, state))

    def rebuilt(self, name: str, state: Mapping[str, Any] | None = None) -> nn.Module:
        return self.parts[name].rebuilt(name, self._own(name, state))

    def restore(self, name: str, folder: Path) -> None:
        raise ConfigError("Adapters over several models lie in one file of a checkpoint and go back together only.")

    def export_start(self, folder: Path, state: Mapping[str, Any] | None = None) -> None:
        raise ConfigError("An inference engine starts from one base, and the roles' `model`s under lora are several.")


SMALL = 20e6
"""Largest number of weights at which `auto` mixes players in a pass on a CPU, where calls dominate arithmetic."""


def allow_mixed(policies: PolicySet, mode: str, engine: str, packed: bool) -> None:
    """Set `policies.mixed`, after `prepare`, or warn why players run in separate passes. `mode`: on, or auto (up to
    SMALL weights, on a CPU). `packed`: whether rows are concatenated (`padding_free`)."""
    names, weights = policies.weight_names, list(policies.module.parameters())
    pays = sum(p.numel() for p in weights) <= SMALL and all(p.device.type == "cpu" for p in weights)
    if len(names) < 2 or (mode == "auto" and not pays):
        return
    first, mixed = inner_name(names[0]), None
    if not isinstance(policies, LoraPolicies):
        why = "has adapters over several models"
    elif engine != "ddp":
        why = f"runs under {engine}, which cuts up weights or steps inside backward"
    elif packed:
        why = "lays rows end to end (`padding_free`)"
    else:
        why = obstacle(policies.module, policies.module.peft_config[first])
    if not why:
        mixed = mixed_adapters(policies.module, [inner_name(name) for name in names])
        gap = unlike_alone(policies.module, mixed)
        why = f"reads a row per player otherwise than each alone (hidden states differ by {gap:.2g})" if gap else ""
        policies.activate(policies.shared_by(names[0])[0])
    if why:
        logger.warning("`mixed_adapters` is not used: the run %s.", why)
    policies.mixed = None if why else mixed
