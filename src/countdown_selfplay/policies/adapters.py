"""Adapters: search for the base model of an adapter, merging into the base, and checks of a LoRA config."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
import transformers.integrations.deepspeed as hf_deepspeed
from huggingface_hub import snapshot_download
from peft import PeftConfig, PeftModel, PeftType, TaskType
from peft.tuners.tuners_utils import BaseTuner, BaseTunerLayer
from peft.utils import AuxiliaryTrainingWrapper
from safetensors import safe_open
from torch import nn
from transformers import AutoConfig, PretrainedConfig, PreTrainedModel
from transformers.utils.peft_utils import find_adapter_config_file

from ..data.jsonl import json_file
from ..data.run_files import BASE, holds_model
from ..errors import ConfigError, DataError
from ..tiny import in_this_installation, resolve_model

CONFIG = "adapter_config.json"


def adapter_file(path: str, kwargs: Mapping[str, Any]) -> Path | None:
    """Return the adapter_config.json of an adapter's folder or hub repository, None for a model of whole weights.
    `kwargs`: arguments of `from_pretrained`."""
    file = find_adapter_config_file(path, revision=kwargs.get("revision"), token=kwargs.get("token"))
    return None if file is None else Path(file)


def base_of(file: Path, over: Sequence[str] = ()) -> tuple[str, str | None]:
    """Return folder or hub id, and revision, of the base that the adapter_config.json `file` names. A base that a run
    wrote beside its adapters is first searched in the folders above `file`, because the run folder may have been
    moved; an embedded model is that of this installation. `over`: adapters on top of this one. Raises DataError if
    `file` names no base or one of `over`."""
    config = json_file(file)
    named = str(config.get("base_model_name_or_path") or "")
    if not named:
        raise DataError(f"'{file}' names no base; write its folder or hub id there as `base_model_name_or_path`.")
    last = Path(named).name
    above = (str(p / last) for p in file.absolute().parents if last.startswith(BASE) and holds_model(p / last))
    base = next(above, in_this_installation(resolve_model(named)))
    if base in over:
        raise DataError(f"'{file}' names '{base}' as base, which lies over it; write the folder or hub id of a model.")
    return base, config.get("revision")


def whole_below(path: str, revision: str | None = None) -> tuple[str, str | None]:
    """Return folder or hub id, and revision, of the whole weights below an adapter, through all adapters in between.
    For any other model, and for an unknown name, return the arguments."""
    over: list[str] = []
    with suppress(OSError):
        while (file := adapter_file(path, {"revision": revision})) is not None:
            over.append(path)
            path, revision = base_of(file, over)
    return path, revision


def config_of(path: str) -> PretrainedConfig:
    """Return a model's config, or that of an adapter's base. Raises OSError or ValueError if unreadable."""
    whole, revision = whole_below(path)
    config = AutoConfig.from_pretrained(whole, revision=revision)
    if whole != path:
        config.dtype = torch.float32
    return config


def name_base(folder: Path, base: str) -> None:
    """Set the base of the adapter in `folder` to `base` in its adapter_config.json, and the revision of the base to
    null."""
    config = json_file(folder / CONFIG) | {"base_model_name_or_path": base, "revision": None}
    (folder / CONFIG).write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def over_base(base: Any, path: str, tokenizer_length: int, kwargs: Mapping[str, Any]) -> Any:
    """Return `base` with the adapter of `path` merged into it, in float32 unless `kwargs` contain another dtype.
    Embeddings grow to `tokenizer_length` rows. Raises DataError for an adapter that does not fit."""
    dtype = kwargs.get("dtype") or "auto"
    base = base.float()
    if tokenizer_length > base.get_input_embeddings().num_embeddings:  # the adapter was trained with added tokens
        base.resize_token_embeddings(tokenizer_length)
    hub = {name: kwargs[name] for name in ("revision", "token") if kwargs.get(name) is not None}
    try:
        model = PeftModel.from_pretrained(base, path, **hub)
    except (OSError, ValueError, TypeError, KeyError, RuntimeError) as error:  # of its file, its type, its shapes
        first = " ".join(str(error).split())[:200]
        raise DataError(f"The adapter '{path}' does not fit '{base.name_or_path}': {first}") from error
    wanted = torch.float32 if dtype == "auto" else getattr(torch, dtype) if isinstance(dtype, str) else dtype
    return merged(model).to(wanted)


def merged(model: Any) -> Any:
    """Return `model` with the adapters of PEFT's wrapper or of Transformers merged into it. Raises ConfigError for an
    adapter that cannot be merged (soft prompts)."""
    if isinstance(model, PeftModel):
        kind = model.peft_type.value if isinstance(model.peft_type, PeftType) else str(model.peft_type)
        cannot = f"An adapter of the kind {kind} cannot be merged into its base, and a run starts from whole weights"
        if not isinstance(model.base_model, BaseTuner):  # soft prompts
            raise ConfigError(f"{cannot}; pass the base, or an adapter that changes weights, such as LoRA.")
        _untie(model.get_base_model())
        try:
            model = model.merge_and_unload()
        except (NotImplementedError, ValueError) as error:
            raise ConfigError(f"{cannot} ({error}); pass the base, or another adapter, such as LoRA.") from error
    elif getattr(model, "_hf_peft_config_loaded", False):
        _untie(model)
        for name, part in list(model.named_modules()):
            if isinstance(part, AuxiliaryTrainingWrapper):
                raise ConfigError("The model object's adapter has whole modules in it; pass the adapter's folder.")
            if isinstance(part, BaseTunerLayer):
                part.merge()
                parent, _, leaf = name.rpartition(".")
                setattr(model.get_submodule(parent), leaf, part.get_base_layer())
        model._hf_peft_config_loaded = False
        del model.peft_config
        vars(model).pop("_weight_conversions", None)  # names of the adapter: save_pretrained would undo them
    else:
        return model
    return model.requires_grad_(True)  # PEFT leaves weights frozen after merging an adapter into them


def _untie(model: Any) -> None:
    """Untie the LM head from the embeddings if an adapter changes one of them."""
    head, parts = model.get_output_embeddings(), (BaseTunerLayer, AuxiliaryTrainingWrapper)
    both = (head, model.get_input_embeddings())
    if not getattr(model.config, "tie_word_embeddings", False) or not any(isinstance(part, parts) for part in both):
        return
    if not isinstance(head, AuxiliaryTrainingWrapper):  # the wrapper has a copy of the weights
        inner: Any = head.get_base_layer() if isinstance(head, BaseTunerLayer) else head
        inner.weight = nn.Parameter(inner.weight.detach().clone())
    model.config.tie_word_embeddings = False
    model.all_tied_weights_keys = {}


def as_named(model: PreTrainedModel) -> bool:
    """Return whether a model's weights equal those of the local folder or cached hub model that it names."""
    name, left = str(model.name_or_path), dict(model.named_parameters())
    try:
        revision = getattr(model.config, "_commit_hash", None)
        options: Any = dict(revision=revision, allow_patterns="*.safetensors", local_files_only=True)
        folder = Path(name) if name and Path(name).is_dir() else Path(snapshot_download(name, **options))
    except (OSError, ValueError):
        return False
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, framework="pt") as tensors:
            for key in left.keys() & set(tensors.keys()):
                if not torch.equal(tensors.get_tensor(key).to(left[key]), left.pop(key)):
                    return False
    return not left


def check_adapter(config: PeftConfig) -> None:
    """Raise ConfigError for an adapter other than a LoRA of a causal language model."""
    task = getattr(config, "task_type", None)
    if getattr(config, "peft_type", None) != PeftType.LORA or task not in (None, TaskType.CAUSAL_LM):
        what = type(config).__name__ + (f" of task_type {task}" if task not in (None, TaskType.CAUSAL_LM) else "")
        raise ConfigError(
            f"`peft_config` ({what}) is not a LoRA of a causal language model, the one kind of adapter that the roles "
            "can have; pass a peft.LoraConfig with task_type='CAUSAL_LM'."
        )


@contextmanager
def base_left_alone(base: nn.Module, config: Any) -> Iterator[None]:
    """Check that PEFT's wrapping inside the block leaves `base` unchanged. Raises ConfigError otherwise (PiSSA, OLoRA,
    LoftQ): the base is every role's reference, and exports are loaded over it."""
    before = [(p, p.detach().flatten()[:4].clone()) for p in base.parameters()]
    yield
    if any(not torch.equal(p.detach().flatten()[:4], values) for p, values in before):
        raise ConfigError(
            f"`peft_config` has init_lora_weights='{config.init_lora_weights}', which changes the base's weights; the "
            "roles share the base, so leave it out, or use 'gaussian' or 'orthogonal'."
        )


def check_heads(model: Any) -> None:
    """Raise ConfigError for an adapter on the LM head, which scoring bypasses, or on tied embeddings."""
    if isinstance(model.get_output_embeddings(), BaseTunerLayer):
        where = "the LM head"
    elif isinstance(model.get_input_embeddings(), BaseTunerLayer) and model.config.tie_word_embeddings:
        where = "embeddings that are tied to the LM head"
    else:
        return
    raise ConfigError(
        f"`peft_config` puts an adapter on {where}, whose weights are read without one where answers are scored; "
        "leave it out of target_modules."
    )


@contextmanager
def uncut() -> Iterator[None]:
    """Load whole models on every process inside the block, even if DeepSpeed shards them later."""
    kept = hf_deepspeed._hf_deepspeed_config_weak_ref
    hf_deepspeed.unset_hf_deepspeed_config()
    try:
        yield
    finally:
        hf_deepspeed._hf_deepspeed_config_weak_ref = kept
