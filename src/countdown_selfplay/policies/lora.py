"""One frozen base and one LoRA adapter per role: two roles for the memory of one."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from peft import PeftConfig, get_peft_model
from torch import nn
from transformers import PreTrainedModel

from .base import Placing, PolicySet, file_name
from .forward import score_completions_only
from .full import generate_with_stops


class LoraPolicies(PolicySet):
    """Adapters named after their roles (see file_name); a checkpoint holds one PEFT folder per adapter, which the
    stock Trainer loads.

    The reference of every role is the base with adapters off: the weights that were passed in.
    """

    def __init__(self, base: PreTrainedModel, peft_config: PeftConfig, weights_of: dict[str, str]) -> None:
        self.weights_of = weights_of
        first, *others = map(file_name, self.weight_names)
        self.module = get_peft_model(base, peft_config, adapter_name=first)
        for name in others:
            self.module.add_adapter(name, peft_config)
        self._switch(first)

    def _current(self) -> str:
        return self.module.active_adapter

    def _switch(self, name: str) -> None:
        self.module.set_adapter(file_name(name))
        self.enable_gradients()

    def named_parameters(self, name: str) -> list[tuple[str, nn.Parameter]]:
        part, prefix = f".{file_name(name)}.", self.module.base_model.prefix
        return [(key, p) for key, p in self.module.named_parameters() if part in key and prefix in key]

    def enable_gradients(self) -> None:
        self.module.set_requires_grad([file_name(name) for name in self.weight_names], True)

    def prepare(
        self, temperatures: dict[str, float], reference_roles: list[str], tokenizer: Any, place: Placing
    ) -> None:
        # TRL has patched the base's LM head with the one temperature that both roles share.
        score_completions_only(self.module.get_base_model())
        self.module.generate = functools.partial(generate_with_stops, self.module.generate, tokenizer)

    @contextmanager
    def reference(self, role: str, model: nn.Module) -> Iterator[nn.Module]:
        with self.module.disable_adapter():
            yield model
        self.enable_gradients()  # leaving the block restores requires_grad of the active adapter only

    def export(self, name: str, folder: Path, state: Mapping[str, Any] | None = None) -> None:
        """Adapter files directly in `folder` (PEFT would put a named adapter in a sub-folder)."""
        folder.mkdir(parents=True, exist_ok=True)
        adapter = file_name(name)
        # Aside, for PEFT writes a model card of its own beside the adapters.
        with tempfile.TemporaryDirectory(prefix=".peft-", dir=folder.parent) as scratch:
            self.module.save_pretrained(scratch, selected_adapters=[adapter], state_dict=state)
            for file in (Path(scratch) / adapter).iterdir():
                file.replace(folder / file.name)

    def export_start(self, folder: Path, state: Mapping[str, Any] | None = None) -> None:
        state = self.module.state_dict() if state is None else state
        base = {
            key.removeprefix("base_model.model.").replace(".base_layer", ""): value
            for key, value in state.items()
            if self.module.base_model.prefix not in key
        }
        self.module.get_base_model().save_pretrained(folder, state_dict=base)
