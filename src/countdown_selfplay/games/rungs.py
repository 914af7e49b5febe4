"""What was proposed and played of each rung, and how well it was solved, for domains whose problems come in rungs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..contract.game import Proposal
from ..contract.metric import HIDDEN, Metric

BY_RUNG = (
    Metric(
        "round/rung_<rung>_proposed",
        "Proposals of the round whose problem is of this rung (Countdown: has so many numbers), played or not. A "
        "conjecturer that climbs moves from rung to rung. Of domains with several rungs.",
        panel=HIDDEN,
    ),
    Metric(
        "round/rung_<rung>_played",
        "Problems of this rung that were played in the round, proposals, anchors and random ones together.",
        panel=HIDDEN,
    ),
    Metric(
        "round/rung_<rung>_solve_rate",
        "Mean p over the played problems of this rung. It rises, from the easiest rung on; not comparable between "
        "runs, for a conjecturer chooses the easy problems of a rung: compare `eval_pass@<k>/rung_<rung>`.",
        panel=HIDDEN,
    ),
)


def has_rungs(domain: Any) -> bool:
    """Whether problems of the domain may be of several rungs."""
    return domain.rung is not None and len(domain.rungs) != 1


def rung_health(
    domain: Any, proposals: Sequence[Proposal], problems: Sequence[Any], solve_rate_P: np.ndarray
) -> dict[str, Any]:
    """Counts and mean solve rates by rung; {} for a domain without several rungs. A proposal of a rung that the domain
    does not have is no problem of it."""
    if not has_rungs(domain):
        return {}
    of_played = np.asarray([domain.rung(problem) for problem in problems], dtype=int)
    proposed = Counter(domain.rung(p.problem) for p in proposals if p.problem is not None)
    found: dict[str, Any] = {}
    for rung in sorted({*(domain.rungs or proposed), *of_played.tolist()}):
        own_P = solve_rate_P[of_played == rung]
        found[f"round/rung_{rung}_proposed"] = proposed[rung]
        found[f"round/rung_{rung}_played"] = int(own_P.size)
        if own_P.size:
            found[f"round/rung_{rung}_solve_rate"] = float(own_P.mean())
    return found
