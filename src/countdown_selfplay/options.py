"""Dataclass fields with help, range and choices, and the checks of their values."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from collections.abc import Callable, Mapping
from functools import cache
from types import UnionType
from typing import Any, Literal, TypeGuard, Union, cast, get_args, get_origin, get_type_hints

from .errors import ConfigError
from .registry import described, fits, suggestion

INF = math.inf
UNSET: Any = dataclasses.MISSING


@dataclasses.dataclass(frozen=True)
class Range:
    """Range of a numeric setting."""

    low: float = -INF
    high: float = INF
    why: str = ""
    """Reason for the bounds, which the error message ends with."""
    above: bool = False
    """Whether `low` itself is excluded."""
    below: bool = False
    """Whether `high` itself is excluded."""

    def check(self, name: str, value: object) -> None:
        """Raise ConfigError for a number outside the range; other values pass."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return
        fits = math.isfinite(value) and self.low <= value <= self.high
        if not fits or (self.above and value == self.low) or (self.below and value == self.high):
            raise ConfigError(f"`{name}` ({value}) must be {self}{f': {self.why}' if self.why else ''}.")

    def __str__(self) -> str:
        low = f"{'above' if self.above else 'of at least'} {self.low:g}" if self.low > -INF else ""
        high = f"{'below' if self.below else 'at most'} {self.high:.12g}" if self.high < INF else ""
        return f"a finite number {' and '.join(filter(None, (low, high)))}".rstrip()


class Help(str):
    """Help text of a setting, a str with the other metadata as attributes: HfArgumentParser passes each metadata key
    of a field to argparse, which rejects unknown ones."""

    range = Range()
    free = False
    """Whether a resume may change the setting."""
    plain = False
    """Whether an unset role's setting has the value of the config's field of the same name."""


def option(
    default: Any = UNSET,
    help: str = "",
    within: Range = Range(),
    *,
    factory: Callable[[], Any] = UNSET,
    free: bool = False,
    plain: bool = False,
) -> Any:
    """Declare a field of a settings dataclass. within: range of its numbers. free, plain: as in Help."""
    text = Help(help)
    text.range, text.free, text.plain = within, free, plain
    return dataclasses.field(default=default, default_factory=factory, metadata={"help": text})


def help_of(field: dataclasses.Field[Any]) -> Help:
    """Return the help of a field with its metadata, or an empty Help if `option` did not declare it."""
    help = field.metadata.get("help")
    return help if isinstance(help, Help) else Help()


def is_number(value: object) -> TypeGuard[float]:
    """Return whether `value` is a finite real number: no bool, NaN or infinity. NumPy scalars are recognized by
    `dtype`, since this module loads without NumPy."""
    scalar = getattr(getattr(value, "dtype", None), "kind", "") in ("i", "u", "f") and not getattr(value, "ndim", 1)
    number = (isinstance(value, int | float) or scalar) and not isinstance(value, bool)
    return number and bool(abs(cast("float", value)) <= sys.float_info.max)


def is_whole(value: object, low: float = -INF) -> TypeGuard[int]:
    """Return whether `value` is an int of at least `low`; a bool is not."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= low


def at_least(settings: object, low: int, *names: str) -> None:
    """Raise ConfigError if one of the fields `names` of `settings` is below `low`."""
    for name in names:
        if getattr(settings, name) < low:
            raise ConfigError(f"`{name}` ({getattr(settings, name)}) must be at least {low}.")


def json_object(name: str, value: Any, example: str = '{"name": "value"}') -> dict[str, Any]:
    """Parse a mapping, its JSON text or None into a dict. Raises ConfigError for anything else."""
    try:
        parsed = json.loads(value) if isinstance(value, str) else {} if value is None else value
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, Mapping):
        raise ConfigError(f"`{name}` ({value!r}) must be a JSON object, such as {example}.")
    return dict(parsed)


@cache
def hints_of(settings: Any) -> dict[str, Any]:
    """Return the types of a dataclass's fields by name."""
    return get_type_hints(settings)


def check_options(settings: Any) -> None:
    """Raise ConfigError for the first field of the dataclass `settings` whose number is out of range or whose value is
    none of its choices."""
    declared: Any = type(settings)
    for field in dataclasses.fields(settings):
        value, hint = getattr(settings, field.name, None), hints_of(declared).get(field.name)
        help_of(field).range.check(field.name, value)
        if get_origin(hint) is Literal and value not in get_args(hint):
            allowed = [str(choice) for choice in get_args(hint)]
            raise ConfigError(
                f"`{field.name}` ({value!r}) must be one of {', '.join(allowed)}.{suggestion(str(value), allowed)}"
            )


def typed(name: str, hint: Any, value: Any) -> Any:
    """Convert `value` to the type `hint` of a setting: YAML reads 1e-6 as text, JSON reads 8.0 as a float, and the
    command line gives lists and mappings as JSON. Raises ConfigError for a value of another type."""
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    plain = {get_origin(kind) or kind for kind in kinds}
    if get_origin(hint) is Literal:  # check_options has the sentence on choices
        return value
    result = _parsed(value) if isinstance(value, str) and str not in plain else value
    if plain & {int, float} and isinstance(result, int | float) and not isinstance(result, bool):
        if not math.isfinite(result):  # Range has the sentence
            return result
        kind = float if float in plain else int
        result = kind(result) if kind(result) == result else result
    if not fits(result, hint):
        raise ConfigError(f"`{name}` ({value!r}) must be {described(hint)}.")
    return result


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
