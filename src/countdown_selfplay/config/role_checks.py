"""Rules on the settings of a role as they resolve, its own field or the plain one it falls back on; and on choices."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

from ..errors import ConfigError
from ..objectives import make_objective
from ..registry import suggestion
from .countdown_fields import CountdownFields
from .curriculum_fields import CurriculumFields
from .generation_fields import GenerationFields
from .roles import RoleFields

if TYPE_CHECKING:
    from .joint import JointSelfPlayConfig


def check_choices(config: JointSelfPlayConfig) -> None:
    """Fields with a fixed set of values: a dataclass takes any other, and the code behind it one of its branches."""
    for fields in (RoleFields, CurriculumFields, CountdownFields, GenerationFields):
        for name, hint in get_type_hints(fields).items():
            value = getattr(config, name)
            if get_origin(hint) is Literal and value not in get_args(hint):
                allowed = [str(choice) for choice in get_args(hint)]
                raise ConfigError(
                    f"`{name}` ({value!r}) must be one of {', '.join(allowed)}.{suggestion(str(value), allowed)}"
                )


def check_role(config: JointSelfPlayConfig, role: str) -> None:
    """That each setting has a value, the objective and what goes with it; number_checks.py has the ranges."""
    for name in (
        "learning_rate",
        "beta",
        "warmup_steps",
        "max_grad_norm",
        "entropy_coef",
        "temperature",
        "top_p",
        "top_k",
    ):
        if getattr(config, f"{role}_{name}") is None and getattr(config, name) is None:
            raise ConfigError(f"`{name}` (None) must be a number, for `{role}_{name}` is not set either.")
    if getattr(config, f"{role}_entropy_target") is not None and not config.use_adaptive_entropy:
        raise ConfigError(
            f"`{role}_entropy_target` ({getattr(config, f'{role}_entropy_target')}) is read under "
            "use_adaptive_entropy=True only; set that too, or leave it unset."
        )
    _check_objective(config, role)


def _check_objective(config: JointSelfPlayConfig, role: str) -> None:
    name = getattr(config, f"{role}_objective")
    given = getattr(config, f"{role}_objective_kwargs")
    try:
        arguments = config.objective_arguments(role)
    except (json.JSONDecodeError, TypeError, ValueError):
        raise ConfigError(
            f'`{role}_objective_kwargs` ({given!r}) must be a JSON object, such as {{"k": 4}}.'
        ) from None
    objective: Any = make_objective(name, arguments, low=config.importance_clip_low, high=config.importance_clip_high)
    if not getattr(config, f"{role}_micro_batches"):
        return
    if role == "conjecturer" and getattr(objective, "needs_correctness", False):
        raise ConfigError(
            f"`conjecturer_objective` ({name}) needs the verifier's bit, which only the prover has; use rloo, "
            "reinforce, grpo or rest."
        )
    beta = config.role(role).beta
    if role == "prover" and config.kl_in == "reward" and beta > 0 and not getattr(objective, "reads_rewards", True):
        raise ConfigError(
            f"`kl_in` (reward) has no effect on `prover_objective` ({name}), which looks at the verifier's bit alone; "
            "set kl_in=loss, or prover_beta=0."
        )
    group, needed = getattr(config, f"{role}_num_generations"), getattr(objective, "needs_samples", 1)
    if group < needed:
        raise ConfigError(
            f"`{role}_objective` ({name}, {arguments}) needs at least {needed} samples per prompt and "
            f"`{role}_num_generations` is {group}; raise that or change `{role}_objective_kwargs`."
        )
