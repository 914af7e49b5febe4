"""A study's rows: arm less control with its interval, p-value and verdict; and the number of training runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from countdown_selfplay.statistics.bootstrap import (
    CHANGE,
    ends,
    holm,
    independent_difference,
    t_interval,
    t_quantile,
    two_level_draws,
    two_sided_p,
)

from .readers import Arms, Row
from .studies import STUDIES, Study

UNTRAINED = ("before", "start", "parallel_sampling", "warm start", "sft")
"""Arms that take no training step: none of their samples counts as a run."""
VERDICTS = ("ahead", "behind", "inconclusive")


def compared(study: Study, arms: Arms) -> list[tuple[str, str, str]]:
    """Arm, control and metric of each row. One run against one has no spread over seeds, and no row."""
    pairs = study.pairs
    if pairs is None:
        ref = study.reference
        pairs = [(str(ref), arm) for arm in arms.runs if arm != ref and ref in arms.runs]
    return [(a, c, m) for a, c in pairs for m in study.metrics if max(len(arms.runs[one]) for one in (a, c)) > 1]


def measured(arms: Arms, arm: str, control: str, metric: str, resamples: int) -> Row:
    """The difference with its interval and p-value. Rates by problem: `two_level_draws`. Rates by seed alone:
    Student's intervals of both sides, put together."""
    above, below = (arms.values(one, metric) for one in (arm, control))
    seeds = [len(above), len(below)]
    if above.ndim == 2:
        draws = two_level_draws(below, above, resamples, 0)
        difference_P = above.mean(0) - below.mean(0)
        low, high = ends(difference_P, draws, 0.95, CHANGE)
        p = two_sided_p(draws, below.shape[1])
        return _row(arm, control, metric, float(difference_P.mean()), low, high, p, seeds)
    gap = independent_difference(*(t_interval(side) for side in (below, above)))
    variances = [float(side.var(ddof=1)) / len(side) for side in (above, below)]
    freedom = sum(variances) ** 2 / sum(v**2 / (s - 1) for v, s in zip(variances, seeds, strict=True))
    p = p_of_t(abs(gap.difference) / sum(variances) ** 0.5, freedom)  # Welch's test
    return _row(arm, control, metric, gap.difference, gap.low, gap.high, p, seeds)


def p_of_t(t: float, freedom: float) -> float:
    """Two-sided p-value of Student's t."""
    shares = 1 - np.geomspace(0.5, 1e-9, 4_000)
    return float(2 * (1 - np.interp(t, t_quantile(shares, freedom), shares)))


def p_of_interval(difference: float, low: float, high: float, seeds: int) -> float:
    """About the p-value that goes with a 95% interval whose draws were not kept: Student's, with 2 S - 2 degrees of
    freedom for S seeds on each side, read at the interval's end towards 0; .05 where that end is 0."""
    towards_zero = difference - low if difference > 0 else high - difference
    freedom = 2 * seeds - 2
    return p_of_t(abs(difference) / towards_zero * float(t_quantile(0.975, freedom)), freedom)


def _row(
    arm: str, control: str, metric: str, difference: float, low: float, high: float, p: float | None, seeds: Any
) -> Row:
    ends_ = {"difference": difference, "low": low, "high": high}
    return {"arm": arm, "control": control, "metric": metric, **ends_, "p": p, "seeds": seeds}


def rounded(name: str, value: Any) -> Any:
    """p-values to four decimals, as they are printed; differences to six."""
    return round(value, 4 if name.startswith("p") else 6) if isinstance(value, float) else value


def rows_of(study: Study, resamples: int = 10_000) -> list[Row]:
    """The study's rows: Holm's p-values over all of them, and the verdict at 5%."""
    arms = study.read()
    found = [measured(arms, *one, resamples) for one in compared(study, arms)] if not arms.printed else []
    corrected = []
    for arm, control, metric, difference, low, high, says, seeds in arms.printed:
        p = p_of_interval(difference, low, high, seeds) if says is None else None
        found.append(_row(arm, control, metric, difference, low, high, p, [seeds, seeds]))
        corrected.append(says)
    adjusted = iter(holm([row["p"] for row in found if row["p"] is not None]))
    for i, row in enumerate(found):
        row["p_holm"] = None if row["p"] is None else round(next(adjusted), 4)  # as it is printed: .0500 shows nothing
        shows = corrected[i] if row["p"] is None else row["p_holm"] < 0.05 and (row["low"] > 0 or row["high"] < 0)
        row["verdict"] = VERDICTS[0 if row["difference"] > 0 else 1] if shows else VERDICTS[2]
        for side in ("arm", "control"):
            row[side] = (study.shown or {}).get(row[side], row[side])
    return [{"study": study.name, **{k: rounded(k, v) for k, v in row.items()}} for row in found]


def training_runs() -> dict[str, int]:
    """Study -> distinct training runs that no study before it has."""
    seen: set[Any] = set()
    found = {}
    for study in STUDIES:
        arms = study.read().runs
        own = {one for arm, runs in arms.items() if arm not in UNTRAINED for one in map(_identity, runs)} - seen
        seen |= own
        found[study.name] = len(own)
    return found


def _identity(run: Any) -> Any:
    """A run scored on two sets of problems is one run; the conservative run's later file is of other runs."""
    return (run[0].replace("_withheld", ""), *run[1:]) if isinstance(run, tuple) and isinstance(run[0], str) else run
