"""The run folder: run.json, metrics.jsonl and samples.jsonl, from which reports are made."""

from __future__ import annotations

import datetime
import json
import math
import platform
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

from .. import __version__
from ..metrics import HISTOGRAM

if TYPE_CHECKING:
    from ..trainer import JointConjecturerProverTrainer

_PACKAGES = ("torch", "transformers", "trl", "accelerate", "peft", "datasets")


class RunFolder(TrainerCallback):
    """Writes one line per log. On a resume, lines after the checkpoint's step move to `*.discarded.jsonl`: nothing
    is lost and no step appears twice."""

    def __init__(self, trainer: JointConjecturerProverTrainer) -> None:
        self.trainer = trainer

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if not state.is_world_process_zero:
            return
        folder = Path(args.output_dir)
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("metrics", "samples"):
            _discard_after(folder / f"{name}.jsonl", state.global_step)
        description = {
            "name": folder.name,
            "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "config": _plain({**args.to_dict(), "max_grad_norm": self.trainer.max_grad_norm}),
            "rules": self.trainer.domain.rules.to_dict(),
            "environment": {
                "countdown-selfplay": __version__,
                "python": platform.python_version(),
                "device": str(args.device),
                "processes": args.world_size,
                **{name: version(name) for name in _PACKAGES},
            },
        }
        (folder / "run.json").write_text(json.dumps(description, indent=2, default=str) + "\n")

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        if not state.is_world_process_zero or not logs:
            return
        folder = Path(args.output_dir)
        record = {"step": state.global_step, **{k: v for k, v in logs.items() if _finite(v)}}
        if "loss" in logs and self.trainer.logged_histogram is not None:
            record[HISTOGRAM] = self.trainer.logged_histogram
        _append(folder / "metrics.jsonl", [record])
        if "loss" in logs:
            _append(folder / "samples.jsonl", [{"step": state.global_step, **s} for s in self.trainer.round_samples])

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.is_world_process_zero and self.trainer.solve_rate is not None:
            self.trainer.solve_rate.write(Path(args.output_dir), state.global_step)

    on_train_end = on_save


def _finite(value: Any) -> bool:
    return value is not None and not (isinstance(value, float) and not math.isfinite(value))


def _append(path: Path, records: list[dict[str, Any]]) -> None:
    if records:
        with path.open("a") as file:
            file.writelines(json.dumps(record) + "\n" for record in records)


def _discard_after(path: Path, step: int) -> None:
    if not path.exists():
        return
    lines = path.read_text().splitlines(keepends=True)
    kept = [line for line in lines if json.loads(line)["step"] <= step]
    discarded = lines[len(kept) :]  # steps only grow within the file
    if discarded:
        with path.with_suffix(".discarded.jsonl").open("a") as file:
            file.writelines(discarded)
        path.write_text("".join(kept))


def _plain(config: dict[str, Any]) -> dict[str, Any]:
    """The config without tokens: TrainingArguments.to_dict replaces them by placeholders, which say nothing either."""
    return {name: value for name, value in config.items() if not name.endswith("_token")}
