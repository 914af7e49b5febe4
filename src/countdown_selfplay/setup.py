"""From a configuration to the parts of a run that need no model: the domain, the game's settings, what is refused."""

from __future__ import annotations

from .config import JointSelfPlayConfig
from .countdown import CountdownDomain, ProblemSpec, Rules
from .errors import ConfigError
from .games.base import GameSettings


def domain_from(args: JointSelfPlayConfig) -> CountdownDomain:
    """Countdown with the ranges, prompts and answer rule of `args`. The compact prompt has no answer tags."""
    return CountdownDomain(
        spec=ProblemSpec(
            operands=tuple(dict.fromkeys(args.operands)),
            number_low=args.number_low,
            number_high=args.number_high,
            target_low=args.target_low,
            target_high=args.target_high,
        ),
        rules=Rules(answer_rule=args.answer_rule, answer_format="bare" if args.prover_prompt == "compact" else "tags"),
        prover_prompt=args.prover_prompt,
        conjecturer_prompt=args.conjecturer_prompt,
    )


def game_settings(args: JointSelfPlayConfig) -> GameSettings:
    """The settings of a round, counted over all processes."""
    conjecturer = args.role("conjecturer")
    return GameSettings(
        slots=args.slots_per_round,
        anchor_slots=args.anchor_slots,
        proposals=args.per_device_train_batch_size * conjecturer.micro_batches * args.world_size,
        prover_group=args.role("prover").num_generations,
        conjecturer_group=conjecturer.num_generations,
        operands=tuple(args.operands),
        fill=args.fill,
        truncate_multiple=args.truncate_multiple or args.prover_micro_batches,
        duplicate_proposals=args.duplicate_proposals,
        novelty_window=args.novelty_window,
        invalid_reward=args.invalid_reward,
        easy_above=args.easy_above,
        hard_below=args.hard_below,
        samples=args.samples_per_log,
    )


def refuse_unsupported(args: JointSelfPlayConfig) -> None:
    """One sentence, before any model loads, for engines and options whose numbers have not been shown to be right."""
    if args.deepspeed_plugin is not None or getattr(args, "deepspeed", None):
        raise ConfigError(
            "DeepSpeed is not supported yet: ZeRO-3 adds a role's old gradient to its new one; launch with "
            "accelerate_configs/ddp.yaml or single_gpu.yaml."
        )
    if args.fsdp or getattr(args.distributed_state, "distributed_type", None) == "FSDP":
        raise ConfigError(
            "FSDP is not supported yet; launch with accelerate_configs/ddp.yaml or accelerate_configs/single_gpu.yaml."
        )
    if args.push_to_hub:
        raise ConfigError(
            "`push_to_hub` (True) is not supported: a checkpoint holds several policies; after training upload the "
            "exported "
            "folders with `hf upload <repo> <output_dir>/prover`."
        )
