"""Reader of a user's YAML file; a ConfigError describes each fault in one sentence."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from ..errors import ConfigError
from ..registry import suggestion

_DEEPEST, _MOST = 50, 100_000
"""Largest depth of nesting, and number of values, of a file."""


def read_settings(path: str, recipes: Sequence[str]) -> dict[str, Any]:
    """Return the mapping in a YAML file. Raises ConfigError for an absent file (with the nearest name in `recipes`),
    for content that is not a mapping with text keys, and for an invalid `env`."""
    if not Path(path).is_file():
        raise ConfigError(
            f"There is no config file '{path}'; pass a YAML file, or a name that `countdown-selfplay recipes` "
            f"lists.{suggestion(path, list(recipes))}"
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


class _Loader(yaml.SafeLoader):
    """Loader that refuses a repeated key, as the YAML standard does; PyYAML keeps the last value."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if (key.tag, key.value) in seen and key.value != "<<":
                raise yaml.MarkedYAMLError(problem=f"'{key.value}' is given twice", problem_mark=key.start_mark)
            seen.add((key.tag, key.value))
        return node


def read_yaml(path: str | Path) -> Any:
    """Return the value in a YAML file. Raises ConfigError for invalid YAML, for the character NUL, and for lists and
    mappings that contain themselves or exceed _DEEPEST or _MOST: aliases make a few lines billions of values."""
    try:
        content = yaml.load(Path(path).read_text(encoding="utf-8"), _Loader)
        _measured(content, str(path), {})
    except RecursionError:
        raise ConfigError(f"{path}: lists and mappings are nested more than {_DEEPEST} deep.") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not a YAML file: it is not UTF-8 text.") from None
    except ConfigError:
        raise
    except (yaml.YAMLError, ValueError) as error:  # an impossible date is a ValueError
        raise ConfigError(f"{path} is not YAML: {_fault(error)}.") from None
    return content


def _fault(error: Exception) -> str:
    words = " ".join(str(error).split())[:120]
    if not isinstance(error, yaml.MarkedYAMLError):
        return words
    mark = error.context_mark or error.problem_mark
    return f"{'' if mark is None else f'line {mark.line + 1}: '}{error.problem or words}"


def _measured(value: Any, path: str, known: dict[int, tuple[float, float]]) -> tuple[float, float]:
    """Return the number of values in a value, and its depth. known: results of lists and mappings by `id`, infinite
    while they are computed, which detects a value that contains itself."""
    if isinstance(value, str) and "\0" in value:
        raise ConfigError(f"{path}: {value!r:.60} holds the character NUL, which no name or path can; remove it.")
    if not isinstance(value, dict | list | tuple | set):
        return 1, 0
    if id(value) not in known:
        known[id(value)] = math.inf, math.inf
        held = [*value, *value.values()] if isinstance(value, dict) else value
        values = [_measured(one, path, known) for one in held]
        known[id(value)] = 1 + sum(size for size, _ in values), 1 + max((deep for _, deep in values), default=0)
    size, deep = known[id(value)]
    if math.isinf(size):
        raise ConfigError(f"{path}: a list or mapping holds itself, by an alias of its anchor; write it out.")
    if deep > _DEEPEST or size > _MOST:
        how = f"nested more than {_DEEPEST} deep" if deep > _DEEPEST else f"more than {_MOST} values"
        raise ConfigError(f"{path}: lists and mappings are {how}.")
    return size, deep
