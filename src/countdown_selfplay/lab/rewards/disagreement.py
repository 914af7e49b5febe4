"""Disagreement between provers (proposed in Multimodal LLM Self-Play, sections 6 and 7)."""

from dataclasses import dataclass

import numpy as np

from ...errors import RewardError
from ...rewards.base import UNKNOWN, RewardContext
from ...rewards.composition import Composable


@dataclass(frozen=True)
class Disagreement(Composable):
    """r = mean over pairs of provers of |s_m - s_n|, divided by its maximum; in [0, 1].

    s_m: solve rate of prover m (`ctx.prover_rates_MP`). The mean over pairs is largest when half of the M provers
    always solve the problem and the others never do: floor(M/2) ceil(M/2) of the M (M-1) / 2 pairs then differ by 1.
    The paper gives no formula. Two provers: |s_1 - s_2|. With one prover, or none given, each of its G attempts counts
    as a prover with a rate of 0 or 1. With c right ones c (G - c) pairs differ: r = c (G - c) / (floor(G/2)
    ceil(G/2)), which is 4 p (1 - p) for even G, and in the limit for unknown G. 0 if all agree, and if fewer than two
    provers tried the problem."""

    def __call__(self, solve_rate_P: np.ndarray, ctx: RewardContext | None = None) -> np.ndarray:
        p = np.asarray(solve_rate_P, dtype=float)
        ctx = UNKNOWN if ctx is None else ctx
        rates_MP = None if ctx.prover_rates_MP is None else np.asarray(ctx.prover_rates_MP, dtype=float)
        if rates_MP is None or len(rates_MP) < 2:
            most = (ctx.attempts // 2) * (ctx.attempts - ctx.attempts // 2)
            scale = ctx.attempts**2 / most if ctx.attempts > 1 else 4.0
            return scale * p * (1.0 - p)
        if rates_MP.shape[1:] != p.shape:
            raise RewardError(
                f"Conjecturer reward 'disagreement' got prover rates of shape {rates_MP.shape} for {len(p)} solve "
                "rates; a game must put one row per prover and one column per problem into the RewardContext."
            )
        return _disagreement(rates_MP)


def _disagreement(rates_MP: np.ndarray) -> np.ndarray:
    tried_MP = np.isfinite(rates_MP)
    known_MP = np.where(tried_MP, rates_MP, 0.0)
    differ_P = np.zeros(rates_MP.shape[1])
    for m in range(len(rates_MP)):
        both_MP = tried_MP[m] & tried_MP[m + 1 :]
        differ_P += (np.abs(known_MP[m] - known_MP[m + 1 :]) * both_MP).sum(0)
    tried_P = tried_MP.sum(0)
    most_P = (tried_P // 2) * (tried_P - tried_P // 2)
    return differ_P / np.maximum(most_P, 1)
