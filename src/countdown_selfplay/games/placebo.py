"""The placebo of a trained conjecturer: archive, admission and replay as they are, and nothing to be learned."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..contract.game import Outcome


def shuffled(outcome: Outcome, seed: int) -> Outcome:
    """The outcome with the rewards permuted among the proposals that have one, refused ones with an invalid reward
    included; NaN stays where it is. `trainable_N` moves along, for it tells of the solve rate as a reward does."""
    known = np.flatnonzero(~np.isnan(outcome.rewards_N))
    drawn = known[np.random.default_rng(seed).permutation(len(known))]
    rewards_N = np.array(outcome.rewards_N, dtype=float)
    rewards_N[known] = rewards_N[drawn]
    trainable_N = outcome.trainable_N
    if trainable_N is not None:
        trainable_N = trainable_N.copy()
        trainable_N[known] = trainable_N[drawn]
    return replace(outcome, rewards_N=rewards_N, trainable_N=trainable_N)
