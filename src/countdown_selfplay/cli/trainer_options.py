"""How the trainer commands read recipe, config file and flags: one rule, one line for every mistake."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NoReturn

from trl import ModelConfig, TrlParser

from ..config.countdown_fields import CountdownFields, DomainFields
from ..config.recipes import over, recipes, resolved
from ..distributed.launched import refuse_lone_process
from ..errors import ConfigError, CountdownSelfPlayError
from .countdown_options import flag_value, nearest_only, underscored
from .settings_file import Option, by_field, check_keys, options_of, read_settings, split_config, typed, without
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


def parser_of(classes: tuple[type, ...], command: str, epilog: str) -> OneLineTrlParser:
    """The parser of a trainer command, with a flag for each field of `classes`."""
    return OneLineTrlParser(classes, prog=f"countdown-selfplay {command}", epilog=epilog)  # type: ignore[arg-type]


def parse_options(
    argv: list[str], command: str, script: type, training: type, epilog: str, recipe: str
) -> tuple[Any, Any, ModelConfig]:
    """Recipe < config file < flags; within each a role's own field wins over the plain one, but not over a plain one
    of a higher place. Without recipe, config file and model: `recipe`. Unknown names are errors that suggest the
    nearest."""
    argv = [underscored(argument) for argument in argv]
    classes = (script, training, ModelConfig)
    parser = parser_of(classes, command, epilog)
    asked = [argument for argument in argv if argument in ("-h", "--help", *ALL)]
    if asked:
        print(help_text(parser, classes, asked[0] in ALL), end="")
        raise SystemExit(0)
    refuse_lone_process()
    # Adapter dropout would make the sampled and the trained policy two different ones; TRL's default is 0.05.
    parser.set_defaults(lora_dropout=0.0)
    known = {name for action in parser._actions for name in action.option_strings} | {"--config"}
    given = [argument.partition("=")[0] for argument in argv if argument.startswith("--")]
    for name in given:
        if name not in known:
            raise ConfigError(f"Unknown option '{name}'.{nearest_only(name, sorted(known))}")
    config, argv = split_config(argv)
    names, options = recipes(command), by_field(options_of(parser, classes))
    written = {} if config is None else _settings(config, list(names), options)
    chosen = flag_value(argv, "--recipe")
    if chosen is None:
        chosen = written.get("recipe")
    if chosen is None and config is None and "--model_name_or_path" not in given:
        chosen = recipe
    shipped: dict[str, Any] = {}
    if chosen is not None:
        shipped = resolved(chosen, names, lambda path: _settings(str(path), list(names), options), training)
    settings = over(shipped, written, training)
    flags: dict[str, Any] = {name[2:]: None for name in given}
    if flag_value(argv, "--roles") is not None:
        flags["roles"], argv = flag_value(argv, "--roles"), without(argv, "--roles")
    settings = {n: v for n, v in over(settings, flags, training).items() if n == "roles" or n not in flags}
    try:
        os.environ.update({key: str(value) for key, value in settings.pop("env", {}).items()})
        parser.set_defaults_with_config(**settings)
        found = parser.parse_args_into_dataclasses(args=argv)
    except CountdownSelfPlayError:
        raise
    except ValueError as error:  # TrainingArguments and TRL's configs check their own fields with it
        raise ConfigError(f"Transformers or TRL refuses these settings: {error}") from error
    for name, value in parser.planned.items():
        setattr(found[1], name, value)
    found[0].recipe = chosen
    _refuse_countdowns(found, {name[2:] for name in given} | set(written))
    _refuse_unread(found[2], {name[2:] for name in given} | set(settings))
    return found  # type: ignore[return-value]


def _settings(path: str, recipes: list[str], options: Mapping[str, Option]) -> dict[str, Any]:
    """The settings of a YAML file, checked."""
    content = read_settings(path, recipes)
    check_keys(path, content, options)
    return typed(content, options)


def _refuse_countdowns(found: Any, named: set[str]) -> None:
    """Countdown's own fields, asked for beside another domain; those of a recipe are passed over."""
    domain = next(part.domain for part in found if isinstance(part, DomainFields))
    own = sorted(named & (set(CountdownFields.__dataclass_fields__) - set(DomainFields.__dataclass_fields__)))
    if own and domain != "countdown":
        raise ConfigError(
            f"`{own[0]}` is Countdown's, and `domain` is '{domain}'; leave it out, or set domain_kwargs."
        )


def _refuse_unread(model: ModelConfig, named: set[str]) -> None:
    """Options of the model that would be passed over."""
    if model.load_in_8bit or model.load_in_4bit:
        raise ConfigError(
            "`load_in_8bit` and `load_in_4bit` are not supported: the finished folder holds whole weights, which a "
            "quantized base would round; leave them unset."
        )
    adapter = sorted(name for name in named if name.startswith("lora_") or name in ("use_dora", "use_rslora"))
    if adapter and not model.use_peft:
        raise ConfigError(f"`{adapter[0]}` is read under --use_peft only; pass that too, or leave it unset.")
