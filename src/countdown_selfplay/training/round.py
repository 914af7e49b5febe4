"""A round as the trainer plays it: the game, kept samples, the counts that normalise the losses, the micro-batches."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import torch

from ..data.anchors import anchors_of_batch, with_columns
from ..games import RoleBatch, RoundContext, RoundResult
from .completion_table import completion_table
from .metrics import truncated_rows
from .micro_batch import skips_idle_rows
from .parts import game_settings
from .window import micro_batches, trained_counts

if TYPE_CHECKING:
    from .trainer import JointConjecturerProverTrainer


def play_round(trainer: JointConjecturerProverTrainer, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Play one round on the anchors in `rows` and cut it into micro-batches. Called by all processes."""
    start = time.perf_counter()
    accelerator, args = trainer.accelerator, trainer.args
    gathered = trainer._gather(rows)
    context = RoundContext(
        settings=game_settings(args),
        domain=trainer.domain,
        state=trainer.curriculum,
        conjecturer_reward=trainer.conjecturer_reward,
        objectives=trainer.objectives,
        excluded=trainer.held_out,
        rollout=with_columns(trainer._rollout, gathered),
        gather=trainer._gather,
        seed=args.seed,
        rank=accelerator.process_index,
        world=accelerator.num_processes,
    )
    round_ = trainer.curriculum.rounds
    result = trainer.game.play(context, anchors_of_batch(gathered, args.loader_repeat))
    if args.log_completions:
        trainer._logs = completion_table(trainer, result.batches)
    batches = {}
    for role, batch in result.batches.items():
        _count_generated(trainer, role, batch, result.metrics)
        if role in trainer.replays:
            key = (args.seed, "replay", trainer.curriculum.attempt, round_, role)
            replay = trainer.replays[role]
            batch = replay.play(
                batch, round_, key, trainer._gather, accelerator.process_index, accelerator.num_processes
            )
            result.metrics[f"{role}/replay_samples"] = len(replay.kept)
        batches[role] = batch
        sums = _summed(trainer, trained_counts(batch))
        trainer.losses[role].new_round(*(value / accelerator.num_processes for value in sums))
        result.metrics[f"{role}/trained_samples"] = sums[0]
        observe = getattr(trainer.objectives[role], "observe", None)
        if observe is not None:
            observe(batch.mean_reward)
    _count_solved(trainer, result)
    trainer.signalless = frozenset(role for role, batch in batches.items() if not batch.has_signal)
    trainer.round_metrics.append(result.metrics)
    trainer.round_samples = result.samples
    trainer._time("time/round", start)
    idle_last = frozenset(role for role in trainer.roles if skips_idle_rows(trainer, role))
    return micro_batches(batches, {role: s.micro_batches for role, s in trainer.roles.items()}, idle_last)


def _count_solved(trainer: JointConjecturerProverTrainer, result: RoundResult) -> None:
    """Which of the data set's problems were ever solved, against all that was generated (seed 003, figure 1)."""
    result.metrics["round/generations"] = trainer.curriculum.generations
    if trainer.solve_rate is not None and result.solved:
        keys, correct = zip(*result.solved, strict=True)
        answers = trainer.roles["prover"].num_generations
        trainer.solve_rate.observe(keys, correct, answers, trainer.state.global_step + 1)
        result.metrics["round/cumulative_solve_rate"] = trainer.solve_rate.rate


def _count_generated(
    trainer: JointConjecturerProverTrainer, role: str, batch: RoleBatch, metrics: dict[str, Any]
) -> None:
    """Completions and tokens that the role sampled, their lengths, and how many the token limit cut."""
    rollout = batch.rollout
    mask = rollout.tensors["completion_mask"]
    cut = truncated_rows(
        rollout.tensors["completion_ids"],
        mask,
        rollout.texts,
        frozenset(trainer.eos_token_ids),
        tuple(trainer.roles[role].stops(trainer.domain) or ()),
        trainer.roles[role].max_completion_length,
    )
    samples, tokens, truncated = _summed(trainer, [float(mask.size(0)), float(mask.sum()), float(sum(cut))])
    trainer.curriculum.count(role, int(samples), int(tokens))
    metrics[f"{role}/completion_length"] = tokens / samples
    metrics[f"{role}/completion_length_max"] = max(trainer._gather([int(mask.sum(1).max())]))
    metrics[f"{role}/truncated_rate"] = truncated / samples


def _summed(trainer: JointConjecturerProverTrainer, values: list[float]) -> list[float]:
    """Over all processes, in float64."""
    if trainer.accelerator.num_processes == 1:
        return values
    tensor = torch.tensor(values, dtype=torch.float64, device=trainer.accelerator.device)
    return trainer.accelerator.reduce(tensor, "sum").tolist()
