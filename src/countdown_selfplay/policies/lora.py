"""LoRA policies: a frozen base and one adapter per role, with the memory of one model."""

from __future__ import annotations

import copy
import functools
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
from .base import Placing, PolicySet, empty_of, inner_name, part_of
from .forward import bare, check_head, score_completions_only, scored_at
from .full import PolicyModule, generate_with_stops


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
    stock Trainer loads. The reference of every role, and the policy of a frozen role, is the base without adapters."""

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
        temperature, base = _one_temperature(temperatures, list(self.weights_of)), self.module.get_base_model()
        if self.top1:
            scored_at(base, temperature, True)
        else:
            check_head(base, temperature)
            score_completions_only(base)
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
        model.load_state_dict(self.module.state_dict() if state is None else state, strict=False)
        return model

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
        unadapted: Mapping[str, PreTrainedModel],
        weights_of: dict[str, str],
        frozen: frozenset[str],
    ) -> None:
        """Combine adapted bases. unadapted: name of frozen weights -> base without adapters."""
        self.weights_of, self.frozen = weights_of, frozen
        self.parts = {name: part for part in adapted for name in part.weights_of.values()}
        modules: dict[str, Any] = {f"base_{i}": part.module for i, part in enumerate(adapted)}
        self.keys = {name: f"base_{adapted.index(part)}" for name, part in self.parts.items()}
        for name, model in unadapted.items():
            self.keys[name] = inner_name(name)
            modules[self.keys[name]] = model.requires_grad_(False)
        for i, part in enumerate(adapted):
            part._call_base(f"{BASE}_{i}")
        prefix = adapted[0].module.base_model.prefix
        unsaved = [f"policies.{k}.{key}" for k, m in modules.items() for key in m.state_dict() if prefix not in key]
        self.module = PolicyModule(modules, active="base_0", unsaved=unsaved)
        self._switch(self.weight_names[0])

    def _switch(self, name: str) -> None:
        self.module.active, self._now = self.keys[name], name
        if name in self.parts:
            self.parts[name]._switch(name)

    def named_parameters(self, name: str) -> list[tuple[str, nn.Parameter]]:
        return self.parts[name].named_parameters(name)

    def prepare(self, temperatures: dict[str, float], anchored: list[str], tokenizer: Any, place: Placing) -> None:
        self.module.tokenizer = tokenizer
        self.module.__dict__.pop("forward", None)  # TRL's, with one temperature; each base gets a head of its own
        for key, module in self.module.policies.items():
            roles = [role for role, name in self.weights_of.items() if self.keys[name] == key]
            scored_at(bare(module), _one_temperature(temperatures, roles), self.top1)

    @contextmanager
    def reference(self, role: str, model: nn.Module) -> Iterator[nn.Module]:
        with self.parts[self.weights_of[role]].reference(role, model):
            yield model

    def _own(self, name: str, state: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        return None if state is None else part_of(state, f"policies.{self.keys[name]}.")

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
