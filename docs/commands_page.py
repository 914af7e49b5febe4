"""Write docs/commands.md, every command with every option, from the parsers: `python docs/commands_page.py`.

A test compares the page with what this script makes, under the versions of constraints.txt.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import os
from pathlib import Path
from typing import Any

from countdown_selfplay.cli.commands import COMMANDS, NAMES, TRAINERS
from countdown_selfplay.cli.main import usage
from countdown_selfplay.cli.help import TITLES
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


def sections(command: str) -> list[str]:
    """A table per section of a trainer command's own fields."""
    parser = OptionParser(command)
    rows: dict[str, list[str]] = {}
    for name, action in parser.fields.items():
        rows.setdefault(parser.section_of(name) or "", []).append(row(action))
    head = "| Option | Value | Meaning | Default |\n|---|---|---|---|\n"
    return [f"### {command}: {title}\n\n{head}" + "\n".join(rows[title]) + "\n" for title in TITLES if title in rows]


def beside_joint(command: str) -> list[str]:
    """The table of the options that joint does not have, if there are any."""
    shared = OptionParser("joint").fields
    rows = [row(action) for name, action in OptionParser(command).fields.items() if name not in shared]
    if not rows:
        return []
    table = "\n".join(["| Option | Value | Meaning | Default |", "|---|---|---|---|", *rows])
    return [f"The options of [joint](#joint), and:\n\n{table}\n"]


def row(action: argparse.Action) -> str:
    kinds = {"int": "whole number", "float": "number", "string_to_bool": "true, false"}
    kind = ", ".join(f"`{choice}`" for choice in action.choices or ())
    kind = kind or kinds.get(getattr(action.type, "__name__", ""), "text")
    kind += " ..." if action.nargs in ("+", "*") else ""
    text = " ".join((action.help or "").replace("%%", "%").split()).replace("|", "\\|").replace("<", "&lt;")
    default: Any = action.default
    default = "" if default in (None, argparse.SUPPRESS, "") else f"`{getattr(default, 'value', default)}`"
    return f"| `--{action.dest}` | {kind} | {text} | {default} |"


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
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.name}")
