"""Full policies: one whole model per role inside one module, or one model for roles that share weights."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from huggingface_hub import load_torch_model, save_torch_state_dict
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from transformers import GenerationConfig, PreTrainedModel

from .base import Placing, PolicySet, cut_up, empty_of, gathered, inner_name, part_of
from .decode import without_idle_rows
from .forward import say_once, scored_at


class PolicyModule(PreTrainedModel):
    """Module of several causal LMs with the interface of one: `active` selects the one for forward and generate. State
    dict keys are `policies.<name>.<key of the model>`. It is saved as one safetensors checkpoint at the folder's root,
    where the stock Trainer looks for it on resume, without a config.json, which would describe a single model."""

    supports_gradient_checkpointing = True
    _supports_sdpa = _supports_flash_attn = _supports_flex_attn = _supports_attention_backend = True

    def __init__(self, policies: Mapping[str, PreTrainedModel], active: str, unsaved: Iterable[str] = ()) -> None:
        """Combine the policies. `unsaved`: state dict keys of constant weights, which checkpoints leave out."""
        config = copy.deepcopy(policies[active].config)
        super().__init__(config)
        self.policies = nn.ModuleDict(dict(policies))
        self.active = active
        self.tokenizer: Any = None  # generate needs it to look for stop strings
        # Tied embeddings appear under two names; one of them is not saved and is not a missing key on resume.
        first = {name for name, _ in self.named_parameters()}
        every = {name for name, _ in self.named_parameters(remove_duplicate=False)}
        self._keys_to_ignore_on_save = sorted({*(every - first), *unsaved})
        self._no_split_modules = sorted({m for p in policies.values() for m in (p._no_split_modules or ())})

    @property
    def policy(self) -> PreTrainedModel:
        return self.policies[self.active]  # type: ignore[return-value]

    @property
    def base_model(self) -> nn.Module:
        return self.policy.base_model

    # TRL overrides the generation config of the model it generates with, so it must be the active policy's own.
    @property
    def generation_config(self) -> Any:  # type: ignore[override]
        return self.policy.generation_config if "policies" in self._modules else None

    @generation_config.setter
    def generation_config(self, value: GenerationConfig) -> None:
        if "policies" in self._modules:
            self.policy.generation_config = value

    def get_input_embeddings(self) -> nn.Module:
        return self.policy.get_input_embeddings()

    def get_output_embeddings(self) -> nn.Module:
        return self.policy.get_output_embeddings()

    def forward(
        self, input_ids: torch.Tensor | None = None, attention_mask: torch.Tensor | None = None, **kwargs: Any
    ) -> Any:
        return self.policy(input_ids=input_ids, attention_mask=attention_mask, **kwargs)

    def generate(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        return generate_with_stops(self.policy.generate, self.tokenizer, *args, **kwargs)

    def generate_batch(self, *args: Any, **kwargs: Any) -> Any:
        policy: Any = self.policy
        return policy.generate_batch(*args, **kwargs)

    def gradient_checkpointing_enable(self, *args: Any, **kwargs: Any) -> None:
        if any(hasattr(part, "gradient_checkpointing") for part in self.policies.modules()):
            super().gradient_checkpointing_enable(*args, **kwargs)
        else:
            say_once(f"`gradient_checkpointing` is not used: {type(self.policy).__name__} does not have it.")

    def train(self, mode: bool = True) -> PolicyModule:
        """Set training or evaluation mode if any part differs: the Trainer calls this before each micro-batch."""
        return self if all(part.training == mode for part in self.modules()) else super().train(mode)

    def save_pretrained(  # type: ignore[override]
        self,
        save_directory: str,
        state_dict: dict[str, torch.Tensor] | None = None,
        is_main_process: bool = True,
        **_: Any,
    ) -> None:
        if not is_main_process:
            return
        state_dict = self.state_dict() if state_dict is None else state_dict
        second = set(self._keys_to_ignore_on_save or ())
        kept = {key: _own_storage(value) for key, value in state_dict.items() if key not in second}
        Path(save_directory).mkdir(parents=True, exist_ok=True)
        save_torch_state_dict(kept, save_directory)


def generate_with_stops(generate: Any, tokenizer: Any, /, *args: Any, **kwargs: Any) -> torch.Tensor:
    """Call a model's `generate` with the tokenizer, which stop strings need, and without repeated reads of a prompt;
    more rows than `call_rows` of the config take several calls. Parameters are positional-only, because a caller may
    pass `tokenizer=` too."""
    config: Any = kwargs.get("generation_config")
    rows = getattr(config, "call_rows", None)
    if rows and len(kwargs["input_ids"]) > rows:  # the cache of keys and values is one call's
        cut = {name: value.split(rows) for name, value in kwargs.items() if torch.is_tensor(value)}
        calls = [kwargs | dict(zip(cut, part, strict=True)) for part in zip(*cut.values(), strict=True)]
        completions = [row for call in calls for row in generate_with_stops(generate, tokenizer, *args, **call)]
        return pad_sequence(completions, True, config.pad_token_id or 0)
    if config is not None and config.stop_strings:
        kwargs.setdefault("tokenizer", tokenizer)
    if dist.is_initialized() and cut_up(generate.__self__):
        # A generation step is a collective: a finished process continues until all are finished. transformers knows
        # this for ZeRO-3 and for models that it sharded.
        kwargs.setdefault("synced_gpus", True)
    return generate(*args, **without_idle_rows(generate.__self__, kwargs))


def _own_storage(tensor: torch.Tensor) -> torch.Tensor:
    """Return `tensor`, or a copy if it is part of a larger buffer (FSDP2), which safetensors refuses to save."""
    whole = tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()
    return tensor if whole else tensor.clone()


class FullPolicies(PolicySet):
    """Policies that are whole models: `full`, and `tied` without an adapter. Frozen models are in the same module, so
    that every engine places them and generates with them."""

    module: PolicyModule

    def __init__(
        self,
        models: dict[str, PreTrainedModel],
        weights_of: dict[str, str],
        starts: Mapping[str, object],
        frozen: frozenset[str] = frozenset(),
    ) -> None:
        """Build the policies. `models`: name -> model. `starts`: name -> identifier of its initial weights."""
        self.weights_of, self.starts, self.frozen = weights_of, starts, frozen
        for name in frozen:
            models[name].requires_grad_(False)
        unsaved = [f"policies.{inner_name(name)}.{key}" for name in frozen for key in models[name].state_dict()]
        inner = {inner_name(name): model for name, model in models.items()}
        self.module = PolicyModule(inner, active=next(iter(inner)), unsaved=unsaved)
        self._now = next(iter(models))
        self._copies: dict[object, tuple[nn.Module, nn.Module]] = {}
        """Identifier of initial weights -> (frozen copy as the engine wraps it, the copy itself)."""
        self._heads: dict[str, Any] = {}
        """Role -> forward of its frozen copy at the role's temperature."""

    def _switch(self, name: str) -> None:
        self.module.active, self._now = inner_name(name), name

    @property
    def frozen_copies(self) -> tuple[nn.Module, ...]:
        return tuple(placed for placed, _ in self._copies.values())

    def _model(self, name: str) -> Any:
        return self.module.policies[inner_name(name)]

    def named_parameters(self, name: str) -> list[tuple[str, nn.Parameter]]:
        return list(self._model(name).named_parameters())

    def prepare(self, temperatures: dict[str, float], anchored: list[str], tokenizer: Any, place: Placing) -> None:
        self.module.tokenizer = tokenizer
        # TRL patched the set's forward with one temperature; each policy gets its own head instead (rule 17).
        self.module.__dict__.pop("forward", None)
        copies: dict[object, nn.Module] = {}
        for role in anchored:  # copied before the heads of policies are patched
            start, policy = self.starts[self.weights_of[role]], self._model(self.weights_of[role])
            if start not in copies:
                with gathered(policy.parameters()):
                    copies[start] = copy.deepcopy(policy).eval().requires_grad_(False)
            frozen = copies[start]
            vars(frozen).pop("forward", None)
            scored_at(frozen, temperatures[role])
            self._heads[role] = frozen.forward
        self._copies = {start: (place(frozen), frozen) for start, frozen in copies.items()}
        for name in dict.fromkeys(self.weights_of.values()):
            scored_at(self._model(name), temperatures[self.shared_by(name)[0]], self.top1)

    @contextmanager
    def reference(self, role: str, model: nn.Module) -> Iterator[nn.Module]:
        placed, frozen = self._copies[self.starts[self.weights_of[role]]]
        frozen.forward = self._heads[role]  # type: ignore[method-assign]
        yield placed

    def export(self, name: str, folder: Path, state: Mapping[str, Any] | None = None) -> None:
        if state is None:
            self._model(name).save_pretrained(folder)
            return
        second = set(self.module._keys_to_ignore_on_save or ())
        weights = part_of({k: v for k, v in state.items() if k not in second}, f"policies.{inner_name(name)}.")
        self._model(name).save_pretrained(folder, state_dict={k: _own_storage(v) for k, v in weights.items()})

    def rebuilt(self, name: str, state: Mapping[str, Any] | None = None) -> nn.Module:
        state, model = self.module.state_dict() if state is None else state, empty_of(self._model(name))
        model.load_state_dict(part_of(state, f"policies.{inner_name(name)}."), strict=False)
        return model

    def restore(self, name: str, folder: Path) -> None:
        load_torch_model(self._model(name), folder)  # it has tied embeddings once

    def export_start(self, folder: Path, state: Mapping[str, Any] | None = None) -> None:
        self.export(self.weight_names[0], folder, state)
