"""Supervised training of a role from its initial model, by TRL's SFTTrainer."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..policies.build import load_pretrained
from ..warm_starts.configs import SFTSettings
from ..warm_starts.encoding import demonstration_ids
from ..warm_starts.filters import drop_long
from .select import prompt_of
from .settings import IteratedSettings, RoleTraining

DONE = "trained.json"
"""Written last: a folder with it is a finished model."""


def of_iteration(values: Sequence[Any], iteration: int) -> Any:
    """The value of iteration 1, 2, ...; the last one for all that follow."""
    return values[min(iteration, len(values)) - 1]


def retrain(
    start: str,
    tokenizer: Any,
    rows: Sequence[dict[str, Any]],
    training: RoleTraining,
    settings: IteratedSettings,
    iteration: int,
    folder: Path,
) -> dict[str, Any]:
    """Train the model `start` on `rows` and leave it in `folder`, whole or not at all; what it cost. A run that was
    killed in here trains again from the start, with the same result."""
    from datasets import Dataset
    from trl import SFTTrainer

    new = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    size = of_iteration(training.batch_size, iteration)
    device_size = min(size, settings.per_device_train_batch_size)
    ids = [demonstration_ids(tokenizer, prompt_of(row), row["completion"]) for row in rows]
    ids, long = drop_long(ids, ("input_ids",), settings.max_length)
    args = SFTSettings(
        output_dir=str(new),
        learning_rate=of_iteration(training.learning_rate, iteration),
        per_device_train_batch_size=device_size,
        gradient_accumulation_steps=size // device_size,
        num_train_epochs=training.epochs,
        max_length=settings.max_length,
        save_strategy="no",
        logging_strategy="no",
        report_to="none",
        disable_tqdm=True,
        gradient_checkpointing=False,
        seed=settings.seed,
    )
    trainer = SFTTrainer(
        model=load_pretrained(start, {}, "merge").to(args.device),
        args=args,
        train_dataset=Dataset.from_list(ids),
        processing_class=tokenizer,
    )
    trained = trainer.train()
    trainer.accelerator.unwrap_model(trainer.model).save_pretrained(new)
    tokenizer.save_pretrained(new)
    shutil.rmtree(folder, ignore_errors=True)
    new.rename(folder)
    return {"rows": len(ids), "too_long": long, "steps": trainer.state.global_step, "loss": trained.training_loss}
