"""Problems by where they lie on the axes of their domain (`Domain.axes`)."""

from collections.abc import Callable, Mapping
from typing import Any

from ..domains import name_of
from ..errors import ConfigError

PATIENCE = 1 << 15
"""Draws of one rung without all that is wanted of it after which a value of an axis has too few problems."""


def value_on(domain: Any, axis: str, problem: Any) -> Any:
    """Where the problem lies on an axis; ConfigError for an axis that the domain does not have."""
    axes = domain.axes(problem)
    if axis not in axes:
        raise ConfigError(
            f"{name_of(domain)} has no axis {axis}; its axes are {', '.join(axes) or 'none'}. Name one of them."
        )
    return axes[axis]


def of_axis(
    domain: Any, draw: Callable[[int], list[Any]], axis: str, wanted: Mapping[Any, int]
) -> dict[Any, list[Any]]:
    """Value of the axis -> the first problems of that value, as many as are wanted. `draw(n)`: n problems, of which
    the first m are those of draw(m). ConfigError for a value with fewer problems."""
    n = 2 * sum(wanted.values())
    while True:
        found: dict[Any, list[Any]] = {value: [] for value in wanted}
        drawn = draw(n)
        for problem in drawn:
            found.get(value_on(domain, axis, problem), []).append(problem)
        few = [value for value, count in wanted.items() if len(found[value]) < count]
        if not few:
            return {value: found[value][:count] for value, count in wanted.items()}
        if len(drawn) < n or n >= PATIENCE:
            raise ConfigError(
                f"{name_of(domain)} has {len(found[few[0]])} problems of {axis} {few[0]} among {len(drawn)} of a "
                f"rung, and {wanted[few[0]]} are wanted; take fewer, or leave that {axis} out."
            )
        n *= 2
