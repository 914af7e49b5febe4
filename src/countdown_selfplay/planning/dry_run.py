"""Dry run of a configuration, without loading a model."""

import textwrap
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import MISSING, asdict, fields, replace
from enum import Enum
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from trl import ModelConfig, get_peft_config

from ..chat_templates import prompt_ids
from ..config import JointSelfPlayConfig, Role
from ..config.fields import CountdownArguments
from ..config.part_rules import engine_arguments
from ..config.recipes import COUNTDOWN, spread
from ..config.roles import FLAT_FIELDS, usual
from ..config.rules import refusal
from ..config.script import JointScriptArguments, check_starts
from ..data.files import load_problem_rows
from ..domains import asked_of, domain_from, longest_problem
from ..errors import ConfigError, CountdownSelfPlayError
from ..evaluation.setting import preset
from ..evaluation.terminal import aligned
from ..policies.adapters import config_of, whole_below
from ..policies.build import DEFAULT_ADAPTER, read_tokenizer
from ..policies.decode import SHARED_START
from ..rewards import make_conjecturer_reward
from ..tiny import resolve_model
from ..training.parts import ready_tokenizer
from . import memory
from .memory import GIB, Launch, Parts, fitting, launch_of, memory_table, room_of, total


def print_dry_run(
    script: JointScriptArguments,
    args: JointSelfPlayConfig,
    model: ModelConfig,
    model_path: str,
    launch: Launch | None = None,
) -> None:
    """Print the resolved settings, batch arithmetic and memory of the run. Raises the ConfigError that the run would
    raise: at once for a domain, else after printing. `launch`: launch to plan for; None: this process's."""
    domain_from(args)
    print_settings(args, script, model)
    print("\n# Roles")
    kinds = {s.kind: len(args.players_of(s.kind)) for s in args.all_roles.values()}
    roles = [asdict(args.role(kind)) | {"role": kind, "players": n} for kind, n in kinds.items()]
    print(aligned(role_rows(roles)))
    launch = launch_of(args) if launch is None else launch
    steps = args.steps_per_round
    at_most = "at most " if any(s.trained and s.sequences_per_step for s in args.all_roles.values()) else ""
    print(f"\n# One round = {'one optimizer step' if steps == 1 else f'{at_most}{steps} optimizer steps'}")
    for line in batch_arithmetic(args, launch.processes):
        print(textwrap.fill(line, 80, subsequent_indent="  "))
    print(f"\n# Memory per process in GiB ({launch.sentence})")
    if launch.bf16 and launch.device == "cpu" and not args.use_cpu:
        print(
            "A run would be refused here: bf16 on a CPU needs --use_cpu. To plan for a GPU:\n"
            "--accelerate_config single_gpu, ddp, zero2, zero3 or fsdp2."
        )
    engine = "ddp" if launch.kind == "none" else launch.kind
    why = refusal(args, engine, make_conjecturer_reward(args.conjecturer_reward, args.reward_arguments))
    try:
        for name in dict.fromkeys([model_path, *(s.model for s in args.all_roles.values() if s.model)]):
            config_of(resolve_model(name))
        plans = Plans(script, args, model, model_path)
        print(memory_table(*plans(args, launch)))
        print(textwrap.fill(fitting(plans, args, launch), 80))
        print("--probe plays rounds and measures all of it.")
    except (OSError, ValueError) as error:
        print(unreadable(name, error))
    if why:
        raise ConfigError(f"A run would be refused: {why}")


def warn_of_room(script: JointScriptArguments, args: JointSelfPlayConfig, model: ModelConfig) -> None:
    """Print the smallest change with which a run fits its GPU, if needed. Raises ConfigError as `fitting` does."""
    if args.device.type != "cuda":
        return
    try:
        said = fitting(Plans(script, args, model, resolve_model(model.model_name_or_path)), args, launch_of(args))
    except ConfigError:
        raise
    except Exception:  # no estimate: the run itself reports what is wrong with its model or data
        return
    if args.process_index == 0 and not said.startswith("Fits"):
        print(said)


def unreadable(path: str, error: Exception) -> str:
    """Return a message on a model whose config or tokenizer is not on this machine. Raises ConfigError for a name that
    the hub cannot have: the run would fail too."""
    if isinstance(error, CountdownSelfPlayError):
        raise error
    check_starts(path)
    whole, _ = whole_below(path)
    named = f"'{path}'" if whole == path else f"'{whole}', the base of the adapter '{path}',"
    message = " ".join(str(error).split()) or type(error).__name__
    there = Path(whole).exists()
    if there or whole.count("/") > 1 or whole.startswith((".", "/", "~")):
        message = message if there else "there is no such folder, and the hub has no such names."
        raise ConfigError(f"The model {named} cannot be read: {message}") from error
    message = textwrap.fill(message, 80)
    return (
        f"No figures: the config of {named} cannot be read here: there is no such folder, and the hub says:\n{message}"
    )


def print_settings(*parts: Any) -> None:
    """Print the settings that differ from the defaults of the dataclasses."""
    print("# Settings that differ from the library's defaults")
    print(aligned([("field", "value"), *(row for part in parts for row in changed(part))]))


def print_warm_start(script: Any, args: Any, model: ModelConfig, lines: Iterable[str]) -> None:
    """Print the dry run of `sft`, `ipo` and `cdg --training iterated`: settings, data and training."""
    print_settings(args, script, model)
    for line in lines:
        print(line)
    print(f"\nmodel: {resolve_model(model.model_name_or_path)}, not loaded by a dry run")


def role_rows(roles: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """Return a table row for each setting that differs from its default in some role: name, value per role."""
    usual = {f.name: f.default for f in fields(Role)}
    differing = [name for name in roles[0] if any(role[name] != usual.get(name, MISSING) for role in roles)]
    differing = [name for name in differing if any(role[name] not in (None, {}) for role in roles)]
    return [(name, *(plain(role[name]) for role in roles)) for name in differing]


def print_probe(script: JointScriptArguments, args: JointSelfPlayConfig, trainer_arguments: dict[str, Any]) -> None:
    """Play rounds, and print the measured peaks of memory on the main process."""
    from .probe import probe, probe_table

    rows = None if script.dataset_name is None else load_problem_rows(script.dataset_name, script.dataset_train_split)
    launch = launch_of(args)
    measured = probe(args, {"train_dataset": rows, "domain": domain_from(args), **trainer_arguments})
    if args.process_index == 0:
        print(f"# Memory of the main process in GiB ({launch.sentence})\n{probe_table(measured)}")


class Plans:
    """Memory estimates for variants of a joint run with the model at `path`; parts that no variant changes are cached.
    Raises OSError or ValueError if the model's config and tokenizer cannot be read."""

    def __init__(self, script: JointScriptArguments, args: JointSelfPlayConfig, model: ModelConfig, path: str) -> None:
        config, own = config_of(path), get_peft_config(model)
        self.script, self.config, self.own, self.prompts = script, config, own, _prompts(path, script, args)
        dtype = str(getattr(config, "dtype", None) if model.dtype == "auto" else model.dtype or "float32")
        self.size = getattr(torch, dtype.removeprefix("torch."), torch.float32).itemsize
        adapter = own or DEFAULT_ADAPTER
        self.narrowed = cache(lambda: memory.narrowed_of(config))
        self.parameters = cache(lambda adapts: memory.parameters_of(config, adapter if adapts else None))
        self.activations = cache(lambda adapts, *how: memory.activations(config, adapter if adapts else None, *how))

    def __call__(self, args: JointSelfPlayConfig, launch: Launch) -> tuple[Parts, Parts, Parts]:
        """Return the parts of the memory: persistent ones, those of sampling and those of training."""
        config, size, prompts, roles = self.config, self.size, self.prompts, list(args.all_roles.values())
        adapts = self.own is not None or args.policy_sharing == "lora"
        whole, adapted = self.parameters(adapts)
        sets = len({role.weights for role in roles if role.trained})
        starts = {role.model for role in roles if adapts or not role.trained}
        references = {role.model for role in roles if not adapts and role.trained and role.beta > 0}
        copies, frozen = len(starts) + len(references) + sets * (not adapts), len(starts) + len(references)
        weights = copies * whole + sets * adapted
        lasting, training = memory.state(launch, weights, sets * (adapted or whole), size, frozen * self.narrowed())
        tokens = max(prompts[s.kind][0] + s.max_completion_length for s in roles if s.trained)
        rows = args.per_device_train_batch_size
        if args.max_tokens_per_micro_batch:
            rows = min(rows, max(args.max_tokens_per_micro_batch // tokens, 1))
        with suppress(Exception):  # a model that fake tensors cannot run gets no row
            how = rows, tokens, launch.bf16, bool(args.gradient_checkpointing)
            training["activations (training)"] = self.activations(adapts, *how)
        samples, sampling, words = args.samples(launch.processes), Parts(), config.get_text_config().vocab_size
        if args.generation_backend == "vllm" and launch.device == "cuda":
            share, room = args.vllm_gpu_memory_utilization, room_of(launch)
            half = sampling if args.vllm_enable_sleep_mode else lasting
            half["vLLM"] = (share * room, f"{share:g} of the GPU")
            rows = engine_arguments(args).get("max_num_seqs", min(max(samples.values()), 1024))
            before = (2 * whole + 8 * rows * words) / args.vllm_tensor_parallel_size
            if share * room < before:
                raise ConfigError(
                    f"`vllm_gpu_memory_utilization` ({share:g}) gives vLLM {share * room / GIB:.1f} GiB, and weights "
                    f"and scores of {rows} sequences take {before / GIB:.1f} before it has a cache; set at least "
                    f"{before / room + 0.05:.2f}."
                )
        if args.generation_backend != "generate":
            return lasting, sampling, training
        calls = [(s.role, min(samples[s.role], args.generation_rows), s.num_generations, s) for s in roles]
        if self.script.eval_problems:
            group, solver = args.num_generations_eval or 1, args.solver
            most = preset(args.eval_preset, {}).get("max_new_tokens", solver.max_completion_length)
            solver = replace(solver, max_completion_length=most)
            calls.append(("evaluation", max(args.per_device_eval_batch_size, group), group, solver))
        each, ends, reads = 2 if launch.bf16 else size, [], []
        for who, rows, group, s in calls:
            (longest, shared), read = prompts[s.kind], -(-rows // group)
            ends.append((who, rows, longest + s.max_completion_length))
            reads.append((read * (longest - shared * (read > 1)), read, longest))
        alone, read, longest = max(reads)
        begun = memory.kv_cache(config, [("prompts", read, longest)], each)
        begun["prompts (sampling)"] = memory.reading(config, adapts, read, alone // read, each)
        sampling, rows = memory.kv_cache(config, ends, each), max(rows for _, rows, _ in ends)
        sampling["logits (sampling)"] = 16.0 * rows * words, f"{rows} texts, {words} words x 16 bytes"
        sampling = max(sampling, begun, key=total)
        if launch.bf16 and size == 4 and launch.kind in ("none", "ddp"):
            sampling["bf16 copies (sampling)"] = (2.0 * (adapted or whole), "autocast's, of the weights that sample")
        if launch.kind == "zero3":
            sampling["gathered weights (sampling)"] = whole * (2.0 if launch.bf16 else 4.0), "of the role that samples"
        return lasting, sampling, training


def batch_arithmetic(args: JointSelfPlayConfig, processes: int | None = None) -> list[str]:
    """Return lines on the sizes of a round and a micro-batch. `processes`: number of processes (None: of this run)."""
    lines, samples = [], args.samples()
    for kind in dict.fromkeys(s.kind for s in args.all_roles.values()):
        s, players = args.role(kind), len(args.players_of(kind))
        name, most, group = f"{kind}, each of {players}" if players > 1 else kind, samples[s.role], s.num_generations
        unit, made = ("prompt", "proposals") if kind == "conjecturer" else ("problem", "answers")
        size = f"{most // group} {unit}{'s' * (most != group)} x {group} = {most} {made}"
        lines.append(f"{name}: {f'at most {most} samples' if args.planned_by_game else size}")
    steps = args.steps_per_round
    sizes = sorted({s.sequences_per_step for s in args.all_roles.values() if s.trained and s.sequences_per_step})
    if sizes:
        lines.append(f"steps: {' or '.join(map(str, sizes))} trained sequences each, at most {steps} a round")
    tokens = args.max_tokens_per_micro_batch
    lines.append(
        f"micro-batch: at most {args.per_device_train_batch_size} rows{f' and {tokens} tokens' * bool(tokens)}, on "
        f"each of {processes or args.world_size} process(es)"
    )
    slots, settings, anchors, fill = args.problems_per_round, args.game_settings, args.anchor_slots, "made"
    if args.players_of("conjecturer"):
        fill = settings.fill
    elif args.proposer is None:
        fill = "anchor"
    padded = f"a multiple of {settings.truncate_multiple}"
    size = {
        "anchor": f"{slots}, at least {anchors} anchors, up to {slots - anchors} proposals",
        "truncate": f"at most {slots}, {anchors} anchors, proposals cut to {padded}",
        "keep_all": f"at most {slots}, every proposal, at least a share of {settings.anchor_fraction:g} anchors, "
        f"padded to {padded}",
        "none": f"at most {slots}, proposals alone",
        "made": f"at most {slots}, chosen by the proposer {args.proposer}",
    }[fill]
    lines.append(f"problems per round: {slots if args.planned_by_game else size}")
    if args.max_steps <= 0:
        epochs = f"{args.num_train_epochs:g} epoch(s) of anchor problems fill"
        return [*lines, f"rounds: as many as {epochs} (max_steps is not set)"]
    solver = args.solver
    total = args.max_steps * samples[solver.role] * len(args.players_of(solver.kind))
    at_most = "at most " * args.planned_by_game
    return [*lines, f"rounds: {args.max_steps}, so {at_most}{total} {solver.kind} samples"]


def changed(settings: Any) -> list[tuple[str, str]]:
    """Return (field, value) of each field that differs from its default, long values split into rows of 80 columns.
    Secrets (`..._token`), objects that Transformers builds from plain fields, and _NOT_SHOWN are left out."""
    rows = []
    parts: list[Any] = [settings, CountdownArguments()] if isinstance(settings, JointSelfPlayConfig) else [settings]
    defaults: dict[str, Any] = {
        f.name: f.default if f.default_factory is MISSING else f.default_factory()
        for part in parts
        for f in fields(part)
    }
    values = vars(settings)
    if isinstance(settings, JointSelfPlayConfig):
        written = spread(settings.to_dict())
        values = values | {name: written.get(name) for name in (*FLAT_FIELDS, *COUNTDOWN, "domain_kwargs", "roles")}
        defaults |= {name: usual(setting) for name, (_, setting) in FLAT_FIELDS.items() if setting == "objective"}
    for name, default in defaults.items():
        value, default = values.get(name), None if default is MISSING else default
        shown = value is None or isinstance(value, str | int | float | bool | list | tuple | dict)
        nothing = all(one is None or one in ("", [], (), {}) for one in (value, default))
        nothing = nothing or (value is None and name in COUNTDOWN)
        if shown and value != default and not nothing and not name.endswith("_token") and name not in _NOT_SHOWN:
            rows.append((name, plain(value)))
    width = max(79 - max((len(name) for name, _ in rows), default=0), 20)
    cut = [(name, textwrap.wrap(value, width - 2) or [""]) for name, value in rows]
    return [(name if i == 0 else "", line) for name, lines in cut for i, line in enumerate(lines)]


_NOT_SHOWN: tuple[str, ...] = ("dry_run", "pad_to_multiple_of", "disable_tqdm", "gradient_accumulation_steps")
_NOT_SHOWN += ("generation_batch_size", "steps_per_generation")
"""Settings that `changed` leaves out: those of the command, and those that the batch arithmetic shows."""


def plain(value: Any) -> str:
    """Format a value as a user writes it; an enumeration by its value."""
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, list | tuple) and any(isinstance(one, Enum) for one in value):
        return str([plain(one) for one in value])
    return str(value)


UNKNOWN_PROMPT = 512  # tokens of a question whose rows are not on this machine


def _prompts(path: str, script: JointScriptArguments, args: JointSelfPlayConfig) -> dict[str, tuple[int, int]]:
    """Return, by role, the token counts of the longest usual prompt and of the prefix that all its prompts share. A
    critic's prompt is counted as the prover's prompt and an answer."""
    tokenizer: Any = read_tokenizer(path)
    domain, source, problems = domain_from(args), script.dataset_name, []
    if domain.random is not None:
        tokenizer = ready_tokenizer(args, domain, (), tokenizer)
        problems = [longest_problem(domain), *domain.random(2, 0, frozenset())]
    elif source is None:
        problems = [longest_problem(domain)]
    elif Path(source).exists() or Path(source).suffix in (".json", ".jsonl", ".parquet", ".csv"):
        rows = load_problem_rows(source, script.dataset_train_split)
        problems = [domain.problem(row, i) for i, row in enumerate(islice(rows, 64))]
    asked = {
        "prover": [domain.prove_row(problem) for problem in problems],
        "conjecturer": [domain.propose_row(**ask) for ask in asked_of(domain)],
    }
    found = {}
    for kind in dict.fromkeys(s.kind for s in args.all_roles.values()):
        ids = [prompt_ids(tokenizer, row["prompt"]) for row in asked.get(kind, asked["prover"])]
        longest = max(ids, key=len, default=[0] * UNKNOWN_PROMPT)
        same = next((i for i, token in enumerate(longest) if any(one[i : i + 1] != [token] for one in ids)), 0)
        answer = 0 if kind in asked else args.solver.max_completion_length
        found[kind] = len(longest) + answer, same if same >= SHARED_START else 0
    return found
