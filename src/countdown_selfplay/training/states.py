"""States of a run's parts by name: the contents of a checkpoint beside weights and optimizer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from ..contract.stateful import Stateful
from ..errors import ConfigError, GameError

FILE, ARRAYS = "selfplay_state.json", "selfplay_state.safetensors"
_ARRAY = "__array__"


def stateful(parts: Mapping[str, object]) -> dict[str, Stateful]:
    """Those of the parts that have a state: a user's need not."""
    return {name: part for name, part in parts.items() if isinstance(part, Stateful)}


def check_state(name: str, part: object) -> None:
    """GameError for a part whose state no checkpoint could hold, which else the first one would find out."""
    if not isinstance(part, Stateful):
        return
    try:
        state = part.state_dict()
    except Exception as error:  # a user's own code may raise anything
        raise GameError(
            f"`state_dict` of {type(part).__name__} raised {type(error).__name__}: {error}; it must have an answer "
            "before the first round too."
        ) from error
    _packed(name, state, {})


def refuse_class(name: str, part: object) -> None:
    """A part of a user's own is an object; a class has the same methods, and none that can be called."""
    if isinstance(part, type):
        raise ConfigError(f"`{name}` is the class {part.__name__}; pass an object of it, such as {part.__name__}().")


def write(folder: Path, states: Mapping[str, Stateful], facts: Mapping[str, Any]) -> None:
    """Values to one JSON file, arrays to a safetensors file beside it. `facts`: plain JSON that goes along."""
    arrays: dict[str, np.ndarray] = {}
    packed = {
        name: {"class": type(part).__name__, "state": _packed(name, part.state_dict(), arrays)}
        for name, part in states.items()
    }
    (folder / FILE).write_text(json.dumps({**facts, "states": packed}))
    if arrays:
        save_file(arrays, folder / ARRAYS)


def read(folder: Path) -> dict[str, Any]:
    """What `write` was given: the facts, and under "states" the class and state of each part."""
    found = json.loads((folder / FILE).read_text())
    arrays = load_file(folder / ARRAYS) if (folder / ARRAYS).is_file() else {}
    found["states"] = {name: _unpacked(part, arrays) for name, part in found["states"].items()}
    return found


def load(states: Mapping[str, Stateful], saved: Mapping[str, Any]) -> None:
    """Hand each part its state. One of another class, where that change is allowed, starts anew."""
    for name, part in states.items():
        if name in saved and saved[name]["class"] == type(part).__name__:
            part.load_state_dict(saved[name]["state"])


def _packed(name: str, value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """`value` with a name in the place of each array. GameError for what neither file can hold."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        arrays[name] = np.asarray(value, order="C")
        return {_ARRAY: name}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: _packed(f"{name}/{key}", inner, arrays) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_packed(f"{name}/{i}", inner, arrays) for i, inner in enumerate(value)]
    if value is None or isinstance(value, str | int | float):
        return value
    raise GameError(
        f"The state of {name} is {str(value)[:60]!r} of type {type(value).__name__}; `state_dict` must return None, "
        "numbers, texts, lists, dicts with text keys, and NumPy arrays of numbers."
    )


def _unpacked(value: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    if isinstance(value, dict):
        if set(value) == {_ARRAY}:
            return arrays[value[_ARRAY]]
        return {key: _unpacked(inner, arrays) for key, inner in value.items()}
    return [_unpacked(inner, arrays) for inner in value] if isinstance(value, list) else value
