"""Conjecturer rewards that no recipe of a paper names."""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from annotated_types import Le

from ..countdown.features import similar_share
from ..errors import ConfigError, RewardError
from ..registry import Amount, Share
from ..rewards import reward_of
from ..rewards.base import UNKNOWN, RewardContext, called, problems_of, refused, tent
from ..rewards.composition import Composable

Charge = Annotated[float, Le(0)]
"""Reward of a refused proposal."""
_CHARGED = {"out_of_range", "unsolvable", "held_out", "duplicate", "not_novel"}
_CHARGED_AS = {"not_as_asked": "out_of_range", "copies_target": "duplicate"}
"""In the range of the run, and not of the prompt; a copy of a problem that is played anyway."""


@dataclass(frozen=True)
class FrontierDistance(Composable):
    """Distance to the centre of the frontier (proposed in Multimodal LLM Self-Play, section 6): r = max(floor, 1 -
    |p - c| / h), c the centre and h half the width of the frontier [low, high].

    The frontier of the paper is [0.1, 0.7]: 1 at p = 0.4, 0 at its edges. The paper gives no formula; it proposes
    weights by the distance to the centre, because membership alone said little more than that the JSON was valid.

    floor: 0 (default): 0 outside the frontier. None: linear to -1/3 at p = 0 and -1 at p = 1, so that distance
    counts outside too; a problem that is too hard may then have less than a refused proposal, unless refusals
    are penalised (`solvability_aware`)."""

    low: Share = 0.1
    high: Share = 0.7
    floor: float | None = 0.0

    def __post_init__(self) -> None:
        if self.low >= self.high:
            raise ConfigError(f"frontier_distance needs low < high, got low={self.low} and high={self.high}.")

    def __call__(self, solve_rate_P: np.ndarray, ctx: RewardContext | None = None) -> np.ndarray:
        centre, half = (self.low + self.high) / 2, (self.high - self.low) / 2
        reward_P = 1.0 - np.abs(np.asarray(solve_rate_P, dtype=float) - centre) / half
        return reward_P if self.floor is None else np.maximum(self.floor, reward_P)


@dataclass(frozen=True)
class RZero(Composable):
    """Uncertainty minus repetition: R-Zero (Huang et al. 2025, arXiv 2508.05004, section 3), which SGS cites. r =
    max(floor, scale * min(p, 1 - p) - weight * share).

    Paper: 1 - 2 |p - 1/2| (scale 2), minus |C| / B for a problem in a cluster C of B proposals, not below 0. The
    authors' code uses scale 1 and no floor: `scale=1.0, floor=None`. share: of the other problems of the round, those
    that overlap with this one by at least `threshold` (`countdown.features.overlap`). Two departures for small rounds
    of small problems: the paper clusters texts by BLEU distance (threshold 0.5), while overlap of numbers and target
    is exact and independent of order; and the paper counts the problem itself, which would penalise a single problem
    by the full weight. Without problems in `ctx` the share is 0. In the paper p is the agreement with a majority vote;
    here the verifier's correctness."""

    scale: Amount = 2.0
    weight: Amount = 1.0
    threshold: Share = 0.5
    floor: float | None = 0.0

    def __call__(self, solve_rate_P: np.ndarray, ctx: RewardContext | None = None) -> np.ndarray:
        p = np.asarray(solve_rate_P, dtype=float)
        reward_P = self.scale * np.minimum(p, 1.0 - p)
        problems = problems_of("r_zero", p, UNKNOWN if ctx is None else ctx)
        if problems:
            reward_P = reward_P - self.weight * similar_share(problems, self.threshold)
        return reward_P if self.floor is None else np.maximum(self.floor, reward_P)


@dataclass(frozen=True)
class Disagreement(Composable):
    """Disagreement between provers (proposed in Multimodal LLM Self-Play, sections 6 and 7): r = mean over pairs of
    provers of |s_m - s_n|, divided by its maximum; in [0, 1].

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
        tried_MP = np.isfinite(rates_MP)
        known_MP = np.where(tried_MP, rates_MP, 0.0)
        differ_P = np.zeros(rates_MP.shape[1])
        for m in range(len(rates_MP)):
            both_MP = tried_MP[m] & tried_MP[m + 1 :]
            differ_P += (np.abs(known_MP[m] - known_MP[m + 1 :]) * both_MP).sum(0)
        tried_P = tried_MP.sum(0)
        return differ_P / np.maximum((tried_P // 2) * (tried_P - tried_P // 2), 1)


@dataclass(frozen=True)
class AdaptiveBand(Composable):
    """Tent whose peak is between the goal and the prover's recent solve rates (proposed in Allen and Ståblein, section
    7). Stateless: the rates are part of the curriculum's state, so that a resumed run is exact.

    peak = goal + follow * (recent - goal), clipped to [low, high], where recent is the exponential moving mean of
    `ctx.recent_rates` (mean solve rates of at most the last 64 rounds with conjectured problems), and the goal before
    the first. The tent is 1 at the peak and falls to 0 at a distance of `width`, or at p = 0 and p = 1 if those are
    nearer, so that unsolved and always solved problems have reward 0. The paper proposes an adaptive band and a
    difficulty target that the conjecturer can reach, without a formula. follow = 0 is a fixed tent; follow = 1 rewards
    the current difficulty. In between, the peak leads towards the goal: at a recent rate of 0.05, where the tent of
    Allen and Ståblein gives almost no reward, the default peak is 0.225.

    decay: of the moving mean, per round."""

    goal: Share = 0.4
    follow: Share = 0.5
    decay: Share = 0.9
    width: Share = 0.4
    low: Share = 0.1
    high: Share = 0.9

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ConfigError(f"adaptive_band needs low <= high, got low={self.low} and high={self.high}.")

    def peak(self, recent_rates: tuple[float, ...]) -> float:
        """Return the peak after these rounds, oldest first."""
        recent = recent_rates[0] if recent_rates else self.goal
        for rate in recent_rates[1:]:
            recent = self.decay * recent + (1.0 - self.decay) * rate
        return min(max(self.goal + self.follow * (recent - self.goal), self.low), self.high)

    def __call__(self, solve_rate_P: np.ndarray, ctx: RewardContext | None = None) -> np.ndarray:
        p = np.asarray(solve_rate_P, dtype=float)
        peak = self.peak((UNKNOWN if ctx is None else ctx).recent_rates)
        # A width of 0 is a spike at the peak: the least number keeps the division defined.
        left, right = (max(min(self.width, side), 1e-12) for side in (peak, 1.0 - peak))
        return np.where((p > 0) & (p < 1), tent(p, peak, left, right), 0.0)


@dataclass(frozen=True)
class SolvabilityAware(Composable):
    """`of` for a played problem; for a refused proposal a penalty that decreases with its progress through the checks:
    the solvability-aware objective proposed in Allen and Ståblein, section 7. They give 0 to every refused proposal,
    most of which were unsolvable, so that an unsolvable problem had the reward of an unreadable text. The paper does
    not give values; these are between -1 and 0 in the order of the checks: unreadable, out of range, unsolvable, held
    out, repeated, played lately. A played problem with reward 0 is then still better than any refused one.

    of: a reward, or its name or description, as in `{"of": "tent", "unsolvable": -0.5}`."""

    of: Any = "tent"
    unparseable: Charge = -1.0
    out_of_range: Charge = -0.75
    unsolvable: Charge = -0.5
    held_out: Charge = -0.25
    duplicate: Charge = -0.25
    not_novel: Charge = -0.25

    def __post_init__(self) -> None:
        if not callable(self.of):
            object.__setattr__(self, "of", reward_of("solvability_aware", self.of))

    def __call__(self, solve_rate_P: np.ndarray, ctx: RewardContext | None = None) -> np.ndarray:
        return called(self.of, solve_rate_P, UNKNOWN if ctx is None else ctx)

    def invalid_reward(self, reason: str) -> float | None:
        """Return the penalty of a reason of refusal plus the invalid reward of `of`. A reason without a value is an
        unreadable text, as in `ProposalReason`."""
        name = _CHARGED_AS.get(reason, reason)
        return getattr(self, name if name in _CHARGED else "unparseable") + (refused(self.of, reason) or 0.0)
