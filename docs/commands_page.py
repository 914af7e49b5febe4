"""Write docs/commands.md, every command with every option, and options.json, by which the command line knows its
options before TRL is loaded, from the parsers: `python docs/commands_page.py`.

A test compares both with what this script makes, under the versions of constraints.txt.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
from dataclasses import asdict
from functools import cache
from importlib.metadata import version
from pathlib import Path

from countdown_selfplay.cli.commands import COMMANDS, NAMES, TRAINERS
from countdown_selfplay.cli.help import FILE, SECTIONS, USED, Option
from countdown_selfplay.cli.main import usage
from countdown_selfplay.cli.options import OptionParser

PAGE = Path(__file__).parent / "commands.md"
WIDTH = 100
HEAD = """# Commands

Every command and every option of this library's own; `docs/commands_page.py` writes this page from the parsers. Each
option of a trainer command is a field in YAML too (`--config FILE`), and the fields of TRL and Transformers, which
`--help-all` lists, are taken as well. `joint --help-part KIND [NAME]` lists the arguments of the parts (game, domain,
proposer, guide, objective, reward). `--n-problems` and `--n_problems` are the same.
"""


def page() -> str:
    """commands.md."""
    parts = [HEAD, f"```text\n{usage()}\n```\n"]
    for command in NAMES:
        parts.append(f"## {command}\n\n{COMMANDS[command].help}.\n")
        how = TRAINERS.get(command)
        if how is None:
            parts.append(f"```text\n{shown_help(COMMANDS[command].module)}```\n")
            continue
        parts.append(how.epilog.strip().replace("are those of joint", "are those of [joint](#joint)") + "\n")
        parts += sections(command) if command == "joint" or how.kind != "joint" else beside_joint(command)
    return "\n".join(parts)


@cache
def options_of(command: str) -> list[Option]:
    """The options of a trainer command, from its parser."""
    return OptionParser(command).options()


def options_file() -> str:
    """options.json: each option once, and by the dataclasses of a command the places of its options."""
    rows: dict[str, int] = {}
    commands: dict[str, list[int]] = {}
    usual = asdict(Option(""))
    for command, how in TRAINERS.items():
        places = commands[" ".join(how.models)] = []
        for one in options_of(command):
            facts = asdict(one) if one.section or one.name in USED else {"name": one.name}
            row = json.dumps({fact: value for fact, value in facts.items() if value != usual[fact]})
            places.append(rows.setdefault(row, len(rows)))
    versions = json.dumps({name: version(name) for name in ("trl", "transformers")})
    of_commands = ",\n".join(f"{json.dumps(name)}: {places}" for name, places in commands.items())
    options = ",\n".join(rows)
    return f'{{"versions": {versions},\n"options": [\n{options}\n],\n"commands": {{\n{of_commands}\n}}}}\n'


def sections(command: str) -> list[str]:
    """A table per section of a trainer command's own fields."""
    rows: dict[str, list[str]] = {}
    for one in options_of(command):
        rows.setdefault(one.section, []).append(row(one))
    head = "| Option | Value | Meaning | Default |\n|---|---|---|---|\n"
    return [f"### {command}: {title}\n\n{head}" + "\n".join(rows[title]) + "\n" for title in SECTIONS if title in rows]


def beside_joint(command: str) -> list[str]:
    """The table of the options that joint does not have, if there are any."""
    shared = {one.name for one in options_of("joint")}
    rows = [row(one) for one in options_of(command) if one.name not in shared]
    if not rows:
        return []
    table = "\n".join(["| Option | Value | Meaning | Default |", "|---|---|---|---|", *rows])
    return [f"The options of [joint](#joint), and:\n\n{table}\n"]


def row(one: Option) -> str:
    kinds = {"int": "whole number", "float": "number", "bool": "true, false", "text": "text"}
    kind = ", ".join(f"`{choice}`" for choice in one.choices) or kinds[one.kind]
    kind += " ..." if one.nargs in ("+", "*") else ""
    text = one.help.replace("|", "\\|").replace("<", "&lt;")
    default = "" if one.default in (None, "") else f"`{one.default}`"
    return f"| `--{one.name}` | {kind} | {text} | {default} |"


def shown_help(module: str) -> str:
    """What `--help` of a command prints."""
    text, before = io.StringIO(), os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(WIDTH)
    try:
        with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
            importlib.import_module(f"countdown_selfplay.{module}").main(["--help"])
    finally:
        os.environ.pop("COLUMNS") if before is None else os.environ.update(COLUMNS=before)
    return text.getvalue()


if __name__ == "__main__":
    FILE.write_text(options_file(), encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {FILE.name} and {PAGE.name}")
