"""Files of the run folder: run.json, metrics.jsonl, samples.jsonl, evaluation.json and report.html."""

from __future__ import annotations

import datetime
import json
import logging
import math
import platform
import re
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from ...config.recipes import spread
from ...contract.metric import Metric, as_json
from ...data.jsonl import json_file
from ...data.run_files import append_lines, read_lines, write_atomically
from ...errors import DataError
from ...evaluation.summary import write_evaluation
from ...packages import CALLED, absent_package, attribute_of
from ...statistics.solved import CumulativeSolveRate
from ..exports import Exports
from ..metrics_buffer import HISTOGRAM, MetricsBuffer

logger = logging.getLogger(__name__)

_PACKAGES = ("torch", "transformers", "trl", "accelerate", "peft", "datasets")


def describe_run(
    args: Any,
    domain: Any,
    metrics: Iterable[Metric],
    resumed: Path | None = None,
    step: int = 0,
    changed: Mapping[str, Any] | None = None,
    held_out: Sequence[Any] = (),
) -> None:
    """Write run.json, with the counts of the `held_out` problems by every axis but the rung. At a resume from the
    checkpoint `resumed`, keep time and command of the start, and add the checkpoint, its `step`, the command and the
    `changed` settings (name -> [before, now]) to `resumes`. `config` holds the current settings."""
    path, before = Path(args.output_dir) / "run.json", dict[str, Any]()
    if resumed is not None and path.exists():
        before = _before(path)
    kept = {name: before[name] for name in ("started", "command") if name in before}
    resumes = before.get("resumes", [])
    if resumed is not None:
        entry = {"at": _now(), "from": str(resumed), "step": step, "changed": changed}
        by = {"command": command} if (command := command_line(sys.argv)) else {}
        resumes = [*resumes, entry | by]
    declared = {metric.name: as_json(metric) for metric in metrics}
    axes = [domain.axes(problem) for problem in held_out]
    names = dict.fromkeys(name for own in axes for name in own if name != "rung")
    counts = {name: Counter(str(own[name]) for own in axes if own.get(name) is not None) for name in names}
    more = kept | {"counts": "rounds", "metrics": declared, "resumes": resumes, "held_out": counts}
    write_description(args, spread(args.to_dict()), domain, **more)


def _before(path: Path) -> dict[str, Any]:
    """Return the contents of run.json; a damaged file is renamed with a warning, and {} is returned."""
    try:
        return json_file(path, resumes=list)
    except DataError as error:
        kept = path.with_name(f"{path.name}.damaged")
        path.replace(kept)
        logger.warning("%s It is kept as %s, and a new one begins with this resume.", error, kept.name)
        return {}


def write_description(args: Any, config: dict[str, Any], domain: Any, **more: Any) -> None:
    """Write run.json to `args.output_dir`: settings without access tokens, domain, software versions, and `more`."""
    settings, path = domain.to_dict(), Path(args.output_dir) / "run.json"
    description = {
        "name": path.parent.name,
        "started": _now(),
        **({"command": command} if (command := command_line(sys.argv)) else {}),
        "config": {name: value for name, value in config.items() if not name.endswith("_token")},
        "domain": settings,
        **({"rules": settings["rules"]} if "rules" in settings else {}),
        "environment": {
            "countdown-selfplay": version("countdown-selfplay"),
            "python": platform.python_version(),
            "device": str(args.device),
            "processes": args.world_size,
            **{name: version(name) for name in _PACKAGES},
        },
        **more,
    }
    write_atomically(path, without_tokens(json.dumps(description, indent=2, default=str)) + "\n")


def command_line(argv: Sequence[str]) -> str | None:
    """Return the command line of this process without access tokens; None in a notebook or another program."""
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
        is_token = name.startswith("--") and name.endswith("token")
        shown.append(f"{name}=***" if is_token and equals else "***" if secret else word)
        secret = is_token and not equals
    return without_tokens(shlex.join(shown))


def without_tokens(text: str) -> str:
    """Replace each access token of the Hugging Face Hub in `text` by ***: run.json and model cards are uploaded."""
    return _TOKEN.sub("***", text)


_TOKEN = re.compile(r"\bhf_[A-Za-z0-9]{16,}")


def record_of(step: int, logs: dict[str, Any]) -> dict[str, Any]:
    """Return a line of metrics.jsonl: the step and the values of a log that are neither None nor non-finite."""
    finite = {k: v for k, v in logs.items() if v is not None and not (isinstance(v, float) and not math.isfinite(v))}
    return {"step": step, **finite}


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


class RunFolder(TrainerCallback):
    """Callback that appends logs to metrics.jsonl and samples to samples.jsonl, writes solve rates at each save, and
    every `rounds_per_export` rounds exports `<player>/round_<r>/model` (Multimodal LLM Self-Play, appendix B)."""

    def __init__(self, buffer: MetricsBuffer, exports: Exports, solve_rate: CumulativeSolveRate) -> None:
        self.buffer, self.exports, self.solve_rate = buffer, exports, solve_rate

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        if not state.is_world_process_zero or not logs:
            return
        folder = Path(args.output_dir)
        record = record_of(state.global_step, logs)
        if "loss" in logs and self.buffer.histogram is not None:
            record[HISTOGRAM] = self.buffer.histogram
        if "loss" not in logs and record in read_lines(folder / "metrics.jsonl"):
            return  # the evaluation of the loop's last step, repeated after it
        append_lines(folder / "metrics.jsonl", [record])
        if "loss" in logs:
            append_lines(folder / "samples.jsonl", [{"step": state.global_step, **s} for s in self.buffer.samples])

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if args.rounds_per_export and self.exports.counts.rounds % args.rounds_per_export == 0:
            self.exports.write_round(Path(args.output_dir))

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if not state.is_world_process_zero:
            return
        self.solve_rate.write(Path(args.output_dir), self.exports.counts.rounds)
        self.exports.write_proposer_files(Path(args.output_dir), run=True)

    on_train_end = on_save


class ReportEvery(TrainerCallback):
    """Callback that rewrites report.html at the first log after every `rounds` rounds."""

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds
        self.written = 0  # the round of the last report

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        due = state.global_step // self.rounds > self.written // self.rounds
        if state.is_world_process_zero and "loss" in (logs or ()) and due:
            self.written = state.global_step
            report_of(Path(args.output_dir))


def report_of(folder: Path, path: Path | None = None) -> Path:
    """Write the report of the run in `folder` to `path`, by default report.html in that folder; return the path."""
    write_report = attribute_of(CALLED["write_report"], "The report of a run")  # loads matplotlib
    return Path(write_report([folder], folder / "report.html" if path is None else path))


def report_line(folder: Path) -> str:
    """Write the report; return a line with its path, or with the package whose absence prevents it."""
    if (package := absent_package(CALLED["write_report"])) is not None:
        return f"No report.html: the package countdown_selfplay.{package}, which writes it, is not installed."
    return f"Report: {report_of(folder)}"


class BeforeAfter(TrainerCallback):
    """Callback that logs each evaluation, and writes the first and the last one to evaluation.json. Nothing is written
    before `train`, which decides whether to resume the folder's run or to move it aside."""

    def __init__(self, log: Callable[[dict[str, float]], None]) -> None:
        self.log = log
        self.begun = False
        self.waiting: list[dict[str, float]] = []
        self.before: dict[str, Any] = {}
        self.after: dict[str, Any] = {}

    def take(self, args: Any, state: Any, metrics: dict[str, float], figures: dict[str, Any] | None) -> None:
        """Record an evaluation. `figures`: results of the provers for evaluation.json; None: only log the metrics."""
        start = state.global_step == 0
        if start and not self.begun:
            self.waiting.append(metrics)
        else:
            self.log(metrics)
        if figures is None:
            return
        if start:
            self.before = self.before or figures
        else:
            self.after = figures
        if self.begun or not start:
            self._write(args, state)

    def start(self) -> None:
        """Discard the evaluations of an earlier `train`; keep one that was made before the first `train`."""
        if self.begun:
            self.before = {}
        self.after = {}

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        waiting, self.waiting, self.begun = self.waiting, [], True
        if state.global_step == 0:  # a resume has the line of step 0 in its log
            for metrics in waiting:
                self.log(metrics)
            self._write(args, state)

    def _write(self, args: Any, state: Any) -> None:
        """Write evaluation.json. A resumed run keeps the first evaluation in the file; an evaluation on other
        problems, or with another number of answers, is not paired with the first one."""
        if not state.is_world_process_zero:
            return
        folder = Path(args.output_dir)
        written: dict[str, Any] = {}
        if state.global_step:
            with suppress(DataError):  # absent or damaged
                written = json_file(folder / "evaluation.json", before=dict)["before"]
        before = next((one for one in (written, self.before) if one and _pairs(one, self.after)), None)
        if before is not None:
            write_evaluation(folder, before, self.after)


def _pairs(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Return whether `after` is empty or has the problems and the number of answers of `before`."""
    then, now = before.get("prover", {}), after.get("prover", {})
    return not now or all(then.get(name) == now[name] for name in ("keys", "n"))
