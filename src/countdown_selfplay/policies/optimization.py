"""Parameter groups of the optimizer and learning-rate schedules, per role."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from accelerate.optimizer import AcceleratedOptimizer
from accelerate.scheduler import AcceleratedScheduler
from torch.optim.lr_scheduler import LambdaLR
from transformers import Trainer, get_scheduler

from ..config import Role
from ..errors import ConfigError
from . import PolicySet


def optimizer_class(args: Any, model: Any) -> tuple[Any, dict[str, Any]]:
    """Return the class that `optim` names and its arguments except the learning rate, which each role sets."""
    try:
        cls, kwargs = Trainer.get_optimizer_cls_and_kwargs(args, model)
    except (ImportError, ValueError) as error:  # absent package, or `optim_args` not of the form a=b,c=d
        named = f"`optim` ({args.optim.value}) with `optim_args` ({args.optim_args})"
        raise ConfigError(f"{named} cannot be used: {error}") from error
    kwargs.pop("lr", None)
    return cls, kwargs


def parameter_groups(
    policies: PolicySet, settings: dict[str, Role], decayed: set[str], weight_decay: float
) -> list[dict[str, Any]]:
    """Return up to two groups (with and without weight decay) per set of weights, each with the weights' first role as
    "role", a key that checkpoints keep. `decayed`: names, in the module, of parameters with weight decay."""
    policies.enable_gradients()
    owned = {id(p) for name in policies.weight_names for _, p in policies.named_parameters(name)}
    stray = [n for n, p in policies.module.named_parameters() if p.requires_grad and id(p) not in owned]
    if stray:
        raise ConfigError(
            f"{stray[0]} (and {len(stray) - 1} more) would be trained by no role; roles train adapter weights alone: "
            "leave out the peft_config's modules_to_save and trainable biases."
        )
    full_name = {id(parameter): name for name, parameter in policies.module.named_parameters()}
    groups = []
    for name in policies.weight_names:
        role = policies.shared_by(name)[0]
        parameters = [p for _, p in policies.named_parameters(name) if p.requires_grad]
        if not parameters:
            raise ConfigError(f"Role '{role}' has no trainable parameter; check the peft_config's target modules.")
        for decays in (True, False):
            members = [p for p in parameters if (full_name[id(p)] in decayed) is decays]
            if members:
                decay, lr = weight_decay if decays else 0.0, settings[role].learning_rate
                groups.append({"params": members, "lr": lr, "weight_decay": decay, "role": role})
    return groups


def tag_roles(optimizer: torch.optim.Optimizer, policies: PolicySet) -> None:
    """Add the "role" key to the groups of a user's optimizer, for learning rates, clipping and metrics. Raises
    ConfigError if a group mixes roles or a trained role has no parameter in the optimizer."""
    first = {name: policies.shared_by(name)[0] for name in policies.weight_names}
    role_of = {id(p): role for name, role in first.items() for _, p in policies.named_parameters(name)}
    for number, group in enumerate(optimizer.param_groups):
        roles = {role_of.get(id(p), "none of the roles") for p in group["params"]}
        if len(roles) != 1 or "none of the roles" in roles:
            raise ConfigError(
                f"Group {number} of the optimizer in `optimizers` holds parameters of {' and '.join(sorted(roles))}; "
                "make one group per role, from the model objects that are passed as model={'prover': ..., ...}."
            )
        group["role"] = roles.pop()
    missing = set(role_of.values()) - {group["role"] for group in optimizer.param_groups}
    if missing:
        raise ConfigError(
            f"The optimizer in `optimizers` holds no parameter of {' and '.join(sorted(missing))}; one object for two "
            "roles is copied for the second, so pass two objects as model={'prover': ..., 'conjecturer': ...}."
        )


def role_schedule(args: Any, optimizer: torch.optim.Optimizer, total: int, settings: dict[str, Role]) -> LambdaLR:
    """Return the learning-rate schedule of all groups over `total` optimizer steps, each with its role's warm-up."""

    def factor(role: str) -> Callable[[int], float]:
        warmup = settings[role].warmup_steps  # number of rounds, or a share of the run
        steps = int(warmup) * args.steps_per_round if warmup >= 1 else int(-(-total * warmup // 1))
        # A temporary optimizer: only the schedule's factor is needed.
        stand_in = torch.optim.SGD([torch.zeros(1)], lr=settings[role].learning_rate or 1.0)
        schedule = get_scheduler(args.lr_scheduler_type, stand_in, steps, total, args.lr_scheduler_kwargs)
        if not isinstance(schedule, LambdaLR):
            raise ConfigError(
                f"`lr_scheduler_type` ({args.lr_scheduler_type}) has no per-role form; use linear, cosine, constant, "
                "constant_with_warmup, polynomial or warmup_stable_decay."
            )
        return schedule.lr_lambdas[0]

    return LambdaLR(optimizer, [factor(group["role"]) for group in optimizer.param_groups])


def bare(optimizer: Any) -> Any:
    """Return the optimizer inside accelerate's wrapper, or `optimizer` itself without one."""
    return optimizer.optimizer if isinstance(optimizer, AcceleratedOptimizer) else optimizer


def group_settings(optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
    """Return the current settings of each parameter group, such as learning rate, weight decay and betas."""
    return [{name: value for name, value in group.items() if name != "params"} for group in optimizer.param_groups]


def use_settings(optimizer: Any, scheduler: Any, groups: list[dict[str, Any]]) -> None:
    """Set `groups` in place of restored group settings, with learning rates at the schedule's current step."""
    schedule = scheduler.scheduler if isinstance(scheduler, AcceleratedScheduler) else scheduler
    schedule.base_lrs = [group["lr"] for group in groups]
    for group, configured, factor in zip(optimizer.param_groups, groups, schedule.lr_lambdas, strict=True):
        lr = configured["lr"] * factor(schedule.last_epoch)
        group.update({**configured, "initial_lr": configured["lr"], "lr": lr})
    schedule._last_lr = [group["lr"] for group in optimizer.param_groups]
