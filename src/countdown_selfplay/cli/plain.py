"""Shared parts of the commands without a trainer: a parser with one-line errors, common options, file output."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, get_args

from ..errors import ConfigError
from ..registry import suggestion
from .commands import COMMANDS

if TYPE_CHECKING:
    from ..countdown import Problem, Rules


class OneLineParser(argparse.ArgumentParser):
    """ArgumentParser that reports a wrong option as a ConfigError (one line, exit code 2), without the usage."""

    def error(self, message: str) -> NoReturn:
        _, unknown, words = message.partition("unrecognized arguments: ")
        near = suggestion(words.partition(" ")[0].partition("=")[0], [*self._option_string_actions]) if unknown else ""
        raise ConfigError(f"{message[:1].upper()}{message[1:]}; `{self.prog} --help` lists the options.{near}")


def parser_of(command: str, epilog: str) -> OneLineParser:
    """Build the parser of a command. The epilog's line breaks (examples, exit codes) are kept."""
    return OneLineParser(
        prog=f"countdown-selfplay {command}",
        description=f"{COMMANDS[command].help}.",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def write_output(output: Path, texts: Mapping[Path, str]) -> None:
    """Write the files of `--output` and print their paths. Raises ConfigError if one cannot be written."""
    try:
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"Wrote {path}")
    except OSError as error:
        raise ConfigError(f"`--output` ({output}) cannot be written: {error.strerror}.") from error


def seed_number(word: str) -> int:
    """Parse a seed: a whole number from 0 to 2**32 - 1."""
    if not (word.isascii() and word.isdigit() and int(word) < 2**32):
        raise argparse.ArgumentTypeError(f"'{word[:40]}' is not a whole number from 0 to {2**32 - 1}")
    return int(word)


def positive(word: str) -> int:
    """Parse a whole number above 0."""
    if not (word.isascii() and word.isdigit() and int(word) > 0):
        raise argparse.ArgumentTypeError(f"'{word[:40]}' is not a whole number above 0")
    return int(word)


def file_name(word: str) -> Path:
    """Parse the name of a file; refuse that of a folder."""
    if Path(word).is_dir():
        raise argparse.ArgumentTypeError(f"'{word}' is a folder; pass the name of a file")
    return Path(word)


SHARED: dict[str, dict[str, Any]] = {
    "model": {"required": True, "help": "a model or adapter folder, a hub id, tiny or tiny-ladder"},
    "role": {"choices": ("prover", "conjecturer")},
    "seed": {"type": seed_number, "default": 0, "help": "of the samples and intervals (default: 0)"},
    "device": {"help": "such as cpu or cuda:1 (default: the GPU if there is one)"},
    "temperature": {"type": float, "help": "0 is greedy"},
    "max_new_tokens": {"type": positive, "help": "tokens after which an answer is cut"},
    "batch_size": {"type": positive, "help": "texts generated at once (1024 short or 128 long ones)"},
}
"""Arguments of `add_argument` for the options that several commands share."""


def add_options(parser: argparse._ActionsContainer, *names: str, **helps: str) -> None:
    """Add options of SHARED; `helps` replaces the help text of some."""
    for name in (*names, *helps):
        parser.add_argument(f"--{name}", **SHARED[name] | ({"help": helps[name]} if name in helps else {}))


def texts_at_once(requested: int | None, most_tokens: int) -> int:
    """Return the requested batch size, or if None 1024 for texts of at most 64 tokens (`most_tokens`), else 128."""
    return requested or (1024 if most_tokens <= 64 else 128)


def problem_of(words: list[str], target: str) -> Problem:
    """Parse the problem on the command line. Raises ConfigError, which names the first word that is not an integer."""
    from ..countdown import Problem

    return Problem(tuple(_integer(word, "A number") for word in words), _integer(target, "The target"))


def _integer(word: str, what: str) -> int:
    digits = word[1:] if word[:1] == "-" else word
    if not (digits.isascii() and digits.isdigit() and len(digits) < 20):
        raise ConfigError(f"{what} must be an integer of fewer than 20 digits, got '{word[:40]}'.")
    return int(word)


def add_rule_options(parser: argparse.ArgumentParser, answers: bool) -> None:
    """Add the options of the rule set. `answers`: include those that only the verifier reads."""
    from ..countdown import DEFAULT_RULES, AnswerFormat, AnswerRule

    group = parser.add_argument_group("rules (all off by default)")
    group.add_argument("--integers_only", action="store_true", help="every division must come out even")
    group.add_argument("--use_some", action="store_true", help="numbers may be left out (at most once each)")
    if answers:
        group.add_argument("--allow_equals", action="store_true", help="accept `3 + 4 = 7` for the target 7")
        group.add_argument("--leading_minus", action="store_true", help="accept one minus sign before an operand")
        group.add_argument("--lenient_unicode", action="store_true", help="read look-alike signs as ASCII")
        group.add_argument(
            "--score_tagged", type=float, metavar="SCORE", help="of a malformed answer within answer tags (else 0)"
        )
        usual = vars(DEFAULT_RULES)
        for name, kind, help in (
            ("answer_rule", AnswerRule, "which tag counts"),
            ("answer_format", AnswerFormat, "bare: the whole completion is the expression"),
        ):
            group.add_argument(f"--{name}", choices=get_args(kind), default=usual[name], help=help)


def rules_of(options: argparse.Namespace) -> Rules:
    """Build the rule set from the options."""
    from ..countdown import DEFAULT_RULES, Rules

    values = {name: value for name, value in vars(options).items() if name in DEFAULT_RULES.to_dict()}
    return Rules(**values, use_all=not options.use_some)
