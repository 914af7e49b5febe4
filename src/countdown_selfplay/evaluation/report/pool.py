"""Of a run with tiers: the six panels of Multimodal LLM Self-Play's figure 1, and its table 2, early rounds against
late ones."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from ...statistics.bootstrap import Estimate
from .arms import arms_of, over_seeds
from .charts import SHARE, Chart
from .load import Run
from .tables import Table, definition

SECTION = "Pool"
WINDOW = 5
"""Rounds at either end of a run that table 2 compares; half of them all in a shorter run."""
_TIER = re.compile(r"prover_pass_rate_tier_(\d+)")


def tiers_of(runs: Sequence[Run]) -> list[int]:
    """The tiers that the runs log, from 0 on; [] for runs without."""
    return sorted({int(match[1]) for run in runs for match in map(_TIER.fullmatch, run.names) if match})


def charts(runs: Sequence[Run]) -> dict[str, tuple[Chart, ...]]:
    """Figure 1: valid conjecture rate, operand counts by tier; pass rates by tier, and over all. Two tiers make six
    panels. {} for runs without tiers."""
    tiers = tiers_of(runs)
    if not tiers:
        return {}
    counts = [Chart(f"Operands of tier {k}", ((f"tier_{k}_operand_count", "operands"),)) for k in tiers]
    rates = [Chart(f"Pass rate of tier {k}", ((f"prover_pass_rate_tier_{k}", "pass rate"),), SHARE) for k in tiers]
    return {
        SECTION: (
            Chart("Valid conjectures", (("valid_conjecture_rate", "share"),), SHARE),
            *counts,
            *rates,
            Chart("Mean pass rate", (("mean_prover_pass_rate", "pass rate"),), SHARE),
        )
    }


def windows(runs: Sequence[Run]) -> Table | None:
    """Table 2: means over the first and the last WINDOW rounds, arms side by side, those of several seeds as a mean
    with an interval; None for runs without tiers."""
    tiers = tiers_of(runs)
    width = min((width_of(run) for run in runs), default=0)
    if not tiers or not width:
        return None
    names = {"valid conjecture rate": "valid_conjecture_rate", "mean prover pass rate": "mean_prover_pass_rate"}
    names |= {f"tier {k} pass rate": f"prover_pass_rate_tier_{k}" for k in tiers}
    arms, rows = arms_of(runs), list[list[Any]]()
    for words, metric in names.items():
        found = [zip(*(ends(run, metric, width) for run in arm.runs), strict=True) for arm in arms]
        cells = [_shown(values) for sides in found for values in sides]
        rows.append([{"text": words, "hint": definition(metric, runs)}, *cells])
    note = (
        f"Means over the first and the last {width} rounds (Multimodal LLM Self-Play, table 2: .30 to .56, .16 to "
        f".50, tier 1 .15 to .51). The problems are those of the round: a pass rate may rise because problems became "
        f"easier."
        + (" Several seeds: mean with a 95% t interval, of two least and greatest." if len(arms) < len(runs) else "")
    )
    head = [f"rounds 1 to {width}" if width > 1 else "round 1", f"last {width}"] * len(arms)
    return Table(["", *head], rows, note, groups=[arm.name for arm in arms] if len(arms) > 1 else [])


def width_of(run: Run) -> int:
    """WINDOW, or so many rounds that the first and the last ones do not overlap; 0 for a single round."""
    return min(WINDOW, max(run.steps, default=0) // run.per_round // 2)


def ends(run: Run, metric: str, width: int = WINDOW) -> tuple[float | None, float | None]:
    """The metric's mean over the first and over the last `width` rounds; None where none of them has it."""
    last = max(run.steps, default=0)
    early = [value for step, value in run.series(metric) if step <= width * run.per_round]
    late = [value for step, value in run.series(metric) if step > last - width * run.per_round]
    first, second = (math.fsum(values) / len(values) if values else None for values in (early, late))
    return first, second


def _shown(values: Sequence[float | None]) -> str | Estimate | None:
    """One seed's value in words, that of several as a mean over those that have it."""
    known = [value for value in values if value is not None]
    if len(known) > 1:
        return over_seeds(known)
    return f"{known[0]:.3f}" if known else None
