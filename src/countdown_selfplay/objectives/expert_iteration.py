"""Imitation of kept samples: expert iteration of Multimodal LLM Self-Play (algorithm 1) and SGS 2026 (appendix G.4,
after Dong & Ma 2025), and ReST of Wang et al."""

from typing import Annotated

import torch
from annotated_types import Gt, Le

from ..registry import Count
from .base import BaseObjective, LossInputs, LossOutput, Normalization, Replay, normalise


class ExpertIteration(BaseObjective):
    """Expert iteration: loss = -E over correct answers of the last `rounds` rounds of (1/|y|) sum_t log pi(y_t).

    A round trains on at most as many kept answers as the role sampled in it, drawn without repetition; with fewer kept
    answers the mean is over these. Only correctness selects. Degenerate: no correct answer -> loss 0. SGS: rounds 3,
    solved_limit 16, all_kept. Multimodal LLM Self-Play: rounds 1, no solved_limit, per_token.

    solved_limit: number of correct answers after which a problem is not trained on, and not played if others are
    available. all_kept: train on every kept answer. per_token: one mean over all tokens, as in cross-entropy, in place
    of a mean over answers. reuse: mean number of uses of each right answer, in steps of the role's
    `sequences_per_step` answers drawn from the newest `capacity`; right answers add optimizer steps, up to
    `steps_per_round` per round, and the remainder waits. With `reuse`, the defaults of rounds and solved_limit mean no
    limit, and samples are not scored again, so that `sampled_entropy` is not logged.
    per_problem: largest number of distinct right answers per problem and round."""

    normalization: Normalization = "sequence_mean"
    needs_correctness = True
    reads_rewards = False

    def __init__(
        self,
        rounds: Count | None = 3,
        solved_limit: Count | None = 16,
        all_kept: bool = False,
        per_token: bool = False,
        reuse: Annotated[float, Gt(0), Le(1e6)] | None = None,
        per_problem: Count | None = None,
        capacity: Count = 8192,
    ) -> None:
        if reuse is not None:
            rounds = None if rounds == 3 else rounds
            solved_limit = None if solved_limit == 16 else solved_limit
            if all_kept:
                raise ValueError("`all_kept` trains on every kept answer and `reuse` on some; leave one of them out.")
        elif per_problem is not None:
            raise ValueError(f"`per_problem` ({per_problem}) bounds what a round keeps under `reuse`; set that too.")
        if rounds is None and reuse is None:
            raise ValueError("`rounds` (null) keeps answers for ever, which needs `reuse`; SGS uses 3.")
        self.replay = Replay(rounds, solved_limit, capacity, all_kept, reuse=reuse, per_problem=per_problem)
        self.reads_behavior = reuse is None
        if per_token:
            self.normalization = "token"

    def select(self, rewards_PG: torch.Tensor, correct_PG: torch.Tensor | None) -> torch.Tensor:
        if correct_PG is None:
            raise ValueError("expert_iteration needs the verifier's bit, which only the prover has; use rest.")
        return correct_PG > 0

    def advantages(self, rewards_PG: torch.Tensor, correct_PG: torch.Tensor | None) -> torch.Tensor:
        return self.select(rewards_PG, correct_PG).to(rewards_PG)

    def loss(self, inputs: LossInputs) -> LossOutput:
        return LossOutput(normalise(-inputs.advantages_B[:, None] * inputs.logps_BT, inputs, self.normalization))


class ReST(ExpertIteration):
    """Variant of ExpertIteration that keeps samples with a reward of at least tau, without limit of rounds by default,
    and trains by the language-modelling loss, a mean over tokens (Wang et al., section 3; Gulcehre et al. 2023). No
    problem is skipped.

    Wang et al. retrain from the initial model on the accumulated samples in each of two iterations; here samples
    accumulate over rounds and training continues from the current weights (the online form).

    tau: Wang et al. use .5 (prover, helpful critic) and .75 (misleading critic). capacity: largest number of kept
    samples, the newest. rounds: 1 trains on the round's samples alone (the update of Multimodal LLM Self-Play).
    weighted: weight samples by their reward (at least 0) and divide the loss by the weights' sum over the step's
    tokens, so that small rewards do not shrink the step; with `frontier_distance` this is the weighting by distance to
    the frontier that Multimodal LLM Self-Play proposes (section 6)."""

    normalization = "token"
    needs_correctness = False
    reads_rewards = True

    def __init__(
        self,
        tau: float = 0.5,
        capacity: Count = 8192,
        rounds: Count | None = None,
        weighted: bool = False,
        all_kept: bool = False,
    ) -> None:
        if all_kept and rounds is None:
            raise ValueError("`all_kept` needs `rounds`: samples that are kept for ever outgrow any step.")
        self.tau, self.weighted = tau, weighted
        self.replay = Replay(rounds=rounds, capacity=capacity, all_kept=all_kept, weighted=weighted)

    def select(self, rewards_PG: torch.Tensor, correct_PG: torch.Tensor | None) -> torch.Tensor:
        return torch.nan_to_num(rewards_PG, nan=-torch.inf) >= self.tau

    def advantages(self, rewards_PG: torch.Tensor, correct_PG: torch.Tensor | None) -> torch.Tensor:
        selected = self.select(rewards_PG, correct_PG).to(rewards_PG)
        return selected * torch.nan_to_num(rewards_PG).clamp(min=0) if self.weighted else selected
