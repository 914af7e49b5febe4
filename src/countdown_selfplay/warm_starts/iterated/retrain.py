"""Training of a role from its initial model, on the stack of the warm starts."""

import gc
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import PrinterCallback

from ...distributed.processes import Processes
from ...errors import ConfigError
from ...evaluation.sampling import demonstration_ids, pair_ids
from ..configs import DPOSettings, SFTSettings
from ..filters import TOO_LONG, drop_long
from ..training import load_whole, train, trainer_of
from .select import Row, prompt_of
from .settings import IteratedSettings, RoleTraining, of_iteration


def retrain(
    start: str,
    tokenizer: Any,
    rows: Sequence[Row],
    training: RoleTraining,
    settings: IteratedSettings,
    iteration: int,
    folder: Path,
    processes: Processes,
) -> dict[str, Any]:
    """Train the model `start` on `rows` (pairs, if they have `rejected`) and write it to `folder` atomically; return
    the fields of its log line. A killed run trains again from the start, with the same result. All `processes` call
    it, under the engine of their launch."""
    new = folder.with_name(f".{folder.name}.new")
    processes.together(lambda: shutil.rmtree(new, ignore_errors=True))
    size = of_iteration(training.batch_size, iteration)
    kept = drop_long([token_ids(tokenizer, row, settings) for row in rows], settings.max_length)
    long = kept.left_out[TOO_LONG]
    if not kept.rows:
        return {"rows": 0, "too_long": long, "note": "all rows are too long: the role keeps its weights"}
    on_device, accumulated = shares(size, settings, processes)
    how: dict[str, Any] = dict(
        learning_rate=of_iteration(training.learning_rate, iteration), per_device_train_batch_size=on_device,
        gradient_accumulation_steps=accumulated, num_train_epochs=training.epochs,
        max_steps=of_iteration(training.max_steps or (-1,), iteration),
    )  # fmt: skip
    how |= {"beta": settings.beta} if "rejected" in rows[0] else {}
    args = trainer_settings(settings, new, **how)
    model = load_whole(start, {"dtype": "float32"}).to(args.device)
    trainer = trainer_of(kept.rows, model, tokenizer, args)
    del model
    trainer.remove_callback(PrinterCallback)
    _, loss = train(trainer, tokenizer)
    steps = trainer.state.global_step
    trainer.engine.release()
    del trainer
    gc.collect()  # free a role's weights and optimizer before the next role's
    if torch.cuda.is_available():
        torch.cuda.empty_cache()

    def rename() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        new.rename(folder)

    processes.together(rename)
    return {"rows": len(kept.rows), "too_long": long, "steps": steps, "loss": loss}


def trainer_settings(settings: IteratedSettings, folder: Path, **how: Any) -> Any:
    """Return TRL's config of a training, for pairs if `how` has a `beta`. Raises ConfigError for refused values."""
    kind: Any = DPOSettings if "beta" in how else SFTSettings
    quiet = dict(save_strategy="no", logging_strategy="no", report_to="none", disable_tqdm=True)
    names = ("max_length", "gradient_checkpointing", "bf16", "use_cpu", "seed")
    shared = {name: getattr(settings, name) for name in names}
    try:
        return kind(output_dir=str(folder), **shared, **quiet, **how)
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(f"Transformers or TRL refuses these settings: {error}") from error


def shares(size: int, settings: IteratedSettings, processes: Processes) -> tuple[int, int]:
    """Split an optimizer step of `size` rows: return rows of a forward pass on each process, and passes."""
    each = size // processes.world
    on_device = min(each, settings.per_device_train_batch_size)
    return on_device, each // on_device


def token_ids(tokenizer: Any, row: Row, settings: IteratedSettings) -> dict[str, list[int]]:
    """Return the ids of a sample or of a pair. Steps have no end token: the answer continues after them."""
    prompt = prompt_of(row)
    if "rejected" not in row:
        return demonstration_ids(tokenizer, prompt, row["completion"])
    ids = pair_ids(tokenizer, prompt, row["completion"], row["rejected"])
    if settings.algorithm == "step_dpo":
        ids = {name: values if name == "prompt_ids" else values[:-1] for name, values in ids.items()}
        ids["prompt_ids"] += tokenizer(row["before"], add_special_tokens=False)["input_ids"]
    return ids
