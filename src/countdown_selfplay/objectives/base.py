"""Base class of objectives (selection, advantages, loss), means and weights of losses, and the KL and entropy terms.
Shapes: P problems (or prompts), G samples each, B rows, T tokens."""

import math
from dataclasses import dataclass, field
from typing import Literal

import torch

from ..contract.stateful import Stateless
from ..errors import ConfigError

Normalization = Literal["sequence", "sequence_mean", "token", "group", "length_cap"]


@dataclass(frozen=True)
class LossInputs:
    """Inputs of an objective's loss: one micro-batch of one role.

    Attributes:
        logps_BT: log-probabilities of the sampled tokens under the current weights, with gradient.
        behavior_BT: the same under the sampling policy, from the sampler if that returns them, without gradient.
        advantages_B: credit of each completion.
        mask_BT: 1 on trained completion tokens, else 0; all 0 in rows that the objective did not select.
        group_tokens_B: trained tokens of the row's group, including other micro-batches. None: unknown.
        sequences, tokens, groups: trained completions, completion tokens and prompts of the round, divided by the
          number of processes. A loss divides its sums by one of them, so that the mean over micro-batches and
          processes does not depend on the split into micro-batches.
        length_cap: largest number of tokens of a completion.
        sequence_B: equal numbers for the rows of one completion: the moves of an episode, which share a micro-batch.
          None: each row is a completion.
        correction: (B, T) or (B, 1), weight of a sampler other than the trained model, for objectives with
          `sampler_correction = "truncated"`; behavior_BT is then that of the trained model. None: no other sampler.
    """

    logps_BT: torch.Tensor
    behavior_BT: torch.Tensor
    advantages_B: torch.Tensor
    mask_BT: torch.Tensor
    sequences: float
    tokens: float
    groups: float = 1.0
    length_cap: int = 1
    group_tokens_B: torch.Tensor | None = None
    correction: torch.Tensor | None = None
    sequence_B: torch.Tensor | None = None


def first_B(mask_BT: torch.Tensor, sequence_B: torch.Tensor | None) -> torch.Tensor:
    """Return a mask, (B) bools, of the first row of each completion that has a trained token (`mask_BT`)."""
    trained_B = mask_BT.any(1)
    if sequence_B is None:
        return trained_B
    _, place_B = sequence_B.unique(return_inverse=True)
    rows_B = torch.arange(len(trained_B), device=trained_B.device)
    order_B = torch.where(trained_B, rows_B, len(rows_B))
    first = torch.full_like(rows_B, len(rows_B)).scatter_reduce(0, place_B, order_B, "amin")
    return trained_B & (first[place_B] == rows_B)


def of_completion(values_B: torch.Tensor, sequence_B: torch.Tensor | None) -> torch.Tensor:
    """Return sums of `values_B` over rows with equal numbers in `sequence_B`, (B); if that is None, `values_B`."""
    if sequence_B is None:
        return values_B
    _, place_B = sequence_B.unique(return_inverse=True)
    return values_B.new_zeros(len(values_B)).index_add(0, place_B, values_B)[place_B]


@dataclass(frozen=True)
class LossOutput:
    """Loss of a micro-batch as a share of the round's loss, and `sums` for metrics, which are added over the round."""

    loss: torch.Tensor
    sums: dict[str, torch.Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Replay:
    """Settings of an objective that trains on kept samples in place of the round's.

    Attributes:
        rounds: number of rounds for which a selected sample is kept, including the first; None: unlimited.
        solved_limit: number of correct answers after which a problem is not trained on, and not played if others are
          available; None: no limit.
        capacity: largest number of kept samples; the newest stay.
        all_kept: whether a round trains on every kept sample; False: on at most as many as the role sampled in it.
        weighted: whether credit is divided by its mean over the step's tokens, so that a token mean is
          a weighted mean.
        reuse: mean number of uses of an answer; a new answer adds `reuse` / `sequences_per_step` optimizer steps.
        per_problem: largest number of distinct answers per problem and round.
        carry: whether each sample with credit is used in exactly one step, of `sequences_per_step` samples; a
          remainder waits for the next round, and above `capacity` its oldest samples are dropped.
    """

    rounds: int | None
    solved_limit: int | None = None
    capacity: int = 8192
    all_kept: bool = False
    weighted: bool = False
    reuse: float | None = None
    per_problem: int | None = None
    carry: bool = False


class BaseObjective(Stateless):
    """Base class of objectives: selection, advantages and loss of a role, one instance per role. A subclass implements
    `advantages` and `loss`; by default every sample is selected and there is no state."""

    # Normalisation of the token sum (`normalise`). The KL term is normalised in the same way,
    # so that its weight against the policy term does not depend on length.
    normalization: Normalization = "sequence"
    replay: Replay | None = None
    needs_correctness = False  # needs correctness, so that it cannot train a role without a verifier
    reads_rewards = True  # False: only correctness counts for a role that has it
    reads_behavior = True  # False: log-probs under the sampling policy are not needed
    needs_samples = 1  # per prompt; more if advantages compare the samples of a group
    needs_answers = 1  # per problem, for a role with a verifier
    # Value that an overlong penalty replaces (`overlong: replace`): the reward, before a baseline is
    # subtracted, or the credit, for an objective that uses correctness alone.
    overlong_replaces: Literal["reward", "credit"] = "credit"
    # Correction for a sampler other than the trained model. ratio: its log-probs are behavior_BT, and the objective's
    # weight or clip bounds the ratio. truncated: TRL's truncated weight, separate from the objective's ratio.
    sampler_correction: Literal["ratio", "truncated"] = "ratio"

    # Whether a sample's gradient is proportional to its advantage; None: yes if `loss` is defined in this package.
    proportional: bool | None = None

    def advantages(self, rewards_PG: torch.Tensor, correct_PG: torch.Tensor | None) -> torch.Tensor:
        """Return finite advantages (P, G). rewards_PG: NaN for a sample without a reward. correct_PG: None for a role
        without a verifier (the conjecturer)."""
        raise NotImplementedError

    def loss(self, inputs: LossInputs) -> LossOutput:
        raise NotImplementedError

    def select(self, rewards_PG: torch.Tensor, correct_PG: torch.Tensor | None) -> torch.Tensor:
        """Return which samples are trained on, (P, G) bools. The others are not part of any mean of the loss."""
        return torch.ones_like(rewards_PG, dtype=torch.bool)

    def observe(self, mean_reward: float | None) -> None:
        """Update the state after each round with the role's mean reward over all processes, or None."""


Objective = BaseObjective


def checked_advantages(
    objective: Objective, role: str, rewards_PG: torch.Tensor, correct_PG: torch.Tensor | None
) -> torch.Tensor:
    """Return the objective's advantages. Raises ConfigError unless they are one finite number per sample."""
    advantages_PG = objective.advantages(rewards_PG, correct_PG)
    rule = f"must return a tensor of one finite number per sample, shape {tuple(rewards_PG.shape)}"
    if not isinstance(advantages_PG, torch.Tensor) or advantages_PG.shape != rewards_PG.shape:
        shape = tuple(advantages_PG.shape) if isinstance(advantages_PG, torch.Tensor) else type(advantages_PG).__name__
        raise ConfigError(f"`advantages` of the {role}'s objective {rule}, and returned {shape}.")
    if not bool(torch.isfinite(advantages_PG).all()):
        raise ConfigError(f"`advantages` of the {role}'s objective {rule}; NaN or infinity is among them.")
    return advantages_PG


def selected(
    objective: Objective, role: str, rewards_PG: torch.Tensor, correct_PG: torch.Tensor | None
) -> torch.Tensor:
    """Return the result of the objective's `select`. Raises ConfigError unless that is one bool per sample."""
    bools = objective.select(rewards_PG, correct_PG)
    if not isinstance(bools, torch.Tensor) or bools.shape != rewards_PG.shape or bools.dtype != torch.bool:
        rule = f"must return a tensor of one bool per sample, shape {tuple(rewards_PG.shape)}"
        raise ConfigError(f"`select` of the {role}'s objective {rule}.")
    return bools


def checked_loss(objective: Objective, inputs: LossInputs) -> LossOutput:
    """Return the result of the objective's `loss`. Raises ConfigError unless it is a LossOutput with a scalar loss."""
    output = objective.loss(inputs)
    if not isinstance(output, LossOutput) or output.loss.dim() != 0:
        shape = tuple(output.loss.shape) if isinstance(output, LossOutput) else type(output).__name__
        rule = f"must return a LossOutput with a loss of shape (), and returned {shape}"
        raise ConfigError(f"`loss` of the objective {type(objective).__name__} {rule}.")
    return output


def spread(rewards_PG: torch.Tensor) -> torch.Tensor:
    """Return whether two samples of a group have different rewards, (P, 1) bools; NaN is ignored. A group of equal
    rewards carries no signal, but its computed mean can differ by rounding (eight times 0.1 in float32), and a
    division would amplify the difference."""
    known_PG = ~torch.isnan(rewards_PG)
    low_P1 = torch.where(known_PG, rewards_PG, torch.inf).amin(1, keepdim=True)
    high_P1 = torch.where(known_PG, rewards_PG, -torch.inf).amax(1, keepdim=True)
    return high_P1 > low_P1


def normalise(values_BT: torch.Tensor, inputs: LossInputs, how: Normalization) -> torch.Tensor:
    """Return this micro-batch's share of the round's mean of `values_BT` over trained tokens.

    Modes; the moves of an episode are one completion, and a completion without a trained token adds 0:
        sequence: sum over a completion's tokens, mean over completions (RLOO, REINFORCE).
        sequence_mean: mean over a completion's tokens, mean over completions (GRPO; SGS, G.1).
        token: mean over all tokens of the round (DAPO; a language-modelling loss).
        group: mean over all tokens of a group, mean over groups (CISPO; SGS, G.3).
        length_cap: sum over a completion's tokens / the most tokens it may have, mean over completions (Dr. GRPO).
    """
    masked_BT = values_BT * inputs.mask_BT
    if how == "token":
        return masked_BT.sum() / (inputs.tokens or 1.0)
    if how == "sequence":
        return masked_BT.sum() / (inputs.sequences or 1.0)
    if how == "length_cap":
        return masked_BT.sum() / ((inputs.sequences or 1.0) * inputs.length_cap)
    if how == "sequence_mean":
        lengths_B = of_completion(inputs.mask_BT.sum(1), inputs.sequence_B)
        return (masked_BT.sum(1) / lengths_B.clamp(min=1.0)).sum() / (inputs.sequences or 1.0)
    if inputs.group_tokens_B is None:
        raise ValueError("normalization 'group' needs LossInputs.group_tokens_B.")
    return (masked_BT.sum(1) / inputs.group_tokens_B.clamp(min=1.0)).sum() / (inputs.groups or 1.0)


def sequence_weight(
    logps_BT: torch.Tensor,
    behavior_BT: torch.Tensor,
    mask_BT: torch.Tensor,
    low: float,
    high: float,
    sequence_B: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return w = clamp(exp(sum over tokens of (log pi - log mu)), low, high) and the unclamped weight, (B) each,
    without gradient. pi: current weights; mu: sampling policy. Both are exactly 1 for on-policy samples of the
    training engine. sequence_B: rows with equal numbers are one completion (the moves of an episode)."""
    log_ratio_B = of_completion(((logps_BT.detach() - behavior_BT) * mask_BT).sum(1), sequence_B)
    raw_B = torch.exp(log_ratio_B.clamp(-30.0, 30.0))  # e^30 is far outside any clamp and still finite in float32
    return raw_B.clamp(low, high), raw_B


def truncated_weight(
    logps_BT: torch.Tensor,
    sampled_BT: torch.Tensor,
    mask_BT: torch.Tensor,
    mode: str,
    low: float | None,
    high: float | None,
    sequence_B: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return the truncated importance weight of a sampler other than the trained model, without gradient, as in TRL's
    GRPO loss under `vllm_importance_sampling_correction`.

    w = pi / mu, with trained weights pi and sampler mu, per token (modes `token_*`, (B, T)) or as the product over
    the completion (`sequence_*`, (B, 1)), which includes all moves of an episode. `*_truncate` clamps w to [low,
    high] (None: no bound); `*_mask` sets it to 0 outside. Tokens without the sampler's log-prob (NaN) have ratio 1.
    Yao et al. 2025, "Your efficient RL framework secretly brings you off-policy RL training"; masks: Liu et al.
    2025, "When speed kills stability"."""
    gap_BT = torch.nan_to_num((logps_BT.detach() - sampled_BT) * mask_BT, nan=0.0)
    gap = of_completion(gap_BT.sum(1), sequence_B)[:, None] if mode.startswith("sequence") else gap_BT
    weight = torch.exp(gap.clamp(-30.0, 30.0))
    if mode.endswith("truncate"):
        return weight if low is None and high is None else weight.clamp(min=low, max=high)
    outside = (weight < (-torch.inf if low is None else low)) | (weight > (torch.inf if high is None else high))
    return weight.masked_fill(outside, 0.0)


def kl_k3(logps_BT: torch.Tensor, ref_BT: torch.Tensor) -> torch.Tensor:
    """Return the k3 estimate of KL(pi || ref) per token, in nats: exp(d) - d - 1, d = log ref - log pi."""
    d_BT = ref_BT - logps_BT
    return torch.exp(d_BT) - d_BT - 1


def kl_k1(logps_BT: torch.Tensor, ref_BT: torch.Tensor) -> torch.Tensor:
    """Return Schulman's k1 estimate of KL(pi || ref) per token, in nats: log pi - log ref, unbiased and of either
    sign. Its gradient is that of log pi, with mean 0 over samples of pi, so that on-policy it has no effect on
    average. The code of Allen and Ståblein uses it."""
    return logps_BT - ref_BT


KL_ESTIMATORS = {"k3": kl_k3, "k1": kl_k1}


@dataclass
class EntropyCoefficient:
    """Adaptive entropy coefficient of a role (He et al. 2025, Skywork-OR1), with the settings of TRL's
    `use_adaptive_entropy`: after each round `value` grows by `delta` if the role's mean entropy (nats per token) is at
    most `target`, else it shrinks by `delta`, within [low, high]. Losses use `value` if the last entropy is at most
    `target`, else 0. Without a target `value` is constant. State: `value` and the last entropy."""

    value: float
    target: float | None = None
    delta: float = 0.005
    low: float = 0.0
    high: float = 1.0
    last: float = math.inf

    @property
    def applied(self) -> float:
        """Coefficient of the next loss. In the first round, whose entropy is unknown, it is 0 if there is a target."""
        return self.value if self.target is None or self.last <= self.target else 0.0

    def observe(self, entropy: float) -> None:
        """Update the coefficient with the role's mean entropy of the round, over all processes."""
        self.last = entropy
        if self.target is not None:
            step = self.delta if entropy <= self.target else -self.delta
            self.value = min(max(self.value + step, self.low), self.high)

    def state_dict(self) -> dict[str, float]:
        return {"value": self.value, "last": self.last}

    def load_state_dict(self, state: dict[str, float]) -> None:
        self.last = state["last"]
        if self.target is not None:  # a constant coefficient is the configuration's, as in TRL
            self.value = state["value"]
