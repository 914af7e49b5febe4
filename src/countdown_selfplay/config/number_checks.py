"""Ranges of numbers that TRL and Transformers take unchecked: nan in any of them, and values with which a run ends
late and in another library's words, or trains as if they had not been given."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any

from ..errors import ConfigError
from .roles import flat_name

INF = math.inf
# A field, and the roles' own fields of that name: least, greatest, why.
_RANGES: dict[str, tuple[float, float, str]] = {
    "learning_rate": (0, INF, "0 freezes the role"),
    "beta": (0, INF, "0 means no KL term"),
    "warmup_steps": (0, INF, "a share of the rounds below 1, else a number of rounds"),
    "max_grad_norm": (0, INF, "0 means no clip"),
    "entropy_coef": (0, INF, "0 means no bonus"),
    "sequences_per_step": (0, INF, "0 cuts a round into steps_per_round equal steps"),
    "sft_coef": (0, INF, "0 means no supervised term"),
    "max_completion_length": (1, INF, "tokens"),
    "temperature": (0, INF, "samples are drawn, not decoded greedily"),
    "top_p": (0, 1, "1 switches it off"),
    "top_k": (0, INF, "0 switches it off"),
    "min_p": (0, 1, "0 switches it off"),
    "weight_decay": (0, INF, "0 switches it off"),
    "adam_beta1": (0, math.nextafter(1, 0), "the share that the mean keeps"),
    "adam_beta2": (0, math.nextafter(1, 0), "the share that the mean square keeps"),
    "adam_epsilon": (0, INF, "it keeps a step finite"),
    "num_train_epochs": (0, INF, "passes over the data"),
    "save_steps": (0, INF, "a share of the steps below 1, else a number of steps"),
    "eval_steps": (0, INF, "a share of the steps below 1, else a number of steps"),
    "save_total_limit": (1, INF, "checkpoints; leave it unset to keep all"),
    "dataloader_num_workers": (0, INF, "0 loads in the main process"),
    "per_device_train_batch_size": (1, INF, "samples"),
    "per_device_eval_batch_size": (1, INF, "samples"),
    "num_generations_eval": (1, INF, "answers per problem"),
    "seed": (0, 2**32 - 1, "NumPy's generator takes no other"),
    "data_seed": (0, 2**32 - 1, "NumPy's generator takes no other"),
}
_BELOW = ("adam_beta1", "adam_beta2")
"""1, their bound, is itself not allowed: the mean would keep nothing new, and its correction divide by 0."""
_ABOVE = ("temperature", "top_p", "num_train_epochs")
"""Their least value is itself not allowed."""


_OBJECTS = (
    *("model_init_kwargs", "generation_kwargs", "chat_template_kwargs", "lr_scheduler_kwargs"),
    *("gradient_checkpointing_kwargs", "activation_checkpointing_kwargs"),
)  # fmt: skip


def json_object(name: str, value: Any, example: str = '{"name": "value"}') -> dict[str, Any]:
    """The arguments that a mapping, its text or None gives; ConfigError for anything else."""
    try:
        found = json.loads(value) if isinstance(value, str) else {} if value is None else value
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, Mapping):
        raise ConfigError(f"`{name}` ({value!r}) must be a JSON object, such as {example}.")
    return dict(found)


def check_numbers(config: Any) -> None:
    """ConfigError for the first field of the dataclass `config` that holds no usable number, or a text where arguments
    of another library belong; None is left alone."""
    for field in dataclasses.fields(config):
        value = getattr(config, field.name, None)
        if field.name in _OBJECTS and isinstance(value, str):
            json_object(field.name, value)
        flat = flat_name(field.name)
        check_number(field.name, flat[1] if flat else field.name, value)
    for kind, nothing in (("save", "no checkpoint before the end"), ("eval", "no evaluation during training")):
        steps, strategy = f"{kind}_steps", f"{kind}_strategy"
        if getattr(config, steps, None) == 0 and getattr(config, strategy, "no") == "steps":
            raise ConfigError(
                f"`{steps}` (0) would give {nothing}; set it to 1 or more steps, to a share of them below 1, or set "
                f"{strategy}=no."
            )
    rounds = getattr(config, "max_steps", -1)
    if rounds < 1 and rounds != -1:
        raise ConfigError(f"`max_steps` ({rounds}) must be at least 1, or -1 to go by num_train_epochs.")


def check_number(shown: str, name: str, value: object) -> None:
    """ConfigError if a number is out of the range of the setting `name`; other values are left alone."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return
    low, high, why = _RANGES.get(name, (-INF, INF, ""))
    fits = math.isfinite(value) and low <= value <= high and not (name in _ABOVE and value == low)
    if not fits:
        bound = f" {'above' if name in _ABOVE else 'of at least'} {low:g}" if why else ""
        bound += f" and {'below' if name in _BELOW else 'at most'} {high:.12g}" if high < INF else ""
        raise ConfigError(f"`{shown}` ({value}) must be a finite number{bound}{f': {why}' if why else ''}.")


def at_least(settings: object, low: int, *names: str) -> None:
    """ConfigError if one of the fields is below `low`."""
    for name in names:
        if getattr(settings, name) < low:
            raise ConfigError(f"`{name}` ({getattr(settings, name)}) must be at least {low}.")
