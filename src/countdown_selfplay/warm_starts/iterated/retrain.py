"""Training of a role from its initial model, on the stack of the warm starts."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers import PrinterCallback

from ...errors import ConfigError
from ...evaluation.sampling import demonstration_ids, pair_ids, prompt_ids
from ...policies.build import load_pretrained
from ..configs import DPOSettings, SFTSettings
from ..filters import TOO_LONG, drop_long
from ..training import train, trainer_of
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
) -> dict[str, Any]:
    """Train the model `start` on `rows` (pairs, if they have `rejected`) and leave it in `folder`, whole or not at
    all; the log's account of it. A run that was killed in here trains again from the start, with the same result."""
    new = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    size = of_iteration(training.batch_size, iteration)
    device_size = min(size, settings.per_device_train_batch_size)
    found = drop_long([token_ids(tokenizer, row, settings) for row in rows], settings.max_length)
    long = found.left_out[TOO_LONG]
    if not found.rows:
        return {"rows": 0, "too_long": long, "note": "all rows are too long: the role keeps its weights"}
    common: dict[str, Any] = dict(
        output_dir=str(new),
        learning_rate=of_iteration(training.learning_rate, iteration),
        per_device_train_batch_size=device_size,
        gradient_accumulation_steps=size // device_size,
        num_train_epochs=training.epochs,
        max_steps=of_iteration(training.max_steps or (-1,), iteration),
        max_length=settings.max_length,
        save_strategy="no",
        logging_strategy="no",
        report_to="none",
        disable_tqdm=True,
        gradient_checkpointing=False,
        seed=settings.seed,
    )
    args: Any = DPOSettings(**common, beta=settings.beta) if "rejected" in rows[0] else SFTSettings(**common)
    model = load_pretrained(start, {"dtype": "float32"}, "merge").to(args.device)
    trainer = trainer_of(found.rows, model, tokenizer, args)
    trainer.remove_callback(PrinterCallback)
    _, loss = train(trainer, tokenizer)
    shutil.rmtree(folder, ignore_errors=True)
    new.rename(folder)
    return {"rows": len(found.rows), "too_long": long, "steps": trainer.state.global_step, "loss": loss}


def token_ids(tokenizer: Any, row: Row, settings: IteratedSettings) -> dict[str, list[int]]:
    """Ids of a sample or of a pair. Steps have no end token: after them the answer goes on."""
    prompt = prompt_of(row)
    if "rejected" not in row:
        ids = demonstration_ids(tokenizer, prompt, row["completion"])
        return ids if settings.mask_first_turn else with_first_turns(tokenizer, prompt, ids)
    ids = pair_ids(tokenizer, prompt, row["completion"], row["rejected"])
    if settings.algorithm == "step_dpo":
        ids = {name: values if name == "prompt_ids" else values[:-1] for name, values in ids.items()}
        ids["prompt_ids"] += tokenizer(row["before"], add_special_tokens=False)["input_ids"]
    return ids


def with_first_turns(tokenizer: Any, prompt: Any, ids: dict[str, list[int]]) -> dict[str, list[int]]:
    """The same with the assistant's turns of the prompt in the loss too. ConfigError for a prompt that is not a chat,
    and for a template that writes a turn otherwise once others follow."""
    if isinstance(prompt, str):
        raise ConfigError("`mask_first_turn` (False) needs prompts that are chats; set it to true.")
    labels = list(ids["labels"])
    for i, message in enumerate(prompt):
        if message["role"] != "assistant":
            continue
        begin = len(prompt_ids(tokenizer, prompt[:i]))
        whole = tokenizer.apply_chat_template(prompt[: i + 1], tokenize=True, return_dict=True)["input_ids"]
        if list(whole) != ids["input_ids"][: len(whole)]:
            raise ConfigError(
                "`mask_first_turn` (False) cannot be: the chat template writes a first answer otherwise once others "
                "follow, so its tokens in a revision's prompt are not those that were sampled; set it to true."
            )
        labels[begin : len(whole)] = ids["input_ids"][begin : len(whole)]
    return {**ids, "labels": labels}
