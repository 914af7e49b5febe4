"""Ranges of numbers that TRL and Transformers do not check: NaN anywhere, and values with which a run would fail late,
or train as if they had not been given."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..errors import ConfigError
from ..options import INF, Help, Range, help_of, hints_of, json_object, typed

RANGES = {  # a field, and the roles' own settings of that name
    "learning_rate": Range(0, INF, "0 freezes the role"),
    "beta": Range(0, INF, "0 means no KL term"),
    "warmup_steps": Range(0, INF, "a share of the rounds below 1, else a number of rounds"),
    "max_grad_norm": Range(0, INF, "0 means no clip"),
    "entropy_coef": Range(0, INF, "0 means no bonus"),
    "players": Range(0, INF, "0 leaves the role out"),
    "num_generations": Range(1, INF, "samples of a prompt"),
    "sequences_per_step": Range(0, INF, "0 cuts a round into steps_per_round equal steps"),
    "sft_coef": Range(0, INF, "0 means no supervised term"),
    "demonstrations_per_step": Range(0, INF, "0 means none"),
    "max_completion_length": Range(1, INF, "tokens"),
    "max_length": Range(1, INF, "tokens of a row"),
    "temperature": Range(0, INF, "samples are drawn, not decoded greedily", above=True),
    "top_p": Range(0, 1, "1 switches it off", above=True),
    "top_k": Range(0, INF, "0 switches it off"),
    "min_p": Range(0, 1, "0 switches it off"),
    "weight_decay": Range(0, INF, "0 switches it off"),
    # 1 is not allowed: the mean would keep nothing new, and its correction divide by 0
    "adam_beta1": Range(0, 1, "the share that the mean keeps", below=True),
    "adam_beta2": Range(0, 1, "the share that the mean square keeps", below=True),
    "adam_epsilon": Range(0, INF, "it keeps a step finite"),
    "num_train_epochs": Range(0, INF, "passes over the data", above=True),
    "save_steps": Range(0, INF, "a share of the steps below 1, else a number of steps"),
    "eval_steps": Range(0, INF, "a share of the steps below 1, else a number of steps"),
    "save_total_limit": Range(1, INF, "checkpoints; leave it unset to keep all"),
    "dataloader_num_workers": Range(0, INF, "0 loads in the main process"),
    "per_device_train_batch_size": Range(1, INF, "rows of a micro-batch"),
    "per_device_eval_batch_size": Range(1, INF, "samples"),
    "num_generations_eval": Range(1, INF, "answers per problem"),
    "seed": Range(0, 2**32 - 1, "NumPy's generator takes no other"),
    "data_seed": Range(0, 2**32 - 1, "NumPy's generator takes no other"),
}
_OBJECTS = (
    *("model_init_kwargs", "generation_kwargs", "chat_template_kwargs", "lr_scheduler_kwargs"),
    *("gradient_checkpointing_kwargs", "activation_checkpointing_kwargs"),
)  # fmt: skip


def check_number(shown: str, name: str, value: object) -> None:
    """Raise ConfigError if a number is outside the range of the setting `name`; other values pass."""
    RANGES.get(name, Range()).check(shown, value)


def check_numbers(config: Any) -> None:
    """Convert fields of the dataclass `config` to their types. Raises ConfigError for a wrong type, a number out of
    range, text that is no JSON object where one is expected, and 0 for max_steps, save_steps or eval_steps in use."""
    declared: Any = type(config)
    for field in dataclasses.fields(config):
        value = getattr(config, field.name, None)
        is_ours = isinstance(field.metadata.get("help"), Help)  # made by `option`
        if is_ours or ("help" in field.metadata and field.type == "int" and hasattr(config, field.name)):
            value = typed(field.name, hints_of(declared)[field.name] if is_ours else int, value)
            setattr(config, field.name, value)
        if field.name in _OBJECTS and isinstance(value, str):
            json_object(field.name, value)
        RANGES.get(field.name, help_of(field).range).check(field.name, value)
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
