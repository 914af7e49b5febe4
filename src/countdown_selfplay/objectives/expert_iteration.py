"""Expert iteration of Multimodal LLM Self-Play (algorithm 1) and SGS 2026 (appendix G.4, after Dong & Ma 2025), and
ReST of Wang et al.: imitation of kept samples."""

from __future__ import annotations

from typing import Annotated

import torch
from annotated_types import Gt, Le

from ..registry import Count
from .base import BaseObjective, LossInputs, LossOutput, Normalization, Replay, normalise


class ExpertIteration(BaseObjective):
    """loss = -E over the correct answers of the last `rounds` rounds of (1/|y|) sum_t log pi(y_t).

    Problems with `solved_limit` correct answers so far are skipped: a round plays others if it has others, and answers
    to them are not trained on. A step trains on as many kept answers as a round has, drawn without repetition if there
    are more; with fewer the mean is over those there are. all_kept: on every kept answer, as SGS does. The verifier's
    bit alone selects. Degenerate: no correct answer -> loss 0. per_token: one mean over all tokens, as cross-entropy
    is computed in Multimodal LLM Self-Play, instead of a mean over answers. SGS: rounds 3, solved_limit 16. Multimodal
    LLM Self-Play: rounds 1 (the round's own data only), solved_limit None (no limit).

    reuse: instead, each right answer is seen so often on the mean, in steps of the role's `sequences_per_step` answers
    drawn from the newest `capacity` that are kept: right answers buy optimizer steps, up to `steps_per_round` a round,
    and what is owed beyond waits. per_problem: of distinct right answers to a problem a round keeps so many at most.
    With `reuse` kept answers stay for ever (rounds None) and no problem is skipped unless these are given, and no
    pass scores the samples again, so that `sampled_entropy` is not logged.
    """

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
            rounds, solved_limit = _unless_default(rounds, 3), _unless_default(solved_limit, 16)
            if all_kept:
                raise ValueError(
                    "`all_kept` trains a step on every kept answer and `reuse` on some; leave one of them out."
                )
        elif per_problem is not None:
            raise ValueError(f"`per_problem` ({per_problem}) bounds what a round keeps under `reuse`; set that too.")
        if rounds is None and reuse is None:
            raise ValueError("`rounds` (null) keeps answers for ever, which needs `reuse`; SGS uses 3.")
        self.replay = Replay(
            rounds=rounds,
            solved_limit=solved_limit,
            capacity=capacity,
            all_kept=all_kept,
            reuse=reuse,
            per_problem=per_problem,
        )
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


def _unless_default(value: int | None, default: int) -> int | None:
    return None if value == default else value


class ReST(ExpertIteration):
    """Differs from ExpertIteration in that a sample is kept if its reward is at least tau, for ever unless `rounds`
    says how long, no problem is skipped, and the loss is the language-modelling loss: a mean over tokens (Wang et al.,
    section 3; Gulcehre et al. 2023).

    tau: Wang et al. use .5 (prover, helpful critic) and .75 (misleading critic). capacity: the newest samples that
    are kept. The paper retrains from the initial model on the accumulated set in each of its two iterations; here the
    set accumulates over rounds and the weights go on, which is the online form. rounds: 1 is the update of Multimodal
    LLM Self-Play, on the round's own samples. weighted: a sample counts as much as its reward (0 if that is negative)
    in place of 1, and the loss is divided by the sum of these weights over the step's tokens, so that small rewards do
    not shrink the step: with `frontier_distance` the weighting by distance to the frontier's centre that Multimodal
    LLM Self-Play wishes for (section 6).
    """

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
