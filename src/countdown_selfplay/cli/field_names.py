"""Names of the fields of a dataclass, read from the sources: to import Transformers and TRL takes seconds."""

from __future__ import annotations

import ast
from functools import cache
from importlib.util import find_spec, resolve_name
from pathlib import Path


def field_names(module: str, name: str) -> set[str]:
    """The fields that the constructor of a dataclass takes, and its class variables. LookupError where the class or a
    base is not found."""
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
