"""The evaluations of a run that a script makes: their log, and the first and the last one as evaluation.json."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from ...data.jsonl import json_file
from ...errors import DataError
from ...evaluation.summary import write_evaluation

EVALUATION = "evaluation.json"


class BeforeAfter(TrainerCallback):
    """Takes each evaluation of a trainer. Until `train` begins nothing is written: whether it starts a run, which
    moves an earlier one of the folder aside, or resumes that one, is known only then, and trackers have no folder
    yet."""

    def __init__(self, log: Callable[[dict[str, float]], None]) -> None:
        self.log = log
        self.begun = False
        self.waiting: list[dict[str, float]] = []
        self.before: dict[str, Any] = {}
        self.after: dict[str, Any] = {}

    def take(self, args: Any, state: Any, metrics: dict[str, float], figures: dict[str, Any] | None) -> None:
        """`figures`: the provers', as evaluation.json holds them; None of problems that are not the run's own."""
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
        """A run begins; of a trainer that has played one before from weights that were not measured."""
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
        """The run's first evaluation is that of its file, if this process resumed it; figures of other problems, or of
        another number of answers, are not paired with these."""
        if not state.is_world_process_zero:
            return
        folder = Path(args.output_dir)
        written = _before_in(folder / EVALUATION) if state.global_step else {}
        before = next((one for one in (written, self.before) if one and _pairs(one, self.after)), {})
        if before:
            write_evaluation(folder, before, self.after)


def _before_in(path: Path) -> dict[str, Any]:
    try:
        return dict(json_file(path, before=dict)["before"]) if path.is_file() else {}
    except DataError:
        return {}


def _pairs(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Whether the provers answered the same problems as often."""
    a, b = before.get("prover", {}), after.get("prover", {})
    return not b or all(a.get(name) == b[name] for name in ("keys", "n"))
