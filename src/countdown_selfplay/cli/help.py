"""`--help` of the trainer commands: the library's options by section and TRL's most used ones, one line or two each;
`--help-all` prints all options with their full texts. options.json describes the options, so that --help need not
import TRL; docs/commands_page.py writes it from the parsers."""

from __future__ import annotations

import json
import re
import shutil
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

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
