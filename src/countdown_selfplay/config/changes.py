"""Settings on which the results of a run depend: saved in each checkpoint and compared when the run is resumed.
A resume with other settings is refused unless `allow_changed` names every difference."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from ..errors import CheckpointError, ConfigError, shortened
from ..options import help_of
from ..registry import suggestion
from .fields import CountdownArguments, CurriculumFields, GenerationFields, GuardFields, RoleFields, RunFields
from .roles import FIELDS, FLAT, FLAT_FIELDS, parsed_roles, usual

PARTS = (
    *("train_dataset", "eval_dataset", "domain", "reward_funcs", "objectives"),
    *("conjecturer_reward", "peft_config", "model"),
)
"""Arguments of the trainer that are compared in addition to the fields of its config."""

_UPWARD = ("max_steps", "num_train_epochs")
"""Settings that may be increased at any resume."""

NEVER = ("policy_sharing", "roles", "players", "weights", "steps_per_round")
"""Settings that may not change even if allowed, because the weights or the schedule of a checkpoint depend on them."""

_PREFIXES = ("logging_", "log_", "save_", "eval_", "hub_", "dataloader_", "trackio_")
_FREE = """
    output_dir run_name report_to project disable_tqdm resume_from_checkpoint num_completions_to_print
    num_generations_eval per_device_eval_batch_size do_train do_eval do_predict prediction_loss_only batch_eval_metrics
    include_for_metrics include_num_input_tokens_seen metric_for_best_model greater_is_better load_best_model_at_end
    push_to_hub restore_callback_states_from_checkpoint skip_memory_metrics debug local_rank ddp_timeout ddp_backend
    vllm_server_host vllm_server_port vllm_server_base_url vllm_server_timeout vllm_group_port
    deepspeed fsdp fsdp_config accelerator_config
    gradient_accumulation_steps num_generations generation_batch_size steps_per_generation use_vllm
    activation_checkpointing activation_checkpointing_kwargs gradient_checkpointing gradient_checkpointing_kwargs
    torch_empty_cache_steps ds3_gather_for_generation vllm_gpu_memory_utilization vllm_enable_sleep_mode
    bf16_full_eval fp16_full_eval torch_compile torch_compile_backend torch_compile_mode
"""
"""Fields of TRL and Transformers that may change at any resume: logging and saving, trackers, paths, addresses, data
movement. The distributed engine is compared by its name; group sizes and `use_vllm` are derived from other fields; the
last three lines affect memory, speed and rounding only. Fields of this library carry `free` in their metadata."""


def run_settings(
    config: Mapping[str, Any], anchors: Iterable[str], held_out: Iterable[str], parts: Mapping[str, Any]
) -> dict[str, Any]:
    """Return all settings that a resume must leave unchanged, as plain JSON.

    config: the fields of the config by name. anchors, held_out: keys of the problems, in the order of the data set.
    parts: objects that the user passed, by the name of the trainer's argument."""
    settings = {name: value for name, value in _without_roles(config).items() if _matters(name)}
    settings["train_dataset"] = _digest(anchors)
    settings["eval_dataset"] = _digest(sorted(held_out))
    settings |= {name: _said(part) for name, part in parts.items() if part is not None or name not in config}
    return json.loads(json.dumps(settings, sort_keys=True, default=str))


def model_settings(
    module: Any, under_adapters: bool, referred_to: bool, gather: Callable[[list[Any]], list[Any]]
) -> dict[str, str]:
    """Return {"model": fingerprint of the initial model}, a hash of the first values of each tensor; {} if the initial
    weights are not needed later, neither as the base of adapters (`under_adapters`) nor as the reference of a KL term
    (`referred_to`). All processes must call it."""
    if not under_adapters and not referred_to:
        return {}
    listed = [
        (name, tensor.detach().flatten()[:4].tolist())
        for name, tensor in module.named_parameters()
        if not tensor.is_meta and not (under_adapters and tensor.requires_grad)
    ]
    return {"model": gather([f"{len(listed)} tensors ({_hash(listed)})"])[0]}  # FSDP: the main process has it


def _without_roles(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the config's fields and, under names such as `roles.guide.beta`, the role settings that have no field.
    The entry `roles` becomes the names of the roles other than prover and conjecturer."""
    roles = parsed_roles(config.get("roles"))
    flat = {name: value for name, value in config.items() if name != "roles"}
    for kind in {*FLAT, *roles}:
        settings = {name: usual(name) for name in FIELDS} | roles.get(kind, {})
        flat |= {f"roles.{kind}.{n}": value for n, value in settings.items() if f"{kind}_{n}" not in FLAT_FIELDS}
    return {**flat, "roles": sorted(set(roles) - {*FLAT})}


_OWN = {
    field.name
    for part in (CurriculumFields, GenerationFields, GuardFields, RoleFields, RunFields)
    for field in fields(part)
    if help_of(field).free
}


def _matters(name: str) -> bool:
    free = name in _FREE.split() or name in _OWN or name.startswith(_PREFIXES) or name.endswith("_token")
    return not free and not (name.startswith("roles.") and help_of(FIELDS[plain_name(name)]).free)


def _digest(keys: Iterable[str]) -> str:
    listed = list(keys)
    return f"{len(listed)} problems ({_hash(listed)})"


def _hash(value: object) -> str:
    return hashlib.blake2b(repr(value).encode(), digest_size=6).hexdigest()


_ADAPTER = ("r", "lora_alpha", "lora_dropout", "use_rslora", "use_dora")  # PEFT rewrites other fields as it goes


def _said(part: Any) -> Any:
    """Return a description of an object, the same in every process: a plain value, the fields of a dataclass, the
    settings of an adapter, or else the name of the object or of its class."""
    if isinstance(part, Mapping):
        return {name: _said(value) for name, value in part.items()}
    if isinstance(part, (list, tuple)):
        return [_said(value) for value in part]
    if hasattr(part, "peft_type"):
        return {name: getattr(part, name, None) for name in _ADAPTER}
    if is_dataclass(part) and not isinstance(part, type):
        return {"class": type(part).__name__, **{f.name: _said(getattr(part, f.name)) for f in fields(part)}}
    plain = part is None or isinstance(part, (str, int, float))
    return part if plain else getattr(part, "__name__", type(part).__name__)


def allowed_names(given: str | Iterable[str] | None) -> list[str]:
    """Return `allow_changed` as a list of names, from a list or a comma-separated text."""
    listed = (given or "").split(",") if isinstance(given, str) or given is None else list(given)
    return [name.strip() for name in listed if name.strip()]


def check_allowed(config: Any) -> None:
    """Raise ConfigError if `allow_changed` names an unknown setting, or one that may never change (NEVER)."""
    known = [*(f.name for f in fields(config)), *CountdownArguments.__dataclass_fields__, *PARTS]
    known += [f"roles.{kind}.{setting}" for kind in config.kinds for setting in FIELDS]
    for name in allowed_names(config.allow_changed):
        if name not in known:
            raise ConfigError(f"`allow_changed` names '{name}', which is not a setting.{suggestion(name, known)}")
        if plain_name(name) in NEVER:
            raise ConfigError(f"`allow_changed` names {name}, which cannot change in a resume; start a new run.")


def changed_settings(
    saved: Mapping[str, Any],
    now: Mapping[str, Any],
    allowed: Iterable[str],
    folder: object,
    more: Mapping[str, str] | None = None,
) -> dict[str, list[Any]]:
    """Return the settings that differ between a checkpoint and this run, as {name: [saved, now]}. Raises
    CheckpointError if one of them is not allowed. A setting that only one side has, or a field that only one side's
    dataclass has, belongs to another version and is not compared. more: setting -> explanation of its difference."""
    changed = {
        name: [there, now[name]]
        for name, there in saved.items()
        if name in now and _differ(there, now[name]) and not (name in _UPWARD and 0 < there <= now[name])
    }
    allowed = set(allowed)
    refused = [name for name in changed if plain_name(name) in NEVER or not {name, plain_name(name)} & allowed]
    if refused:
        shown = {name: changed[name] for name in refused}
        remarks = {name: f"; {text}" for name, text in (more or {}).items() if text}
        listed = "; ".join(
            f"{name} ({_text(there)} there, {_text(here)} here{remarks.get(name, '')})"
            for name, (there, here) in zip(shown, map(_apart, shown.values()), strict=True)
        )
        names = ",".join([*(name for name in changed if name not in refused), *refused])
        raise CheckpointError(
            f"Cannot resume from {folder}: this run differs from the one that wrote it in {listed}. Keep the "
            f"settings of that run, or allow the difference with allow_changed='{names}' (--allow_changed {names})."
        )
    return changed


def plain_name(name: str) -> str:
    """Return the name of a setting without its role: `learning_rate` for `prover_learning_rate` and
    `roles.guide.learning_rate`. In `allow_changed` the plain name allows the change for all roles."""
    if name.startswith("roles."):
        return name.rpartition(".")[2]
    return FLAT_FIELDS.get(name, ("", name))[1]


def _differ(there: Any, here: Any) -> bool:
    if isinstance(there, dict) and isinstance(here, dict):
        one_class = "class" in there and there["class"] == here.get("class")
        if one_class or there.keys() == here.keys():
            return any(_differ(there[name], here[name]) for name in there.keys() & here.keys())
    return bool(there != here)


def _apart(pair: list[Any]) -> tuple[Any, Any]:
    """Return two values, reduced to the differing entries if both are mappings or texts of JSON objects."""
    try:
        there, here = (json.loads(value) if isinstance(value, str) else value for value in pair)
    except ValueError:
        return pair[0], pair[1]
    if not isinstance(there, dict) or not isinstance(here, dict):
        return pair[0], pair[1]
    same = {name for name in there if name in here and there[name] == here[name]}
    left, right = ({name: value for name, value in one.items() if name not in same} for one in (there, here))
    return left, right


def _text(value: Any) -> str:
    return shortened(value if isinstance(value, str) else json.dumps(value))
