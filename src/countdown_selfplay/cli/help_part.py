"""`joint --help-part KIND [NAME]`: list the parts that a setting may name, with their arguments."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterable
from itertools import pairwise, zip_longest
from typing import Any

from ..domains import DOMAINS
from ..games import GAMES
from ..guides import GUIDES
from ..objectives import OBJECTIVES
from ..packages import absent_package
from ..proposers import PROPOSERS
from ..registry import Registry, annotations_of, described, in_yaml
from ..rewards import CONJECTURER_REWARDS

KINDS: Registry[Registry[Any]] = Registry(
    "kind of part",
    {
        "game": GAMES,
        "domain": DOMAINS,
        "proposer": PROPOSERS,
        "guide": GUIDES,
        "objective": OBJECTIVES,
        "reward": CONJECTURER_REWARDS,
    },
)


def print_parts(kind: str, name: str | None = None) -> None:
    """Print the first sentence and the arguments of each part of a kind, or of the part called `name`. Raises
    UnknownNameError, which suggests the nearest kind or name."""
    registry = KINDS[kind]
    for one in registry if name is None else [name]:
        entry = registry.get(one)
        absent = absent_package(entry) if name is None and isinstance(entry, str) else None
        print(f"{one} (needs {absent})" if absent else "\n".join(part_help(registry, one)))


def part_help(registry: Registry[Any], name: str) -> list[str]:
    """Return the lines that describe one part."""
    entry = registry.load(name)
    about = inspect.getdoc(entry) or ""
    parameters = registry.parameters(name, entry)
    hints, helps = annotations_of(entry), argument_helps(entry, parameters)
    lines = [name, *_wrapped(re.split(r"\n\n|(?<=\.)\s(?=[A-Z`(])", about)[0], "    ")]
    for key, one in parameters.items():
        kind = described(hints[key]) if key in hints else "any value"
        default = "required" if one.default is one.empty else f"default {in_yaml(one.default)}"
        default = default.replace("default the default", "optional")
        lines += [f"  {key}: {kind} ({default})", *_wrapped(helps.get(key, ""), "      ")]
    return lines


def argument_helps(entry: Any, parameters: Iterable[str]) -> dict[str, str]:
    """Map each argument to the string under its field, or to its "argument:" paragraph in the docstring."""
    about = inspect.getdoc(entry.__init__) or "" if isinstance(entry, type) else ""  # type: ignore[misc]
    text = f"{inspect.getdoc(entry) or ''}\n\n{about}"
    names = "|".join(map(re.escape, parameters)) or "(?!)"
    heads = list(re.finditer(rf"(?:\A|(?<=\n\n)|(?<=[.)]\s))((?:{names})(?:, (?:{names}))*):\s", text))
    helps: dict[str, str] = {}
    for head, after in zip_longest(heads, heads[1:]):
        words = text[head.end() : after.start() if after else len(text)].split("\n\n")[0]
        helps |= dict.fromkeys(head[1].split(", "), " ".join(words.split()))
    return helps | _strings_under_fields(entry)


def _strings_under_fields(entry: Any) -> dict[str, str]:
    helps: dict[str, str] = {}
    for owner in reversed(entry.__mro__[:-1]) if isinstance(entry, type) else ():
        try:
            body = ast.parse(textwrap.dedent(inspect.getsource(owner))).body[0].body  # type: ignore[attr-defined]
        except (OSError, TypeError):
            continue
        for field, under in pairwise(body):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(under, ast.Expr):
                helps[field.target.id] = " ".join(str(ast.literal_eval(under.value)).split())
    return helps


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, 100, initial_indent=indent, subsequent_indent=indent)
