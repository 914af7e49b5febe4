"""Progress of a training run: a bar, columns in a notebook, or a line per log; and alerts of a tracker."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from transformers import PrinterCallback, ProgressCallback, TrainerCallback

from ...contract.metric import Metric
from ...evaluation.terminal import duration

if TYPE_CHECKING:
    from transformers.utils.notebook import NotebookProgressCallback

logger = logging.getLogger(__name__)

_NARROW = 110  # columns below which the bar omits its speed and the elapsed time
_SHORT = "{bar}| {n_fmt}/{total_fmt} {remaining}{postfix}"


def show_rounds(trainer: Any, metrics: Iterable[Metric]) -> None:
    """Replace the stock Trainer's progress callbacks, which print every metric, by those of this module. A bar is
    shown in a terminal only: in a file all of its updates would be one line."""
    metrics = list(metrics)
    for callback in list(trainer.callback_handler.callbacks):
        ours: TrainerCallback | None = None
        if type(callback) is ProgressCallback and sys.stderr.isatty():
            ours = RoundProgress(metrics)
        elif type(callback) in (ProgressCallback, PrinterCallback):
            ours = RoundLines(metrics)
        elif type(callback).__name__ == "NotebookProgressCallback":  # imported, it would need IPython
            ours = _in_notebook(type(callback), metrics)
        if ours is not None:
            trainer.remove_callback(callback)
            trainer.add_callback(ours)


def close_bars(callbacks: Iterable[TrainerCallback]) -> None:
    """Close the progress bars of a training loop that an exception ended."""
    for callback in callbacks:
        if isinstance(callback, RoundProgress) and callback.training_bar is not None:
            callback.training_bar.close()
            callback.training_bar = None


class RoundProgress(ProgressCallback):
    """ProgressCallback whose bar ends with the metrics that declare a word, such as `solve rate`. Below 110 columns
    the bar omits its speed and the elapsed time."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        super().__init__()
        self.shown, self.short = worded(metrics), False

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        super().on_train_begin(args, state, control, **kwargs)
        bar: Any = self.training_bar
        self.short = bar is not None and (bar.ncols or _NARROW) < _NARROW
        if self.short:
            bar.bar_format = _SHORT

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        if not state.is_world_process_zero or self.training_bar is None or not logs:
            return
        if scores := scores_text(logs):
            self.training_bar.write(f"round {state.global_step}: {scores}")
        if words := words_text(self.shown, logs):
            self.training_bar.set_postfix_str(words.replace(", ", " ").replace(" 0.", " .") if self.short else words)


class RoundLines(TrainerCallback):
    """Callback that prints one short line per log, under --disable_tqdm and where stderr is not a terminal."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self.shown = worded(metrics)
        self.begun = 0, 0.0  # rounds done, time

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.begun = state.global_step, time.monotonic()

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        if not state.is_world_process_zero or not logs:
            return
        parts = [part for part in (words_text(self.shown, logs), scores_text(logs)) if part]
        if parts and "step_time" in logs:
            parts.append(f"{logs['step_time']:.2f} s/round")
            done, left = state.global_step - self.begun[0], state.max_steps - state.global_step
            if done > 0 and left > 0:  # evaluations included
                parts.append(f"ETA {duration((time.monotonic() - self.begun[1]) * left / done)}")
        if parts:
            print(f"round {state.global_step}/{state.max_steps}: {', '.join(parts)}", flush=True)


def _in_notebook(stock: type[NotebookProgressCallback], metrics: Iterable[Metric]) -> TrainerCallback:

    class NotebookRounds(stock):  # type: ignore[valid-type, misc]
        training_tracker: Any

        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            super().on_train_begin(args, state, control, **kwargs)
            self.first_column = "Round"
            self.shown = worded(metrics)
            tracker = type(self.training_tracker)
            self.training_tracker = tracker(state.max_steps, ["Round", *(word for _, word in self.shown)])

        def on_log(
            self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any
        ) -> None:
            if self.training_tracker is None or not logs or "loss" not in logs:
                return
            row = {word: number_text(logs[name]) if name in logs else "" for name, word in self.shown}
            self.training_tracker.write_line({"Round": state.global_step, **row})

        def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **kwargs: Any) -> None:
            if self.training_tracker is not None and (scores := scores_text(metrics or {})):
                print(f"round {state.global_step}: {scores}")

        def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self.training_tracker.update(state.global_step, comment="", force_update=True)
            self.training_tracker = None

    return NotebookRounds()


def worded(metrics: Iterable[Metric]) -> list[tuple[str, str]]:
    """Return (name, word) of the metrics that are declared with a word."""
    return [(metric.name, metric.word) for metric in metrics if metric.word]


def words_text(shown: Iterable[tuple[str, str]], logs: Mapping[str, Any]) -> str:
    """Format metrics as "solved 0.35, solve rate 0.27, played 16"; "" if there are none. Without anchors the solve
    rate equals the share of right answers and is left out."""
    names = [(name, word) for name, word in shown if name in logs]
    if logs.get("round/anchor_slots") == 0 and any(name == "prover/correct_rate" for name, _ in names):
        names = [pair for pair in names if pair[0] != "round/solve_rate_mean"]
    return ", ".join(f"{word} {number_text(logs[name])}" for name, word in names)


def number_text(value: float) -> str:
    """Format a value above 1 with three significant digits, and any other with two decimals."""
    return f"{value:.3g}" if value > 1 else f"{value:.2f}"


def scores_text(logs: Mapping[str, Any]) -> str:
    """Format an evaluation as "pass@1 0.350, pass@4 0.620", without values by rung; "" if it has no pass@k."""
    scores = {name[5:]: value for name, value in logs.items() if name.startswith("eval_pass@")}
    return ", ".join(f"{name} {value:.3f}" for name, value in scores.items() if "/rung_" not in name)


def alert(args: Any, main: bool, title: str, text: str, level: str = "warn") -> None:
    """Send an alert to trackio (level: info, warn or error) on the main process, if `report_to` names trackio. Other
    trackers get no alert; their metrics show the event."""
    trackio = sys.modules.get("trackio")  # the tracker's callback has imported it
    if trackio is None or "trackio" not in args.report_to or not main:
        return
    try:
        if trackio.context_vars.current_run.get() is not None:
            trackio.alert(title=title, text=text, level=trackio.AlertLevel(level))
    except Exception as error:  # an old version without alerts, or a lost server: neither may stop a rollback
        logger.warning("trackio took no alert (%s: %s).", type(error).__name__, error)
