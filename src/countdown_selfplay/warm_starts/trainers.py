"""TRL's trainers, given token ids instead of texts (see `encoding`).

SFTTrainer takes rows with `input_ids` and `labels` as they are. DPOTrainer always tokenizes and averages IPO's
log-ratios over tokens, so two private methods of it are overridden; tests/trainer/test_warm_starts.py asserts that
they exist in the pinned TRL with these parameters.
"""

from __future__ import annotations

from typing import Any

import torch
from trl import DPOTrainer

COLUMNS = ("prompt_ids", "chosen_ids", "rejected_ids")


class TokenizedDPOTrainer(DPOTrainer):
    """Differs from DPOTrainer in that a data set with `prompt_ids`, `chosen_ids` and `rejected_ids` is not tokenized
    again, and in that IPO's log-ratios may be those of whole sequences (`args.ipo_reduction` sum)."""

    def _prepare_dataset(self, dataset: Any, processing_class: Any, args: Any, dataset_name: str) -> Any:
        if set(COLUMNS) <= set(dataset.column_names or ()):
            return dataset
        return super()._prepare_dataset(dataset, processing_class, args, dataset_name)

    def _compute_loss(self, model: Any, inputs: dict[str, Any], return_outputs: bool) -> Any:
        """With `ipo_reduction` sum: TRL's passes, logs and all, and the loss on the log-probs that they gave."""
        if getattr(self.args, "ipo_reduction", "mean") == "mean":
            return super()._compute_loss(model, inputs, return_outputs)
        seen: list[
            torch.Tensor
        ] = []  # (2B, T) log-probs, 0 outside the completions: of the policy, then the reference
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
