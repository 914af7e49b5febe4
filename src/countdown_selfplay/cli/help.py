"""`--help` of the trainer commands: the library's options by section and TRL's most used ones, one line or two each;
`--help-all` prints all options with their full texts. options.json describes the options, so that --help need not
import TRL; docs/commands_page.py writes it from the parsers. `--help-part KIND [NAME]` lists the parts that a setting
may name, with their arguments."""

from __future__ import annotations

import ast
import inspect
import json
import re
import shutil
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Any

from ..packages import absent_package
from ..registry import Registry, annotations_of, described, in_yaml
from .commands import TRAINERS

FILE = Path(__file__).with_name("options.json")

_COLUMN = 30  # where the explanations begin
SECTIONS: dict[str, tuple[str, ...]] = {
    "Data, evaluation, report": (),
    "Problems and prompts": ("DomainFields", "EvaluationFields", "CountdownProblems", "CountdownArguments"),
    "Rounds: proposals, rewards, anchors": ("CurriculumFields", "Settings"),
    "The prover": ("ProverFields",),
    "The conjecturer": ("ConjecturerFields",),
    "Both roles": ("RoleFields",),
    "Collapse guard": ("GuardFields",),
    "Generation backend": ("GenerationFields", "EngineFields"),
    "Run": ("RunFields", "JointSelfPlayConfig", "SFTSettings", "IPOSettings"),
}
"""Map of section titles to the classes whose fields they list; the first lists all other classes of this library."""
USED = (
    *("model_name_or_path", "dtype", "use_peft", "lora_r", "lora_alpha", "output_dir", "max_steps"),
    *("num_train_epochs", "per_device_train_batch_size", "num_generations", "max_completion_length", "max_length"),
    *("temperature", "top_p"),
    *("learning_rate", "lr_scheduler_type", "warmup_steps", "weight_decay", "max_grad_norm", "beta", "entropy_coef"),
    *("bf16", "gradient_checkpointing", "seed", "eval_strategy", "eval_steps", "save_strategy", "save_steps"),
    *("save_total_limit", "resume_from_checkpoint", "report_to", "run_name", "disable_tqdm"),
)  # fmt: skip


KINDS: Registry[str] = Registry(
    "kind of part",
    {
        "game": "countdown_selfplay.games:GAMES",
        "domain": "countdown_selfplay.domains:DOMAINS",
        "proposer": "countdown_selfplay.proposers:PROPOSERS",
        "guide": "countdown_selfplay.guides:GUIDES",
        "objective": "countdown_selfplay.objectives:OBJECTIVES",
        "reward": "countdown_selfplay.rewards:CONJECTURER_REWARDS",
    },
)
"""Map of each kind of part to the place of its registry, module:name."""


@dataclass(frozen=True)
class Option:
    """Description of a flag of a trainer command."""

    name: str
    section: str = ""
    """Title of the option's section in --help; empty for a field that TRL or Transformers declares."""
    kind: str = "text"
    """Type of the value: int, float, bool or text."""
    nargs: str | int | None = None
    """Number of values, as in argparse."""
    choices: Sequence[str] = ()
    default: Any = None
    help: str = ""


def options_of(command: str) -> list[Option] | None:
    """Read the options of a trainer command from options.json. Options of TRL and Transformers that --help omits have
    a name only. Returns None if the installed TRL or Transformers has another version than the file."""
    written = json.loads(FILE.read_text(encoding="utf-8"))
    if not all(_is_installed(name, known) for name, known in written["versions"].items()):
        return None
    return [Option(**written["options"][row]) for row in written["commands"][" ".join(TRAINERS[command].models)]]


def _is_installed(package: str, version: str) -> bool:
    """Return whether a .dist-info folder shows this version; importlib.metadata takes ten times as long."""
    spec = find_spec(package)
    place = Path(spec.origin).parents[1] if spec and spec.origin else None
    return place is not None and (place / f"{package}-{version}.dist-info").is_dir()


def help_text(command: str, everything: bool) -> str:
    """Format the options by section. `everything`: full texts, and all fields of TRL and Transformers."""
    options = None if everything else options_of(command)
    if options is None:
        from .options import OptionParser

        options = OptionParser(command).options()
    sections: dict[str, list[Option]] = {}
    borrowed: dict[str, Option] = {}
    for one in options:
        if not one.section or (one.section == "Run" and one.name in USED):
            borrowed[one.name] = one
        else:
            sections.setdefault(one.section, []).append(one)
    used = [borrowed.pop(name) for name in USED if name in borrowed]
    lines = [f"usage: countdown-selfplay {command} [--recipe NAME] [--config FILE] [--FIELD VALUE ...]", ""]
    lines += textwrap.wrap(" ".join(TRAINERS[command].epilog.split()), _width())
    for title in SECTIONS:
        if title in sections:
            lines += ["", f"{title}:", *_entries(sections[title], everything)]
        if title == "The conjecturer" and title in sections:
            lines.append("  and its rarer settings, such as top_k, in --roles")
    lines += ["", "From TRL and Transformers, the most used:", *_entries(used, everything)]
    if everything:
        lines += ["", "From TRL and Transformers, all others:", *_entries(borrowed.values(), everything)]
    more = (
        f"--help-all: each option at length, and {len(borrowed)} more of TRL and Transformers.",
        "--help-part KIND [NAME]: arguments of the parts of a kind: game, domain, proposer, guide, objective, reward.",
        "Launch options (--accelerate_config, --num_processes, ...): `countdown-selfplay --help`.",
    )
    return "\n".join([*lines, "", *(line for one in more for line in textwrap.wrap(one, _width()))]) + "\n"


def _width() -> int:
    return min(shutil.get_terminal_size((80, 24)).columns, 110)


def _entries(options: Iterable[Option], everything: bool) -> list[str]:
    """Format each option: its name, default (or type of value) and help text, in full or cut to two lines."""
    lines = []
    for one in options:
        shown = _kind(one) if one.default in (None, "", []) else _word(one.default)
        head = f"  --{one.name} {shown}".rstrip().ljust(_COLUMN) + "  "
        listed = f" ({', '.join(one.choices)})" if one.choices and (everything or len(one.choices) < 5) else ""
        room = 2 * _width() - len(head) - _COLUMN - len(listed) - 6
        text = head + (one.help if everything else _cut(one.help, room)) + listed
        lines += textwrap.wrap(text, _width(), subsequent_indent=" " * (_COLUMN + 2))
    return lines


def _cut(text: str, room: int) -> str:
    """Return the first sentence of `text`, or as many of its clauses as fit into `room` characters."""
    sentence = re.split(r"(?<=[\w`)])\.\s", text, maxsplit=1)[0].rstrip(".")
    while len(sentence) > room or any(sentence.count(a) != sentence.count(b) for a, b in ("()", "{}")):
        shorter = re.sub(r"[,;:]? ?[,;:(][^,;:(]*$", "", sentence)
        if shorter == sentence:
            return textwrap.shorten(sentence, room, placeholder=" ...")
        sentence = re.sub(r"(, such as|,| such as)?( '\{\"\w+\")?$", "", shorter)
    return sentence


def _word(default: Any) -> str:
    if isinstance(default, list):
        return " ".join(map(str, default))
    return str(default).lower() if isinstance(default, bool) else str(default)


def _kind(one: Option) -> str:
    if one.choices:
        choices = "{" + ",".join(one.choices) + "}"
        return choices if len(choices) < 60 else "NAME"
    if one.nargs == "?":
        return ""  # a switch; --no_NAME is its contrary
    return one.kind.upper() + (" ..." if one.nargs else "")


def print_parts(kind: str, name: str | None = None) -> None:
    """Print the first sentence and the arguments of each part of a kind, or of the part called `name`. Raises
    UnknownNameError, which suggests the nearest kind or name."""
    registry = KINDS.load(kind)
    for one in registry if name is None else [name]:
        entry = registry.get(one)
        absent = absent_package(entry) if name is None and isinstance(entry, str) else None
        print(f"{one} (needs {absent})" if absent else "\n".join(part_help(registry, one)))


def part_help(registry: Registry[Any], name: str) -> list[str]:
    """Return the lines that describe one part."""
    entry = registry.load(name)
    about = inspect.getdoc(entry) or ""
    parameters = registry.parameters(name, entry)
    hints, helps = annotations_of(entry), argument_helps(entry, parameters)
    lines = [name, *_wrapped(re.split(r"\n\n|(?<=\.)\s(?=[A-Z`(])", about)[0], "    ")]
    for key, one in parameters.items():
        kind = described(hints[key]) if key in hints else "any value"
        default = "required" if one.default is one.empty else f"default {in_yaml(one.default)}"
        default = default.replace("default the default", "optional")
        lines += [f"  {key}: {kind} ({default})", *_wrapped(helps.get(key, ""), "      ")]
    return lines


def argument_helps(entry: Any, parameters: Iterable[str]) -> dict[str, str]:
    """Map each argument to the string under its field, or to its "argument:" paragraph in the docstring."""
    about = inspect.getdoc(entry.__init__) or "" if isinstance(entry, type) else ""  # type: ignore[misc]
    text = f"{inspect.getdoc(entry) or ''}\n\n{about}"
    names = "|".join(map(re.escape, parameters)) or "(?!)"
    heads = list(re.finditer(rf"(?:\A|(?<=\n\n)|(?<=[.)]\s))((?:{names})(?:, (?:{names}))*):\s", text))
    helps: dict[str, str] = {}
    for head, after in zip_longest(heads, heads[1:]):
        words = text[head.end() : after.start() if after else len(text)].split("\n\n")[0]
        helps |= dict.fromkeys(head[1].split(", "), " ".join(words.split()))
    return helps | _strings_under_fields(entry)


def _strings_under_fields(entry: Any) -> dict[str, str]:
    helps: dict[str, str] = {}
    for owner in reversed(entry.__mro__[:-1]) if isinstance(entry, type) else ():
        try:
            body = ast.parse(textwrap.dedent(inspect.getsource(owner))).body[0].body  # type: ignore[attr-defined]
        except (OSError, TypeError):
            continue
        for field, under in pairwise(body):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(under, ast.Expr):
                helps[field.target.id] = " ".join(str(ast.literal_eval(under.value)).split())
    return helps


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, 100, initial_indent=indent, subsequent_indent=indent)
