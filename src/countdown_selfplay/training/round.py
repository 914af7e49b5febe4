"""Implementation of `Round` (contract/round.py), and the credit of samples: selection and advantages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, cast

import torch
from datasets import Dataset

from ..contract.domain import Row
from ..contract.episodes import Episodes, play_out
from ..contract.round import Rollout, RoundResult, Turn
from ..data.anchors import NO_EXTRA
from ..errors import ConfigError, GameError, RewardError
from ..objectives.base import Objective, checked_advantages, selected
from ..random_state import seed_from
from ..rewards.prover.verifier import overlong_charges
from .metrics_buffer import RunCounts
from .progress import progress_along
from .rollouts import Rollouts


class PlayedRound:
    """Round that the trainer passes to the game."""

    def __init__(
        self, rows: list[Row], rollouts: Rollouts, counts: RunCounts, held_out: frozenset[str], data: Dataset
    ) -> None:
        """Begin a round. `rows`: anchors of all processes, whose extra columns the reward functions receive.
        `held_out`: keys of the evaluation's problems. `data`: the training data set."""
        self.sampler, self.counts, self.held_out, self.data = rollouts, counts, held_out, data
        context = rollouts.context
        self.args, self.roles, self.domain, self.index = context.args, context.roles, rollouts.domain, counts.rounds
        self.rank, self.world = context.processes.rank, context.processes.world
        self.gather, self.share = context.processes.gather, context.processes.share
        columns = NO_EXTRA.union(self.domain.prove_row(self.domain.problem(rows[0])) if rows else ())
        self.columns = dict.fromkeys(name for row in rows for name in row if name not in columns)
        """Extra columns of the anchors -> None, the value for problems that are not among the anchors."""
        known = reversed(rows) if self.columns else ()
        self.anchors = {self.domain.key(self.domain.problem(row)): row for row in known}
        counts.turn = 0
        self.rollouts: dict[str, list[Rollout]] = defaultdict(list)
        self.later: set[int] = set()  # ids of rollouts of later moves
        self.episodic: set[str] = set()  # players that answer in episodes
        self.logs: dict[int, dict[str, Any]] = {}  # TRL's logs of rollouts and episodes, by identity

    def players(self, kind: str) -> list[str]:
        return [name for name, settings in self.roles.items() if settings.kind == kind]

    def slots(self, kind: str) -> int:
        return self.args.slots(kind)

    def group(self, role: str) -> int:
        return self._settings(role).num_generations

    def dataset(self) -> list[Any]:
        domain = self.domain
        problems = (domain.problem(row, index) for index, row in enumerate(cast("Iterable[Row]", self.data)))
        return list({domain.key(problem): problem for problem in problems}.values())

    def solved_limit(self, role: str) -> int | None:
        learner = self.sampler.learners.get(role)
        replay = None if learner is None else learner.objective.replay
        return None if replay is None else replay.solved_limit

    def seed(self, *key: object) -> int:
        return seed_from(self.args.seed, *key, self.counts.attempt, self.index)

    def sample(
        self, role: str, rows: Sequence[Row], n: int | None = None, problems: Sequence[Any] | None = None
    ) -> Rollout:
        settings = self._settings(role)
        n = settings.num_generations if n is None else n
        if problems is not None and len(problems) != len(rows):
            asked = f"{len(rows)} rows of the {role} with {len(problems)} problems"
            raise GameError(f"The game samples {asked}; pass one each.")
        self.counts.turn += 1  # on every process, also without rows
        self.counts.move = 0
        if problems is not None and self.sampler.in_moves:
            return self._play_out(role, list(rows), n, list(problems))
        return self._sampled(role, list(rows), n, problems)

    def progress(self, rollout: Rollout, weights_B: torch.Tensor | None = None) -> torch.Tensor | None:
        return progress_along(self.sampler, rollout, weights_B)

    def _play_out(self, role: str, rows: list[Row], n: int, problems: list[Any]) -> Episodes:
        self.episodic.add(role)

        def sample(move: int, rows: list[Row], n: int) -> Rollout:
            self.counts.move = move
            rollout = self._sampled(role, rows, n, None)
            if move:
                self.later.add(id(rollout))
            return rollout

        played = play_out(self.domain, role, rows, problems, n, sample, lambda mine: any(self.gather([mine])))
        prompts = self._widened(_repeated(rows, n), _repeated(problems, n))
        self.logs[id(played)] = self.sampler.score_episodes(played, prompts)
        for charge, episode in zip((move.penalty_B for move in played.moves), played.episode_of, strict=True):
            if charge is not None:  # KL as a reward penalty: the sum over an episode's moves
                total_B = torch.zeros(len(played.texts)) if played.penalty_B is None else played.penalty_B
                played.penalty_B = total_B.index_add(0, torch.tensor(episode, dtype=torch.long), charge.float())
        return played

    def _sampled(self, role: str, rows: list[Row], n: int, problems: Sequence[Any] | None) -> Rollout:
        counts = self.gather([len(rows)])
        most = max(counts)  # all processes generate the same number of rows
        if most == 0:
            return Rollout(role, [], [], n, None if problems is None else [])
        prompts, judged = rows, None if problems is None else list(problems)
        if min(counts) < most:
            fill = next(one for one in self.gather([(rows[:1], (judged or [])[:1])]) if one[0])
            prompts = rows + fill[0] * (most - len(rows))
            judged = None if judged is None else judged + fill[1] * (most - len(judged))
        prompts = prompts if judged is None else self._widened(prompts, judged)
        rollout, logs = self.sampler.roll_out(role, _repeated(prompts, n), n, _repeated(judged, n))
        rollout.rows = rows
        if len(prompts) > len(rows):
            _cut(rollout, len(rows) * n)
        self.rollouts[role].append(rollout)
        self.logs[id(rollout)] = logs
        return rollout

    def _widened(self, rows: list[Row], problems: Sequence[Any]) -> list[Row]:
        """Add the extra columns of the anchors to rows; TRL passes them to the reward functions."""
        if not self.columns:
            return rows
        extra = [self.anchors.get(self.domain.key(problem), {}) for problem in problems]
        return [{**self.columns, **anchor, **row} for anchor, row in zip(extra, rows, strict=True)]

    def credit(
        self,
        rollout: Rollout,
        rewards_B: Any = None,
        correct_B: Any = None,
        kept_B: Any = None,
        group: int | None = None,
        imitate_B: Any = None,
    ) -> Turn:
        learner = self.sampler.learners.get(rollout.role)
        objective = None if learner is None else learner.objective
        settings, overlong_B = self._settings(rollout.role), None
        if settings.soft_overlong and rollout.texts:
            limit = settings.max_completion_length
            overlong_B = overlong_charges(token_counts(rollout), settings.soft_overlong, limit)
        on = settings.overlong_on
        turn = credit(objective, self.gather, rollout, rewards_B, correct_B, kept_B, group, overlong_B, on)
        if imitate_B is not None and objective is not None and settings.sft_coef:
            turn.imitated_B = one_per_sample(rollout, "imitated", imitate_B, torch.bool)
        return turn

    def _settings(self, role: str) -> Any:
        if role not in self.roles:
            known = ", ".join(self.roles)
            raise GameError(f"The game asks for the player '{role}'; the players of this run are {known}.")
        return self.roles[role]

    def generated(self, role: str) -> dict[str, Any]:
        """Add a player's completions and tokens to the run's counts; return metrics of lengths and truncation."""
        answers = moves = tokens = truncated = longest = 0.0
        context, limit = self.sampler.context, self.roles[role].max_completion_length
        stops, ends = context.stops(role) or (), frozenset(self.sampler.trl.eos_token_ids)
        for rollout in self.rollouts[role]:
            if not rollout.texts:
                continue
            lengths = token_counts(rollout)
            answers += 0 if id(rollout) in self.later else len(lengths)
            moves, tokens, longest = moves + len(lengths), tokens + sum(lengths), max(longest, *lengths)
            truncated += sum(truncated_rows(rollout, ends, stops, limit))
        answers, moves, tokens, truncated = context.processes.total([answers, moves, tokens, truncated])
        self.counts.count(role, int(answers), int(tokens))
        if not answers:
            return {}
        record = {
            f"{role}/completion_length": tokens / answers,
            f"{role}/completion_length_max": max(self.gather([longest])),
            f"{role}/truncated_rate": truncated / moves,
        }
        return record | ({f"{role}/moves": moves / answers} if role in self.episodic else {})

    def check(self, result: RoundResult, game: object) -> None:
        """Raise GameError unless `result` is a RoundResult whose turns were sampled in this round."""
        cure = "return a RoundResult with what round.credit made of this round's rollouts"
        for turn in result.turns if isinstance(result, RoundResult) else [result]:
            if not isinstance(turn, Turn):
                raise GameError(f"`play` of {type(game).__name__} returned a {type(turn).__name__}; {cure}.")
            if turn.rollout.texts and id(turn.rollout) not in self.logs:
                other = f"a turn of the {turn.rollout.role} that was not sampled in this round ({self.index})"
                raise GameError(f"`play` of {type(game).__name__} returned {other}; {cure}.")


def _repeated(items: Sequence[Any] | None, times: int) -> Any:
    """Repeat each item `times` times: the same object, because problems and rows are never modified."""
    return None if items is None else [item for item in items for _ in range(times)]


def _cut(rollout: Rollout, count: int) -> None:
    """Keep the first `count` samples; the rest were sampled to match other processes."""
    rollout.texts, rollout.rewards_B = rollout.texts[:count], rollout.rewards_B[:count]
    rollout.verdicts = None if rollout.verdicts is None else rollout.verdicts[:count]
    rollout.tensors = {name: value[:count] for name, value in rollout.tensors.items()}
    rollout.penalty_B = None if rollout.penalty_B is None else rollout.penalty_B[:count]


def credit(
    objective: Objective | None,
    gather: Callable[[list[Any]], list[Any]],
    rollout: Rollout,
    rewards_B: Any = None,
    correct_B: Any = None,
    kept_B: Any = None,
    group: int | None = None,
    overlong_B: Any = None,
    overlong_on: str = "all",
) -> Turn:
    """Compute selection and advantages, as `Round.credit` does. objective: None for a player that is not trained.
    overlong_B: penalties, at most 0; where negative, the penalty replaces the sample's reward (and correctness) before
    the baseline, or the advantage of a selected sample (`Objective.overlong_replaces`). overlong_on: "correct" ignores
    penalties of wrong samples (without verdicts: those with no reward above 0). All processes call it."""
    group = rollout.n if group is None else group
    count = len(rollout.texts)
    rewards_B = one_per_sample(rollout, "rewards", rollout.rewards_B if rewards_B is None else rewards_B, torch.float)
    correct_B = rollout.correct_B if correct_B is None else correct_B
    charged_B = rewards_B if rollout.penalty_B is None else rewards_B - rollout.penalty_B.to(rewards_B)
    if torch.isinf(charged_B).any():
        row = int(torch.isinf(charged_B).nonzero()[0])
        seen = f"The game's reward of the {rollout.role}'s sample {row} is {float(charged_B[row])}"
        raise RewardError(f"{seen}; it must be a finite number, or NaN for a sample that was not measured.")
    split = f"The game credits {count} samples of the {rollout.role} in groups of {group}"
    if count % group:
        raise ConfigError(f"{split}; pass a `group` that divides them.")
    if objective is None:
        return Turn(rollout, torch.zeros(count), rewards_B, group=group)
    if group < objective.needs_samples:
        raise ConfigError(
            f"{split}, and the role's objective ({type(objective).__name__}) needs {objective.needs_samples} or more; "
            "sample more per row, pass credit(..., group=...), or use reinforce or rest, which have no baseline."
        )
    rewards_PG = charged_B.reshape(-1, group)
    correct_PG = None
    if correct_B is not None:
        correct_PG = one_per_sample(rollout, "correct", correct_B, torch.float).reshape(-1, group).to(rewards_PG)
    selected_PG = selected(objective, rollout.role, rewards_PG, correct_PG)
    earlier, charge_PG = objective.overlong_replaces == "reward", None
    if overlong_B is not None:
        charge_PG = one_per_sample(rollout, "charges", overlong_B, torch.float).reshape(-1, group).to(rewards_PG)
        if overlong_on == "correct":
            charge_PG = charge_PG * ((rewards_PG if correct_PG is None else correct_PG) > 0)
    if charge_PG is not None and earlier:
        rewards_PG = torch.where(charge_PG < 0, charge_PG, rewards_PG)
        correct_PG = None if correct_PG is None else torch.where(charge_PG < 0, charge_PG, correct_PG)
    advantages_PG = checked_advantages(objective, rollout.role, rewards_PG, correct_PG)
    if kept_B is not None:
        selected_PG = selected_PG & one_per_sample(rollout, "kept", kept_B, torch.bool).reshape(-1, group)
    if charge_PG is not None and not earlier:
        advantages_PG = torch.where(charge_PG < 0, charge_PG.to(advantages_PG), advantages_PG)
    advantages_PG = advantages_PG * selected_PG
    known = ~torch.isnan(rewards_PG)
    sums, counts = zip(*gather([(float(rewards_PG[known].double().sum()), int(known.sum()))]), strict=True)
    return Turn(
        rollout,
        advantages_PG.reshape(-1),
        rewards_B,
        selected_B=None if bool(selected_PG.all()) else selected_PG.reshape(-1),
        group=group,
        reward_sum=sum(sums),
        reward_count=sum(counts),
    )


def one_per_sample(rollout: Rollout, what: str, values: Any, dtype: torch.dtype) -> torch.Tensor:
    """Return the game's `values` as a tensor (B) of `dtype`. Raises RewardError if their number is not B."""
    tensor = torch.as_tensor(values).to(dtype)
    if tensor.shape != (len(rollout.texts),):
        seen = f"{what} of shape {tuple(tensor.shape)} for {len(rollout.texts)} samples"
        raise RewardError(f"The game credits the {rollout.role} with {seen}; pass one per sample, in their order.")
    return tensor


def token_counts(rollout: Rollout) -> list[int]:
    """Return the number of completion tokens of each sample, (B); of an episode, that of its longest move."""
    if not isinstance(rollout, Episodes):
        return rollout.tensors["completion_mask"].sum(1).tolist()
    counts = [0] * len(rollout.texts)
    for move, index in zip(rollout.moves, rollout.episode_of, strict=True):
        for episode, count in zip(index, token_counts(move) if index else [], strict=True):
            counts[episode] = max(counts[episode], count)
    return counts


def truncated_rows(rollout: Rollout, ends: Collection[int], stops: Sequence[str], limit: int) -> list[bool]:
    """Return for each completion whether the token limit cut it: it has `limit` tokens, the last is not an end token,
    and it contains no stop string. TRL misses stop strings: it counts a row that ended on one in its last column as
    cut, and includes the padding in lengths."""
    ids_BT, lengths_B = rollout.tensors["completion_ids"], rollout.tensors["completion_mask"].sum(1)
    last = ids_BT.gather(1, (lengths_B - 1).clamp(min=0)[:, None].to(ids_BT.dtype)).squeeze(1).tolist()
    return [
        length >= limit and token not in ends and not any(stop in text for stop in stops)
        for length, token, text in zip(lengths_B.tolist(), last, rollout.texts, strict=True)
    ]
