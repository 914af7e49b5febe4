"""Registry of conjecturer rewards, which are functions of solve rates. Importing this module loads no torch."""

import functools
import inspect
from collections.abc import Mapping
from typing import Any

from ..errors import ConfigError
from ..options import is_number
from ..packages import parts_beside
from ..registry import Registry
from .base import ConjecturerReward, RewardContext, checked_rewards, refused_reward, takes_context
from .composition import Clip, Composable, Part, Product, Sum
from .difficulty_diversity import DifficultyDiversity
from .learning_progress import LearningProgress
from .sgs import SGS
from .solve_rate import BinaryBand, Learnability, Tent

Spec = str | float | Mapping[str, Any]
"""Reward in a configuration: a name, `{"name": ..., "kwargs": {...}}`, or a number (a constant reward)."""


def make_conjecturer_reward(name: str, arguments: dict[str, Any] | None = None) -> ConjecturerReward:
    """Build the conjecturer reward called `name` with `arguments`. my_module:MyReward is a class to construct;
    my_module:my_reward is a reward function, to which the arguments are bound. Raises ConfigError for an unknown or
    missing argument, UnknownNameError for a name that is not in CONJECTURER_REWARDS."""
    factory = CONJECTURER_REWARDS.load(name)
    if name in CONJECTURER_REWARDS or not inspect.isfunction(factory):
        return CONJECTURER_REWARDS.make(name, arguments)
    unknown = [str(key) for key in arguments or {} if key not in inspect.signature(factory).parameters]
    if unknown:
        raise ConfigError(f"Conjecturer reward '{name}' does not take {', '.join(unknown)}.")
    takes_context(factory)
    return functools.update_wrapper(functools.partial(factory, **arguments), factory) if arguments else factory


def part_of(kind: str, spec: Spec, more: tuple[str, ...] = ()) -> Part:
    """Build a part of the composed reward `kind`. `more`: keys that `spec` may have besides "name" and "kwargs"."""
    if isinstance(spec, str):
        return make_conjecturer_reward(spec)
    if is_number(spec):
        return float(spec)  # type: ignore[arg-type]
    allowed = {"name", "kwargs", *more}
    if not isinstance(spec, Mapping) or not isinstance(spec.get("name"), str) or not set(spec) <= allowed:
        example = '{"name": "tent", ' + '"weight": 1.0, ' * ("weight" in more) + '"kwargs": {"peak": 0.5}}'
        raise ConfigError(f"Conjecturer reward '{kind}' got {spec!r} as a part; write a name, a number or {example}.")
    kwargs = spec.get("kwargs") or {}
    if not isinstance(kwargs, Mapping):
        raise ConfigError(f"Conjecturer reward '{kind}' got kwargs {kwargs!r} for '{spec['name']}'; write an object.")
    return make_conjecturer_reward(spec["name"], dict(kwargs))


def sum_of(terms: list[Any]) -> Sum:
    """Build a sum from `{"terms": [{"name": "tent", "weight": 1.0}, {"name": "sgs", "kwargs": {...}}]}`."""
    weights = [spec.get("weight", 1.0) if isinstance(spec, Mapping) else 1.0 for spec in terms]
    return Sum(tuple(part_of("sum", spec, ("weight",)) for spec in terms), weights)


def product_of(factors: list[Any]) -> Product:
    """Build a product from `{"factors": ["tent", {"name": "disagreement"}]}`."""
    return Product(tuple(part_of("product", spec) for spec in factors))


def clipped(of: Any, low: float = 0.0, high: float = 1.0) -> Clip:
    """Build a clip from `{"of": {"name": "r_zero", "kwargs": {"floor": null}}, "low": 0, "high": 1}`."""
    return Clip(reward_of("clip", of), low, high)


def reward_of(kind: str, spec: Spec) -> ConjecturerReward:
    """Build the part of the composed reward `kind` as a reward; a number becomes a constant reward."""
    part = part_of(kind, spec)
    return part if callable(part) else Sum((part,))


# name -> factory; a factory can be added: CONJECTURER_REWARDS["mine"] = MyReward
CONJECTURER_REWARDS: Registry[Any] = Registry(
    "conjecturer reward",
    {
        "tent": Tent,
        "binary_band": BinaryBand,
        "learnability": Learnability,
        "learning_progress": LearningProgress,
        "sgs": SGS,
        "difficulty_diversity": DifficultyDiversity,
        "sum": sum_of,
        "product": product_of,
        "clip": clipped,
        **parts_beside("conjecturer reward"),
    },
)

__all__ = [
    "CONJECTURER_REWARDS",
    "Clip",
    "Composable",
    "ConjecturerReward",
    "Product",
    "RewardContext",
    "Sum",
    "checked_rewards",
    "make_conjecturer_reward",
    "refused_reward",
]
