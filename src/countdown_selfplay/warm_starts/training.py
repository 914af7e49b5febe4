"""One stack for SFT and DPO: token ids of demonstrations or pairs in, a folder of whole weights out.

SFTTrainer takes rows with `input_ids` and `labels` as they are. DPOTrainer always tokenizes and averages IPO's
log-ratios over tokens, so two private methods of it are overridden; tests/trainer/test_warm_starts.py asserts that
they exist in the pinned TRL with these parameters.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from datasets.utils import disable_progress_bars as disable_dataset_progress_bars
from transformers import AutoTokenizer
from trl import DPOTrainer, ModelConfig, SFTTrainer, get_peft_config

from .. import _trl  # noqa: F401  (the seam quiets a warning of TRL that no user can act on)
from ..errors import CheckpointError
from ..evaluation.sampling import id_list
from ..evaluation.token_ids import end_of_turn
from ..policies.build import load_pretrained, model_arguments
from ..tiny import resolve_model
from ..training.run import quiet_loading


def load(args: Any, options: ModelConfig) -> tuple[Any, Any, Any]:
    """(model on the training device, tokenizer, PEFT config or None). An adapter folder is merged into its base."""
    quiet_loading()
    disable_dataset_progress_bars()
    path = resolve_model(options.model_name_or_path)
    kwargs, args.model_init_kwargs = model_arguments(options, args), None  # the model is passed as an object
    model = load_pretrained(path, kwargs, "merge")
    tokenizer = AutoTokenizer.from_pretrained(
        path, revision=options.model_revision, trust_remote_code=args.trust_remote_code
    )
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return model.to(args.device), tokenizer, get_peft_config(options)


def trainer_of(ids: list[dict[str, Any]], model: Any, tokenizer: Any, args: Any, peft_config: Any = None) -> Any:
    """TRL's trainer for `ids`: rows of `demonstration_ids`, or of `pair_ids` with the model's weights as reference."""
    given: dict[str, Any] = {"args": args, "train_dataset": Dataset.from_list(ids), "processing_class": tokenizer}
    given |= {"model": model, "peft_config": peft_config}
    if "input_ids" in ids[0]:
        return SFTTrainer(**given)
    # With an adapter TRL takes the base as reference; else a copy of these weights, not a reload of their path.
    return TokenizedDPOTrainer(ref_model=None if peft_config is not None else copy.deepcopy(model), **given)


def train(trainer: Any, tokenizer: Any, chat: bool = False) -> tuple[Any, float]:
    """Train, from a checkpoint if `resume_from_checkpoint` says so, and leave whole weights (an adapter is merged) and
    the tokenizer in the output folder; returns the model and the mean loss. chat: the rows are chats, so that a turn's
    end ends a sample."""
    folder, resume = Path(trainer.args.output_dir), trainer.args.resume_from_checkpoint
    last = resume in ("true", "True")
    if resume and not last and not Path(resume).is_dir():
        raise CheckpointError(f"`resume_from_checkpoint` ({resume}) is not a folder; pass a checkpoint or true.")
    if last and not any(folder.glob("checkpoint-*")):
        raise CheckpointError(f"'{folder}' holds no checkpoint to resume from.")
    loss = trainer.train(resume_from_checkpoint=last or resume).training_loss
    model = trainer.accelerator.unwrap_model(trainer.model)
    if hasattr(model, "merge_and_unload"):
        model = model.merge_and_unload()
    if chat:  # for programs that sample without this library
        known = id_list(model.generation_config.eos_token_id)
        model.generation_config.eos_token_id = list(dict.fromkeys([*known, end_of_turn(tokenizer)]))
    if trainer.accelerator.is_main_process:
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    return model, loss


class TokenizedDPOTrainer(DPOTrainer):
    """Differs from DPOTrainer in that a data set of `pair_ids` is not tokenized again, and in that IPO's log-ratios
    may be those of whole sequences (`args.ipo_reduction` sum)."""

    def _prepare_dataset(self, dataset: Any, processing_class: Any, args: Any, dataset_name: str) -> Any:
        if {"prompt_ids", "chosen_ids", "rejected_ids"} <= set(dataset.column_names or ()):
            return dataset
        return super()._prepare_dataset(dataset, processing_class, args, dataset_name)

    def _compute_loss(self, model: Any, inputs: dict[str, Any], return_outputs: bool) -> Any:
        """With `ipo_reduction` sum: TRL's passes, logs and all, and the loss on the log-probs that they gave."""
        if getattr(self.args, "ipo_reduction", "mean") == "mean":
            return super()._compute_loss(model, inputs, return_outputs)
        seen: list[torch.Tensor] = []  # of the policy, then the reference: (2B, T) log-probs, 0 outside completions
        modules = [self.accelerator.unwrap_model(model), self.ref_model]
        hooks = [
            m.register_forward_hook(lambda *call: seen.append(call[-1].log_probs)) for m in modules if m is not None
        ]
        try:
            super()._compute_loss(model, inputs, False)
        finally:
            for hook in hooks:
                hook.remove()
        policy, reference = seen
        chosen, rejected = (policy - reference).sum(1).chunk(2)
        return ((chosen - rejected - 1 / (2 * self.beta)) ** 2).mean()
