"""What the two vLLM backends share: when weights must be pushed, and the settings of a role's turn."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torch.distributed.fsdp import FSDPModule

from .. import _trl
from ..errors import ConfigError, MissingExtraError
from ..policies.lora import LoraPolicies, SeveralBases
from .base import Sampler
from .fingerprint import fingerprint

if TYPE_CHECKING:
    from ..training.trainer import JointConjecturerProverTrainer


_OWN = ("temperature", "top_p", "top_k", "max_tokens", "stop_token_ids", "stop")  # a role's, under every backend


class VLLMSampler(Sampler):
    """Base of the vLLM backends: knows for every place that can hold weights which ones it holds."""

    def __init__(self, trainer: JointConjecturerProverTrainer) -> None:
        super().__init__(trainer)
        if isinstance(trainer.policies, SeveralBases):
            raise ConfigError(
                f"`generation_backend` ({trainer.args.generation_backend}) has one base for all adapters, and the "
                "roles' models differ; use generation_backend=generate, or policy_sharing='full'."
            )
        self.adapters = isinstance(trainer.policies, LoraPolicies)
        self._held: dict[str, tuple[str, tuple[int, ...]]] = {}  # place -> name and fingerprint of its weights

    def require_vllm(self) -> None:
        if not _trl.vllm_installed():
            raise MissingExtraError(
                f"`generation_backend` ({self.trainer.args.generation_backend}) needs vLLM, which is not installed; "
                "run `pip install 'countdown-selfplay[vllm]'`."
            )

    def begin(self, role: str) -> dict[str, Any]:
        start = time.perf_counter()
        self.pushed = self.push(self.trainer.policies.weights_of[role], role)
        self.trainer._metrics["train"][f"{role}/weights_pushed"].append(float(self.pushed))
        if self.pushed:
            self.trainer._time(f"time/push_{role}", start)
        return _trl.vllm_overrides(self.trainer, self.turn(role))

    @abstractmethod
    def push(self, name: str, role: str) -> bool:
        """Make the engine of `role` sample with the weights called `name` as they are now. False if it did already."""

    @abstractmethod
    def turn(self, role: str) -> Any:
        """What TRL calls for the role's completions: `generate`, as that of VLLMGeneration."""

    def stale(self, place: str, name: str) -> tuple[str, tuple[int, ...]] | None:
        """None if `place` holds the weights called `name` as they are now, else what it will hold once pushed.

        All processes decide alike: a push may gather shards, which all of them must join.
        """
        for module in self.trainer.policies.module.modules():
            if isinstance(module, FSDPModule):  # a forward pass leaves the root's parameters whole
                module.reshard()
        parameters = [parameter for _, parameter in self.trainer.policies.named_parameters(name)]
        now = (name, fingerprint(parameters))
        changed = any(self.trainer._gather([self._held.get(place) != now]))
        return now if changed else None

    def holds(self, place: str, weights: tuple[str, tuple[int, ...]]) -> None:
        """The push went through. `weights`: what `stale` returned before it."""
        self._held[place] = weights

    def forget(self, place: str | None = None) -> None:
        """Weights at `place` (None: everywhere) are gone: the next turn pushes."""
        if place is None:
            self._held.clear()
        else:
            self._held.pop(place, None)

    def sampling_settings(self, role: str) -> dict[str, Any]:
        """SamplingParams of the role, by vLLM's names."""
        trainer, settings = self.trainer, self.trainer.roles[role]
        found: dict[str, Any] = {
            "temperature": settings.temperature,
            "top_p": settings.top_p,
            "top_k": settings.top_k,
            "repetition_penalty": trainer.args.repetition_penalty,
            "min_p": 0.0 if trainer.args.min_p is None else trainer.args.min_p,
            "max_tokens": settings.max_completion_length,
            "stop_token_ids": list(trainer.eos_token_ids),
        }
        more: Any = trainer.args.generation_kwargs  # TRL has read it from JSON
        found = {**found, **{name: value for name, value in (more or {}).items() if name not in _OWN}}
        stops = settings.stops(trainer.domain)
        if stops:
            found["stop"] = list(stops)
        return found


def check_one_shape(models: Mapping[str, Any]) -> None:
    """One engine has one architecture."""
    shapes = {name: {key: tuple(p.shape) for key, p in m.named_parameters()} for name, m in models.items()}
    first, *others = shapes
    for other in others:
        if shapes[other] != shapes[first]:
            raise ConfigError(
                f"The models of {first} and {other} differ in their tensors, and one vLLM engine holds one "
                "architecture; use generation_backend=generate, or vllm_server with one server per role."
            )
