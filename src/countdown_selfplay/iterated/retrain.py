"""Training of a role from its initial model, by TRL's SFTTrainer or DPOTrainer."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import PrinterCallback
from trl import DPOConfig, SFTTrainer

from ..config.settled import Settled
from ..errors import ConfigError
from ..evaluation.sampling import prompt_ids
from ..evaluation.token_ids import demonstration_ids, pair_ids
from ..policies.build import load_pretrained
from ..warm_starts.configs import SFTSettings
from ..warm_starts.filters import drop_long
from ..warm_starts.trainers import COLUMNS as PAIR_IDS
from ..warm_starts.trainers import TokenizedDPOTrainer
from .select import Row, prompt_of
from .settings import PAIRWISE, IteratedSettings, RoleTraining


@dataclass(repr=False)
class DPOSettings(Settled, DPOConfig):
    """Differs from DPOConfig in that bf16 follows the device."""

    def __post_init__(self) -> None:
        self.settle()
        super().__post_init__()


def of_iteration(values: Sequence[Any], iteration: int) -> Any:
    """The value of iteration 1, 2, ...; the last one for all that follow."""
    return values[min(iteration, len(values)) - 1]


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
    all; what it cost. A run that was killed in here trains again from the start, with the same result."""
    from datasets import Dataset

    new = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    size = of_iteration(training.batch_size, iteration)
    device_size = min(size, settings.per_device_train_batch_size)
    pairwise = "rejected" in rows[0]
    encode, names = (_pair, PAIR_IDS) if pairwise else (_demonstration, ("input_ids",))
    ids, long = drop_long([encode(tokenizer, row, settings) for row in rows], names, settings.max_length)
    if not ids:
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
    args: Any = DPOSettings(**common, beta=settings.beta) if pairwise else SFTSettings(**common)
    model = load_pretrained(start, {"dtype": "float32"}, "merge").to(args.device)
    given: dict[str, Any] = dict(train_dataset=Dataset.from_list(ids), processing_class=tokenizer)
    trainer: Any
    if pairwise:  # the reference is a copy of these weights, not a reload of their path
        trainer = TokenizedDPOTrainer(model=model, ref_model=copy.deepcopy(model), args=args, **given)
    else:
        trainer = SFTTrainer(model=model, args=args, **given)
    trainer.remove_callback(PrinterCallback)
    trained = trainer.train()
    trainer.accelerator.unwrap_model(trainer.model).save_pretrained(new)
    tokenizer.save_pretrained(new)
    shutil.rmtree(folder, ignore_errors=True)
    new.rename(folder)
    return {"rows": len(ids), "too_long": long, "steps": trainer.state.global_step, "loss": trained.training_loss}


def _demonstration(tokenizer: Any, row: Row, settings: IteratedSettings) -> dict[str, list[int]]:
    prompt = prompt_of(row)
    found = demonstration_ids(tokenizer, prompt, row["completion"])
    return found if settings.mask_first_turn else with_first_turns(tokenizer, prompt, found)


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


def _pair(tokenizer: Any, row: Row, settings: IteratedSettings) -> dict[str, list[int]]:
    """Ids of a pair. Steps have no end token: after them the answer goes on."""
    ids = pair_ids(tokenizer, prompt_of(row), row["completion"], row["rejected"])
    if settings.algorithm != PAIRWISE[0]:
        before = tokenizer(row["before"], add_special_tokens=False)["input_ids"]
        ids = {name: values if name == "prompt_ids" else values[:-1] for name, values in ids.items()}
        ids["prompt_ids"] = ids["prompt_ids"] + list(before)
    return ids
