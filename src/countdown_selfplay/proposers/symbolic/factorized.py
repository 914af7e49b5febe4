"""Candidates by a small neural policy over pairs of actions (Task Difficulty and Diversity, section 3.4)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ...contract.round import Round
from ...errors import ConfigError
from ...registry import Amount, Count, Share
from .refresh import Choice, Scored, Symbolic, pairs

STATISTICS = 3
"""Number of statistics in the state s: acceptance rate, log size of the archive, difficulty of selected problems."""


@dataclass
class Factorized(Symbolic):
    """Policy q(a | s) = q(number action | s) q(expression action | s): two softmax heads on one hidden layer. The
    state s has the seed task's features that need no solution, ln(1 + size of the archive) / 10, and for the last
    refresh the share of admitted candidates and 1 - the mean estimated solve rate of the selected ones.

    REINFORCE on the R_gen of all valid candidates, selected or not: loss = -mean[(R_gen - b) log q] - entropy x H(q),
    one step of Adam per refresh. b is a moving mean of R_gen, at first the first refresh's mean. The source gives no
    sizes and rates. Initial weights and actions depend on the training seed.

    baseline: weight of the past in b. learning_rate: 0 keeps the initial policy."""

    hidden: Count = 32
    learning_rate: Amount = 0.01
    entropy: Amount = 0.01
    baseline: Share = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        self.policy: Policy | None = None
        self.loaded: dict[str, Any] | None = None
        self.mean: float | None = None
        self.mean_q: dict[str, float] = {}
        self.state_NS = torch.zeros(0)
        self.actions_N2 = torch.zeros(0)

    def choose(self, round: Round, seeds: Sequence[Any]) -> Choice:
        domain = round.domain
        names = (list(domain.mutations.number_actions), list(domain.mutations.expression_actions))
        known_NS = domain.mutations.seed_features(seeds)
        statistics = [self.accepted, float(np.log1p(len(self.archive))) / 10, 1 - self.selected_p]
        state_NS = np.concatenate([known_NS, np.tile(statistics, (len(seeds), 1))], axis=1)
        if self.policy is None:
            actions = [len(sizes) for sizes in names]
            self.policy = Policy(state_NS.shape[1], self.hidden, actions, self.learning_rate, round.seed("policy"))
            if self.loaded is not None:
                self.policy.load_state_dict(self.loaded)
        self.state_NS = torch.tensor(state_NS, dtype=torch.float64)
        generator = np.random.default_rng(round.seed("actions"))
        q_NA = [log_q_NA.exp().numpy() for log_q_NA in self.policy.log_probs(self.state_NS)]
        self.mean_q = dict(zip([*names[0], *names[1]], np.concatenate(q_NA, axis=1).mean(0).tolist(), strict=True))
        drawn = [_drawn(of_factor_NA, generator) for of_factor_NA in q_NA]
        places = round.gather(np.stack(drawn, axis=1).tolist() if round.rank == 0 else [])
        self.actions_N2 = torch.tensor(places)
        numbers, kinds = ([sizes[place[i]] for place in places] for i, sizes in enumerate(names))
        return Choice(numbers, kinds, pairs(numbers, kinds))

    def learn_scores(self, round: Round, scored: Scored) -> dict[str, Any]:
        assert self.policy is not None
        logged: dict[str, Any] = {f"proposer/q_{action}": q for action, q in self.mean_q.items()}
        if not len(scored.rows):
            return logged
        rows = torch.tensor(scored.rows)
        mean = float(scored.score.mean())
        base = mean if self.mean is None else self.mean
        reward_V = torch.tensor(scored.score - base)
        entropy = self.policy.step(self.state_NS[rows], self.actions_N2[rows], reward_V, self.entropy)
        self.mean = mean if self.mean is None else self.baseline * self.mean + (1 - self.baseline) * mean
        return logged | {"proposer/policy_entropy": entropy, "proposer/policy_baseline": self.mean}

    def state_dict(self) -> dict[str, Any]:
        policy = self.loaded if self.policy is None else self.policy.state_dict()
        return {**super().state_dict(), "policy": policy, "baseline": self.mean}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.policy, self.loaded, self.mean = None, state["policy"], state["baseline"]


class Policy:
    """Policy network: a hidden layer and a softmax head per factor, in float64 on the CPU, with its Adam optimizer."""

    def __init__(self, inputs: int, hidden: int, actions: Sequence[int], learning_rate: float, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        shapes = [(hidden, inputs), (hidden,), (sum(actions), hidden), (sum(actions),)]
        self.weights = [
            (torch.randn(shape, generator=generator, dtype=torch.float64) / shape[-1] ** 0.5 * (len(shape) == 2))
            for shape in shapes
        ]
        for weight in self.weights:
            weight.requires_grad_()
        self.actions = list(actions)
        self.adam = torch.optim.Adam(self.weights, lr=learning_rate)

    def log_probs(self, state_NS: torch.Tensor, train: bool = False) -> list[torch.Tensor]:
        """Return log q of each factor, (N, actions). train: record gradients."""
        with torch.set_grad_enabled(train):
            first, bias, second, shift = self.weights
            logits_NA = torch.tanh(state_NS @ first.T + bias) @ second.T + shift
            return [part.log_softmax(1) for part in logits_NA.split(self.actions, dim=1)]

    def step(self, state_NS: torch.Tensor, actions_N2: torch.Tensor, reward_N: torch.Tensor, bonus: float) -> float:
        """Take one step of REINFORCE with entropy coefficient `bonus`; return the entropy before the step."""
        log_q = self.log_probs(state_NS, train=True)
        chosen_N = sum(part.gather(1, actions_N2[:, i : i + 1]).squeeze(1) for i, part in enumerate(log_q))
        entropy = -torch.stack([(part.exp() * part).sum(1).mean() for part in log_q]).sum()
        loss = -(reward_N * chosen_N).mean() - bonus * entropy
        self.adam.zero_grad()
        loss.backward()
        self.adam.step()
        return float(entropy.detach())

    def state_dict(self) -> dict[str, Any]:
        moments = [self.adam.state[weight] for weight in self.weights]
        return {
            "weights": [weight.detach().numpy().copy() for weight in self.weights],
            "adam": [{name: value.numpy().copy() for name, value in moment.items()} for moment in moments],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        saved, shapes = ([tuple(np.shape(w)) for w in weights] for weights in (state["weights"], self.weights))
        if saved != shapes:
            raise ConfigError(
                f"The checkpoint's action policy has weights of shapes {saved}, and this run's {shapes}: the features "
                "of seed tasks, the actions or `hidden` have changed. Start a new run, or set them back."
            )
        with torch.no_grad():
            for weight, saved in zip(self.weights, state["weights"], strict=True):
                weight.copy_(torch.tensor(saved, dtype=weight.dtype))
        for weight, moment in zip(self.weights, state["adam"], strict=True):
            kinds = {name: torch.float32 if name == "step" else weight.dtype for name in moment}
            self.adam.state[weight] = {name: torch.tensor(v, dtype=kinds[name]) for name, v in moment.items()}


def _drawn(q_NA: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    drawn_N = (generator.random((len(q_NA), 1)) > np.cumsum(q_NA, axis=1)).sum(axis=1)
    return np.minimum(drawn_N, q_NA.shape[1] - 1)
