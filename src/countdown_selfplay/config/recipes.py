"""Sources of settings: recipes (shipped YAML files, some as changes to another, `recipe:`), a user's YAML file, flags;
how each is read, and the merge of two of them. parser.py converts the values. Loads no torch."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ..errors import ConfigError
from ..games.settings import Settings
from ..options import json_object
from ..registry import ELSEWHERE, Registry, suggestion
from .fields import CountdownArguments
from .roles import FIELDS, FLAT, FLAT_FIELDS, PLAIN, parsed_roles

PLACES = (Path(__file__).parents[1] / "recipes", Path(__file__).parents[3] / "examples" / "recipes")
"""Folders of recipes: in an installed wheel, and in a checkout."""

_OWN = {"sft": "sft", "ipo": "ipo", "cdg": "iterated"}
"""Map of each command whose settings are not those of `joint` to the first word of its recipes' names (sft,
sft_helping). All other recipes hold settings of `joint`."""


def recipes(command: str = "joint") -> Registry[Path]:
    """Return the files of the recipes that `command` reads, by name ("tiny/default",
    "qwen2.5-0.5b/anchored_shaped_fixed"), from the wheel or the checkout."""
    files: Registry[Path] = Registry("recipe", listed_by="countdown-selfplay recipes")
    wanted = _OWN.get(command, "joint")
    for place in PLACES:
        for path in sorted(place.glob("*/*.yaml")):
            first = path.stem.partition("_")[0]
            if (first if first in _OWN.values() else "joint") == wanted:
                files.setdefault(f"{path.parent.name}/{path.stem}", path)
    return files


COUNTDOWN = frozenset(f.name for f in dataclasses.fields(CountdownArguments))
"""Arguments of Countdown, which a recipe, a file or the command line gives directly instead of in `domain_kwargs`."""
GAME = frozenset(f.name for f in dataclasses.fields(Settings)) - {"samples_per_log"}
"""Fields that only the game propose_and_solve reads."""


def spread(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return `settings` with Countdown's entries of `domain_kwargs` at the top level; the inverse of `as_fields`."""
    held = json_object("domain_kwargs", settings.get("domain_kwargs"))
    countdown = {name: held.pop(name) for name in COUNTDOWN & held.keys()}
    if not countdown:
        return dict(settings)
    rest = {name: value for name, value in settings.items() if name != "domain_kwargs"}
    return {**countdown, **rest, **({"domain_kwargs": held} if held else {})}


def as_fields(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return `settings` as fields of JointSelfPlayConfig, with Countdown's arguments in `domain_kwargs`."""
    fields = {name: value for name, value in settings.items() if name not in COUNTDOWN}
    countdown = {name: value for name, value in settings.items() if name in COUNTDOWN}
    if countdown or "domain_kwargs" in fields:
        fields["domain_kwargs"] = json_object("domain_kwargs", fields.get("domain_kwargs")) | countdown
    return fields


def over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two sources of settings; `above` wins setting by setting, whether written in `roles`, as a role's field or
    as the plain field of all roles: `--learning_rate` also replaces a recipe's prover_learning_rate."""
    below, above = spread(below), spread(above)
    for part, usual, names in (("domain", "countdown", COUNTDOWN), ("game", "propose_and_solve", GAME)):
        if above.get(part) not in (None, below.get(part, usual)):  # `below` has arguments of another part
            below = {name: value for name, value in below.items() if name not in names | {f"{part}_kwargs"}}
    mine, theirs = parsed_roles(above.get("roles")), parsed_roles(below.get("roles"))
    if not (theirs or mine or FLAT_FIELDS.keys() & below.keys()):
        return {**below, **above}

    def hidden(kind: str, setting: str) -> bool:
        return (setting in PLAIN and setting in above) or setting in mine.get(kind, {}) or f"{kind}_{setting}" in above

    kept = {name: value for name, value in below.items() if not hidden(*FLAT_FIELDS.get(name, ("", "")))}
    roles = {kind: {s: v for s, v in settings.items() if not hidden(kind, s)} for kind, settings in theirs.items()}
    for kind, settings in mine.items():
        roles[kind] = roles.get(kind, {}) | settings
    return {**kept, **above, **({"roles": roles} if roles else {})}


def chain(name: str, known: Mapping[str, Path]) -> list[tuple[Path, dict[str, Any]]]:
    """Return the files of a recipe and of those that it extends (`recipe:`), each with its settings, the recipe first.
    `known`: files by name. Raises ConfigError for a circular extension."""
    if not isinstance(name, str):
        raise ConfigError(f"`recipe` ({name}) must be a text.")
    names: list[str] = []
    files: list[tuple[Path, dict[str, Any]]] = []
    base: str | None = name
    while base is not None:
        if base in names:
            raise ConfigError(
                f"{known[names[-1]]}: `recipe` ({base}) closes a circle, {' -> '.join([*names, base])}: the last one "
                "must hold all its settings itself."
            )
        names.append(base)
        settings = read_settings(known[base])
        files.append((known[base], settings))
        base = settings.pop("recipe", None)
    return files


def resolved(name: str, known: Mapping[str, Path]) -> dict[str, Any]:
    """Merge the settings of a recipe with those of the recipes that it extends (`chain`)."""
    (_, settings), *below = chain(name, known)
    for _, base in below:
        settings = over(base, settings)
    return settings


def recipe_settings(name: str, command: str = "joint") -> dict[str, Any]:
    """Return all settings of a recipe: of the trainer, its model and its data."""
    return resolved(name, recipes(command))


def refusal_of(name: str, known: Collection[str]) -> str:
    """Return a hint for an unknown setting: `roles` or `domain_kwargs` if it belongs there, else the nearest name."""
    kind, _, setting = name.partition("_")
    if kind in FLAT and setting in FIELDS:
        return f" Set it in `roles`: {{{kind}: {{{setting}: ...}}}}."
    if name in COUNTDOWN:
        return f" It is Countdown's; set it in `domain_kwargs`: {{{name}: ...}}."
    return suggestion(name, sorted(known))


def check_names(given: Iterable[str], training: type, known: Collection[str]) -> None:
    """Raise ConfigError for the first of the settings `given` that is not in `known`, the fields of `training`."""
    for name in given:
        if name not in known:
            raise ConfigError(f"`{name}` is not a field of {training.__name__}.{refusal_of(name, known)}")


def recipe_fields(name: str, changes: Mapping[str, Any], training: type) -> dict[str, Any]:
    """Return the settings of a recipe that are fields of `training`; `changes` take precedence. Raises ConfigError for
    a change that is not a field."""
    fields = {f.name for f in dataclasses.fields(training) if f.init} | COUNTDOWN
    check_names(changes, training, fields)
    shipped = {field: value for field, value in recipe_settings(name).items() if field in fields}
    return as_fields(over(shipped, changes))


@dataclass
class Sources:
    """Unconverted settings of a command line, by source."""

    argv: list[str]
    """Arguments, with underscores in the names of flags, without --config and --recipe."""
    flags: dict[str, list[str]]
    """Words after each flag, by the flag's name."""
    recipe: str | None
    """Name of the recipe that the run uses."""
    written: dict[str, Any]
    """Settings in the file of --config."""
    files: list[tuple[str, dict[str, Any]]]
    """Files with their settings, in ascending order of precedence: recipes, then the file of --config."""

    def check_names(self, fields: Collection[str], elsewhere: Mapping[str, str] | None = None) -> None:
        """Raise ConfigError, which suggests the nearest name, for a flag or a key of a file that is not a field.
        elsewhere: options that only other commands have -> hint at this command's option."""
        known = {f"{prefix}{name}" for name in fields for prefix in ("", "no_")}
        for flag in self.flags:
            if flag not in known:
                cure = (elsewhere or {}).get(ELSEWHERE.get(flag, flag)) or _cure(flag, fields).replace(
                    "mean '", "mean '--", 1
                )
                raise ConfigError(f"Unknown option '--{flag}'.{cure}")
        for path, settings in self.files:
            for key in settings:
                if key not in fields and key != "env":
                    raise ConfigError(f"{path}: unknown field '{key}'.{_cure(key, fields)}")


def _cure(name: str, fields: Collection[str]) -> str:
    return refusal_of(name, fields) or " `--help-all` lists them."


def read_sources(
    argv: Sequence[str], command: str = "joint", usual: str | None = None, with_model: bool = False
) -> Sources:
    """Read the sources of a command's settings. The recipe is `usual` where the arguments name neither recipe nor
    config file nor (unless `with_model`) model. Raises ConfigError or UnknownNameError for a file or recipe that
    cannot be read, and for circular recipes."""
    argv = [underscored(argument) for argument in argv]
    flags, known = flags_of(argv), recipes(command)
    path, written = None, {}
    if "config" in flags:
        if not flags["config"]:
            raise ConfigError("`--config` needs a YAML file, or the name of a recipe.")
        named, argv = flags.pop("config")[0], without(argv, "--config")
        if named in known and "recipe" not in flags and not Path(named).is_file():
            flags["recipe"] = [named]
        elif Path(named).is_file():
            path, written = named, read_settings(named)
        else:
            raise ConfigError(
                f"There is no config file '{named}'; pass a YAML file, or a name that `countdown-selfplay recipes` "
                f"lists.{suggestion(named, list(known))}"
            )
    if flags.get("recipe") == []:
        raise ConfigError("`--recipe` needs the name of a recipe, such as tiny/default.")
    names, argv = flags.pop("recipe", None), without(argv, "--recipe")
    recipe = names[0] if names else written.pop("recipe", None)
    if recipe is None and path is None and (with_model or "model_name_or_path" not in flags):
        recipe = usual
    files = [] if recipe is None else [(str(file), settings) for file, settings in chain(recipe, known)[::-1]]
    files += [] if path is None else [(path, written)]
    return Sources(argv, flags, recipe, written, files)


def flags_of(argv: list[str]) -> dict[str, list[str]]:
    """Map each flag to the words after it; the last occurrence of a repeated flag wins."""
    flags: dict[str, list[str]] = {}
    words: list[str] = []
    for argument in argv:
        if argument.startswith("--"):
            name, equals, value = argument[2:].partition("=")
            words = flags[name] = [value] if equals else []
        else:
            words.append(argument)
    return flags


def without(argv: list[str], flag: str) -> list[str]:
    """Return `argv` without the flag and its value, wherever it occurs."""
    kept, skip = [], False
    for argument in argv:
        name, equals, _ = argument.partition("=")
        if name != flag and (not skip or argument.startswith("--")):
            kept.append(argument)
        skip = name == flag and not equals
    return kept


def underscored(argument: str) -> str:
    """Replace dashes in an option's name: `--n-problems=5` becomes `--n_problems=5`. Other arguments are unchanged."""
    name, equals, value = argument.partition("=")
    return name.replace("-", "_").replace("__", "--", 1) + equals + value if name.startswith("--") else argument


_DEEPEST, _MOST = 50, 100_000
"""Largest depth of nesting, and number of values, of a file."""


def read_settings(path: str | Path) -> dict[str, Any]:
    """Return the mapping in a YAML file. Raises ConfigError for content that is not a mapping with text keys, and for
    an invalid `env`."""
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
    """Return the number of values in `value`, and the depth of nesting. `known`: results of lists and mappings by
    `id`, infinite while they are computed, which detects a value that contains itself."""
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
