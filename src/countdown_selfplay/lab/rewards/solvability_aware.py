"""Graded penalties for refused proposals: the solvability-aware objective proposed in Allen and
Ståblein, section 7."""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from annotated_types import Le

from ...rewards import reward_of
from ...rewards.base import UNKNOWN, ConjecturerReward, RewardContext, called, refused
from ...rewards.composition import Composable

Charge = Annotated[float, Le(0)]
"""Reward of a refused proposal."""


@dataclass(frozen=True)
class SolvabilityAware(Composable):
    """`of` for a played problem; for a refused proposal a penalty that decreases with its progress through the checks.
    Allen and Ståblein give 0 to every refused proposal, most of which were unsolvable, so that an unsolvable problem
    had the reward of an unreadable text. The paper does not give values; these are between -1 and 0 in the order of
    the checks: unreadable, out of range, unsolvable, held out, repeated, played lately. A played problem with reward 0
    is then still better than any refused one."""

    of: ConjecturerReward
    unparseable: float = -1.0
    out_of_range: float = -0.75
    unsolvable: float = -0.5
    held_out: float = -0.25
    duplicate: float = -0.25
    not_novel: float = -0.25

    def __call__(self, solve_rate_P: np.ndarray, ctx: RewardContext | None = None) -> np.ndarray:
        return called(self.of, solve_rate_P, UNKNOWN if ctx is None else ctx)

    def invalid_reward(self, reason: str) -> float | None:
        """Return the penalty of a reason of refusal plus the invalid reward of `of`. A reason without a value is an
        unreadable text, as in `ProposalReason`."""
        return getattr(self, _FIELDS.get(reason, "unparseable")) + (refused(self.of, reason) or 0.0)


_FIELDS = {name: name for name in ("out_of_range", "unsolvable", "held_out", "duplicate", "not_novel")}
_FIELDS["not_as_asked"] = "out_of_range"  # in the range of the run, and not of the prompt
_FIELDS["copies_target"] = "duplicate"  # of a problem that is played anyway


def solvability_aware(
    of: Any = "tent",
    unparseable: Charge = -1.0,
    out_of_range: Charge = -0.75,
    unsolvable: Charge = -0.5,
    held_out: Charge = -0.25,
    duplicate: Charge = -0.25,
    not_novel: Charge = -0.25,
) -> SolvabilityAware:
    """Build the reward of `{"of": "tent", "unsolvable": -0.5}`."""
    base = reward_of("solvability_aware", of)
    return SolvabilityAware(base, unparseable, out_of_range, unsolvable, held_out, duplicate, not_novel)
