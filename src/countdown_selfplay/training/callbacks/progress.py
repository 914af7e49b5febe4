"""A progress bar that shows the curriculum at a glance instead of printing every metric."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from transformers import ProgressCallback

from ...contract.metric import Metric


class RoundProgress(ProgressCallback):
    """Differs from ProgressCallback in that a log becomes the bar's suffix: the metrics that are declared with a word,
    such as `p` for the solve rate of conjectured problems."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        super().__init__()
        self.shown = [(metric.name, metric.word) for metric in metrics if metric.word]

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        if not state.is_world_process_zero or self.training_bar is None or not logs:
            return
        if "eval_pass@1" in logs:
            scores = ", ".join(f"{k[5:]} {v:.3f}" for k, v in logs.items() if k.startswith("eval_pass@"))
            self.training_bar.write(f"round {state.global_step // args.steps_per_round}: {scores}")
        shown = [f"{short} {logs[name]:.2f}" for name, short in self.shown if name in logs]
        if shown:
            self.training_bar.set_postfix_str(", ".join(shown))

    def close(self) -> None:
        """End the bar of a loop that was left by an exception."""
        if self.training_bar is not None:
            self.training_bar.close()
            self.training_bar = None
