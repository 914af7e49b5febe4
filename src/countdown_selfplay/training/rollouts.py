"""Turns of a player: generation and scoring by TRL, reference log-probs, rewards, and `log_completions`."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch

from .. import _trl
from ..asking import sampling_of
from ..contract.domain import in_moves
from ..contract.episodes import Episodes
from ..contract.round import Rollout, Turn
from ..distributed.ddp import Engine
from ..errors import GameError
from ..generation.base import Sampler, SamplingContext
from ..policies.decode import neutral_generation
from ..random_state import private_generator
from .learners import Learner
from .metrics_buffer import MetricsBuffer

SHORT = 64
"""Length of completions in tokens up to which `log_probs` keeps their padding, because trimming gains nothing."""


@contextmanager
def sampling_as(engine: Engine, role: str) -> Iterator[None]:
    """Let the module's `forward` and `generate` act as `role` inside the block, without the model's own generation
    settings and in the precision of the loss: accelerate applies autocast to `forward`, but not to `generate`."""
    module = engine.policies.module
    with engine.policies.active(role), engine.sampling(), neutral_generation(module), engine.accelerator.autocast():
        yield


@contextmanager
def in_float32(engine: Engine) -> Iterator[None]:
    """Run the module's passes without autocast, which accelerate adds to its `forward`, inside the block."""
    module, accelerator = engine.policies.module, engine.accelerator
    plain = {"forward": module._original_forward} if accelerator.native_amp else {}
    outside = torch.autocast(accelerator.device.type, enabled=False)
    with _trl.swapped(accelerator, {"native_amp": False}), _trl.swapped(module, plain), outside:
        yield


class Rollouts:
    """Sampler and scorer of the turns of all players."""

    def __init__(self, trl: Any, context: SamplingContext) -> None:
        """Take over the trainer's parts. `trl`: GRPOTrainer whose `_calculate_rewards` calls `rewards`."""
        self.trl, self.context = trl, context
        self.engine: Engine = trl.engine
        self.sampler: Sampler = trl.sampler
        self.buffer: MetricsBuffer = trl.buffer
        self.learners: Mapping[str, Learner] = trl.learners
        self.domain = trl.domain
        self.in_moves = in_moves(self.domain)
        self._judged: list[Any] | None = None
        """Problems of the completions that are being sampled."""
        self._verdicts: list[Any] | None = None
        """Verdicts on the episodes that `score_episodes` is scoring."""
        self._captured: Any = None
        """Texts, verdicts and summed rewards of the last completions."""

    @contextmanager
    def acting_as(self, role: str, n: int, judged: list[Any] | None = None) -> Iterator[None]:
        """Set forward, generation, sampling settings and TRL's metrics to those of `role` inside the block, with `n`
        completions per prompt. `judged`: the problem of each completion, for `verify`."""
        trl, context = self.trl, self.context
        sampling = sampling_of(context.args, context.roles[role], context.stops(role))
        most = context.args.generation_rows
        rows = most - most % n if n < most else most  # completions of a prompt share its prefill
        swapped = {
            "num_generations": n,
            **_trl.sampling_overrides(trl.generation_kwargs, trl.eos_token_ids, sampling, rows),
            **self.sampler.begin(role, trl.state.global_step),
            "_metrics": self.buffer.collected[role],
            "_logs": _trl.empty_logs(),
        }
        with sampling_as(self.engine, role), _trl.swapped(trl, swapped), _trl.swapped(self, {"_judged": judged}):
            yield

    def rewards(
        self,
        stock: Callable[..., torch.Tensor],
        inputs: list[dict[str, Any]],
        prompts: list[Any],
        completions: list[Any],
        completion_ids: list[Any],
    ) -> torch.Tensor:
        """Return TRL's rewards (`stock`) of verified completions, whose rows get the column `verdict`; zeros for
        others, whose rewards the game computes later. Keep texts, verdicts and summed rewards in `_captured`."""
        texts = [c if isinstance(c, str) else c[-1]["content"] for c in completions]  # no function may change them
        verdicts, processes = self._verdicts, self.context.processes
        if self._judged is not None:
            verdicts = list(self.domain.verify(texts, self._judged))
            if len(verdicts) != len(texts):
                returned = f"{len(verdicts)} verdicts for {len(texts)} completions"
                raise GameError(f"`verify` of {type(self.domain).__name__} returned {returned}; return one for each.")
        if verdicts is None:
            per_func = torch.zeros(len(prompts) * processes.world, len(self.trl.reward_funcs)).to(processes.device)
        else:
            inputs = [row | {"verdict": verdict} for row, verdict in zip(inputs, verdicts, strict=True)]
            per_func = stock(inputs, prompts, completions, completion_ids)
        mine = per_func[processes.rank * len(prompts) :][: len(prompts)]
        rewards_B = (mine * self.trl.reward_weights.to(mine.device)).nansum(1)
        rewards_B[torch.isnan(mine).all(1)] = torch.nan  # every function returned None
        self._captured = (texts, verdicts, rewards_B.cpu())
        return per_func

    def roll_out(
        self, role: str, rows: list[dict[str, Any]], n: int, problems: list[Any] | None
    ) -> tuple[Rollout, dict[str, Any]]:
        """Sample one completion per row; return rollout and TRL's logs. `n` adjacent rows are equal."""
        start, trl, context = time.perf_counter(), self.trl, self.context
        key = (context.args.seed, "rollout", *context.key(), role, context.processes.rank)
        with self.acting_as(role, n, problems), private_generator(context.processes.device, *key):
            learner, beta = self.learners.get(role), context.roles[role].beta
            # Whether a pass before the optimizer step must compute log-probs of the samples.
            scored_again = trl.use_vllm or beta > 0 or learner is None or learner.objective.reads_behavior
            module = self.engine.policies.module
            bare = self.engine.name == "ddp" and self.engine.wrapped() is module
            with _trl.quick_turn(module, bare), nullcontext() if scored_again else self._unscored():
                tensors = trl._generate_and_score_completions(rows)
            texts, verdicts, rewards_B = self._captured
            logs: dict[str, Any] = trl._logs
            for name, values in logs["rewards"].items():
                scored = 0 if verdicts is None else sum(not math.isnan(value) for value in values)
                trl._metrics["train"][f"rewards/{name}/count"].append(scored)
            tensors = {name: value for name, value in tensors.items() if torch.is_tensor(value) and value.dim() > 0}
            if not scored_again:
                tensors.pop("old_per_token_logps", None)
            mask_after_stops(tensors, texts, context.stops(role), context.tokenizer.pad_token_id)
            if learner is not None and beta > 0:
                with self.engine.policies.reference(role, self.engine.wrapped()) as reference:
                    tensors["ref_per_token_logps"] = self.log_probs(reference, tensors)
            penalty_B = self._kl_penalty(role, tensors)
        self.buffer.record(f"time/rollout_{role}", time.perf_counter() - start)
        return Rollout(role, rows, texts, n, verdicts, rewards_B, tensors, penalty_B), logs

    @contextmanager
    def _unscored(self) -> Iterator[None]:
        """Skip inside the block the forward pass by which TRL scores samples again if a round has several steps."""

        def unknown(_: Any, ids: torch.Tensor, mask: torch.Tensor, n: int, **kwargs: Any) -> tuple[Any, None, None]:
            return torch.full((len(ids), n), torch.nan, device=ids.device), None, None

        self.trl._get_per_token_logps_and_entropies = unknown
        try:
            yield
        finally:
            del self.trl._get_per_token_logps_and_entropies

    def score_episodes(self, episodes: Episodes, rows: list[dict[str, Any]]) -> dict[str, Any]:
        """Reward this process's episodes by TRL's reward functions, which get an episode's transcript as the
        completion of its first prompt; return TRL's logs. `rows`: one per episode. All processes call it; those with
        fewer episodes score copies, because TRL requires equal numbers."""
        role, processes, count = episodes.role, self.context.processes, len(episodes.texts)
        mine = list(zip(rows, episodes.texts, episodes.verdicts or [], strict=True))
        most = max(processes.gather([count]))
        logs = _trl.empty_logs()
        if most == 0:
            return logs
        if processes.world > 1:
            fill = next(one for one in processes.gather([mine[:1]]) if one)
            mine += [fill] * (most - count)
        inputs, texts, verdicts = (list(part) for part in zip(*mine, strict=True))
        prompts = [row["prompt"] for row in inputs]
        chat = not isinstance(prompts[0], str)
        completions = [[{"role": "assistant", "content": text}] for text in texts] if chat else texts
        collected = self.buffer.collected[role]
        ours = {"_metrics": collected, "_logs": logs}
        with _trl.swapped(self.trl, ours), _trl.swapped(self, {"_verdicts": verdicts}):
            per_func = self.trl._calculate_rewards(inputs, prompts, completions, [[] for _ in inputs])
        episodes.rewards_B = self._captured[2][:count]
        logs["prompt"], logs["completion"] = processes.gather([str(p) for p in prompts]), processes.gather(texts)
        for i, name in enumerate(self.trl.reward_func_names):
            logs["rewards"][name] = per_func[:, i].tolist()
            scored = per_func[:, i][~torch.isnan(per_func[:, i])]
            mean = float(scored.mean()) if scored.numel() else math.nan
            collected["train"][f"rewards/{name}/mean"].append(mean)
            collected["train"][f"rewards/{name}/count"].append(scored.numel())
        return logs

    def _kl_penalty(self, role: str, tensors: dict[str, torch.Tensor]) -> torch.Tensor | None:
        """Return beta x the sampled KL of each completion (sum of log pi - log ref), as in TRL's RLOO trainer."""
        settings = self.context.roles[role]
        if settings.kl_in != "reward" or "ref_per_token_logps" not in tensors:
            return None
        logps = tensors.get("old_per_token_logps")
        if logps is None:
            logps = self.log_probs(self.engine.wrapped(), tensors)
        gap = (logps - tensors["ref_per_token_logps"]) * tensors["completion_mask"]
        return settings.beta * gap.sum(1).cpu()

    @torch.no_grad()
    def log_probs(
        self, model: torch.nn.Module, tensors: dict[str, torch.Tensor], together: bool = True
    ) -> torch.Tensor:
        """Return log-probs of completions under `model`, (B, T), without a graph. Beyond SHORT columns rows are
        trimmed, and sorted by length unless rows share prompts; trimmed padding gets 0. together: whether all
        processes call it, and agree on one batch size."""
        ids = torch.cat([tensors["prompt_ids"], tensors["completion_ids"]], 1)
        mask = torch.cat([tensors["prompt_mask"], tensors["completion_mask"]], 1)
        args, length, width = self.context.args, tensors["completion_ids"].size(1), tensors["prompt_ids"].size(1)
        size = args.per_device_train_batch_size
        if args.max_tokens_per_micro_batch:
            widest = max(self.context.processes.gather([ids.size(1)])) if together else ids.size(1)
            size = min(size, max(args.max_tokens_per_micro_batch // widest, 1))
        prompts, lengths = [width] * len(ids), [length] * len(ids)
        if length > SHORT:
            masks = tensors["prompt_mask"], tensors["completion_mask"]
            prompts, lengths = torch.stack([part_BT.sum(1) for part_BT in masks]).tolist()
        order = list(range(len(ids)))
        if not self.engine.policies.shares_prompts:
            order.sort(key=lambda row: lengths[row], reverse=True)
        parts = []
        for rows in (order[start : start + size] for start in range(0, len(order), size)):
            first, last = width - max(prompts[row] for row in rows), width + max(1, *(lengths[row] for row in rows))
            trimmed = ids[rows, first:last], mask[rows, first:last], last - width
            logps, *_ = self.trl._get_per_token_logps_and_entropies(model, *trimmed)
            parts.append(torch.nn.functional.pad(logps, (0, width + length - last)))
        return torch.cat(parts)[torch.tensor(order, device=ids.device).argsort()]


def mask_after_stops(tensors: dict[str, torch.Tensor], texts: list[str], stops: list[str] | None, fill: int) -> None:
    """Set `completion_mask` to 0 on the trailing padding (`fill`) of rows with a stop string, where TRL leaves it at
    1. Rows without a stop string keep their mask, because padding may be the end token."""
    if stops:
        ended = torch.tensor([any(stop in text for stop in stops) for text in texts])
        behind = (tensors["completion_ids"] == fill).flip(1).cumprod(1).flip(1).bool()
        tensors["completion_mask"][ended[:, None].to(behind.device) & behind] = 0


def completion_table(
    turns: Sequence[Turn],
    logs: Mapping[int, dict[str, Any]],
    order: Sequence[str],
    gather: Callable[[list[Any]], list[Any]],
) -> dict[str, Any]:
    """Return the round's completions of all processes in TRL's log format, by role (`order`) and turn, without filler
    samples. `logs`: id of a rollout -> TRL's logs. All processes call it. `reward` is the credited reward (NaN: not
    measured) and `advantages` the credit; columns of reward functions are NaN for samples that were not verified."""
    table = _trl.empty_logs()
    sampled = [(turn, log) for turn in turns if (log := logs.get(id(turn.rollout))) and log["prompt"]]
    sampled.sort(key=lambda pair: order.index(pair[0].rollout.role))
    functions = list(dict.fromkeys(name for _, log in sampled for name in log["rewards"]))
    extras = list(dict.fromkeys(name for _, log in sampled for name in log["extra"]))
    for turn, log in sampled:
        counts = gather([len(turn.rollout.texts)])
        per_process = len(log["prompt"]) // len(counts)  # rows of each process in the log
        rows = [rank * per_process + i for rank, count in enumerate(counts) for i in range(count)]
        unknown = [math.nan] * len(turn.rollout.texts)
        table["rewards"]["reward"] += gather(unknown if turn.rewards_B is None else turn.rewards_B.tolist())
        table["advantages"] += gather(turn.advantages_B.tolist())
        table["extra"]["role"] += [turn.rollout.role] * len(rows)
        judged = {} if turn.rollout.verdicts is None else log["rewards"]
        columns = [(table[name], log[name]) for name in ("prompt", "completion")]
        columns += [(table["rewards"][name], judged.get(name, [math.nan] * len(log["prompt"]))) for name in functions]
        columns += [(table["extra"][name], log["extra"].get(name, [None] * len(log["prompt"]))) for name in extras]
        for column, values in columns:
            column += [values[row] for row in rows]
    return table
