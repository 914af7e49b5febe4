"""What a configuration would do, without loading a model."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from trl import ModelConfig

from ..config import JointSelfPlayConfig
from ..config.countdown_fields import domain_from
from ..memory import estimate_memory
from .joint import JointScriptArguments
from .tables import aligned


def print_dry_run(
    script: JointScriptArguments, args: JointSelfPlayConfig, model: ModelConfig, model_path: str
) -> None:
    """Print the resolved settings, the batch arithmetic, problems per round and a memory estimate."""
    print("# Settings that differ from the library's defaults")
    print(aligned([("field", "value"), *changed(args), *changed(script), *changed(model)]))
    print("\n# Roles")
    roles = [asdict(args.role(role)) for role in args.trained_roles]
    print(aligned([(name, *(str(role[name]) for role in roles)) for name in roles[0]]))
    print("\n# One round = one optimizer step")
    for line in batch_arithmetic(args):
        print(line)
    print("\n# Memory per process, estimated in GiB")
    try:
        rank = model.lora_r if model.use_peft or args.policy_sharing == "lora" else None
        longest = _prompt_tokens(model_path, args)
        parts = estimate_memory(model_path, args, longest, rank)
        print(aligned([("part", "GiB"), *((name, f"{size:.3f}") for name, size in parts.items())]))
    except (OSError, ValueError) as error:
        print(f"No estimate: the config of '{model_path}' cannot be read here ({type(error).__name__}).")


def batch_arithmetic(args: JointSelfPlayConfig) -> list[str]:
    """The numbers of a round, each with the product that makes it."""
    b, w = args.per_device_train_batch_size, args.world_size
    lines = [f"micro-batches: {args.gradient_accumulation_steps} of {b} samples on each of {w} process(es)"]
    for role in args.trained_roles:
        s = args.role(role)
        total = b * s.micro_batches * w
        unit = "problems" if role == "prover" else "prompts"
        lines.append(
            f"{role}: {b} x {s.micro_batches} x {w} = {total} samples = {total // s.num_generations} {unit} x "
            f"{s.num_generations}"
        )
    free = args.slots_per_round - args.anchor_slots
    lines.append(
        f"problems per round: {args.slots_per_round}, at least {args.anchor_slots} anchors, up to {free} proposals"
    )
    if args.max_steps > 0:
        lines.append(
            f"rounds: {args.max_steps}, so {args.max_steps * b * w * args.prover_micro_batches} prover samples"
        )
    else:
        lines.append(
            f"rounds: as many as {args.num_train_epochs:g} epoch(s) of anchor problems fill (max_steps is not set)"
        )
    return lines


def changed(settings: Any) -> list[tuple[str, str]]:
    from dataclasses import MISSING, fields

    rows = []
    for f in fields(settings):
        value = getattr(settings, f.name)
        default = (
            f.default
            if f.default is not MISSING
            else f.default_factory()
            if f.default_factory is not MISSING
            else None
        )  # type: ignore[misc]
        if value != default and not f.name.endswith("_token"):
            rows.append((f.name, str(value)))
    return rows


def _prompt_tokens(model_path: str, args: JointSelfPlayConfig) -> int:
    from transformers import AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(model_path)
    prompt = domain_from(args).propose_row(max(args.operands))["prompt"]
    if isinstance(prompt, str):
        return len(tokenizer(prompt)["input_ids"])
    return len(tokenizer.apply_chat_template(prompt, add_generation_prompt=True, return_dict=True)["input_ids"])
