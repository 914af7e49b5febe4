"""Round that samples without training, to collect and measure play."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ...contract.domain import in_moves
from ...contract.episodes import play_out
from ...contract.round import Rollout, Round, Turn
from ...distributed.processes import ALONE, Processes
from ...evaluation.sampling import Completion, sample_completions
from ...random_state import seed_from


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
