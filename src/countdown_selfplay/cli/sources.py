"""Recipe, config file and flags of a trainer command, checked before torch loads."""

from __future__ import annotations

import ast
from collections.abc import Collection
from functools import cache
from importlib.util import find_spec, resolve_name
from pathlib import Path
from typing import Any

from ..config.sources import Sources, flags_of, read_sources, underscored
from ..errors import ConfigError
from ..registry import ELSEWHERE
from .commands import TRAINERS, Trainer

HELP_FLAGS = ("-h", "--help", "--help_all")


def sources_of(command: str, argv: list[str]) -> Sources:
    """The sources of a command's settings, with the flags of which it allows one value."""
    how = TRAINERS[command]
    flags = flags_of([underscored(argument) for argument in argv])
    for name, value in how.forced.items():
        if flags.get(name, [value]) != [value]:
            raise ConfigError(
                f"`{name}` ({' '.join(flags[name])}) must be {value} here: {command} trains the prover alone; `joint` "
                "trains both."
            )
        argv = argv if name in flags else [*argv, f"--{name}", value]
    return read_sources(argv, how.kind, how.recipe, how.recipe_with_model)


def check_names(how: Trainer, asked: Sources, fields: Collection[str]) -> None:
    """ConfigError for a flag or a key of a file that is no field."""
    for flag in asked.flags:
        meant = ELSEWHERE.get(flag, flag)
        if flag not in fields and meant in how.elsewhere:
            raise ConfigError(
                f"Iterated training has no option '--{flag}'. Use {how.elsewhere[meant]}; for online training: "
                f"--training online --{meant}."
            )
    asked.check_names(fields)


def check_early(command: str, argv: list[str]) -> bool:
    """Check what can be checked before torch loads; whether a dry run is asked for. A name is left to options.py where
    the sources of TRL or Transformers do not show their fields."""
    how, asked = TRAINERS[command], sources_of(command, argv)
    if any(flag in argv for flag in HELP_FLAGS):
        return False
    try:
        fields = set().union(*(field_names(*place.split(":")) for place in how.models))
    except (LookupError, OSError, SyntaxError):
        pass
    else:
        check_names(how, asked, fields)
    planned: Any = False
    for _, source in asked.files:
        planned = source.get("dry_run", planned)
    return _says_yes((asked.flags["dry_run"] or ["true"])[0] if "dry_run" in asked.flags else planned)


def _says_yes(value: Any) -> bool:
    """A field of two values, as Transformers reads it, in YAML or as a word; another word is refused later."""
    return str(value).lower() in ("yes", "true", "t", "y", "1")


def field_names(module: str, name: str) -> set[str]:
    """The fields that the constructor of a dataclass takes, and its class variables, read from the source: to import
    Transformers and TRL takes seconds. LookupError where the class or a base is not found."""
    path, tree = _parsed(module)
    found = next((node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name), None)
    if found is None:
        package = module if path.stem == "__init__" else module.rpartition(".")[0]
        return field_names(*_imported(tree, name, package))
    annotated = [node for node in found.body if isinstance(node, ast.AnnAssign)]
    names = {ast.unparse(node.target) for node in annotated if "init=False" not in ast.unparse(node)}
    return names.union(*(field_names(module, base.id) for base in found.bases if isinstance(base, ast.Name)))


def _imported(tree: ast.Module, name: str, package: str) -> tuple[str, str]:
    """Module and name of what is imported as `name`, under `if TYPE_CHECKING` too."""
    for node in (one for one in ast.walk(tree) if isinstance(one, ast.ImportFrom)):
        for alias in node.names:
            if name == (alias.asname or alias.name):
                return resolve_name("." * node.level + (node.module or ""), package), alias.name
    raise LookupError(name)


@cache
def _parsed(module: str) -> tuple[Path, ast.Module]:
    """The file of a module and its syntax tree; nothing is imported."""
    top, *rest = module.split(".")
    spec = find_spec(top)
    if spec is None or not spec.submodule_search_locations:
        raise LookupError(module)
    place = Path(spec.submodule_search_locations[0], *rest)
    path = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    if not path.is_file():
        raise LookupError(module)
    return path, ast.parse(path.read_text(encoding="utf-8"))
