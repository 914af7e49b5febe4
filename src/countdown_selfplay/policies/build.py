"""From what the user passed (ids, paths, objects, a dict of roles) to a PolicySet."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from peft import AutoPeftModelForCausalLM, LoraConfig, PeftConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from ..errors import ConfigError, DataError
from .base import PolicySet
from .full import FullPolicies
from .lora import LoraPolicies
from .sharded_weights import gathered

ModelSource = str | PreTrainedModel


def build_policies(
    model: ModelSource | Mapping[str, ModelSource],
    *,
    roles: tuple[str, ...],
    sharing: str,
    peft_config: PeftConfig | None = None,
    model_init_kwargs: dict[str, Any] | str | None = None,
) -> PolicySet:
    """`model`: one source for all roles, or a source per role. `sharing`: full, lora or tied.

    With one source under `full`, an id or path is loaded once per role and an object is copied for the second role.
    `peft_config` under `tied` trains one adapter that both roles share.
    """
    sources = _source_per_role(model, roles)
    init_kwargs = json.loads(model_init_kwargs) if isinstance(model_init_kwargs, str) else model_init_kwargs
    if peft_config is not None and sharing == "full" and len(roles) > 1:
        raise ConfigError(
            "A `peft_config` was passed with policy_sharing='full'; "
            "use policy_sharing='lora' (an adapter per role) or 'tied' (one adapter for both roles)."
        )
    if sharing == "full" and peft_config is None:
        same = all(source is sources[roles[0]] or source == sources[roles[0]] for source in sources.values())
        models = {role: _load(sources[role], init_kwargs, copied=i > 0 and same) for i, role in enumerate(roles)}
        _check_vocabularies(models)
        return FullPolicies(models, {role: role for role in roles}, same_start=same)
    if len({id(s) if not isinstance(s, str) else s for s in sources.values()}) > 1:
        raise ConfigError(
            f"policy_sharing='{sharing}' needs one model for all roles, but a different one was passed for each; "
            "pass one model, or use policy_sharing='full'."
        )
    base = _load(sources[roles[0]], init_kwargs)
    if sharing == "tied":
        names = dict.fromkeys(roles, "policy")
        if peft_config is None:
            return FullPolicies({"policy": base}, names, same_start=True)
        return _with_adapters(base, peft_config, names)
    if peft_config is None:
        peft_config = LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM")
    return _with_adapters(base, peft_config, {role: role for role in roles})


def load_tokenizer(model: ModelSource | Mapping[str, ModelSource], trust_remote_code: bool) -> PreTrainedTokenizerBase:
    """The tokenizer that lies beside the (first) model."""
    source = next(iter(model.values())) if isinstance(model, Mapping) else model
    path = source if isinstance(source, str) else source.config._name_or_path
    if source == "":
        raise ConfigError("`model` ('') must be a hub id, a folder or an object.")
    if not path:
        raise ConfigError(
            "The model was passed as an object without a path; pass its tokenizer as `processing_class`."
        )
    try:
        return AutoTokenizer.from_pretrained(path, padding_side="left", trust_remote_code=trust_remote_code)
    except (OSError, ValueError) as error:
        folder = Path(path)
        what = "a folder without a tokenizer" if folder.is_dir() else "neither a folder nor a hub model in reach"
        kinds = ("config.json", "adapter_config.json")
        roles = ("prover", "conjecturer", "policy")
        inner = [role for role in roles if any((folder / role / kind).is_file() for kind in kinds)]
        hint = f"; its policies lie in {' and '.join(str(folder / name) for name in inner)}" if inner else ""
        raise DataError(f"The model '{path}' cannot be loaded: it is {what}{hint}.") from error


def _source_per_role(model: ModelSource | Mapping[str, ModelSource], roles: tuple[str, ...]) -> dict[str, ModelSource]:
    if not isinstance(model, Mapping):
        return dict.fromkeys(roles, model)
    missing = [role for role in roles if role not in model]
    if missing:
        raise ConfigError(
            f"`model` has no entry for {' and '.join(missing)}; it needs one for each of {', '.join(roles)}."
        )
    return {role: model[role] for role in roles}


def _refuse_mixture(model: PreTrainedModel) -> PreTrainedModel:
    """The load-balancing loss of a mixture of experts would be skipped (rule 15 of the design)."""
    config = model.config.get_text_config()
    experts = getattr(config, "num_experts", None) or getattr(config, "num_local_experts", None) or 0
    if experts > 1:
        raise ConfigError(
            f"{type(model).__name__} is a mixture of {experts} experts, "
            "whose load-balancing loss the joint trainer does not have; use a dense model."
        )
    return model


def model_arguments(options: Any, args: Any) -> dict[str, Any]:
    """The arguments of `from_pretrained`: those that the model's options name, under the config's own."""
    given = args.model_init_kwargs
    return {
        "dtype": options.dtype,
        "revision": options.model_revision,
        "attn_implementation": options.attn_implementation,
        "trust_remote_code": args.trust_remote_code,
        **(json.loads(given) if isinstance(given, str) else given or {}),
    }


def load_pretrained(path: str, kwargs: Mapping[str, Any], adapter: str = "") -> Any:
    """A causal language model. `adapter`: what becomes of one in an adapter's folder: "keep" it as PEFT's, "merge" it
    into its base, or "" for what transformers does. DataError if `path` leads to no model or the arguments do not fit
    it: transformers raises a TypeError for one that it does not have, an ImportError for an attention whose package is
    absent."""
    try:
        if adapter and (Path(path) / "adapter_config.json").is_file():
            model = AutoPeftModelForCausalLM.from_pretrained(path, dtype=kwargs["dtype"])
            return model.merge_and_unload() if adapter == "merge" else model
        return AutoModelForCausalLM.from_pretrained(path, **kwargs)
    except (OSError, ValueError, TypeError, ImportError) as error:
        what = "neither a folder nor a hub model in reach"
        if Path(path).is_dir():
            kinds = ("config.json", "adapter_config.json")
            what = "a model folder" if any((Path(path) / k).is_file() for k in kinds) else "a folder without a model"
        if (Path(path) / "prover").is_dir():
            what += f"; did you mean {Path(path) / 'prover'}?"
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise DataError(f"The model '{path}' cannot be loaded: it is {what} ({first})") from error


def _with_adapters(base: PreTrainedModel, peft_config: PeftConfig, weights_of: dict[str, str]) -> LoraPolicies:
    try:
        return LoraPolicies(base, peft_config, weights_of)
    except ValueError as error:  # PEFT's words on ranks, target modules and the like
        raise ConfigError(f"PEFT refuses this adapter: {error}") from error


def _load(source: ModelSource, init_kwargs: dict[str, Any] | None, copied: bool = False) -> PreTrainedModel:
    if isinstance(source, str):
        return _refuse_mixture(load_pretrained(source, {"dtype": "float32", **(init_kwargs or {})}))
    if not isinstance(source, PreTrainedModel):
        raise ConfigError(
            f"`model` must be a hub id, a path or a transformers PreTrainedModel, got {type(source).__name__}; "
            "to train an adapter pass the base model and a `peft_config`."
        )
    _refuse_mixture(source)
    if not copied:
        return source
    with gathered(source):
        return copy.deepcopy(source)


def _check_vocabularies(models: dict[str, PreTrainedModel]) -> None:
    sizes = {role: model.get_input_embeddings().num_embeddings for role, model in models.items()}
    if len(set(sizes.values())) > 1:
        raise ConfigError(f"The roles' models must share one tokenizer, but their vocabularies have sizes {sizes}.")
