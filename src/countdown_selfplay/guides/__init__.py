"""Registry of guides, which score proposals in addition to the provers (SGS 2026, section 3.2)."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..contract.game import BaseGuide, Guide, Outcome, Proposal
from ..contract.round import Round
from ..contract.stateful import check_part
from ..errors import ConfigError, RewardError
from ..registry import Registry

GUIDES: Registry[Any] = Registry(
    "guide",
    {
        "rubric": "countdown_selfplay.guides.rubric:Rubric",
        "judge": "countdown_selfplay.guides.judge:Judge",
        "none": "countdown_selfplay.guides:no_guide",
    },
)


def no_guide() -> None:
    """Return None, for the ablation "no guide" of SGS: R_solve alone."""


def check_guide(what: str, guide: Any, players: Mapping[str, Sequence[str]]) -> None:
    """Raise ConfigError unless `guide` is a guide or None, each role that the guide needs has a player, and the role
    `guide` has a player only if needed. `players`: role -> its players."""
    if guide is not None:
        check_part(what, guide, BaseGuide, ("score",))
    needs = () if guide is None else guide.needs
    if players.get("guide") and "guide" not in needs:
        raise ConfigError(f"`roles.guide` is played by the guide `judge` alone, and {what} is another; leave it out.")
    for kind in needs:
        if not players.get(kind):
            cure = f"add `roles.{kind}`, such as {{{kind}: {{weights: start}}}}, or choose the guide rubric"
            raise ConfigError(f"{what} needs a role '{kind}'; {cure}.")


def checked_scores(guide: Guide, round: Round, proposals: Sequence[Proposal], outcome: Outcome) -> np.ndarray:
    """Return the guide's scores, (P,). Raises RewardError unless each is on the guide's scale, or NaN."""
    returned, (low, high) = guide.score(round, proposals, outcome), guide.scale
    rule = f"one number from {low:g} to {high:g}, or NaN (a failed review), for each of {len(proposals)} problems"
    try:
        found_P = np.asarray(returned, dtype=float)
    except (TypeError, ValueError):
        found_P = None
    name = type(guide).__name__
    if found_P is None or found_P.shape != (len(proposals),):
        raise RewardError(f"The guide {name} returned {str(returned)[:60]!r}; `score` must return {rule}.")
    off_P = np.isinf(found_P) | (found_P < low) | (found_P > high)
    if off_P.any():
        at = int(off_P.argmax())
        said = f"{found_P[at]:g} to {round.domain.key(proposals[at].problem)}"
        raise RewardError(f"The guide {name} gave {said}; `score` must return {rule}.")
    return found_P


def targets_of(proposals: Sequence[Proposal]) -> list[Any]:
    """Return the target of each proposal. Raises ConfigError for a proposal without one."""
    targets = [(p.request or {}).get("target") if isinstance(p.request, Mapping) else None for p in proposals]
    if any(target is None for target in targets):
        raise ConfigError(
            "A guide compares a proposal with its target, and these have none; use proposer=targets with "
            "{conditioned: true}, or guide=none."
        )
    return targets


__all__ = ["GUIDES", "BaseGuide", "Guide", "check_guide", "checked_scores", "targets_of"]
