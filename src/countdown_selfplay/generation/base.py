"""The interface of a generation backend, and the two that sample from the trained model itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .. import _trl
from ..config import JointSelfPlayConfig, Role
from ..distributed.processes import Processes
from ..errors import ConfigError, GenerationError
from ..policies import PolicySet


@dataclass(frozen=True)
class Turns:
    """All that the backends know of the turns that they sample. ends: ids that end a completion of any role. stops:
    the strings that end one of this role. key: the parts of the seed that differ from turn to turn, beside the role.
    record: takes a metric of the round at hand."""

    args: JointSelfPlayConfig
    roles: Mapping[str, Role]
    policies: PolicySet
    processes: Processes
    tokenizer: Any
    ends: Sequence[int]
    stops: Callable[[str], list[str] | None]
    key: Callable[[], tuple[object, ...]]
    record: Callable[[str, float], None]


class Sampler(ABC):
    """A backend. Built once, at the end of the trainer's constructor; then, for every turn of a role: `begin`, one
    generation through TRL, `finish`."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns

    @abstractmethod
    def begin(self, role: str, step: int) -> dict[str, Any]:
        """Make the weights that sample those of `role`. Returns the attributes that TRL's trainer must have while the
        role samples. `step`: its optimizer steps so far. Called by all processes."""

    def finish(self, tensors: dict[str, torch.Tensor]) -> None:  # noqa: B027 -- most backends have nothing to add
        """Add `sampling_per_token_logps` (B, T) where the backend knows them and TRL did not pass them on."""


class Generate(Sampler):
    """The trained model's own `generate`. It samples from the very weights and code that the loss uses, so there is no
    other policy to correct for, and no second pass for log-probs."""

    def begin(self, role: str, step: int) -> dict[str, Any]:
        return {}


class ContinuousBatching(Sampler):
    """TRL calls the module's `generate_batch` and drops the log-probs; this backend stands in between and keeps them.
    Kernels and padding are not those of the loss, and with bf16 nor is the precision: the samples come from the
    weights as they are, without autocast. The ratio of the two is corrected and logged as for vLLM."""

    def __init__(self, turns: Turns) -> None:
        super().__init__(turns)
        stopped = [role for role in turns.roles if turns.stops(role)]
        if stopped:
            raise ConfigError(
                f"The {stopped[0]}'s prompt style ends its completions with a stop string, which Transformers' "
                "continuous batching does not know; use generation_backend=generate, vllm or vllm_server."
            )
        self.logps: list[list[float]] = []
        self._wrap(turns.policies.module)

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

    def begin(self, role: str, step: int) -> dict[str, Any]:
        return {"args": _trl.without_cast(self.turns.args)}

    def finish(self, tensors: dict[str, torch.Tensor]) -> None:
        ids = tensors["completion_ids"]
        logps_BT = torch.zeros(ids.shape, dtype=torch.float32)
        for row, values in zip(logps_BT, self.logps, strict=True):
            row[: len(values)] = torch.tensor(values[: len(row)])
        tensors["sampling_per_token_logps"] = logps_BT.to(ids.device)
