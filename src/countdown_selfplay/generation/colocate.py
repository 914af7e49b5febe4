"""Sampling by one vLLM engine in the training process, for all roles; TRL's VLLMGeneration drives it."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .. import _trl
from ..config.part_rules import engine_arguments
from ..distributed.ddp import Engine
from ..errors import ConfigError
from ..policies import inner_name
from ..policies.adapters import adapter_file
from ..random_state import private_generator, seed_from
from .base import SamplingContext
from .vllm_sampler import (
    AdapterFolders,
    VLLMSampler,
    adapter_rank,
    adapter_state,
    check_lengths,
    check_one_shape,
    require_vllm,
)

ENGINE = "engine"


class Colocate(VLLMSampler):
    """Sampler with one vLLM engine in the training process. `full`, `tied`: a role's weights are pushed in memory
    before its turn, unless the engine holds them already (`tied`: one push per round). `lora`: the base stays in the
    engine and plays frozen roles; every other role has a LoRA request, renewed when its adapter has changed. The
    engine draws from the process's generators, which are seeded for each turn."""

    def __init__(self, context: SamplingContext, engine: Engine, source: object) -> None:
        """Start the engine. `engine`: wrapper of the trained module. `source`: the model as passed to the trainer."""
        super().__init__(context)
        require_vllm(context.args)
        args, policies = context.args, context.policies
        if not self.adapters:
            check_one_shape(policies.module.policies)
        self._scratch = tempfile.TemporaryDirectory(prefix="countdown-selfplay-vllm-")
        self._copy = Path(self._scratch.name) / "start"
        self._folders = AdapterFolders(Path(self._scratch.name) / "adapters", policies)
        self._requests: dict[str, Any] = {}
        source = next(iter(source.values())) if isinstance(source, Mapping) else source  # one source, or one per role
        arguments = {**self._start(source, engine), **engine_arguments(args)}
        if self.adapters:
            arguments |= {"enable_lora": True, "max_loras": len(policies.weight_names)}
            arguments["max_lora_rank"] = adapter_rank(policies)
        with _seeded(context.processes.device, "vllm"):  # vLLM seeds every generator of its process when it starts
            self.generation = _trl.colocated_vllm(
                args,
                engine.accelerator,
                context.tokenizer,
                self._module_of(policies.weight_names[0]),
                lambda llm: SharedEngine(llm, keep_weights=self.adapters),
                arguments,
            )
        shutil.rmtree(self._copy, ignore_errors=True)  # TRL has waited for all engines
        if not self.adapters:
            _check_unpacked(self.generation.llm)
        self.max_model_length = self.generation.llm.llm_engine.model_config.max_model_len

    def _start(self, source: object, engine: Engine) -> dict[str, str]:
        """Return the arguments by which vLLM finds the weights to start from: the id or folder passed to the trainer,
        with its revision, or a copy of weights that were passed as an object or as an adapter over a base."""
        given: Any = self.context.args.model_init_kwargs or {}  # TRL has read it from JSON
        if isinstance(source, str) and adapter_file(source, given) is None:
            revision = given.get("revision")
            named = {} if revision is None else {"revision": revision, "tokenizer_revision": revision}
            return {"model": source, **named}
        if engine.shards_weights:
            raise ConfigError(
                "vLLM starts from a folder of whole weights, and the model was passed as an object or as an adapter, "
                f"which {engine.name} cuts up over the processes; pass the path or hub id of whole weights."
            )
        accelerator, folder = engine.accelerator, self._copy
        if accelerator.is_local_main_process:  # one copy a node
            self.context.policies.export_start(folder)
            self.context.tokenizer.save_pretrained(folder)
        everyone = self.context.processes.gather([str(folder)])
        return {"model": everyone[self.context.processes.rank - accelerator.local_process_index]}

    def _module_of(self, name: str) -> Any:
        module = self.context.policies.module
        return module if self.adapters else module.policies[inner_name(name)]

    def push(self, name: str, role: str) -> bool:
        if self.adapters:
            return self._renew_request(name)
        if self.generation._llm_weights_sleeping:  # level 2: the engine dropped its weights
            self._held.pop(ENGINE, None)
        self.generation.model = self._module_of(name)
        return self.renew(ENGINE, name, self.generation.sync_weights)

    def _renew_request(self, name: str) -> bool:
        generation = self.generation
        if generation._llm_weights_sleeping:  # level 1: base and adapters come back from the CPU
            generation.llm.wake_up(tags=["weights"])
            generation._llm_weights_sleeping = False
        if name in self.context.policies.frozen:  # the base as it is
            generation.llm.lora_request = None
            return False
        pushed = self.renew(name, name, lambda: self._send_adapter(name))
        generation.llm.lora_request = self._requests[name]
        return pushed

    def _send_adapter(self, name: str) -> None:
        from vllm.lora.request import LoRARequest

        label, version, folder = self._folders.write(name, adapter_state(self.context.policies, name))
        old, engine = self._requests.get(name), self.generation.llm.llm_engine
        self._requests[name] = LoRARequest(label, version, str(folder))
        engine.add_lora(self._requests[name])
        if old is not None:
            engine.remove_lora(old.lora_int_id)

    def generate(
        self, role: str, prompts: list[list[int]], images: Any, num_generations: int, profiler: Any = None
    ) -> tuple[Any, ...]:
        generation, context = self.generation, self.context
        settings = self.sampling_settings(role)
        longest = max(context.processes.gather([max(map(len, prompts), default=0)]))
        check_lengths(role, longest, settings["max_tokens"], self.max_model_length)
        generation.generation_kwargs = settings
        # Processes that hold one engine together each sample all of its tokens, and must draw the same ones.
        device, group = context.processes.device, context.processes.rank // context.args.vllm_tensor_parallel_size
        key = context.args.seed, "vllm", *context.key(), group, role
        # The engine has its own precision: the trainer's autocast would cast what it computes in float32.
        with _seeded(device, *key), torch.autocast(device.type, enabled=False):
            return generation.generate(prompts, images, num_generations, profiler)


class SharedEngine:
    """Wrapper of vLLM's LLM for all roles: `generate` passes `lora_request` on, and with `keep_weights` a sleep moves
    the weights to the CPU (level 1) although TRL requests that they be dropped (level 2)."""

    def __init__(self, llm: Any, keep_weights: bool) -> None:
        self.llm, self.keep_weights = llm, keep_weights
        self.lora_request: Any = None

    def generate(self, *args: Any, **kwargs: Any) -> Any:
        return self.llm.generate(*args, lora_request=self.lora_request, **kwargs)

    def sleep(self, level: int = 1) -> None:
        self.llm.sleep(level=1 if self.keep_weights else level)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.llm, name)


def _check_unpacked(llm: Any) -> None:
    """Raise ConfigError for packed weights: vLLM's CPU build multiplies with packed copies and drops the originals, so
    that weights pushed later are never read."""
    model = llm.llm_engine.model_executor.driver_worker.model_runner.model
    if any(parameter.numel() == 0 for parameter in model.parameters()):
        raise ConfigError(
            "This vLLM (its CPU build) packs its weights away when it has loaded them, so whole weights cannot be "
            "pushed to it; use a GPU, generation_backend=generate, or in joint training policy_sharing='lora'."
        )


@contextmanager
def _seeded(device: torch.device, *key: object) -> Iterator[None]:
    """Seed by `key`, inside the block, every generator that vLLM draws from: torch's, and NumPy's, which seeds vLLM's
    requests if it samples with Triton. Former states are restored after it."""
    kept = random.getstate(), np.random.get_state()
    np.random.seed(seed_from(*key, "numpy") % 2**32)
    try:
        with private_generator(device, *key):
            yield
    finally:
        random.setstate(kept[0])
        np.random.set_state(kept[1])
