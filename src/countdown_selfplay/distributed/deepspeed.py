"""DeepSpeed ZeRO-1, 2 and 3: the optimizer steps inside backward, and at stage 3 no process holds whole weights."""

from __future__ import annotations

import gc
import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from .. import _trl
from ..errors import ConfigError
from .ddp import Engine, on_device

if TYPE_CHECKING:
    from ..config import JointSelfPlayConfig
    from ..training.trainer import JointConjecturerProverTrainer

logger = logging.getLogger(__name__)


def deepspeed_settings(args: JointSelfPlayConfig) -> dict[str, Any] | None:
    """The DeepSpeed config that `args` or the launcher's environment names, or None."""
    given: Any = args.deepspeed
    plugin = getattr(args, "deepspeed_plugin", None)
    if plugin is not None:
        return dict(plugin.deepspeed_config)
    if given is None:
        return None
    return dict(given) if isinstance(given, Mapping) else json.loads(Path(given).read_text())


class ZeroEngine(Engine):
    """Differs from DDP in that one clip holds for all roles (the step happens inside backward), that a role without
    signal is held by a learning rate of 0 for the step, and that ZeRO-3 needs every role in the first micro-batch."""

    optimizer_file = "latest"  # DeepSpeed's pointer to its folder of shards

    def __init__(self, stage: int) -> None:
        self.stage = stage
        self.name = f"zero{stage}"
        self.shards_weights = stage == 3

    def check(self, trainer: JointConjecturerProverTrainer) -> None:
        super().check(trainer)
        if str(trainer.accelerator.distributed_type) != "DistributedType.DEEPSPEED":
            raise ConfigError(
                f"The launch asked for DeepSpeed and accelerate started {trainer.accelerator.distributed_type}; unset "
                "ACCELERATE_USE_CPU, which turns DeepSpeed off without a word."
            )
        settings = trainer.accelerator.state.deepspeed_plugin.deepspeed_config
        zero = settings.get("zero_optimization", {})
        if self.stage == 3 and not zero.get("stage3_gather_16bit_weights_on_model_save"):
            raise ConfigError(
                "`zero3_save_16bit_model` (false) would leave checkpoints without the policies' weights; set it to "
                "true, as in accelerate_configs/zero3.yaml."
            )
        # A config without the key would not clip at all: the Trainer's clip is skipped under DeepSpeed.
        if settings.get("gradient_clipping") in (None, "auto"):
            settings["gradient_clipping"] = float(trainer.max_grad_norm or 0.0)
        if len(trainer.policies.weight_names) > 1 and trainer.accelerator.is_main_process:
            logger.warning(
                "DeepSpeed clips the gradients of all roles together (at %s): a role with a large gradient shrinks "
                "the others' steps. DDP and FSDP2 clip each role by itself.",
                settings["gradient_clipping"],
            )

    def place_reference(self, model: nn.Module, trainer: JointConjecturerProverTrainer) -> nn.Module:
        return _trl.inference_copy(model, trainer.accelerator, "deepspeed")

    @contextmanager
    def whole_weights(self, trainer: JointConjecturerProverTrainer) -> Iterator[None]:
        if self.stage != 3:
            with on_device(trainer):
                yield
            return
        gather = trainer.args.ds3_gather_for_generation
        with _trl.whole_for_generation(trainer.model_wrapped, trainer.accelerator, gather):
            yield

    def before_backward(self, trainer: JointConjecturerProverTrainer, loss: Any, role: str, model: nn.Module) -> Any:
        """ZeRO-3 overwrites gradient buffers in the first micro-batch of a window and adds from the second on: a role
        that came first in a later one would get its previous window's gradient added, silently. The cure, exact in
        every run: a forward pass of one token through each other policy, times zero."""
        if trainer.last_of_round:
            self._hold(trainer)
        if self.stage != 3 or not trainer.first_of_round:
            return loss
        policies = trainer.policies
        token = torch.full((1, 2), trainer.processing_class.pad_token_id, device=loss.device)
        for name in policies.weight_names:
            if name != policies.weights_of[role]:
                policies.activate(policies.shared_by(name)[0])
                logps, *_ = trainer._get_per_token_logps_and_entropies(model, token, torch.ones_like(token), 1)
                loss = loss + 0.0 * logps.sum()
        policies.activate(role)
        return loss

    def _hold(self, trainer: JointConjecturerProverTrainer) -> None:
        """Weights of roles without signal stay where they are: learning rate 0 in this step. Unlike under DDP their
        moments go on decaying. The schedule sets every group's rate anew after the step."""
        held = self.held(trainer)
        optimizer: Any = trainer.optimizer
        for group in optimizer.param_groups:
            if group["role"] in held:
                group["lr"] = 0.0

    def clip(self, trainer: JointConjecturerProverTrainer) -> dict[str, float]:
        return {}  # done, inside backward

    def full_state(self, trainer: JointConjecturerProverTrainer) -> Mapping[str, Any] | None:
        return trainer.accelerator.get_state_dict(trainer.model_wrapped) if self.stage == 3 else None

    def forget_wrapped(self, trainer: JointConjecturerProverTrainer) -> None:
        engine: Any = trainer.model_wrapped
        engine.destroy()
        trainer.accelerator.free_memory()
        trainer.model_wrapped = trainer.model
        # Whatever still names the old engine keeps its optimizer's state while the new one is built.
        trainer.deepspeed = trainer.callback_handler.optimizer = None
        del engine
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
