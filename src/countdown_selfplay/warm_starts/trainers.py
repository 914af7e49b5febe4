"""TRL's trainers, given token ids instead of texts (see `encoding`).

SFTTrainer takes rows with `input_ids` and `labels` as they are. DPOTrainer always tokenizes, so one private method of
it is overridden; tests/trainer/test_warm_starts.py asserts that it exists in the pinned TRL with these parameters.
"""

from __future__ import annotations

from typing import Any

from trl import DPOTrainer

COLUMNS = ("prompt_ids", "chosen_ids", "rejected_ids")


class TokenizedDPOTrainer(DPOTrainer):
    """Differs from DPOTrainer in that a data set with `prompt_ids`, `chosen_ids` and `rejected_ids` is not tokenized
    again."""

    def _prepare_dataset(self, dataset: Any, processing_class: Any, args: Any, dataset_name: str) -> Any:
        if set(COLUMNS) <= set(dataset.column_names or ()):
            return dataset
        return super()._prepare_dataset(dataset, processing_class, args, dataset_name)
