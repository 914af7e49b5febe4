"""A YAML file of settings: every key is a field, every value what its field takes. It is checked before torch loads,
against options.json, and again by the command's own parser; what an option takes is described alike in both."""

from __future__ import annotations

import argparse
import datetime
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import yaml

from ..errors import ConfigError
from ..registry import suggestion
from .countdown_options import flag_value, has_flag, nearest_only

Option = dict[str, Any]
"""flags; type: int, float, bool or str; takes: what else a value in YAML may be; nargs, choices; or switch alone."""

_TYPES: dict[Any, str] = {one: one.__name__ for one in (bool, int, float, str, list)} | {
    dict: "mapping",
    NoneType: "null",
}
_WORDS = {"int": "a whole number", "float": "a number", "str": "a text", "bool": "true or false"}
_SEVERAL = {"int": "whole numbers", "float": "numbers", "str": "texts"}
TRUTHS = ("yes", "true", "t", "y", "1", "no", "false", "f", "n", "0")
"""As Transformers reads a truth value."""
_FEW = 12
_DEEPEST, _MOST = 50, 100_000
"""How deep the values of a file may be nested, and how many they may be."""


def options_of(parser: argparse.ArgumentParser, classes: tuple[type, ...]) -> list[Option]:
    """The options of a trainer command's own parser, without --help; its fields are those of `classes`."""
    hints = {name: hint for one in classes for name, hint in get_type_hints(one).items()}
    return [described(action, hints.get(action.dest)) for action in parser._actions if action.dest != "help"]


def described(action: argparse.Action, hint: Any = None) -> Option:
    """An option as options.json holds it. `hint`: the type of its field."""
    found: Option = {"flags": list(action.option_strings)}
    if action.nargs == 0:
        return found | {"switch": True}
    name = getattr(action.type, "__name__", "str")
    found["type"] = {"int": "int", "float": "float", "string_to_bool": "bool"}.get(name, "str")
    if action.nargs is not None:
        found["nargs"] = action.nargs
    if action.choices is not None and all(isinstance(choice, str | int) for choice in action.choices):
        found["choices"] = [str(choice) for choice in action.choices]
        found["type"] = "str"
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    takes = {_TYPES.get(get_origin(kind) or kind) for kind in kinds} - {None}
    takes -= set() if action.nargs in ("+", "*") else {found["type"]}
    return {**found, **({"takes": sorted(map(str, takes))} if takes else {})}


def by_field(options: Iterable[Option]) -> dict[str, Option]:
    """Options by the names of their fields; --no_report is a flag, and no field."""
    return {option["flags"][0][2:]: option for option in options if "switch" not in option}


def split_config(argv: list[str]) -> tuple[str | None, list[str]]:
    """The file of `--config`, and the other arguments."""
    path = flag_value(argv, "--config")
    if path is None:
        if has_flag(argv, "--config"):
            raise ConfigError("`--config` needs a YAML file.")
        return None, argv
    return path, without(argv, "--config")


def without(argv: list[str], flag: str) -> list[str]:
    """`argv` without the flag and its value."""
    at = next(i for i, argument in enumerate(argv) if argument.partition("=")[0] == flag)
    return argv[:at] + argv[at + (2 if argv[at] == flag else 1) :]


def read_settings(path: str, recipes: Sequence[str]) -> dict[str, Any]:
    """The mapping in a YAML file. ConfigError, which lists the `recipes`, if there is no such file or mapping."""
    if not Path(path).is_file():
        raise ConfigError(
            f"There is no config file '{path}'; pass a YAML file, or a --recipe: {', '.join(recipes) or 'none ships'}."
        )
    content = read_yaml(path)
    if not isinstance(content, dict):
        raise ConfigError(f"{path} must be a YAML mapping from fields to values.")
    for key in content:
        if not isinstance(key, str):
            raise ConfigError(f"{path}: unknown field {key!r}; the name of a field is a text.")
    env = content.get("env", {})
    if not isinstance(env, dict):
        raise ConfigError(f"{path}: `env` ({env}) must map environment variables to their values.")
    for name, value in env.items():
        if not isinstance(name, str) or not name or "=" in name or not isinstance(value, str | int | float):
            raise ConfigError(
                f"{path}: `env` sets {name!r} to {value!r:.60}; it must map the name of an environment variable, a "
                'text without `=`, to a text or a number, such as {OMP_NUM_THREADS: "1"}.'
            )
    return content


def read_yaml(path: str | Path) -> Any:
    """The value in a YAML file. ConfigError for what is not YAML, for the character NUL, and for lists and mappings
    that hold themselves or are beyond any setting (_DEEPEST, _MOST): aliases make a few lines billions of values."""
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        _measured(content, str(path), {})
    except RecursionError:
        raise ConfigError(f"{path}: lists and mappings are nested more than {_DEEPEST} deep.") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not a YAML file: it is not UTF-8 text.") from None
    except ConfigError:
        raise
    except (yaml.YAMLError, ValueError) as error:  # a date that there is not is a ValueError
        raise ConfigError(f"{path} is not YAML: {_fault(error)}.") from None
    return content


def _fault(error: Exception) -> str:
    """The line, where the parser names one, and what it missed there."""
    mark = getattr(error, "context_mark", None) or getattr(error, "problem_mark", None)
    said = getattr(error, "problem", None) or " ".join(str(error).split())[:120]
    return said if mark is None else f"line {mark.line + 1}: {said}"


def _measured(value: Any, path: str, known: dict[int, tuple[float, float]]) -> tuple[float, float]:
    """How many values a value is, and how deep they are nested. known: those of lists and mappings by their `id`;
    one that is being measured counts as infinite, and so does what holds itself."""
    if isinstance(value, str) and "\0" in value:
        raise ConfigError(f"{path}: {value!r:.60} holds the character NUL, which no name or path can; remove it.")
    if not isinstance(value, dict | list | tuple | set):
        return 1, 0
    if id(value) not in known:
        known[id(value)] = math.inf, math.inf
        held = [*value, *value.values()] if isinstance(value, dict) else value
        found = [_measured(one, path, known) for one in held]
        known[id(value)] = 1 + sum(size for size, _ in found), 1 + max((deep for _, deep in found), default=0)
    size, deep = known[id(value)]
    if math.isinf(size):
        raise ConfigError(f"{path}: a list or mapping holds itself, by an alias of its anchor; write it out.")
    if deep > _DEEPEST or size > _MOST:
        how = f"nested more than {_DEEPEST} deep" if deep > _DEEPEST else f"more than {_MOST} values"
        raise ConfigError(f"{path}: lists and mappings are {how}.")
    return size, deep


def check_keys(path: str, content: Mapping[Any, Any], fields: Iterable[str]) -> None:
    """ConfigError that suggests the nearest field for a key that is none."""
    known = sorted(fields)
    for key in content:
        if key not in known and key != "env":
            raise ConfigError(f"{path}: unknown field '{key}'.{nearest_only(str(key), known)}")


def typed(settings: Mapping[str, Any], options: Mapping[str, Option]) -> dict[str, Any]:
    """The values of a YAML file as their fields want them: argparse converts texts alone, and takes all others.
    ConfigError for a value that its field does not take. What `options` lack stays as it is."""
    return {name: _value(name, value, options.get(name)) for name, value in settings.items()}


def _value(name: str, value: Any, option: Option | None) -> Any:
    if option is None:
        return value
    kind, choices, takes = option["type"], option.get("choices"), option.get("takes", ())
    if option.get("nargs") in ("+", "*") and (isinstance(value, list) or _TYPES.get(type(value)) not in takes):
        listed = [_single(one, kind) for one in value] if isinstance(value, list) else [None]
        if None in listed:
            raise ConfigError(f"`{name}` ({value}) must be a list of {_SEVERAL[kind]}.")
        return listed
    if _TYPES.get(type(value)) in takes:
        return value
    if choices is not None:
        chosen = "no" if value is False and "no" in choices else value  # YAML reads `no` as false
        if str(chosen) not in choices:
            raise ConfigError(f"`{name}` ({value}) must be one of {_listed(str(chosen), choices)}")
        return chosen
    found = _single(value, kind)
    if found is None:
        more = "".join(f", or a {other}" for other in ("mapping", "list") if other in takes)
        raise ConfigError(f"`{name}` ({value}) must be {_WORDS[kind]}{more}.")
    return found


def _single(value: Any, kind: str) -> Any:
    """A value that is none of YAML's own of another kind, as `kind`; None if it is not one."""
    text = isinstance(value, str)
    if kind == "str":
        return value if text or isinstance(value, bool) else str(value) if _plain(value) else None
    if kind == "bool":
        return value if isinstance(value, bool) or str(value).lower() in TRUTHS else None
    if isinstance(value, bool) or not (text or isinstance(value, int | float)):
        return None
    try:
        return float(value) if kind == "float" else int(value) if text or float(value).is_integer() else None
    except (ValueError, OverflowError):
        return None


def _plain(value: Any) -> bool:
    return isinstance(value, int | float | datetime.date)


def _listed(name: str, choices: Sequence[str]) -> str:
    """The end of a sentence: all choices if they are few, and the nearest."""
    close = suggestion(name, list(choices))
    return f"{', '.join(choices)}.{close}" if len(choices) <= _FEW or not close else f"{len(choices)} values.{close}"
