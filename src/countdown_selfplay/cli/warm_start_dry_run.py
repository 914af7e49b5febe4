"""The dry run of `sft`, `ipo` and `cdg --training iterated`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from trl import ModelConfig

from ..evaluation.terminal import aligned
from ..planning.dry_run import changed
from ..tiny import resolve_model


def print_dry_run(script: Any, args: Any, model: ModelConfig, lines: Iterable[str]) -> None:
    """The settings, and the lines on data and training."""
    print("# Settings that differ from the library's defaults")
    print(aligned([("field", "value"), *changed(args), *changed(script), *changed(model)]))
    for line in lines:
        print(line)
    print(f"\nmodel: {resolve_model(model.model_name_or_path)}, not loaded by a dry run")


def batches(args: Any, data: str, rows: int) -> Iterator[str]:
    """Lines: the data (a sentence; `rows`: how many are trained on, at most) and the arithmetic of the steps."""
    yield f"\n# Data\n{data}\n\n# Batches"
    batch = args.per_device_train_batch_size * args.gradient_accumulation_steps * args.world_size
    yield (
        f"optimizer step: {args.per_device_train_batch_size} x {args.gradient_accumulation_steps} accumulated x "
        f"{args.world_size} process(es) = {batch} rows"
    )
    if args.max_steps > 0:
        yield f"steps: {args.max_steps} (max_steps)"
    else:
        per_epoch = max(1, -(-rows // batch))
        total = int(per_epoch * args.num_train_epochs)
        yield f"steps: {per_epoch} an epoch x {args.num_train_epochs:g} epochs = at most {total}"
