"""What of a begun run's settings differs from those that it shall go on with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_MOST = 120  # characters of a value that are shown


def differences(then: Mapping[str, Any], now: Mapping[str, Any], begun: int) -> list[str]:
    """ "name: old, now new" of every setting that differs, such as role_training.prover.epochs. `max_steps` may have
    values for more iterations than it had; those of the iterations up to `begun` must be the old ones."""
    old, new = flat(then), flat(now)
    found = []
    for name in dict.fromkeys([*new, *old]):
        before, after = old.get(name), new.get(name)
        if before == after:
            continue
        text = f"{name}: {_short(before)}, now {_short(after)}"
        if isinstance(before, list) and isinstance(after, list):
            common = max(begun, min(len(before), len(after)))
            if name.endswith(".max_steps") and _of_iterations(before, common) == _of_iterations(after, common):
                continue
            if max(len(json.dumps(value)) for value in (before, after)) > _MOST:
                pairs = enumerate(zip(before, after, strict=False))
                place = next((i for i, (one, other) in pairs if one != other), None)
                text += "" if place is None else f", different from number {place + 1} on"
        found.append(text)
    return found


def flat(settings: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Mappings within mappings as one, by names with dots."""
    found: dict[str, Any] = {}
    for name, value in settings.items():
        found |= flat(value, f"{above}{name}.") if isinstance(value, Mapping) else {f"{above}{name}": value}
    return found


def _of_iterations(values: list[Any], count: int) -> list[Any]:
    """The values of the first `count` iterations: the last one stands for all that follow."""
    return [values[min(i, len(values) - 1)] for i in range(count)]


def _short(value: Any) -> str:
    text = json.dumps(value)
    if len(text) <= _MOST:
        return text
    return f"{len(value)} of them" if isinstance(value, list) else f"{text[:_MOST]}..."
