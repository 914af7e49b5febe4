"""The run folder: run.json, metrics.jsonl and samples.jsonl, from which reports are made."""

from __future__ import annotations

import datetime
import json
import logging
import math
import platform
import re
import shlex
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from ... import __version__
from ...contract.metric import as_json
from ...data.jsonl import json_file
from ...data.run_files import append_lines, write_atomically
from ...errors import DataError
from ..exports import write_proposer_files
from ..host import Host
from ..metrics import HISTOGRAM

logger = logging.getLogger(__name__)

_PACKAGES = ("torch", "transformers", "trl", "accelerate", "peft", "datasets")


def describe_run(trainer: Host, resumed: Path | None, step: int) -> None:
    """Write run.json. A resume leaves the start and adds an entry to `resumes`: from where, and what has changed, as
    [before, now]; `config` is the one in force."""
    path, args = Path(trainer.args.output_dir) / "run.json", trainer.args
    before = _before(path) if resumed is not None and path.exists() else {}
    resumes = before.get("resumes", [])
    if resumed is not None:
        entry = {"at": _now(), "from": str(resumed), "step": step, "changed": trainer.changed_settings}
        resumes = [*resumes, entry]
    config = {**args.to_dict(), "max_grad_norm": trainer.max_grad_norm}
    started = {"started": before["started"]} if "started" in before else {}
    declared = {metric.name: as_json(metric) for metric in trainer.guard.metrics}
    write_description(args, config, trainer.domain, **started, metrics=declared, resumes=resumes)


def _before(path: Path) -> dict[str, Any]:
    """What run.json says. Training goes on without it: a damaged one is kept under another name, and begins again."""
    try:
        return json_file(path, resumes=list)
    except DataError as error:
        kept = path.with_name(f"{path.name}.damaged")
        path.replace(kept)
        logger.warning("%s It is kept as %s, and a new one begins with this resume.", error, kept.name)
        return {}


def write_description(args: Any, config: dict[str, Any], domain: Any, **more: Any) -> None:
    """run.json of the run in `args.output_dir`: its settings without tokens (TrainingArguments.to_dict replaces them
    by placeholders, which say nothing either), its domain, the software, and `more`."""
    said = domain.to_dict()
    path = Path(args.output_dir) / "run.json"
    description = {
        "name": path.parent.name,
        "started": _now(),
        **({"command": command} if (command := command_line(sys.argv)) else {}),
        "config": {name: value for name, value in config.items() if not name.endswith("_token")},
        "domain": said,
        **({"rules": said["rules"]} if "rules" in said else {}),
        "environment": {
            "countdown-selfplay": __version__,
            "python": platform.python_version(),
            "device": str(args.device),
            "processes": args.world_size,
            **{name: version(name) for name in _PACKAGES},
        },
        **more,
    }
    write_atomically(path, without_tokens(json.dumps(description, indent=2, default=str)) + "\n")


def command_line(argv: Sequence[str]) -> str | None:
    """The command that this process runs, without tokens; None for a notebook or another host."""
    program = Path(argv[0]).name if argv else ""
    if program == "countdown-selfplay" or (argv and Path(argv[0]).parts[-2:] == ("cli", "main.py")):
        shown = ["countdown-selfplay"]
    elif program.endswith(".py"):
        shown = ["python", program]
    else:
        return None
    secret = False
    for word in argv[1:]:
        name, equals, _ = word.partition("=")
        own = name.startswith("--") and name.endswith("token")
        shown.append(f"{name}=***" if own and equals else "***" if secret else word)
        secret = own and not equals
    return without_tokens(shlex.join(shown))


def without_tokens(text: str) -> str:
    """The text with *** for each token of the Hugging Face Hub, such as one in --model_init_kwargs: run.json and cards
    are uploaded."""
    return _TOKEN.sub("***", text)


_TOKEN = re.compile(r"\bhf_[A-Za-z0-9]{16,}")


def record_of(step: int, logs: dict[str, Any]) -> dict[str, Any]:
    """A line of metrics.jsonl: what is finite of a log."""
    return {"step": step, **{k: v for k, v in logs.items() if _finite(v)}}


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


class RunFolder(TrainerCallback):
    """Writes one line per log."""

    def __init__(self, trainer: Host) -> None:
        self.trainer = trainer

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        if not state.is_world_process_zero or not logs:
            return
        folder = Path(args.output_dir)
        record = record_of(state.global_step, logs)
        if "loss" in logs and self.trainer.logged_histogram is not None:
            record[HISTOGRAM] = self.trainer.logged_histogram
        append_lines(folder / "metrics.jsonl", [record])
        if "loss" in logs:
            append_lines(
                folder / "samples.jsonl", [{"step": state.global_step, **s} for s in self.trainer.round_samples]
            )

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.is_world_process_zero and self.trainer.solve_rate is not None:
            self.trainer.solve_rate.write(Path(args.output_dir), self.trainer.frame.rounds)
        if state.is_world_process_zero:
            write_proposer_files(self.trainer, Path(args.output_dir), "run_files")

    on_train_end = on_save


def _finite(value: Any) -> bool:
    return value is not None and not (isinstance(value, float) and not math.isfinite(value))
