"""Common parts of the vLLM backends: changed weights, adapters as PEFT folders, settings and limits of a turn."""

from __future__ import annotations

import math
import shutil
import time
import uuid
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor
from torch.nn.utils.rnn import pad_sequence

from .. import _trl
from ..asking import sampling_of
from ..errors import ConfigError, GenerationError, MissingExtraError
from ..policies import PolicySet, inner_name
from ..policies.base import gathered, plain_role
from ..policies.lora import LoraPolicies, SeveralBases
from .base import Sampler, SamplingContext

_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class VLLMSampler(Sampler):
    """Base class of the vLLM backends; it records which weights each engine, adapter slot or server holds."""

    def __init__(self, context: SamplingContext) -> None:
        super().__init__(context)
        if isinstance(context.policies, SeveralBases):
            raise ConfigError(
                f"`generation_backend` ({context.args.generation_backend}) has one base for all adapters, and the "
                "roles' models differ; use generation_backend=generate, or policy_sharing='full'."
            )
        self.adapters = isinstance(context.policies, LoraPolicies)
        self.asked: Mapping[str, Any] | None = None
        """Sampling settings of an evaluation; None: those of the roles."""
        self._held: dict[str, tuple[str, object]] = {}  # place -> name and fingerprint of its weights

    def begin(self, role: str, step: int) -> dict[str, Any]:
        start = time.perf_counter()
        self.pushed = self.push(self.context.policies.weights_of[role], role)
        self.context.record(f"{role}/weights_pushed", float(self.pushed))
        if self.pushed:
            self.context.record(f"time/push_{role}", time.perf_counter() - start)
        return _trl.vllm_overrides(SimpleNamespace(generate=partial(self.generate, role)), step)

    def as_model(self, role: str, how: Mapping[str, Any]) -> Any:
        sharded = self.context.processes.in_step or self.context.args.vllm_tensor_parallel_size > 1
        if sharded or how["max_new_tokens"] >= (self.context.args.vllm_max_model_length or math.inf):
            return super().as_model(role, how)  # batches are unequal, or a preset's texts longer than the engine's
        return AsModel(self, role, how)

    @abstractmethod
    def push(self, name: str, role: str) -> bool:
        """Load the current weights called `name` into the engine of `role`; return False if it holds them already."""

    @abstractmethod
    def generate(
        self, role: str, prompts: list[list[int]], images: Any, num_generations: int, profiler: Any = None
    ) -> tuple[Any, ...]:
        """Sample completions of `role`; arguments and result are those of `generate` of TRL's VLLMGeneration."""

    def _state(self, name: str) -> object:
        """Return a value that changes whenever the weights called `name` change."""
        policies = self.context.policies
        if policies.version:
            return policies.version
        for module in policies.module.modules():
            if isinstance(module, FSDPModule):  # a forward pass leaves the root's parameters whole
                module.reshard()
        return fingerprint(parameter for _, parameter in policies.named_parameters(name))

    def renew(self, place: str, name: str, send: Callable[[], object]) -> bool:
        """Call `send` unless `place` (engine, adapter slot or server) holds the current weights called `name`; return
        whether `send` was called. If one process calls it, all do, because a push may gather shards."""
        now = (name, self._state(name))
        if not any(self.context.processes.gather([self._held.get(place) != now])):
            return False
        self._held.pop(place, None)  # a push that fails half-way leaves no role's weights
        send()
        self._held[place] = now
        return True

    def sampling_settings(self, role: str) -> dict[str, Any]:
        """Return the settings of the role, or of an evaluation (`asked`), by the names of vLLM's SamplingParams."""
        context = self.context
        how = self.asked or sampling_of(context.args, context.roles[role], context.stops(role))
        found = {name: how[name] for name in ("temperature", "top_p", "top_k", "repetition_penalty", "min_p")}
        found |= {"max_tokens": how["max_new_tokens"], "stop_token_ids": list(context.ends)}
        found |= {"stop": list(how["stop_strings"])} if how["stop_strings"] else {}
        more = how["generation_kwargs"]
        found |= {"min_tokens": more["min_new_tokens"]} if "min_new_tokens" in more else {}
        bias = dict.fromkeys(more.get("suppress_tokens", ()), -100.0)  # vLLM's lowest, at which none is drawn
        return found | ({"logit_bias": bias} if bias else {})


class AsModel:
    """Stand-in for the model in an evaluation whose `generate` calls the engine; all other attributes are the trained
    module's. Draws depend on torch's generator, which an evaluation seeds for each batch."""

    def __init__(self, sampler: VLLMSampler, role: str, how: Mapping[str, Any]) -> None:
        self.sampler, self.role, self.how = sampler, role, how

    def __getattr__(self, name: str) -> Any:
        return getattr(self.sampler.context.policies.module, name)

    def generate(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, generation_config: Any, **_: Any
    ) -> torch.Tensor:
        prompts = [row[kept].tolist() for row, kept in zip(input_ids, attention_mask.bool(), strict=True)]
        key = "evaluation", int(torch.randint(2**31, ()))
        context = replace(self.sampler.context, key=lambda: key)
        with _trl.swapped(self.sampler, {"context": context, "asked": self.how}):
            self.sampler.push(context.policies.weights_of[self.role], self.role)  # it may sleep since the last batch
            found = self.sampler.generate(self.role, prompts, None, 1)[1]
        rows = [torch.tensor(ids, dtype=torch.long) for ids in found]
        answers = pad_sequence(rows, True, generation_config.pad_token_id)
        return torch.cat([input_ids, answers.to(input_ids.device)], 1)


def require_vllm(args: Any) -> None:
    """Raise MissingExtraError unless vLLM is installed."""
    if not _trl.vllm_installed():
        raise MissingExtraError(
            f"`generation_backend` ({args.generation_backend}) needs vLLM, which is not installed; "
            "run `pip install 'countdown-selfplay[vllm]'`."
        )


def check_one_shape(models: Mapping[str, Any]) -> None:
    """Raise ConfigError if the models' tensors differ in name or shape: one engine has one architecture."""
    shapes = {name: {key: tuple(p.shape) for key, p in m.named_parameters()} for name, m in models.items()}
    first, *others = shapes
    for other in others:
        if shapes[other] != shapes[first]:
            raise ConfigError(
                f"The models of {first} and {other} differ in their tensors, and one vLLM engine holds one "
                "architecture; use generation_backend=generate, or vllm_server with one server per role."
            )


@torch.no_grad()
def fingerprint(parameters: Iterable[torch.nn.Parameter]) -> tuple[int, ...]:
    """Return a fingerprint of the weights, which an optimizer step, a rollback, a resume and a manual edit all change:
    two sums per tensor of the bits of this process's part, read as integers, over all elements and over every other
    one, so that an exchange of two elements shows too. Reading weights is far cheaper than pushing them."""
    sums = []
    for parameter in parameters:
        shard: Any = parameter.to_local() if isinstance(parameter, DTensor) else parameter  # FSDP2
        shard = getattr(shard, "ds_tensor", shard).detach()  # of a parameter that ZeRO-3 has taken apart
        if shard.numel() == 0:
            continue
        bits = shard.contiguous().reshape(-1).view(_INTEGERS[shard.element_size()])
        sums += [bits.sum(dtype=torch.int64), bits[::2].sum(dtype=torch.int64)]
    return tuple(torch.stack(sums).tolist()) if sums else ()


def check_lengths(role: str, longest: int, completion: int, max_model_length: int | None) -> None:
    """Raise GenerationError if a prompt of `longest` tokens and `completion` more are over `max_model_length`: vLLM
    would silently shorten the completion, or refuse the prompt each time that it is sent. `longest`: over all
    processes, so that they fail together."""
    if max_model_length is not None and longest + completion > max_model_length:
        raise GenerationError(
            f"A prompt of the {role} has {longest} tokens, which with {completion} for the completion is more than "
            f"the {max_model_length} that vLLM holds; raise vllm_max_model_length (or the server's --max-model-len), "
            f"or lower {plain_role(role)}_max_completion_length (in iterated play, max_completion_length)."
        )


def check_woken(first: dict[str, float], found: Mapping[str, float]) -> None:
    """Raise GenerationError if the engine's log-probs of a role's samples differ from the trainer's far more than in
    the first round, kept in `first`: under adapters some versions of vLLM wake up with other weights (vLLM #53888)."""
    for name, now in found.items():
        if name.endswith("/sampler_logp_difference"):
            before = first.setdefault(name, now)
            if now > max(10 * min(before, 0.05), 0.2):  # nats a token; 0.05 is much for bf16
                raise GenerationError(
                    f"After a sleep vLLM samples with other weights than the trainer's: `{name}` is {now:.3g} nats a "
                    f"token ({before:.3g} in the first round); unset vllm_enable_sleep_mode, or take another vLLM."
                )


def adapter_rank(policies: PolicySet) -> int:
    """Return the largest rank among the adapters, rounded up to one that vLLM supports. Raises ConfigError if vLLM
    would ignore a part of an adapter."""
    largest = 1
    for name in policies.weight_names:
        config = policies.module.peft_config[inner_name(name)]
        for field in ("modules_to_save", "use_dora", "bias", "lora_bias"):
            value = getattr(config, field)
            if value and value != "none":
                raise ConfigError(
                    f"The adapter's `{field}` ({value}) is not known to vLLM's LoRA; leave it out of the peft_config, "
                    "or use generation_backend=generate."
                )
        largest = max(largest, config.r, *(config.rank_pattern or {}).values())
    ranks = (1, 8, 16, 32, 64, 128, 256, 320, 512)
    if largest > ranks[-1]:
        raise ConfigError(f"The adapter's rank ({largest}) is above vLLM's largest ({ranks[-1]}); lower `r`.")
    return next(rank for rank in ranks if rank >= largest)


def adapter_state(policies: PolicySet, name: str) -> dict[str, torch.Tensor]:
    """Return the whole tensors of an adapter on every process, under any engine, without gathering the base. All
    processes must call it."""
    state = {}
    for key, parameter in policies.named_parameters(name):
        whole: Any = parameter.full_tensor() if isinstance(parameter, DTensor) else parameter  # FSDP2
        with gathered([whole]):
            state[key] = whole.detach().clone()
    return state


class AdapterFolders:
    """Writer of adapters to `<folder>/<weights>-<run>-<version>` that keeps the last two versions. A new version has a
    new name, so that no cache of the engine (of adapters, or of prefixes) returns entries of the old one. The name
    includes the run, because a server may outlive the run and keep its adapters."""

    def __init__(self, folder: Path, policies: PolicySet) -> None:
        self.folder, self.policies = folder, policies
        self.run = uuid.uuid4().hex[:12]
        self.version = 0
        self._written: dict[str, list[Path]] = {}

    def write(self, name: str, state: dict[str, torch.Tensor]) -> tuple[str, int, Path]:
        """Write a new version; return its name, number and folder. `state`: tensors of the adapter."""
        self.version += 1
        label = f"{inner_name(name)}-{self.run}-{self.version}"
        target = self.folder / label
        self.folder.mkdir(parents=True, exist_ok=True)
        self.policies.export(name, target, state)
        kept = self._written.setdefault(name, [])
        kept.append(target)
        while len(kept) > 2:  # a server may still be reading the last but one
            shutil.rmtree(kept.pop(0), ignore_errors=True)
        return label, self.version, target
