"""REINFORCE^1/2: the Solver's objective of SGS (appendix G.1 and G.2)."""

import torch

from ..registry import Share
from .base import BaseObjective, LossInputs, LossOutput, Replay, normalise


class ReinforceHalf(BaseObjective):
    """REINFORCE on hard problems: loss = -E of (1/|y|) sum_t v log pi(y_t), over problems with solve rate s <= most.

    v is the verifier's correctness, not the reward (G, "binary reward v(y)"), so that shaped or length-penalised
    rewards have no effect; a role without a verifier (the conjecturer) uses its reward, and all its samples. Problems
    with s > most are "discarded from the training batch": they are not part of any mean. Wrong samples of a selected
    problem stay in the mean with weight 0. There is no importance weight (G.1): the samples are on-policy. Degenerate:
    no problem selected, or no correct sample -> loss 0.

    most: largest solve rate, in [0, 1]; 1 is plain REINFORCE of G.1. carry: each step has exactly the role's
    `sequences_per_step` samples with credit, over which its loss is a mean (appendix C.1: a batch of 32); a
    remainder waits for the next rounds, without a weight for its age. Above 8,192 waiting samples the oldest are
    dropped and counted (`<role>/dropped_answers`)."""

    normalization = "sequence_mean"
    reads_rewards = False

    def __init__(self, most: Share = 0.5, carry: bool = False) -> None:
        self.most = most
        self.replay = Replay(rounds=None, carry=True) if carry else None
        # One answer has a solve rate of 0 or 1: the right ones would all be above `most`.
        self.needs_answers = 1 if most == 1 else 2

    def select(self, rewards_PG: torch.Tensor, correct_PG: torch.Tensor | None) -> torch.Tensor:
        if correct_PG is None:
            return ~torch.isnan(rewards_PG)
        return (correct_PG.mean(1, keepdim=True) <= self.most).expand_as(correct_PG)

    def advantages(self, rewards_PG: torch.Tensor, correct_PG: torch.Tensor | None) -> torch.Tensor:
        credit_PG = torch.nan_to_num(rewards_PG, nan=0.0) if correct_PG is None else correct_PG
        return credit_PG * self.select(rewards_PG, correct_PG)

    def loss(self, inputs: LossInputs) -> LossOutput:
        return LossOutput(normalise(-inputs.advantages_B[:, None] * inputs.logps_BT, inputs, self.normalization))
