"""Sampling in iterated play: on all processes, and through vLLM by the joint trainer's samplers (generation/), which
hold one role's weights at a time."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from accelerate import Accelerator
from transformers import GenerationConfig

from ...asking import generation_settings
from ...chat_templates import prompt_ids
from ...config import JointSelfPlayConfig
from ...distributed.ddp import Engine
from ...distributed.processes import ALONE, Processes
from ...errors import ConfigError
from ...evaluation.sampling import Completion, decoded, end_token_ids
from ...generation.base import SamplingContext, make_sampler
from ...generation.vllm_sampler import require_vllm
from ...options import json_object
from ...policies.full import FullPolicies
from ...random_state import private_generator
from .collecting import Player
from .settings import EngineFields, IteratedSettings

_LAUNCH = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def joint_settings(settings: IteratedSettings, processes: Processes = ALONE) -> JointSelfPlayConfig:
    """Return the sampler's fields for the joint trainer's samplers. Raises ConfigError for fields that the chosen
    backend does not read, and for a backend that cannot run on these processes."""
    given: dict[str, Any] = {field.name: getattr(settings, field.name) for field in fields(EngineFields)}
    place: dict[str, Any] = {"seed": settings.seed, "use_cpu": settings.use_cpu, "bf16": False, "report_to": "none"}
    args = JointSelfPlayConfig(output_dir=settings.output_dir, **place, **given)
    device, tensor = processes.device.type, settings.vllm_tensor_parallel_size
    if processes.world % tensor:
        raise ConfigError(
            f"`vllm_tensor_parallel_size` ({tensor}) must divide the number of processes ({processes.world})."
        )
    if settings.generation_backend == "vllm":
        usual: dict[str, Any] = {"dtype": "float32" if device == "cpu" else "bfloat16"}
        usual["max_num_seqs"] = settings.per_device_eval_batch_size
        args.vllm_engine_kwargs = {**usual, **json_object("vllm_engine_kwargs", settings.vllm_engine_kwargs)}
    return args


def check_engine(settings: IteratedSettings, processes: Processes) -> None:
    """Raise ConfigError if the backend cannot run on the run's device or processes, MissingExtraError without vLLM."""
    joint_settings(settings, processes)
    if settings.generation_backend == "vllm_server" and processes.device.type != "cuda":
        raise ConfigError(
            "`generation_backend` (vllm_server) sends whole weights over NCCL, which needs a CUDA device, and this "
            f"run is on {processes.device.type}; use generate."
        )
    require_vllm(settings)


@dataclass(frozen=True)
class Spread:
    """Roster of players that every process holds. The main process alone runs game and domain, whose results may
    depend on time (a checker with a limit), so that processes cannot diverge."""

    processes: Processes
    roster: Mapping[str, Player]

    def draw(
        self, role: str, prompts: list[Any], n: int, seed: int, stops: list[str] | None
    ) -> list[list[Completion]]:
        """Sample `n` completions per prompt. The main process calls it, inside `led`."""
        request = role, prompts, n, seed, stops
        self.processes.together(lambda: request)
        return self.roster[role].draw(*request, self.processes)

    @contextmanager
    def led(self) -> Iterator[None]:
        """Play on the main process inside the block; afterwards the others leave `serve`, with its error if any."""
        failed: Exception | None = None
        try:
            yield
        except Exception as error:
            failed = error

        def end() -> None:
            if failed is not None:
                raise failed

        self.processes.together(end)

    def serve(self) -> None:
        """Generate, on the other processes, until the main one has played."""
        while (request := self.processes.together(lambda: None)) is not None:  # the main process's call answers
            self.roster[request[0]].draw(*request, self.processes)


class VLLMPlay:
    """Engine for all iterations of a run. Models are kept on the device `home` and pushed when a role's turn needs
    weights that the engine lacks. Prompts, ends, stops, temperature, top-p and top-k are those of `generate`, so that
    the distribution is the same; the texts differ, and depend on the number of processes, because an engine's draws
    depend on its batch."""

    def __init__(self, settings: IteratedSettings, processes: Processes) -> None:
        self.settings, self.processes = settings, processes
        self.home = torch.device("cpu") if settings.generation_backend == "vllm" else processes.device
        self.sampler: Any = None
        self.ends: list[int] = []  # this and the next two: of the current generation
        self.stops: list[str] | None = None
        self.seed = 0

    def roster(self, players: Mapping[str, Player], weights: Mapping[str, str]) -> dict[str, Player]:
        """Return the players of an iteration, which sample through the engine. weights: role -> the model's
        path or id."""
        first = {path: role for role, path in reversed([*weights.items()])}
        names = {role: first[path] for role, path in weights.items()}  # loaded and pushed once
        policies = FullPolicies({name: players[name].model for name in set(names.values())}, names, starts={})
        policies.version = repr(sorted(weights.items()))
        if self.sampler is None:
            self.sampler = self._started(policies, next(iter(players.values())).tokenizer, weights)
        self.sampler.context = replace(self.sampler.context, policies=policies)
        return {role: EnginePlayer(**vars(player), engine=self) for role, player in players.items()}

    def _started(self, policies: FullPolicies, tokenizer: Any, weights: Mapping[str, str]) -> Any:
        args = joint_settings(self.settings, self.processes)
        how = self.settings.sampling
        settings = {"max_completion_length": how.pop("max_new_tokens"), **how}
        roles = {role: replace(args.role("prover"), role=role, **settings) for role in weights}
        context = SamplingContext(
            args, roles, policies, self.processes, tokenizer, self.ends, lambda role: self.stops,
            lambda: ("iterated", self.seed), lambda name, value: None,
        )  # fmt: skip
        engine = Engine()  # whole models on every process, whatever trains them afterwards
        engine.accelerator = Accelerator(deepspeed_plugin=args.deepspeed_plugin)
        with _launch_kept():
            return make_sampler(context, engine, weights[policies.weight_names[0]])

    def draw(
        self, role: str, player: Player, prompts: list[Any], n: int, seed: int, stops: list[str] | None
    ) -> list[list[Completion]]:
        """Sample `n` completions per prompt: prompts x n. All processes call, each samples its part."""
        if not prompts:
            return []
        tokenizer, processes = player.tokenizer, self.processes
        ends = end_token_ids(player.model, tokenizer, any(not isinstance(prompt, str) for prompt in prompts))
        self.ends[:], self.stops, self.seed = ends, stops, seed
        ids = [one for prompt in prompts for one in [prompt_ids(tokenizer, prompt)] * n]
        count = len(ids)  # TRL hands processes with one engine equal parts of its answers, so they ask for as many
        ids += ids[-1:] * (-count % processes.world)
        self.sampler.begin(role, 0)
        with private_generator(processes.device, "iterated", seed, processes.rank):  # a server's seeds are drawn here
            texts = self.sampler.generate(role, processes.share(ids), None, n)[1]
        how = {**self.settings.sampling, "stop_strings": stops}
        config = GenerationConfig(**generation_settings(how, ends, tokenizer.pad_token_id))
        every = decoded(tokenizer, processes.gather(texts)[:count], config)
        return [every[i : i + n] for i in range(0, len(every), n)]


@dataclass(kw_only=True)
class EnginePlayer(Player):
    """Player whose completions an engine samples."""

    engine: VLLMPlay

    def draw(
        self, role: str, prompts: list[Any], n: int, seed: int, stops: list[str] | None, spread: Processes = ALONE
    ) -> list[list[Completion]]:
        return self.engine.draw(role, self, prompts, n, seed, stops)


@contextmanager
def _launch_kept() -> Iterator[None]:
    """Restore the launcher's variables after the block: TRL sets them, and later training would misread them."""
    before = {name: os.environ.get(name) for name in _LAUNCH}
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
