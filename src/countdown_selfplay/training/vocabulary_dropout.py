"""Vocabulary dropout: in each round a random hard mask on a role's logits, against collapse (arXiv 2604.03472)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import TrainerCallback

from ..config import Role
from ..errors import ConfigError
from ..policies.base import PolicySet, cut_up, inner_name
from ..random_state import seed_from

MASKED = -1e4
"""Added to a masked logit: its probability is 0 in every precision, and 0 x log of it is 0, which 0 x -inf is not."""


class VocabularyDropout(TrainerCallback):
    """The masks of the roles with `vocabulary_dropout`. Each round drops each token that holds letters or digits alone
    with that chance; ends of a text, white space and signs stay.

    With M the mask of a round, its samples are drawn from pi_M(t) = pi(t) 1[t not in M] / Z_M, the policy renormalised
    over the tokens that are left. The mask is the bias of the LM head, which sampling, the scores of the sampling time
    and the loss all go through: importance weights are ratios of one masked policy, and the gradient is that of
    E_M E_{y ~ pi_M}[r], a mean over masked policies. log pi without the mask would differ by log Z_M at every token.
    All samples of a round share M, so that a baseline within the round stays unbiased. Between rounds, in evaluations
    and in exports, there is no mask: those see pi, which no training sample is drawn from.
    """

    def __init__(
        self, policies: PolicySet, roles: Mapping[str, Role], tokenizer: Any, ends: Collection[int], seed: int
    ) -> None:
        self.seed = seed
        self.heads: dict[str, tuple[nn.Linear, float]] = {}
        self.tokens = torch.tensor([], dtype=torch.long)
        """Those that may be dropped."""
        for role, settings in roles.items():
            if settings.vocabulary_dropout:
                self.heads[role] = (_head(policies, role), settings.vocabulary_dropout)
        if self.heads:
            kept = {*tokenizer.all_special_ids, *ends}
            words = [i for i in range(len(tokenizer)) if i not in kept and tokenizer.decode([i]).strip().isalnum()]
            self.tokens = torch.tensor(words, dtype=torch.long)

    def draw(self, round_: int) -> None:
        """Put on the masks of a round: the same on every process, and again in a resume."""
        for role, (head, rate) in self.heads.items():
            generator = np.random.default_rng(seed_from(self.seed, "vocabulary", role, round_))
            dropped = self.tokens[torch.from_numpy(generator.random(len(self.tokens)) < rate)]
            head.bias.zero_()
            head.bias[dropped.to(head.bias.device)] = MASKED

    def lift(self) -> None:
        for head, _ in self.heads.values():
            head.bias.zero_()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step % args.steps_per_round == 0:
            self.lift()


def _head(policies: PolicySet, role: str) -> nn.Linear:
    """The role's LM head, with a bias of 0 that is no parameter and in no checkpoint."""
    weights = policies.weights_of[role]
    head = policies.module.policies[inner_name(weights)].get_output_embeddings()
    name = f"`vocabulary_dropout` of the {role}"
    if len(policies.shared_by(weights)) > 1:
        others = ", ".join(one for one in policies.shared_by(weights) if one != role)
        raise ConfigError(f"{name} would mask {others} too, which has the same weights; give each its weights.")
    if not isinstance(head, nn.Linear) or head.bias is not None or cut_up(policies.module):
        raise ConfigError(
            f"{name} needs an LM head that is a linear layer without a bias, whole on each process; set it to 0."
        )
    del head._parameters["bias"]
    head.register_buffer("bias", torch.zeros(head.out_features).to(head.weight), persistent=False)
    return head
