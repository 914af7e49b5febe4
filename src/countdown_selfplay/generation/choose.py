"""From `generation_backend` to the object that samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .base import Generate, Sampler

if TYPE_CHECKING:
    from ..training.trainer import JointConjecturerProverTrainer


def make_sampler(trainer: JointConjecturerProverTrainer, source: object) -> Sampler:
    """The backend that the trainer's arguments name; its engine is started here. `source`: the
    model as it was passed to the trainer."""
    backend = trainer.args.generation_backend
    if backend == "continuous_batching":
        from .continuous import ContinuousBatching

        return ContinuousBatching(trainer)
    if backend == "vllm":
        from .colocate import Colocate

        return Colocate(trainer, source)
    if backend == "vllm_server":
        from .server import Server

        return Server(trainer)
    return Generate(trainer)
