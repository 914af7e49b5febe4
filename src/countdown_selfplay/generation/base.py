"""Generation backend that samples from the trained model itself, the base class of those that use vLLM."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..config import JointSelfPlayConfig, Role
from ..distributed.ddp import Engine
from ..distributed.processes import Processes
from ..policies import PolicySet


@dataclass(frozen=True)
class SamplingContext:
    """Settings and objects of a run that the backends read. ends: token ids that end a completion of any role. stops:
    role -> strings that end one of its completions. key: returns the parts of the seed that differ between turns of a
    role. record: records a metric of the current round."""

    args: JointSelfPlayConfig
    roles: Mapping[str, Role]
    policies: PolicySet
    processes: Processes
    tokenizer: Any
    ends: Sequence[int]
    stops: Callable[[str], list[str] | None]
    key: Callable[[], tuple[object, ...]]
    record: Callable[[str, float], None]


class Sampler:
    """Generation backend, built once, at the end of the trainer's constructor. For every turn of a role the trainer
    calls `begin` and then generates once through TRL: by default with the trained model, the weights and the code of
    the loss, so that neither a correction for a second policy nor a second pass for log-probs is needed."""

    def __init__(self, context: SamplingContext) -> None:
        self.context = context

    def begin(self, role: str, step: int) -> dict[str, Any]:
        """Load the weights of `role` into the engine; return the attributes that TRL's trainer must have while it
        samples. `step`: rounds so far. Called by all processes."""
        return {}

    def as_model(self, role: str, how: Mapping[str, Any]) -> Any:
        """Return the object whose `generate` an evaluation of `role` calls with the settings `how`. Called by all
        processes."""
        return self.context.policies.module


def make_sampler(context: SamplingContext, engine: Engine, source: object) -> Sampler:
    """Build the backend that the arguments name and start its engine. `engine`: wrapper of the trained module.
    `source`: the model as it was passed to the trainer."""
    backend = context.args.generation_backend
    if backend == "vllm":
        from .colocate import Colocate

        return Colocate(context, engine, source)
    if backend == "vllm_server":
        from .server import Server

        return Server(context, engine)
    return Sampler(context)
