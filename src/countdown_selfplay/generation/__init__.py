"""What samples a round's completions: the trained model, or vLLM."""

from __future__ import annotations

from ..distributed.ddp import Engine
from .base import Generate, Sampler, Turns

__all__ = ["Generate", "Sampler", "Turns", "make_sampler"]


def make_sampler(turns: Turns, engine: Engine, source: object) -> Sampler:
    """The backend that the arguments name; its engine is started here. `engine`: what the run trains on. `source`: the
    model as it was passed to the trainer."""
    backend = turns.args.generation_backend
    if backend == "vllm":
        from .colocate import Colocate

        return Colocate(turns, engine, source)
    if backend == "vllm_server":
        from .server import Server

        return Server(turns, engine)
    return Generate(turns)
