"""What the dry run of `sft` and `ipo` prints."""

from __future__ import annotations

from typing import Any

from trl import ModelConfig

from ..evaluation.terminal import aligned
from ..planning.dry_run import changed
from ..tiny import resolve_model


def print_dry_run(script: Any, args: Any, model: ModelConfig, data: list[str], rows: int | None) -> None:
    """The settings, the data (`data`: sentences; `rows`: how many are trained on, at most) and the arithmetic."""
    print("# Settings that differ from the library's defaults")
    print(aligned([("field", "value"), *changed(args), *changed(script), *changed(model)]))
    print("\n# Data")
    for line in data:
        print(line)
    print("\n# Batches")
    batch = args.per_device_train_batch_size * args.gradient_accumulation_steps * args.world_size
    print(
        f"optimizer step: {args.per_device_train_batch_size} x {args.gradient_accumulation_steps} accumulated x "
        f"{args.world_size} process(es) = {batch} rows"
    )
    if args.max_steps > 0:
        print(f"steps: {args.max_steps} (max_steps)")
    elif rows is not None:
        per_epoch = max(1, -(-rows // batch))
        total = int(per_epoch * args.num_train_epochs)
        print(f"steps: {per_epoch} an epoch x {args.num_train_epochs:g} epochs = at most {total}")
    print(f"\nmodel: {resolve_model(model.model_name_or_path)}, not loaded by a dry run")
