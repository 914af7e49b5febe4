"""What the two vLLM backends share: when weights must be pushed, and the settings of a role's turn."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from torch.distributed.fsdp import FSDPModule

from .. import _trl
from ..errors import ConfigError, MissingExtraError
from ..policies.lora import LoraPolicies, SeveralBases
from .base import Sampler, Turns
from .fingerprint import fingerprint

_OWN = ("temperature", "top_p", "top_k", "max_tokens", "stop_token_ids", "stop")  # a role's, under every backend


class VLLMSampler(Sampler):
    """Base of the vLLM backends: knows for every place that can hold weights which ones it holds."""

    def __init__(self, turns: Turns) -> None:
        super().__init__(turns)
        if isinstance(turns.policies, SeveralBases):
            raise ConfigError(
                f"`generation_backend` ({turns.args.generation_backend}) has one base for all adapters, and the "
                "roles' models differ; use generation_backend=generate, or policy_sharing='full'."
            )
        self.adapters = isinstance(turns.policies, LoraPolicies)
        self._held: dict[str, tuple[str, tuple[int, ...]]] = {}  # place -> name and fingerprint of its weights

    def require_vllm(self) -> None:
        if not _trl.vllm_installed():
            raise MissingExtraError(
                f"`generation_backend` ({self.turns.args.generation_backend}) needs vLLM, which is not installed; "
                "run `pip install 'countdown-selfplay[vllm]'`."
            )

    def begin(self, role: str, step: int) -> dict[str, Any]:
        start = time.perf_counter()
        self.pushed = self.push(self.turns.policies.weights_of[role], role)
        self.turns.record(f"{role}/weights_pushed", float(self.pushed))
        if self.pushed:
            self.turns.record(f"time/push_{role}", time.perf_counter() - start)
        return _trl.vllm_overrides(self.turn(role), step)

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
        for module in self.turns.policies.module.modules():
            if isinstance(module, FSDPModule):  # a forward pass leaves the root's parameters whole
                module.reshard()
        parameters = [parameter for _, parameter in self.turns.policies.named_parameters(name)]
        now = (name, fingerprint(parameters))
        changed = any(self.turns.processes.gather([self._held.get(place) != now]))
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
        args, settings = self.turns.args, self.turns.roles[role]
        found: dict[str, Any] = {
            "temperature": settings.temperature,
            "top_p": settings.top_p,
            "top_k": settings.top_k,
            "repetition_penalty": args.repetition_penalty,
            "min_p": 0.0 if args.min_p is None else args.min_p,
            "max_tokens": settings.max_completion_length,
            "stop_token_ids": list(self.turns.ends),
        }
        more: Any = args.generation_kwargs  # TRL has read it from JSON
        found = {**found, **{name: value for name, value in (more or {}).items() if name not in _OWN}}
        stops = self.turns.stops(role)
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
