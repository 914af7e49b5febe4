"""Names and types of a trainer command's flags, checked before torch and TRL load, which takes seconds.

options.json beside this file is what their parsers take, written by docs/commands_page.py and compared by a test. What
passes here is parsed again, by the command's own parser.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from .countdown_options import OneLineParser, flag_value, nearest_only
from .systems import SYSTEMS

TABLE = Path(__file__).parent / "options.json"
_PACKAGE = Path(__file__).resolve().parents[1]
AS_JOINT = ("rloo", *SYSTEMS)
"""Commands with the options of `joint`; so has `cdg --training online`."""
_HELP = ("-h", "--help", "--help-all", "--help_all")


def check_flags(command: str, argv: list[str]) -> None:
    """ConfigError, in the words of the command's own parser, for an unknown flag or a value of a wrong type. `argv`:
    with underscores in the names of flags."""
    if any(argument in _HELP for argument in argv):
        return
    table = json.loads(TABLE.read_text(encoding="utf-8"))
    online = command == "cdg" and flag_value(argv, "--training") == "online"
    options = table["commands"]["joint" if online or command in AS_JOINT else command]
    known = {flag for option in options for flag in option["flags"]} | {
        "--config",
        "--training" if online else "--config",
    }
    for name in (argument.partition("=")[0] for argument in argv if argument.startswith("--")):
        if name not in known:
            if may_be_newer(name[2:], table["versions"]):
                return
            raise ConfigError(f"Unknown option '{name}'.{nearest_only(name, sorted(known))}")
    if flag_value(argv, "--roles") is None:  # its value is YAML, which the command takes out first
        parser_from(command, options).parse_known_args(argv)


def may_be_newer(name: str, versions: dict[str, str]) -> bool:
    """Whether the flag may be one of another version of TRL or Transformers than the table's, or of a changed source
    of this package: the word stands in one of its config files."""
    try:
        if any(version(package) != there for package, there in versions.items()):
            return True
    except PackageNotFoundError:
        return True
    words = {name, name.partition("_")[2] or name}
    sources = [*(_PACKAGE / "config").glob("*.py"), _PACKAGE / "warm_starts" / "configs.py"]
    return any(re.search(rf"\b{re.escape(word)}:", path.read_text()) for path in sources for word in words)


def parser_from(command: str, options: list[dict[str, Any]]) -> argparse.ArgumentParser:
    """A parser that takes what the command's own takes, and knows no defaults."""
    kinds: dict[str, Callable[[str], Any]] = {"int": int, "float": float, "bool": truth, "str": str}
    parser = OneLineParser(prog=f"countdown-selfplay {command}", add_help=False, allow_abbrev=False)
    parser.add_argument("--config", nargs="?")  # the command says what is missing
    for option in options:
        if option.get("switch"):
            parser.add_argument(*option["flags"], action="store_true")
            continue
        more = {name: option[name] for name in ("nargs", "choices") if name in option}
        parser.add_argument(*option["flags"], type=kinds[option["type"]], **more)
    return parser


def described(action: argparse.Action) -> dict[str, Any]:
    """An option of a command's own parser as options.json holds it."""
    found: dict[str, Any] = {"flags": list(action.option_strings)}
    if action.nargs == 0:
        return found | {"switch": True}
    name = getattr(action.type, "__name__", "str")
    found["type"] = {"int": "int", "float": "float", "string_to_bool": "bool"}.get(name, "str")
    if action.nargs is not None:
        found["nargs"] = action.nargs
    if action.choices is not None and all(isinstance(choice, str | int) for choice in action.choices):
        found["choices"] = [str(choice) for choice in action.choices]
        found["type"] = "str"
    return found


def truth(word: str) -> bool:
    """As Transformers reads it."""
    if word.lower() not in ("yes", "true", "t", "y", "1", "no", "false", "f", "n", "0"):
        raise argparse.ArgumentTypeError(
            f"Truthy value expected: got {word} but expected one of yes/no, true/false, t/f, y/n, 1/0 (case "
            "insensitive)."
        )
    return word.lower() in ("yes", "true", "t", "y", "1")
