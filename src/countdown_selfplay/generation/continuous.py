"""Transformers' continuous batching: the trained model, with a paged cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from .. import _trl
from ..errors import ConfigError, GenerationError
from .base import Sampler

if TYPE_CHECKING:
    from ..training.trainer import JointConjecturerProverTrainer


class ContinuousBatching(Sampler):
    """TRL calls the module's `generate_batch` and drops the log-probs; this backend stands in between and keeps them.

    Kernels and padding are not those of the loss, and with bf16 nor is the precision: the samples come from the
    weights as they are, without autocast. The ratio of the two is corrected and logged as for vLLM.
    """

    def __init__(self, trainer: JointConjecturerProverTrainer) -> None:
        super().__init__(trainer)
        stopped = [role for role, settings in trainer.roles.items() if settings.stops(trainer.domain)]
        if stopped:
            raise ConfigError(
                f"The {stopped[0]}'s prompt style ends its completions with a stop string, which Transformers' "
                "continuous batching does not know; use generation_backend=generate, vllm or vllm_server."
            )
        self.logps: list[list[float]] = []
        self._wrap(trainer.policies.module)

    def _wrap(self, module: Any) -> None:
        def generate_batch(prompts: list[list[int]], **kwargs: Any) -> dict[str, Any]:
            outputs = generate(prompts, **kwargs)
            errors = [o.error for o in outputs.values() if o.error is not None]
            if errors or len(outputs) != len(prompts):
                raise GenerationError(
                    f"Continuous batching returned {len(outputs)} of {len(prompts)} completions"
                    f"{f' ({errors[0]})' if errors else ''}; if its cache was full give it more room (num_blocks and "
                    "max_batch_tokens in transformers_continuous_batching_config), or use generation_backend=generate."
                )
            self.logps = [list(output.logprobs) for output in outputs.values()]
            return outputs

        generate = module.generate_batch
        module.generate_batch = generate_batch

    def begin(self, role: str) -> dict[str, Any]:
        return {"args": _trl.without_cast(self.trainer.args)}

    def finish(self, tensors: dict[str, torch.Tensor]) -> None:
        ids = tensors["completion_ids"]
        logps_BT = torch.zeros(ids.shape, dtype=torch.float32)
        for row, values in zip(logps_BT, self.logps, strict=True):
            row[: len(values)] = torch.tensor(values[: len(row)])
        tensors["sampling_per_token_logps"] = logps_BT.to(ids.device)
