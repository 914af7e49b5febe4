"""Write docs/commands.md, every command with every option, and the table that flags are checked against before torch
loads (src/countdown_selfplay/cli/options.json), from the parsers: `python docs/commands_page.py`.

A test compares both with what this script makes, under the versions of constraints.txt.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import json
import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

from trl import ModelConfig

from countdown_selfplay.cli import cdg, headroom, ipo, joint, sft
from countdown_selfplay.cli.early_check import AS_JOINT, TABLE
from countdown_selfplay.cli.main import PROG, TRAINERS, available_commands, help_line, usage
from countdown_selfplay.cli.settings_file import described, options_of
from countdown_selfplay.cli.systems import SYSTEMS
from countdown_selfplay.cli.trainer_help import section_of, titles
from countdown_selfplay.cli.trainer_options import parser_of
from countdown_selfplay.config import JointSelfPlayConfig
from countdown_selfplay.config.script import JointScriptArguments
from countdown_selfplay.headroom.settings import HeadroomArguments
from countdown_selfplay.iterated.settings import IteratedSettings
from countdown_selfplay.warm_starts.configs import IPOArguments, IPOSettings, SFTArguments, SFTSettings

PAGE = Path(__file__).parent / "commands.md"
CLASSES: dict[str, tuple[type, ...]] = {
    "joint": (JointScriptArguments, JointSelfPlayConfig, ModelConfig),
    "cdg": (cdg.IteratedArguments, IteratedSettings, ModelConfig),
    "sft": (SFTArguments, SFTSettings, ModelConfig),
    "ipo": (IPOArguments, IPOSettings, ModelConfig),
    "headroom": (HeadroomArguments, JointSelfPlayConfig, ModelConfig),
}
EPILOGS = {
    "joint": joint.EXTRA_HELP,
    "sft": sft.EPILOG,
    "ipo": ipo.EPILOG,
    "cdg": cdg.EPILOG,
    "headroom": headroom.EPILOG,
}
WIDTH = 100
HEAD = """# Commands

Every command and every option of this library's own; `docs/commands_page.py` writes this page from the parsers. Each
option of a trainer command is a field in YAML too (`--config FILE`), and the fields of TRL and Transformers, which
`--help-all` lists, are taken as well. `--n-problems` and `--n_problems` are the same.
"""


def actions(command: str) -> list[argparse.Action]:
    """The options of a trainer command, without --help."""
    found = parser_of(CLASSES[command], command, "")._actions
    return [action for action in found if action.dest != "help"]


def table() -> str:
    """options.json."""
    commands = {command: options_of(parser_of(own, command, ""), own) for command, own in CLASSES.items()}
    shared = commands["joint"]
    commands["headroom"] = [option for option in commands["headroom"] if option not in shared]
    lines = [f'"{name}": [\n' + ",\n".join(map(json.dumps, rows)) + "\n]" for name, rows in commands.items()]
    versions = json.dumps({package: version(package) for package in ("trl", "transformers")})
    return f'{{"versions": {versions},\n"commands": {{{", ".join(lines)}}}}}\n'


def page() -> str:
    """commands.md."""
    parts = [HEAD, f"```text\n{usage()}\n```\n"]
    for command, module in available_commands().items():
        parts.append(f"## {command}\n\n{help_line(command)}.\n")
        if command in AS_JOINT:
            own = command in EPILOGS
            more = SYSTEMS[command].epilog() if command in SYSTEMS else ""
            said = EPILOGS[command] if own else more or "The options of [joint](#joint)."
            parts.append(f"{said.strip()}\n")
            parts += [f"The options of [joint](#joint), and:\n\n{rows_beside_joint(command)}"] if own else []
        elif command in TRAINERS:
            parts.append(f"{EPILOGS[command].strip()}\n")
            parts += sections(command)
        else:
            parts.append(f"```text\n{shown_help(module)}```\n")
    return "\n".join(parts)


def sections(command: str) -> list[str]:
    """A table per section of a trainer command's own fields."""
    rows: dict[str, list[str]] = {}
    for action in actions(command):
        title = section_of(action.dest, CLASSES[command])
        if title is not None and not action.option_strings[0].startswith("--no_"):
            rows.setdefault(title, []).append(row(action))
    order = [title for title in titles() if title in rows]
    head = "| Option | Value | Meaning | Default |\n|---|---|---|---|\n"
    return [f"### {command}: {title}\n\n{head}" + "\n".join(rows[title]) + "\n" for title in order]


def rows_beside_joint(command: str) -> str:
    """The table of the options that joint does not have."""
    shared = {action.dest for action in actions("joint")}
    rows = [row(action) for action in actions(command) if action.dest not in shared]
    return "\n".join(["| Option | Value | Meaning | Default |", "|---|---|---|---|", *rows]) + "\n"


def row(action: argparse.Action) -> str:
    found = described(action)
    kind = {"int": "whole number", "float": "number", "bool": "true, false", "str": "text"}[found.get("type", "bool")]
    kind = ", ".join(f"`{choice}`" for choice in found.get("choices", ())) or kind
    kind += " ..." if found.get("nargs") in ("+", "*") else ""
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
            importlib.import_module(module).main(["--help"])
    finally:
        os.environ.pop("COLUMNS") if before is None else os.environ.update(COLUMNS=before)
    return text.getvalue()


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    TABLE.write_text(table(), encoding="utf-8")
    print(f"wrote {PAGE.name} and {TABLE.name} of {PROG}")
