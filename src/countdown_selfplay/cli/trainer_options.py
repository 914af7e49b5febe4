"""How the trainer commands read recipe, config file and flags: one rule, one line for every mistake."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, NoReturn

import yaml
from trl import ModelConfig, TrlParser

from ..errors import ConfigError, CountdownSelfPlayError
from ..recipes import recipes
from ..registry import nearest
from .trainer_help import ALL, help_text


class OneLineTrlParser(TrlParser):
    """Differs from TrlParser in that a wrong flag is a ConfigError (one line, exit code 2), without the usage, and in
    that a dry run takes bf16 on a machine that has none: `planned` holds what was set aside."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        found, rest = super().parse_known_args(args, namespace)
        self.planned: dict[str, Any] = {}
        if getattr(found, "dry_run", False):
            for name in ("bf16", "bf16_full_eval"):  # TrainingArguments refuses both where no GPU is
                if getattr(found, name, None):
                    self.planned[name] = True
                    setattr(found, name, False)
        return found, rest

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message[:1].upper()}{message[1:]}; `{self.prog} --help` lists the options.")


def parse_options(
    argv: list[str], command: str, script: type, training: type, epilog: str, recipe: str
) -> tuple[Any, Any, ModelConfig]:
    """Recipe < config file < flags. Without recipe, config file and model: `recipe`. Unknown names are errors that
    suggest the nearest."""
    argv = list(argv)
    classes = (script, training, ModelConfig)
    parser = OneLineTrlParser(classes, prog=f"countdown-selfplay {command}", epilog=epilog)  # type: ignore[arg-type]
    asked = [argument for argument in argv if argument in ("-h", "--help", *ALL)]
    if asked:
        print(help_text(parser, classes, asked[0] in ALL), end="")
        raise SystemExit(0)
    # Adapter dropout would make the sampled and the trained policy two different ones; TRL's default is 0.05.
    parser.set_defaults(lora_dropout=0.0)
    chosen = flag_value(argv, "--recipe")
    if chosen is None and not has_flag(argv, "--config") and not has_flag(argv, "--model_name_or_path"):
        chosen = recipe
    if chosen is not None:
        if has_flag(argv, "--config"):
            raise ConfigError(
                f"Pass either `--recipe` ({chosen}) or `--config`, not both; copy the recipe to edit it."
            )
        argv += ["--config", str(recipes(command)[chosen])]
    config = flag_value(argv, "--config")
    if config is not None:
        _check_file(config, classes, list(recipes(command)))
    known = {action.option_strings[0] for action in parser._actions if action.option_strings} | {"--config"}
    known |= {name for action in parser._actions for name in action.option_strings}
    for argument in argv:
        name = argument.partition("=")[0]
        if name.startswith("--") and name not in known:
            raise ConfigError(f"Unknown option '{name}'.{nearest_only(name, sorted(known))}")
    try:
        found = parser.parse_args_and_config(args=_joined(argv))
    except CountdownSelfPlayError:
        raise
    except ValueError as error:  # TrainingArguments and TRL's configs check their own fields with it
        raise ConfigError(f"Transformers or TRL refuses these settings: {error}") from error
    for name, value in parser.planned.items():
        setattr(found[1], name, value)
    found[0].recipe = chosen
    return found  # type: ignore[return-value]


def _check_file(config: str, classes: tuple[type, ...], names: list[str]) -> None:
    if not Path(config).is_file():
        raise ConfigError(
            f"There is no config file '{config}'; pass a YAML file, or a --recipe: {', '.join(names) or 'none ships'}."
        )
    try:
        content = yaml.safe_load(Path(config).read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ConfigError(f"{config} is no YAML: {' '.join(str(error).split())[:120]}.") from None
    if not isinstance(content, dict):
        raise ConfigError(f"{config} must be a YAML mapping from fields to values.")
    fields = sorted({f.name for one in classes for f in dataclasses.fields(one)})
    for key in content:
        if key not in fields and key != "env":
            raise ConfigError(f"{config}: unknown field '{key}'.{nearest_only(str(key), fields)}")


def nearest_only(name: str, known: list[str]) -> str:
    """ " Did you mean 'x'?" or ""; the list of some 200 fields would help nobody."""
    phrase = nearest(name, known)
    return phrase.partition(" Known names:")[0] or " `--help` lists them."


def has_flag(argv: list[str], flag: str) -> bool:
    return any(a == flag or a.startswith(flag + "=") for a in argv)


def flag_value(argv: list[str], flag: str) -> str | None:
    for i, argument in enumerate(argv):
        if argument.startswith(flag + "="):
            return argument.partition("=")[2]
        if argument == flag and i + 1 < len(argv):
            return argv[i + 1]
    return None


def _joined(argv: list[str]) -> list[str]:
    """TrlParser only knows `--config FILE`, not `--config=FILE`."""
    return [part for a in argv for part in (a.split("=", 1) if a.startswith("--config=") else [a])]


def resolve_model(name: str | None) -> str:
    """Path or id of a model; "tiny" (and None) is the embedded one."""
    if name in (None, "tiny"):
        from ..tiny import TINY_MODEL_PATH

        return str(TINY_MODEL_PATH)
    assert name is not None
    return name
