"""Names and values of a trainer command's flags and of its YAML file, checked before torch and TRL load, which takes
seconds.

options.json beside this file is what their parsers take, written by docs/commands_page.py and compared by a test. What
passes here is parsed again, by the command's own parser.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from ..registry import ELSEWHERE
from .countdown_options import OneLineParser, flag_value, nearest_only
from .early_needs import check_needs
from .settings_file import TRUTHS, Option, by_field, check_keys, read_settings, split_config, typed
from .systems import SYSTEMS

TABLE = Path(__file__).parent / "options.json"
_PACKAGE = Path(__file__).resolve().parents[1]
AS_JOINT = ("rloo", *SYSTEMS, "headroom")
"""Commands with the options of `joint`, headroom with some of its own besides; so has `cdg --training online`."""
HELP = ("-h", "--help", "--help-all", "--help_all")
_NAMES = {
    "game": "games:GAMES",
    "proposer": "proposers:PROPOSERS",
    "guide": "guides:GUIDES",
    "domain": "domains:DOMAINS",
    "conjecturer_reward": "rewards:CONJECTURER_REWARDS",
    "prover_objective": "objectives:OBJECTIVES",
    "conjecturer_objective": "objectives:OBJECTIVES",
    "prover_prompt": "countdown:PROVER_PROMPTS",
    "conjecturer_prompt": "countdown:CONJECTURER_PROMPTS",
}
"""Field -> the registry of what it names; none of them loads torch."""


_ITERATED = {
    "max_steps": "--iterations",
    "learning_rate": '--role_training, such as \'{"prover": {"learning_rate": [3e-4]}}\'',
}
"""Fields of the other commands -> what says the same to `cdg --training iterated`."""


def check_early(command: str, argv: list[str]) -> None:
    """ConfigError, in the words of the command's own parser, for what is wrong with the flags or the YAML file by
    itself. `argv`: with underscores in the names of flags."""
    if not any(argument in HELP for argument in argv) and check_flags(command, argv):
        check_file(command, argv)
        check_needs(command, _kind(command, argv), argv)


def check_flags(command: str, argv: list[str]) -> bool:
    """ConfigError for an unknown flag or a value of a wrong type. False if that is left to the command's own
    parser."""
    table = _table()
    options = _options(table, command, argv)
    known = {flag for option in options for flag in option["flags"]} | {"--config"}
    if command == "cdg":
        known.add("--training")
    for name in (argument.partition("=")[0] for argument in argv if argument.startswith("--")):
        if name not in known:
            meant = ELSEWHERE.get(name[2:], name[2:])
            if _kind(command, argv) == "cdg" and meant in _ITERATED:
                raise ConfigError(
                    f"Iterated training has no option '{name}'. Use {_ITERATED[meant]}; for online training: "
                    f"--training online --{meant}."
                )
            if may_be_newer(name[2:], table["versions"]):
                return False
            raise ConfigError(f"Unknown option '{name}'.{nearest_only(name, sorted(known))}")
    if flag_value(argv, "--roles") is None:  # its value is YAML, which the command takes out first
        parser_from(command, options).parse_known_args(argv)
    return True


def check_file(command: str, argv: list[str]) -> None:
    """ConfigError for a key of the `--config` file that is no field, a value that its field does not take, and for a
    name, there or in a flag, of a recipe or a part that does not exist."""
    from ..config.players import parsed_roles
    from ..config.recipes import recipes

    table, kind = _table(), _kind(command, argv)
    path, _ = split_config(argv)
    known, options = recipes(kind), by_field(_options(table, command, argv))
    written = {} if path is None else read_settings(path, list(known))
    newer = [key for key in written if key not in options and may_be_newer(str(key), table["versions"])]
    check_keys(str(path), written, [*options, *newer])
    written = typed(written, options)
    asked = {name: found for name in ("recipe", "roles", *_NAMES) if (found := flag_value(argv, f"--{name}"))}
    named = {**written, **asked}
    if named.get("recipe") is not None:
        known[named["recipe"]]
    parts = [(field, named.get(field)) for field in _NAMES if field in options]
    if "roles" in options:
        roles = parsed_roles(written.get("roles")) | parsed_roles(asked.get("roles"))
        parts += [("prover_objective", settings.get("objective")) for settings in roles.values()]
    for field, name in parts:
        if isinstance(name, str) and ":" not in name:
            module, _, registry = _NAMES[field].partition(":")
            getattr(import_module(f"countdown_selfplay.{module}"), registry)[name]


def _table() -> dict[str, Any]:
    return json.loads(TABLE.read_text(encoding="utf-8"))


def _kind(command: str, argv: list[str]) -> str:
    """The command whose options `command` has."""
    online = command == "cdg" and flag_value(argv, "--training") == "online"
    return "joint" if online or command in AS_JOINT else command


def _options(table: dict[str, Any], command: str, argv: list[str]) -> list[Option]:
    """Those of its kind; a command as joint has its own besides, `cdg --training online` none."""
    own = table["commands"].get(command, []) if command in AS_JOINT else []
    return table["commands"][_kind(command, argv)] + own


def may_be_newer(name: str, versions: dict[str, str]) -> bool:
    """Whether the flag may be one of another version of TRL or Transformers than the table's, or of a changed source
    of this package: the word stands in one of its config files, and no other library has it for a field of ours."""
    if name in ELSEWHERE:
        return False
    try:
        if any(version(package) != there for package, there in versions.items()):
            return True
    except PackageNotFoundError:
        return True
    words = {name, name.partition("_")[2] or name}
    sources = [*(_PACKAGE / "config").glob("*.py"), _PACKAGE / "warm_starts" / "configs.py"]
    return any(re.search(rf"\b{re.escape(word)}:", path.read_text()) for path in sources for word in words)


def parser_from(command: str, options: list[Option]) -> argparse.ArgumentParser:
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


def truth(word: str) -> bool:
    """As Transformers reads it."""
    if word.lower() not in TRUTHS:
        raise argparse.ArgumentTypeError(
            f"Truthy value expected: got {word} but expected one of yes/no, true/false, t/f, y/n, 1/0 (case "
            "insensitive)."
        )
    return word.lower() in TRUTHS[:5]
