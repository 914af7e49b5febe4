"""Episodes of a domain whose answers are moves, with one generation per move of all unfinished episodes; and a Round
that samples without training, to collect and measure play."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from ..contract.domain import P, Row, in_moves
from ..contract.episodes import play_out
from ..contract.round import Rollout, Round, Turn
from ..distributed.processes import ALONE, Processes
from ..domains import verdicts_of
from ..random_state import seed_from
from .sampling import Completion, sample_completions, shared_completions

BATCHES = 8
"""Number of batches of answers that are sampled together in moves, because later moves have few rows."""


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
    generator is seeded by (seed, move). Each process passes its part of the problems; if `processes` generate in step,
    a process without unfinished episodes takes part in the others' moves."""
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
            """Report progress: an unfinished episode counts as its number of moves over `domain.most_moves`."""
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
    if progress is not None and episodes.texts:
        progress(len(episodes.texts), len(episodes.texts))
    played = [
        Played(text, verdict, sum(c.tokens for c in moves), any(c.truncated for c in moves))
        for text, verdict, moves in zip(
            episodes.texts, episodes.verdicts or [], episodes.by_episode(kept), strict=True
        )
    ]
    return [played[i : i + n] for i in range(0, len(played), n)]


def sample_answers(
    model: Any,
    tokenizer: Any,
    problems: Sequence[P],
    domain: Any,
    n: int,
    *,
    seed: int = 0,
    processes: Processes = ALONE,
    **sampling: Any,
) -> list[list[Played]]:
    """Sample and judge `n` answers (in moves: episodes) to each problem: problems x n. `processes` share the problems,
    and each returns all answers. `sampling`: as in sample_completions."""
    sampling |= {"processes": processes}
    if in_moves(domain):
        mine, process_seed = processes.deal(problems), processes.seed(seed)
        played = sample_episodes(model, tokenizer, mine, domain, n, seed=process_seed, **sampling)
        return processes.collect(played, len(problems))
    prompts = [domain.prove_row(problem)["prompt"] for problem in problems]
    rows = shared_completions(model, tokenizer, prompts, n, seed=seed, **sampling)
    verdicts = verdicts_of(domain, [[c.text for c in row] for row in rows], problems)
    return [
        [Played(c.text, verdict, c.tokens, c.truncated) for c, verdict in zip(*pair, strict=True)]
        for pair in zip(rows, verdicts, strict=True)
    ]


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


@dataclass
class CollectingRound(Round):
    """Round (contract/round.py) of one process that samples without training. `truncated`: whether the token budget
    cut each sample, by `id(rollout)`. `draw`: sampler, (role, prompts, n, seed, stop strings) -> prompts x n
    completions; None: the roster's models in this process."""

    domain: Any
    roster: Mapping[str, Player]
    index: int
    key: tuple[object, ...]
    """Key of the round's random seeds, in addition to the index, role and turn."""
    draw: Callable[[str, list[Any], int, int, list[str] | None], list[list[Completion]]] | None = None
    truncated: dict[int, list[bool]] = field(default_factory=dict)
    turns: int = 0

    def players(self, kind: str) -> list[str]:
        return [kind] if kind in self.roster else []

    def slots(self, kind: str) -> int:
        return 1 << 40  # all problems that it is given

    def group(self, role: str) -> int:
        return self.roster[role].num_generations

    def sample(
        self, role: str, rows: Sequence[Any], n: int | None = None, problems: Sequence[Any] | None = None
    ) -> Rollout:
        n = self.group(role) if n is None else n
        self.turns += 1
        key = (*self.key, self.index, role, self.turns)
        cuts: list[list[bool]] = []

        def sampled(rows: Sequence[Any], each: int, *move: int) -> Rollout:
            draw, seed = self.draw or self.roster[role].draw, seed_from(*key, *move)
            drawn = draw(role, [row["prompt"] for row in rows], each, seed, self.domain.stop_strings(role))
            flat = [completion for group in drawn for completion in group]
            cuts.append([c.truncated for c in flat])
            return Rollout(role, list(rows), [c.text for c in flat], each, rewards_B=torch.zeros(len(flat)))

        if problems is None or not in_moves(self.domain):
            rollout = sampled(rows, n)
            self.truncated[id(rollout)] = cuts[0]
        else:
            rollout = play_out(
                self.domain, role, rows, problems, n, lambda move, todo, each: sampled(todo, each, move)
            )
            self.truncated[id(rollout)] = [any(moves) for moves in rollout.by_episode(cuts)]
        if problems is not None:
            if rollout.verdicts is None:
                repeated = [problem for problem in problems for _ in range(n)]
                rollout.verdicts = self.domain.verify(rollout.texts, repeated)
            rollout.rewards_B = torch.tensor([float(verdict.score) for verdict in rollout.verdicts or []])
        return rollout

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

    def seed(self, *key: object) -> int:
        return seed_from(*self.key, self.index, *key)


def rungs_of(domain: Any, problems: Sequence[Any]) -> list[int] | None:
    """Return the rung of each problem; None for a domain without rungs, and if all problems are of one rung."""
    rung = domain.rung
    rungs = None if rung is None else [int(rung(problem)) for problem in problems]
    return rungs if rungs is not None and len(set(rungs)) > 1 else None
