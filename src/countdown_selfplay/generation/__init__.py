"""Generation backends, which sample a round's completions: the trained model, or vLLM."""

from __future__ import annotations

from ..distributed.ddp import Engine
from .base import Generate, Sampler, SamplingContext

__all__ = ["Generate", "Sampler", "SamplingContext", "make_sampler"]


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
    return Generate(context)
