"""One turn of a player: completions through TRL's own generation and scoring, reference log-probs, verdicts; the
rewards of episodes."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch

from .. import _trl
from ..contract.episodes import Episodes
from ..contract.round import Rollout
from ..random_state import private_generator
from .host import Host
from .window import mask_after_stops


def roll_out(
    trainer: Host,
    role: str,
    rows: list[dict[str, Any]],
    n: int,
    problems: list[Any] | None,
) -> Rollout:
    """Sample one completion per row with the player's policy. `n` rows, side by side, are the same. `problems`: one
    per row, which the completions are judged by."""
    start = time.perf_counter()
    key = (trainer.args.seed, "rollout", *trainer.frame.key(), role, trainer.processes.rank)
    with trainer.acting_as(role, n, problems), private_generator(trainer.accelerator.device, *key):
        with nullcontext() if _scored_again(trainer, role) else _unscored(trainer):
            tensors = trainer._generate_and_score_completions(rows)
        texts, verdicts, rewards_B = trainer.captured()
        logs: dict[str, Any] = trainer._logs
        trainer.completion_logs[role].append(logs)
        for name, values in logs["rewards"].items():
            scored = 0 if verdicts is None else sum(not math.isnan(value) for value in values)
            trainer._metrics["train"][f"rewards/{name}/count"].append(scored)
        tensors = {name: value for name, value in tensors.items() if torch.is_tensor(value) and value.dim() > 0}
        if not _scored_again(trainer, role):
            tensors.pop("old_per_token_logps", None)
        trainer.sampler.finish(tensors)
        mask_after_stops(tensors, texts, trainer.stops(role), trainer.processing_class.pad_token_id)
        if role in trainer.trained and trainer.roles[role].beta > 0:
            with trainer.policies.reference(role, trainer.model_wrapped) as reference:
                tensors["ref_per_token_logps"] = _log_probs(trainer, reference, tensors)
        penalty_B = _kl_penalty(trainer, role, tensors)
    trainer._time(f"time/rollout_{role}", start)
    return Rollout(role, rows, texts, n, verdicts, rewards_B, tensors, penalty_B)


def _scored_again(trainer: Host, role: str) -> bool:
    """Does anybody read what the trained model gives to a sample of the role before the step?"""
    reads = getattr(trainer.objectives.get(role), "reads_behavior", True)
    return reads or trainer.roles[role].beta > 0 or trainer.use_vllm


@contextmanager
def _unscored(trainer: Host) -> Iterator[None]:
    """Sampling without TRL's second pass over the samples, where a round has several steps."""

    def unknown(model: Any, input_ids: torch.Tensor, mask: torch.Tensor, count: int, **_: Any) -> tuple[Any, ...]:
        return input_ids.new_full((len(input_ids), count), torch.nan, dtype=torch.float32), None, None

    vars(trainer)["_get_per_token_logps_and_entropies"] = unknown
    try:
        yield
    finally:
        del vars(trainer)["_get_per_token_logps_and_entropies"]


def score_episodes(trainer: Host, episodes: Episodes, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Give episodes of this process the rewards of TRL's reward functions, which see a transcript as the completion of
    its first prompt; and what `completion_table` shows of them. `rows`: one per episode. Called by all processes: TRL
    wants them to have equally many, and those that lack some score copies."""
    role, gather, count = episodes.role, trainer.processes.gather, len(episodes.texts)
    mine = list(zip(rows, episodes.texts, episodes.verdicts or [], strict=True))
    most = max(gather([count]))
    logs = _trl.empty_logs()
    if most == 0:
        return logs
    if trainer.processes.world > 1:
        fill = next(one for one in gather([mine[:1]]) if one)
        mine += [fill] * (most - count)
    asked, texts, verdicts = (list(part) for part in zip(*mine, strict=True))
    prompts = [row["prompt"] for row in asked]
    chat = not isinstance(prompts[0], str)
    completions = [[{"role": "assistant", "content": text}] for text in texts] if chat else texts
    swapped = {"_metrics": trainer._role_metrics[role], "_logs": logs, "_verdicts": verdicts}
    kept = {name: getattr(trainer, name) for name in swapped}
    try:
        vars(trainer).update(swapped)
        per_func = trainer._calculate_rewards(asked, prompts, completions, [[] for _ in asked])
    finally:
        vars(trainer).update(kept)
    episodes.rewards_B = trainer.captured()[2][:count]
    logs["prompt"], logs["completion"] = gather([str(p) for p in prompts]), gather(texts)
    metrics = trainer._role_metrics[role]["train"]
    for i, name in enumerate(trainer.reward_func_names):
        logs["rewards"][name] = per_func[:, i].tolist()
        known = per_func[:, i][~torch.isnan(per_func[:, i])]
        metrics[f"rewards/{name}/mean"].append(float(known.mean()) if known.numel() else math.nan)
        metrics[f"rewards/{name}/count"].append(known.numel())
    return logs


def blank_row(trainer: Host, rollouts: Sequence[Rollout]) -> dict[str, torch.Tensor]:
    """The tensors of a sample without a completion, for a player that sampled nothing in a round on this process.
    `rollouts`: what it sampled on the others has log-probs that all must have: metrics are summed over processes."""
    pad = trainer.processing_class.pad_token_id
    token = torch.full((1, 1), pad, dtype=torch.long, device=trainer.accelerator.device)
    masks = {"prompt": torch.ones_like(token), "completion": torch.zeros_like(token)}
    row = {f"{name}_{what}": v for name, mask in masks.items() for what, v in (("ids", token), ("mask", mask))}
    logps = {name: value for rollout in rollouts for name, value in rollout.tensors.items() if name.endswith("_logps")}
    return row | {name: value.new_zeros(1, 1) for name, value in logps.items()}


def _kl_penalty(trainer: Host, role: str, tensors: dict[str, torch.Tensor]) -> torch.Tensor | None:
    """beta x the sampled KL of each completion (sum of log pi - log ref), as in TRL's RLOO trainer."""
    settings = trainer.roles[role]
    if settings.kl_in != "reward" or "ref_per_token_logps" not in tensors:
        return None
    logps = tensors.get("old_per_token_logps")
    if logps is None:
        logps = _log_probs(trainer, trainer.model_wrapped, tensors)
    gap = (logps - tensors["ref_per_token_logps"]) * tensors["completion_mask"]
    return settings.beta * gap.sum(1).cpu()


@torch.no_grad()
def _log_probs(trainer: Host, model: torch.nn.Module, tensors: dict[str, torch.Tensor]) -> torch.Tensor:
    ids = torch.cat([tensors["prompt_ids"], tensors["completion_ids"]], 1)
    mask = torch.cat([tensors["prompt_mask"], tensors["completion_mask"]], 1)
    length = tensors["completion_ids"].size(1)
    size = trainer.args.per_device_train_batch_size
    logps, *_ = trainer._get_per_token_logps_and_entropies(model, ids, mask, length, batch_size=size)
    return logps
