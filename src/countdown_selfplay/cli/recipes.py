"""`countdown-selfplay recipes`: list the shipped recipes, or print one. Loads no torch."""

from __future__ import annotations

import itertools
import re
from functools import cache
from typing import Any

import yaml

from ..config.recipes import PLACES, recipes, resolved
from ..evaluation.terminal import aligned
from ..packages import PARTS, absent_package
from .commands import COMMANDS, JOINT, TRAINERS
from .plain import parser_of

EPILOG = """\
examples: countdown-selfplay recipes
          countdown-selfplay recipes tiny/sgs > mine.yaml

CPU minutes: of one whole run, where one was measured (facts.yaml beside the recipes says when). GiB: what --dry_run
counts for one GPU in bf16, texts of full length; !: more than one of 80 GB has, so for several; --probe measures."""

_KINDS = tuple(dict.fromkeys(one.kind for one in TRAINERS.values()))


def main(argv: list[str]) -> int:
    """Print the table, or the recipe. Returns 0."""
    parser = parser_of("recipes", EPILOG)
    parser.add_argument("name", nargs="?", metavar="NAME", help="a recipe, such as tiny/default")
    options = parser.parse_args(argv)
    if options.name is None:
        print(table())
    else:
        print(text_of(options.name), end="")
    return 0


def text_of(name: str) -> str:
    """Return the recipe as a self-contained file: as it ships, or merged with the recipe that it extends (`recipe:`).
    Raises UnknownNameError, which suggests the nearest name."""
    known = recipes()
    for command in _KINDS:
        known.update(recipes(command))
    text = known[name].read_text(encoding="utf-8")
    if "recipe" not in yaml.safe_load(text):
        return text
    head = itertools.takewhile(lambda line: line.startswith("#"), text.splitlines(keepends=True))
    return "".join(head) + yaml.safe_dump(resolved(name, known), sort_keys=False)


def table() -> str:
    """Return the table of recipes as text, those of the embedded model first."""
    rows = [
        (name, played_by(command, name), paper_of(name), *(_figure(name, what) for what in ("minutes", "gib")))
        for command in _KINDS
        for name in recipes(command)
    ]
    rows.sort(key=lambda row: (not row[0].startswith("tiny/"), row[0]))
    return aligned([("recipe", "command", "paper", "CPU min", "GiB"), *rows])


def played_by(command: str, name: str) -> str:
    """Return the command that plays a recipe, with a remark if a package that it needs is not installed."""
    shown, written = command_of(command, name), text_of(name)
    places = [COMMANDS[shown].module]
    for kind, parts in PARTS.items():
        result = re.findall(rf"^\s*{kind.replace(' ', '_')}: *(\w+)", written, re.MULTILINE)
        places += [parts[one] for one in result if one in parts]
    absent = next(filter(None, map(absent_package, places)), None)
    return shown if absent is None else f"{shown} (needs {absent})"


def command_of(command: str, name: str) -> str:
    """Return the command that plays a recipe: `command`, or for joint the one whose recipe has the same first word."""
    rows = {_word(one.recipe): row for row, one in TRAINERS.items() if one.module == JOINT}
    return command if command != "joint" else rows.get(_word(name), command)


def _word(recipe: str) -> str:
    return recipe.partition("/")[2].partition("_")[0]


def paper_of(name: str) -> str:
    """Return the paper whose system or run the recipe reproduces; "" for recipes of this library."""
    papers = facts()["papers"]
    stem = name.partition("/")[2]
    own = papers.get(name, next((papers[known] for known in papers if stem.startswith(known)), None))
    return own or ""


@cache
def facts() -> dict[str, Any]:
    """Read facts.yaml in the folder of the recipes: papers, measured minutes, GiB."""
    place = next(place for place in PLACES if (place / "facts.yaml").is_file())
    result: dict[str, Any] = yaml.safe_load((place / "facts.yaml").read_text(encoding="utf-8"))
    return result


def _figure(name: str, what: str) -> str:
    """Format a measurement or an estimate; "" where there is none."""
    value = facts()["recipes"].get(name, {}).get(what)
    return "" if value is None else f"{value:.3g}{' !' * (what == 'gib' and value > 79)}"
