"""A round as the trainer plays it: the game, kept samples, windows, the counts that normalise the losses."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, cast

import torch
from datasets import Dataset

from ..contract.domain import Row, in_moves
from ..contract.episodes import Episodes, play_out
from ..contract.round import Rollout, RoundResult, Turn, mean_reward
from ..data.anchors import anchors_of_batch, blank_columns, widened
from ..errors import DataError, GameError
from ..random_state import seed_from
from ..rewards.prover.soft_overlong import overlong_charges
from .answer_buffer import AnswerBuffer
from .completion_table import completion_table
from .credit import credit, mark_imitated
from .cut import micro_batches
from .episode_replay import EpisodeReplay
from .host import Host
from .metrics import truncated_rows
from .micro_batch import skips_idle_rows
from .replay import SampleReplay
from .rollouts import blank_row, roll_out, score_episodes
from .sequences import sequence_windows
from .turn_rows import merged, token_counts
from .window import (
    RoleBatch,
    credited,
    credited_as_sampled,
    fitted,
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
        self.later: set[int] = set()  # of these, by identity, those of moves after the first
        self.episodic: set[str] = set()  # players whose answers were episodes
        self.episode_logs: dict[int, dict[str, Any]] = {}  # what was logged of episodes, by identity

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
        self.trainer.frame.move = 0
        if problems is not None and in_moves(self.domain):
            return self._play_out(role, rows, n, list(problems))
        return self._sampled(role, rows, n, problems)

    def _play_out(self, role: str, rows: list[Row], n: int, problems: list[Any]) -> Episodes:
        """Episodes move by move, all processes in step; the reward functions score each once, at its end."""
        self.episodic.add(role)

        def sample(move: int, rows: list[Row], n: int) -> Rollout:
            self.trainer.frame.move = move
            found = self._sampled(role, rows, n, None)
            if move:
                self.later.add(id(found))
            return found

        played = play_out(self.domain, role, rows, problems, n, sample, lambda mine: any(self.gather([mine])))
        judged = [problem for problem in problems for _ in range(n)]
        asked = _repeated(rows, n)
        if self.columns:
            asked = widened(asked, [self.anchors.get(self.domain.key(p), {}) for p in judged], self.columns)
        self.episode_logs[id(played)] = score_episodes(self.trainer, played, asked)
        for charge, own in zip((move.penalty_B for move in played.moves), played.episode_of, strict=True):
            if charge is not None:  # KL as a reward penalty: an episode pays for all its moves
                total_B = torch.zeros(len(played.texts)) if played.penalty_B is None else played.penalty_B
                played.penalty_B = total_B.index_add(0, torch.tensor(own, dtype=torch.long), charge.float())
        return played

    def _sampled(self, role: str, rows: list[Row], n: int, problems: Sequence[Any] | None) -> Rollout:
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
            lengths = token_counts(rollout)
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
    distinct = trainer.processes.gather(rows)[:: trainer.args.loader_repeat]  # as the loader repeats them
    played = PlayedRound(trainer, distinct)
    anchors = anchors_of_batch(distinct, 1, trainer.domain)
    result: RoundResult = trainer.game.play(played, anchors)
    _check(trainer, played, result)
    metrics = result.metrics
    for role, rollouts in played.rollouts.items():
        metrics |= _generated(trainer, role, rollouts, role in played.episodic, played.later)
    turns = {role: [turn for turn in result.turns if turn.rollout.role == role] for role in trainer.roles}
    if trainer.args.log_completions:
        trainer._logs = completion_table(trainer, result.turns, played.rollouts, played.episode_logs)
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
    rows = args.rows(role) * args.steps_per_round
    key = (args.seed, "replay", frame.attempt, frame.rounds, role)
    replay, gather, rank = trainer.replays.get(role), trainer.processes.gather, trainer.processes.rank
    if isinstance(replay, SampleReplay):
        room = args.kept_answers(role) if isinstance(replay, EpisodeReplay) else rows
        batch = replay.play(batch, room, frame.rounds, key, gather, rank, world)
    sequences, episodes = trainer.roles[role].sequences_per_step, batch.sequence_B is not None
    if episodes and not sequences:  # equal parts, of which those without credit cost no forward pass
        batch, sequences = _as_all_sampled(trainer, role, batch)
    if isinstance(replay, AnswerBuffer):
        metrics[f"{role}/new_answers"] = replay.take_in(batch, frame.rounds, key, gather, rank)
        cut, filled = replay.steps(batch, args.steps_per_round, key, rank, world)
        metrics |= {f"{role}/steps": filled, f"{role}/owed_steps": replay.owed}
        dropped = 0
    elif sequences:
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
    if replay is not None:
        metrics[f"{role}/replay_samples"] = len(replay.kept)
    demonstrations = trainer.demonstrations[role]
    if demonstrations is not None:
        taught = [demonstrations.beside(w, (*key, i), rank, world) for i, w in enumerate(cut[:filled])]
        cut = [*taught, *cut[filled:]]
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


def _as_all_sampled(trainer: Host, role: str, batch: RoleBatch) -> tuple[RoleBatch, int]:
    """Episodes with credit, with advantages whose mean over them is that over all; and how many of them a step has."""
    mine = batch.take(credited(batch).nonzero().flatten())
    own = trained_counts(mine) if mine.rows else [0.0, 0.0, 0.0]
    both = trainer.processes.total([*own, *trained_counts(batch)])
    how = getattr(trainer.objectives[role], "normalization", "sequence")
    if mine.rows:
        batch = credited_as_sampled(mine, batch, how, both[:3], both[3:], 0)
    return batch, max(-(-int(both[0]) // trainer.args.steps_per_round), 1)


def _signals(trainer: Host, cut: Sequence[RoleBatch]) -> list[bool]:
    mine = [float((w.advantages_B != 0).sum()) + sft_tokens(w) for w in cut]
    return [count > 0 for count in trainer.processes.total(mine)]


def _cut_up(trainer: Host, window: dict[str, RoleBatch]) -> list[dict[str, Any]]:
    """The micro-batches of a window; each says what its losses are normalised by, and which roles have no signal."""
    idle_last = frozenset(role for role in window if skips_idle_rows(trainer, role))
    signalless = frozenset(role for role, batch in window.items() if not batch.has_signal)
    idle = frozenset(role for role, batch in window.items() if batch.idle)
    counts = {role: trainer.roles[role].trained_micro_batches for role in window}
    cut = micro_batches(window, counts, idle_last, trainer.args.per_device_train_batch_size)
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
    own = {id(rollout) for rollouts in played.rollouts.values() for rollout in rollouts} | set(played.episode_logs)
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
    """Which of the data set's problems were ever solved, against all that was generated (SGS 2026, figure 1)."""
    result.metrics["round/generations"] = trainer.frame.generations
    result.metrics["round/tokens"] = sum(trainer.frame.tokens.values())
    if trainer.solve_rate is not None and result.solved:
        keys, correct, answers = zip(*result.solved, strict=True)
        trainer.solve_rate.observe(keys, correct, answers[0], trainer.frame.rounds + 1)
        result.metrics["round/cumulative_solve_rate"] = trainer.solve_rate.rate


def _generated(
    trainer: Host, role: str, rollouts: Sequence[Rollout], episodic: bool, later: AbstractSet[int]
) -> dict[str, Any]:
    """Completions and tokens that a player sampled, their lengths, and how many the token limit cut. `episodic`:
    whether its answers are episodes, all of whose moves are one completion, each of which may be cut; `later`: which
    of the rollouts are moves after the first."""
    answers, moves, tokens, truncated, longest = 0.0, 0.0, 0.0, 0.0, 0
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
        answers += 0 if id(rollout) in later else mask.size(0)
        moves, tokens, truncated = moves + mask.size(0), tokens + float(mask.sum()), truncated + sum(cut)
        longest = max(longest, int(mask.sum(1).max()))
    answers, moves, tokens, truncated = trainer.processes.total([answers, moves, tokens, truncated])
    trainer.frame.count(role, int(answers), int(tokens))
    if not answers:
        return {}
    found = {
        f"{role}/completion_length": tokens / answers,
        f"{role}/completion_length_max": max(trainer.processes.gather([longest])),
        f"{role}/truncated_rate": truncated / moves,
    }
    return found | ({f"{role}/moves": moves / answers} if episodic else {})
