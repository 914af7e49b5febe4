"""A round as the trainer plays it: the game, kept samples, windows, the counts that normalise the losses."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, cast

from datasets import Dataset

from ..contract.domain import Row
from ..contract.round import Rollout, RoundResult, Turn, mean_reward
from ..data.anchors import anchors_of_batch, blank_columns, widened
from ..errors import DataError, GameError
from ..random_state import seed_from
from ..rewards.prover.soft_overlong import overlong_charges
from .completion_table import completion_table
from .credit import credit, mark_imitated
from .host import Host
from .metrics import truncated_rows
from .micro_batch import skips_idle_rows
from .rollouts import blank_row, roll_out
from .sequences import sequence_windows
from .window import (
    RoleBatch,
    credited_as_sampled,
    fitted,
    merged,
    micro_batches,
    sft_tokens,
    trained_counts,
    windows,
)


class PlayedRound:
    """The Round (contract/round.py) that a game of this run is handed."""

    def __init__(self, trainer: Host, rows: list[Row]) -> None:
        """`rows`: the anchors of all processes, whose extra columns the reward functions get."""
        self.trainer, self.domain, self.held_out = trainer, trainer.domain, trainer.held_out
        self.index = trainer.frame.rounds
        self.rank, self.world = trainer.processes.rank, trainer.processes.world
        self.gather, self.share = trainer.processes.gather, trainer.processes.share
        self.columns = blank_columns(rows, trainer.domain)
        known = reversed(rows) if self.columns else ()
        self.anchors = {trainer.domain.key(trainer.domain.problem(row)): row for row in known}
        trainer.frame.turn = 0
        trainer.completion_logs = defaultdict(list)
        self.rollouts: dict[str, list[Rollout]] = defaultdict(list)

    def players(self, kind: str) -> list[str]:
        return [name for name, settings in self.trainer.roles.items() if settings.kind == kind]

    def capacity(self, role: str) -> int:
        return self.trainer.args.capacity(role)

    def group(self, role: str) -> int:
        return self._settings(role).num_generations

    def room(self, role: str) -> int:
        return self.capacity(role) // self.group(role)

    def dataset(self) -> list[Any]:
        domain, rows = self.domain, self.trainer.train_dataset
        if not isinstance(rows, Dataset):
            raise DataError("train_dataset is a stream, and the game wants all of its problems; pass a data set.")
        found = (domain.problem(row, index) for index, row in enumerate(cast("Iterable[Row]", rows)))
        return list({domain.key(problem): problem for problem in found}.values())

    def solved_limit(self, role: str) -> int | None:
        replay = getattr(self.trainer.objectives.get(role), "replay", None)
        return None if replay is None else replay.solved_limit

    def seed(self, *key: object) -> int:
        return seed_from(self.trainer.args.seed, *key, self.trainer.frame.attempt, self.index)

    def sample(
        self, role: str, rows: Sequence[Row], n: int | None = None, problems: Sequence[Any] | None = None
    ) -> Rollout:
        settings = self._settings(role)
        n = settings.num_generations if n is None else n
        if problems is not None and len(problems) != len(rows):
            raise GameError(
                f"The game samples {len(rows)} rows of the {role} with {len(problems)} problems; pass one each."
            )
        rows = list(rows)
        self.trainer.frame.turn += 1  # on every process, also for a turn without rows
        most = len(rows)
        if self.world > 1:  # all processes take part in a generation, with equally many rows
            counts = self.gather([len(rows)])
            most = max(counts)
        if most == 0:
            return Rollout(role, [], [], n, None if problems is None else [])
        asked, judged = rows, None if problems is None else list(problems)
        if self.world > 1 and min(counts) < most:
            fill = next(one for one in self.gather([(rows[:1], (judged or [])[:1])]) if one[0])
            asked = rows + fill[0] * (most - len(rows))
            judged = None if judged is None else judged + fill[1] * (most - len(judged))
        if self.columns and judged is not None:
            asked = widened(asked, [self.anchors.get(self.domain.key(p), {}) for p in judged], self.columns)
        rollout = roll_out(self.trainer, role, _repeated(asked, n), n, _repeated(judged, n))
        rollout.rows = rows
        if len(asked) > len(rows):
            _cut(rollout, len(rows) * n)
        self.rollouts[role].append(rollout)
        return rollout

    def credit(
        self,
        rollout: Rollout,
        rewards_B: Any = None,
        correct_B: Any = None,
        kept_B: Any = None,
        group: int | None = None,
        imitate_B: Any = None,
    ) -> Turn:
        objective = self.trainer.objectives.get(rollout.role)
        settings, overlong_B = self._settings(rollout.role), None
        if settings.soft_overlong and rollout.texts:
            lengths = rollout.tensors["completion_mask"].sum(1).tolist()
            overlong_B = overlong_charges(lengths, settings.soft_overlong, settings.max_completion_length)
        turn = credit(objective, self.gather, rollout, rewards_B, correct_B, kept_B, group, overlong_B)
        if imitate_B is not None and objective is not None and settings.sft_coef:
            turn.has_signal |= mark_imitated(rollout, imitate_B, self.gather)
        return turn

    def _settings(self, role: str) -> Any:
        if role not in self.trainer.roles:
            known = ", ".join(self.trainer.roles)
            raise GameError(f"The game asks for the player '{role}'; the players of this run are {known}.")
        return self.trainer.roles[role]


def play_round(trainer: Host, rows: list[Row]) -> list[dict[str, Any]]:
    """Play one round on the anchors in `rows` and cut it into micro-batches, window after window. Called by all
    processes."""
    start = time.perf_counter()
    gathered = trainer.processes.gather(rows)
    played = PlayedRound(trainer, gathered)
    anchors = anchors_of_batch(gathered, trainer.args.loader_repeat, trainer.domain)
    result: RoundResult = trainer.game.play(played, anchors)
    _check(trainer, played, result)
    metrics = result.metrics
    for role, rollouts in played.rollouts.items():
        metrics |= _generated(trainer, role, rollouts)
    turns = {role: [turn for turn in result.turns if turn.rollout.role == role] for role in trainer.roles}
    if trainer.args.log_completions:
        trainer._logs = completion_table(trainer, result.turns, played.rollouts)
    window_batches: list[dict[str, RoleBatch]] = [{} for _ in range(trainer.args.steps_per_round)]
    for role in trainer.trained:
        cut, found = _windows(trainer, role, turns[role], played.rollouts[role])
        metrics |= found
        for window, batch in zip(window_batches, cut, strict=True):
            window[role] = batch
        observe = getattr(trainer.objectives[role], "observe", None)
        if observe is not None:
            observe(mean_reward(turns[role]))
    _count_solved(trainer, result)
    trainer.frame.rounds += 1
    trainer.round_metrics.append(metrics)
    trainer.round_samples = result.samples
    trainer._time("time/round", start)
    return [batch for window in window_batches for batch in _cut_up(trainer, window)]


def _windows(
    trainer: Host, role: str, turns: Sequence[Turn], rollouts: Sequence[Rollout]
) -> tuple[list[RoleBatch], dict[str, Any]]:
    """A player's samples in windows, and what is logged of them."""
    args, frame, world = trainer.args, trainer.frame, trainer.processes.world
    metrics: dict[str, Any] = {}
    batch = merged(turns, blank_row(trainer, rollouts))
    rows = args.capacity(role) // world * trainer.roles[role].replayed_rounds
    key = (args.seed, "replay", frame.attempt, frame.rounds, role)
    if role in trainer.replays:
        replay, gather = trainer.replays[role], trainer.processes.gather
        batch = replay.play(batch, rows, frame.rounds, key, gather, trainer.processes.rank, world)
        metrics[f"{role}/replay_samples"] = len(replay.kept)
    sequences = trainer.roles[role].sequences_per_step
    if sequences:
        each, seed = rows // args.steps_per_round, seed_from(*key, "sequences")
        cut, filled, dropped = sequence_windows(batch, each, args.steps_per_round, sequences, seed, trainer.processes)
        metrics[f"{role}/steps"] = filled
    else:
        filled, whole = args.steps_per_round, batch
        batch, own = fitted(batch, rows, seed_from(*key, "fitted", trainer.processes.rank))
        found, *both = trainer.processes.total([float(own), *trained_counts(batch), *trained_counts(whole)])
        dropped = int(found)
        if both[:3] != both[3:]:
            how = getattr(trainer.objectives[role], "normalization", "sequence")
            batch = credited_as_sampled(batch, whole, how, both[:3], both[3:], own)
        cut = windows(batch, args.steps_per_round, seed_from(*key, "windows", trainer.processes.rank))
        if len(cut) > 1:
            for window, signal in zip(cut, _signals(trainer, cut), strict=True):
                window.has_signal = signal
    for window in cut[max(filled, 1) :]:
        window.idle = True
    if dropped:
        metrics[f"{role}/dropped_rows"] = dropped
    counts = trainer.processes.total([count for window in cut for count in trained_counts(window)])
    for window, i in zip(cut, range(0, len(counts), 3), strict=True):
        window.counts = tuple(value / world for value in counts[i : i + 3])
    if trainer.roles[role].sft_coef:
        for window, tokens in zip(cut, trainer.processes.total([sft_tokens(w) for w in cut]), strict=True):
            window.counts = (*window.counts, tokens / world)
    metrics[f"{role}/trained_samples"] = sum(counts[::3])
    return cut, metrics


def _signals(trainer: Host, cut: Sequence[RoleBatch]) -> list[bool]:
    mine = [float((w.advantages_B != 0).sum()) + sft_tokens(w) for w in cut]
    return [count > 0 for count in trainer.processes.total(mine)]


def _cut_up(trainer: Host, window: dict[str, RoleBatch]) -> list[dict[str, Any]]:
    """The micro-batches of a window; each says what its losses are normalised by, and which roles have no signal."""
    idle_last = frozenset(role for role in window if skips_idle_rows(trainer, role))
    signalless = frozenset(role for role, batch in window.items() if not batch.has_signal)
    idle = frozenset(role for role, batch in window.items() if batch.idle)
    cut = micro_batches(window, {role: trainer.roles[role].trained_micro_batches for role in window}, idle_last)
    told = {"signalless": signalless, "idle": idle}
    return [batch | told | {"counts": window[batch["role"]].counts} for batch in cut]


def _check(trainer: Host, played: PlayedRound, result: RoundResult) -> None:
    """GameError for what is not the result of this round."""
    wrong = (
        [turn for turn in result.turns if not isinstance(turn, Turn)] if isinstance(result, RoundResult) else [result]
    )
    if wrong:
        raise GameError(
            f"`play` of {type(trainer.game).__name__} returned a {type(wrong[0]).__name__}; it must return a "
            "RoundResult whose turns are what round.credit returned."
        )
    own = {id(rollout) for rollouts in played.rollouts.values() for rollout in rollouts}
    for turn in result.turns:
        if turn.rollout.texts and id(turn.rollout) not in own:
            raise GameError(
                f"The game returned a turn of the {turn.rollout.role} that was not sampled in this round "
                f"({trainer.frame.rounds}); return what round.credit made of this round's rollouts."
            )


def _repeated(items: Sequence[Any] | None, times: int) -> Any:
    """Each item `times` times in a row: the same object, since nobody writes into a problem or a row."""
    return None if items is None else [item for item in items for _ in range(times)]


def _cut(rollout: Rollout, count: int) -> None:
    """Leave the first `count` samples: those behind them were sampled for the sake of other processes."""
    rollout.texts, rollout.rewards_B = rollout.texts[:count], rollout.rewards_B[:count]
    rollout.verdicts = None if rollout.verdicts is None else rollout.verdicts[:count]
    rollout.tensors = {name: value[:count] for name, value in rollout.tensors.items()}
    rollout.penalty_B = None if rollout.penalty_B is None else rollout.penalty_B[:count]


def _count_solved(trainer: Host, result: RoundResult) -> None:
    """Which of the data set's problems were ever solved, against all that was generated (seed 003, figure 1)."""
    result.metrics["round/generations"] = trainer.frame.generations
    result.metrics["round/tokens"] = sum(trainer.frame.tokens.values())
    if trainer.solve_rate is not None and result.solved:
        keys, correct, answers = zip(*result.solved, strict=True)
        trainer.solve_rate.observe(keys, correct, answers[0], trainer.frame.rounds + 1)
        result.metrics["round/cumulative_solve_rate"] = trainer.solve_rate.rate


def _generated(trainer: Host, role: str, rollouts: Sequence[Rollout]) -> dict[str, Any]:
    """Completions and tokens that a player sampled, their lengths, and how many the token limit cut."""
    sums, longest = [0.0, 0.0, 0.0], 0
    for rollout in rollouts:
        if not rollout.texts:
            continue
        mask = rollout.tensors["completion_mask"]
        cut = truncated_rows(
            rollout.tensors["completion_ids"],
            mask,
            rollout.texts,
            frozenset(trainer.eos_token_ids),
            tuple(trainer.stops(role) or ()),
            trainer.roles[role].max_completion_length,
        )
        sums = [a + b for a, b in zip(sums, (float(mask.size(0)), float(mask.sum()), float(sum(cut))), strict=True)]
        longest = max(longest, int(mask.sum(1).max()))
    samples, tokens, truncated = trainer.processes.total(sums)
    trainer.frame.count(role, int(samples), int(tokens))
    if not samples:
        return {}
    return {
        f"{role}/completion_length": tokens / samples,
        f"{role}/completion_length_max": max(trainer.processes.gather([longest])),
        f"{role}/truncated_rate": truncated / samples,
    }
