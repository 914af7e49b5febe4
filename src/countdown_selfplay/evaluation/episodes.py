"""Episodes of a domain whose answers are moves, with one generation per move of all unfinished episodes; and a Round
that samples without training, to collect and measure play."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from ..contract.domain import P, Row, in_moves
from ..contract.episodes import Episodes, play_out
from ..contract.round import Rollout, Turn
from ..distributed.processes import ALONE, Processes
from ..random_state import seed_from
from .sampling import Completion, sample_completions

BATCHES = 8
"""Number of batches of answers that are sampled together in moves, because later moves have few rows."""

ENDLESS = 1 << 40
"""Number of slots of a round without training, which plays all problems that it is given."""


class Played(NamedTuple):
    """Result of an episode. text: moves, one per line. tokens: total number. truncated: whether a move was cut."""

    text: str
    verdict: Any
    tokens: int
    truncated: bool


def answers_at_once(domain: Any, batch_size: int) -> int:
    """Return the number of answers sampled together: `batch_size`, in moves BATCHES times as many."""
    return batch_size * BATCHES if in_moves(domain) else batch_size


def sample_episodes(
    model: Any,
    tokenizer: Any,
    problems: Sequence[P],
    domain: Any,
    n: int,
    *,
    seed: int = 0,
    processes: Processes = ALONE,
    progress: Callable[[int, int], None] | None = None,
    **sampling: Any,
) -> list[list[Played]]:
    """Sample `n` episodes of each problem: problems x n. `sampling`: as in sample_completions, for each move, whose
    generator is seeded by (seed, move). Each of `processes` passes the problems that it plays; if they generate in
    step, one without unfinished episodes joins in the others' moves."""
    if not problems and not processes.in_step:
        return []
    kept: list[list[Completion]] = []

    def sample(move: int, rows: list[Row], each: int) -> Rollout:
        padded = rows
        if processes.in_step:
            most = max(processes.gather([len(rows)]))
            spare = next(row for row in processes.gather([rows[:1]]) if row)
            padded = rows + spare * (most - len(rows))
        total, live = len(problems) * n, len(rows) * each

        def told(done: int, of: int) -> None:
            """Report progress: an episode counts as the share of its moves in the longest possible one."""
            if progress is not None:
                progress(int(total - live + live * (move + done / of) / domain.most_moves), total)

        drawn = sample_completions(
            model,
            tokenizer,
            [row["prompt"] for row in padded],
            each,
            seed=seed_from(seed, "move", move),
            in_step=processes.in_step,
            progress=told,
            **sampling,
        )
        texts = [completion for group in drawn[: len(rows)] for completion in group]
        kept.append(texts)
        return Rollout("prover", rows, [c.text for c in texts], each)

    def anyone(mine: bool) -> bool:
        return any(processes.gather([mine])) if processes.in_step else mine

    rows = [domain.prove_row(problem) for problem in problems]
    episodes = play_out(domain, "prover", rows, problems, n, sample, anyone)
    tokens, cut = [0] * len(episodes.texts), [False] * len(episodes.texts)
    for completions, episode in zip(kept, episodes.episode_of, strict=True):
        for completion, i in zip(completions, episode, strict=True):
            tokens[i] += completion.tokens
            cut[i] |= completion.truncated
    if progress is not None and episodes.texts:
        progress(len(episodes.texts), len(episodes.texts))
    played = [*map(Played, episodes.texts, episodes.verdicts or [], tokens, cut)]
    return [played[i : i + n] for i in range(0, len(played), n)]


@dataclass
class Player:
    """Player of a role: model, tokenizer and sampling settings."""

    model: Any
    tokenizer: Any
    num_generations: int
    sampling: Mapping[str, Any] = field(default_factory=dict)

    def draw(
        self, role: str, prompts: list[Any], n: int, seed: int, stops: list[str] | None, spread: Processes = ALONE
    ) -> list[list[Completion]]:
        """Sample `n` completions per prompt, shared among the processes of `spread`."""
        how: dict[str, Any] = {**self.sampling, "seed": seed, "stop_strings": stops, "spread": spread}
        return sample_completions(self.model, self.tokenizer, prompts, n, **how)


Draw = Callable[[str, list[Any], int, int, list[str] | None], list[list[Completion]]]
"""Sampler of completions: (role, prompts, n, seed, stop strings) -> prompts x n."""


@dataclass
class CollectingRound:
    """Round (contract/round.py) of one process that samples without training. `truncated`: whether the token budget
    cut each sample, by `id(rollout)`. `draw`: sampler; None: the roster's models in this process."""

    domain: Any
    roster: Mapping[str, Player]
    index: int
    key: tuple[object, ...]
    """Key of the round's random seeds, in addition to the index, role and turn."""
    held_out: frozenset[str] = frozenset()
    rank: int = 0
    world: int = 1
    draw: Draw | None = None
    truncated: dict[int, list[bool]] = field(default_factory=dict)
    turns: int = 0

    def players(self, kind: str) -> list[str]:
        return [kind] if kind in self.roster else []

    def slots(self, kind: str) -> int:
        return ENDLESS

    def group(self, role: str) -> int:
        return self.roster[role].num_generations

    def sample(
        self, role: str, rows: Sequence[Any], n: int | None = None, problems: Sequence[Any] | None = None
    ) -> Rollout:
        n = self.group(role) if n is None else n
        self.turns += 1
        if problems is not None and in_moves(self.domain):
            return self._play_out(role, rows, n, problems)
        rollout, cut = self._sampled(role, rows, n, seed_from(*self.key, self.index, role, self.turns))
        if problems is not None:
            repeated = [problem for problem in problems for _ in range(n)]
            rollout.verdicts = self.domain.verify(rollout.texts, repeated)
            rollout.rewards_B = _scores(rollout)
        self.truncated[id(rollout)] = cut
        return rollout

    def _play_out(self, role: str, rows: Sequence[Any], n: int, problems: Sequence[Any]) -> Episodes:
        cuts: list[list[bool]] = []

        def sample(move: int, rows: list[Any], each: int) -> Rollout:
            completions, cut = self._sampled(
                role, rows, each, seed_from(*self.key, self.index, role, self.turns, move)
            )
            cuts.append(cut)
            return completions

        played = play_out(self.domain, role, rows, problems, n, sample)
        played.rewards_B = _scores(played)
        truncated = [False] * len(played.texts)
        for cut, episode in zip(cuts, played.episode_of, strict=True):
            for i, one in zip(episode, cut, strict=True):
                truncated[i] |= one
        self.truncated[id(played)] = truncated
        return played

    def _sampled(self, role: str, rows: Sequence[Any], n: int, seed: int) -> tuple[Rollout, list[bool]]:
        draw = self.draw or self.roster[role].draw
        drawn = draw(role, [row["prompt"] for row in rows], n, seed, self.domain.stop_strings(role))
        flat = [completion for group in drawn for completion in group]
        texts = [c.text for c in flat]
        return Rollout(role, list(rows), texts, n, rewards_B=torch.zeros(len(texts))), [c.truncated for c in flat]

    def credit(
        self,
        rollout: Rollout,
        rewards_B: Any = None,
        correct_B: Any = None,
        kept_B: Any = None,
        group: Any = None,
        imitate_B: Any = None,
    ) -> Turn:
        rewards = rollout.rewards_B if rewards_B is None else torch.as_tensor(rewards_B, dtype=torch.float)
        return Turn(rollout, torch.zeros(len(rollout.texts)), rewards, group=group or rollout.n)

    def solved_limit(self, role: str) -> int | None:
        return None

    def gather(self, items: list[Any]) -> list[Any]:
        return items

    def share(self, items: Sequence[Any]) -> list[Any]:
        return list(items)

    def seed(self, *key: object) -> int:
        return seed_from(*self.key, self.index, *key)


def _scores(rollout: Rollout) -> torch.Tensor:
    return torch.tensor([float(verdict.score) for verdict in rollout.verdicts or []])


def rungs_of(domain: Any, problems: Sequence[Any]) -> list[int] | None:
    """Return the rung of each problem; None for a domain without rungs, and if all problems are of one rung."""
    rung = domain.rung
    rungs = None if rung is None else [int(rung(problem)) for problem in problems]
    return rungs if rungs is not None and len(set(rungs)) > 1 else None
