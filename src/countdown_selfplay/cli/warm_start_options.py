"""How `sft` and `ipo` read recipe, config file and flags, and what their dry run prints."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, NoReturn

import yaml
from trl import ModelConfig, TrlParser

from ..errors import ConfigError
from ..recipes import recipes
from ..registry import nearest
from .dry_run import _changed
from .joint import _has, _joined, _option, resolve_model
from .tables import aligned


class OneLineTrlParser(TrlParser):
    """Differs from TrlParser in that a wrong flag is a ConfigError (one line, exit code 2), without the usage."""

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message[:1].upper()}{message[1:]}; `{self.prog} --help` lists the options.")


def parse(argv: list[str], command: str, script: type, training: type, epilog: str) -> tuple[Any, Any, ModelConfig]:
    """Recipe < config file < flags. Without any of them and without a model: the recipe tiny/<command>."""
    argv = list(argv)
    classes = (script, training, ModelConfig)
    parser = OneLineTrlParser(classes, prog=f"countdown-selfplay {command}", epilog=epilog)  # type: ignore[arg-type]
    parser.set_defaults(lora_dropout=0.0)  # as in `joint`: the exported policy is the one that was trained
    chosen = _option(argv, "--recipe")
    if chosen is None and not _has(argv, "--config") and not _has(argv, "--model_name_or_path"):
        chosen = f"tiny/{command}"
    if chosen is not None:
        if _has(argv, "--config"):
            raise ConfigError(
                f"Pass either `--recipe` ({chosen}) or `--config`, not both; copy the recipe to edit it."
            )
        argv += ["--config", str(recipes(command)[chosen])]
    config = _option(argv, "--config")
    if config is not None:
        _check_file(config, classes, list(recipes(command)))
    known = {action.option_strings[0] for action in parser._actions if action.option_strings} | {"--config"}
    known |= {name for action in parser._actions for name in action.option_strings}
    for argument in argv:
        name = argument.partition("=")[0]
        if name.startswith("--") and name not in known:
            raise ConfigError(f"Unknown option '{name}'.{nearest_only(name, sorted(known))}")
    found = parser.parse_args_and_config(args=_joined(argv))
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


def print_dry_run(script: Any, args: Any, model: ModelConfig, data: list[str], rows: int | None) -> None:
    """The settings, the data (`data`: sentences; `rows`: how many are trained on, at most) and the arithmetic."""
    print("# Settings that differ from the library's defaults")
    print(aligned([("field", "value"), *_changed(args), *_changed(script), *_changed(model)]))
    print("\n# Data")
    for line in data:
        print(line)
    print("\n# Batches")
    batch = args.per_device_train_batch_size * args.gradient_accumulation_steps * args.world_size
    print(
        f"optimizer step: {args.per_device_train_batch_size} x {args.gradient_accumulation_steps} accumulated x "
        f"{args.world_size} process(es) = {batch} rows"
    )
    if args.max_steps > 0:
        print(f"steps: {args.max_steps} (max_steps)")
    elif rows is not None:
        per_epoch = max(1, -(-rows // batch))
        total = int(per_epoch * args.num_train_epochs)
        print(f"steps: {per_epoch} an epoch x {args.num_train_epochs:g} epochs = at most {total}")
    print(f"\nmodel: {resolve_model(model.model_name_or_path)}, not loaded by a dry run")
