"""Adapters on their way to vLLM: as PEFT folders, with a new name for each version."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig
from torch.distributed.tensor import DTensor

from ..errors import ConfigError
from ..policies import PolicySet, inner_name
from ..policies.base import gathered


def adapter_rank(policies: PolicySet) -> int:
    """The largest rank among the adapters, rounded up to one that vLLM knows. ConfigError if vLLM would skip a part
    of an adapter."""
    largest = 1
    for name in policies.weight_names:
        config = policies.module.peft_config[inner_name(name)]
        if not isinstance(config, LoraConfig):
            raise ConfigError(
                f"The `peft_config` ({type(config).__name__}) is not a LoraConfig, and vLLM serves no other adapters; "
                "pass one, or use generation_backend=generate."
            )
        skipped = {
            "modules_to_save": config.modules_to_save,
            "use_dora": config.use_dora,
            "bias": None if config.bias == "none" else config.bias,
            "lora_bias": config.lora_bias,
        }
        for field, value in skipped.items():
            if value:
                raise ConfigError(
                    f"The adapter's `{field}` ({value}) is not known to vLLM's LoRA; leave it out of the peft_config, "
                    "or use generation_backend=generate."
                )
        largest = max(largest, config.r, *(config.rank_pattern or {}).values())
    ranks = (1, 8, 16, 32, 64, 128, 256, 320, 512)
    fitting = [rank for rank in ranks if rank >= largest]
    if not fitting:
        raise ConfigError(f"The adapter's rank ({largest}) is above vLLM's largest ({ranks[-1]}); lower `r`.")
    return fitting[0]


def adapter_state(policies: PolicySet, name: str) -> dict[str, torch.Tensor]:
    """The whole tensors of an adapter on every process, under any engine; the base is not gathered. All processes must
    call."""
    state = {}
    for key, parameter in policies.named_parameters(name):
        whole: Any = parameter.full_tensor() if isinstance(parameter, DTensor) else parameter  # FSDP2
        with gathered([whole]):
            state[key] = whole.detach().clone()
    return state


class AdapterFolders:
    """Writes `<folder>/<weights>-<run>-<version>` and removes the version before the last one.

    A new version gets a new name, so that no cache of the engine (of adapters, or of prefixes) can hand out what
    belongs to the old one; and a name holds the run, for a server outlives it and would keep the last run's adapter.
    """

    def __init__(self, folder: Path, policies: PolicySet) -> None:
        self.folder, self.policies = folder, policies
        self.run = uuid.uuid4().hex[:12]
        self.version = 0
        self._written: dict[str, list[Path]] = {}

    def write(self, name: str, state: dict[str, torch.Tensor]) -> tuple[str, int, Path]:
        """(name of the version, its number, its folder). `state`: that of the adapter."""
        self.version += 1
        label = f"{inner_name(name)}-{self.run}-{self.version}"
        target = self.folder / label
        self.folder.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(target, ignore_errors=True)
        self.policies.export(name, target, state)
        kept = self._written.setdefault(name, [])
        kept.append(target)
        while len(kept) > 2:  # a server may still be reading the last but one
            shutil.rmtree(kept.pop(0), ignore_errors=True)
        return label, self.version, target
