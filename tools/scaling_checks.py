"""How far a fitted asymptote can be trusted: seed 003's two checks, and when two arms may be ranked.

    python -m tools.scaling_checks sgs='runs/sgs-*' rl='runs/rl-*' --drop_below 100000

The arms and options are those of `countdown-selfplay fit-scaling`, which gives the fits and their intervals. Not part
of the wheel.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from countdown_selfplay.cli.main import guarded
from countdown_selfplay.evaluation.terminal import aligned
from countdown_selfplay.lab.cli.fit_scaling import fitted, parse, remarks, rows_of
from countdown_selfplay.lab.scaling import (
    DRAWS,
    ONE_CUMULATIVE_RUN,
    SUBSETS,
    TAILS,
    Points,
    ScalingArm,
    Series,
    fit_arm,
    fits_on_halves,
    fits_without_tails,
)
from countdown_selfplay.lab.scaling_fit import ScalingCurve
from countdown_selfplay.statistics.bootstrap import Interval, two_level_draws


@dataclass(frozen=True)
class Assessment(ScalingArm):
    """Differs from ScalingArm in what the fit stands up to.

    tails: share of points taken off at the end -> asymptote, None where the fit failed. subsets: asymptotes of fits on
    random halves of the points. lost: share of the fits on halves that failed.
    """

    tails: dict[float, float | None] = field(default_factory=dict)
    subsets: np.ndarray = field(default_factory=lambda: np.zeros(0))
    lost: float = 1.0

    @property
    def subset_sd(self) -> float | None:
        """Standard deviation of the asymptote over the halves (seed 003: 1.1 points); None if under 2 succeeded."""
        return float(self.subsets.std(ddof=1)) if len(self.subsets) > 1 else None


def assess(
    name: str,
    runs: Sequence[ScalingCurve | Series],
    drop_below: float = 0,
    resamples: int = 500,
    seed: int = 0,
    subsets: int | None = None,
) -> Assessment:
    """Fit an arm and check it: again without the last 10, 20 and 30% of each run's points, and on `subsets` (100)
    random halves of all points."""
    return checked(fit_arm(name, runs, drop_below, resamples, seed), drop_below, seed, subsets)


def checked(arm: ScalingArm, drop_below: float, seed: int = 0, subsets: int | None = None) -> Assessment:
    """The two checks of an arm that was fitted."""
    points = Points.of(arm.curves, drop_below)
    tails = {share: fit.asymptote for share, fit in fits_without_tails(points).items()}
    own = {name: getattr(arm, name) for name in ScalingArm.__dataclass_fields__}
    if arm.fit.asymptote is None:
        return Assessment(**own, tails=tails)
    count = SUBSETS if subsets is None else subsets
    found = np.array([fit.asymptote for fit in fits_on_halves(points, seed, count)], dtype=float)
    return Assessment(**own, tails=tails, subsets=found, lost=1 - len(found) / max(count, 1))


@dataclass(frozen=True)
class Ranking:
    """Two arms: which has the higher asymptote, or why that cannot be said. difference: higher minus lower."""

    first: str
    second: str
    ranked: bool
    sentence: str
    difference: Interval | None = None


def rank(found: Sequence[Assessment], seed: int = 0) -> list[Ranking]:
    """Every pair. Two asymptotes are ranked only if both have an interval, they differ by more than the larger of
    their standard deviations over halves of the points (seed 003 treats less "cautiously"), and the interval of the
    difference excludes 0: with Welch's degrees of freedom over the runs of both, paired where both name the same
    problems. The interval is one per pair and not adjusted for their number."""
    return [_pair(a, b, seed) for a, b in combinations(found, 2)]


def _pair(a: Assessment, b: Assessment, seed: int) -> Ranking:
    def unranked(reason: str, interval: Interval | None = None) -> Ranking:
        return Ranking(a.name, b.name, False, f"{a.name} and {b.name}: not ranked, {reason}.", interval)

    for one in (a, b):
        if one.fit.asymptote is None:
            return unranked(f"the fit of {one.name} failed")
        if one.over == ONE_CUMULATIVE_RUN:
            return unranked(f"{one.name} is one cumulative curve")
        if one.interval is None or one.subset_sd is None:
            return unranked(f"{max(one.failed, one.lost):.0%} of the resampled fits of {one.name} failed")
    if (a.fit.asymptote or 0) < (b.fit.asymptote or 0):
        a, b = b, a
    draws = _difference_draws(a, b, seed)
    value = float(a.fit.asymptote or 0) - float(b.fit.asymptote or 0)
    low, high = (float(end) for end in np.clip(np.quantile(draws, (0.025, 0.975)), -1, 1))
    spread = max(a.subset_sd or 0.0, b.subset_sd or 0.0)
    numbers = f"{value:+.4f} [{low:+.4f}, {high:+.4f}], spread over halves of the points {spread:.4f}"
    interval = Interval(value, low, high)
    if value <= spread or low <= 0:
        return unranked(f"their asymptotes are closer than they are known ({numbers})", interval)
    single = [one.name for one in (a, b) if len(one.curves) == 1]
    about = f" (about these runs, not the methods: one run of {' and of '.join(single)})" if single else ""
    return Ranking(a.name, b.name, True, f"{a.name} above {b.name}: {numbers}{about}.", interval)


def _difference_draws(a: Assessment, b: Assessment, seed: int) -> np.ndarray:
    """Draws of the asymptote of a minus that of b."""
    if a.values is not None and b.values is not None and a.values.shape[1] == b.values.shape[1]:
        return two_level_draws(b.values, a.values, DRAWS, seed)
    rng = np.random.default_rng(seed)
    return rng.choice(a.draws, DRAWS) - rng.choice(b.draws, DRAWS)


def checks(found: Sequence[Assessment]) -> list[tuple[str, ...]]:
    """A header and one row per arm."""
    rows: list[tuple[str, ...]] = [("arm", *(f"-{share:.0%} tail" for share in TAILS), "half of the points")]
    for one in found:
        cut = [f"{value:.4f}" if (value := one.tails.get(share)) is not None else "failed" for share in TAILS]
        sd = one.subset_sd
        rows.append((one.name, *cut, "failed" if sd is None else f"{one.subsets.mean():.4f} ± {sd:.4f}"))
    return rows


def main(argv: list[str]) -> int:
    """Print fits, checks and rankings; exit code 1 if a fit failed."""
    options: argparse.Namespace = parse(argv)
    arms, _, _ = fitted(options)
    found = [checked(arm, options.drop_below, options.seed) for arm in arms]
    print(aligned(rows_of(arms)))
    print("\n".join(remarks(arms)))
    print(aligned(checks(found)))
    for one in found:
        if one.fit.converged and one.lost:
            print(f"{one.name}: {one.lost:.0%} of the fits on half of the points failed.")
    for pair in rank(found, options.seed):
        print(pair.sentence)
    return 0 if all(one.fit.converged for one in found) else 1


if __name__ == "__main__":
    raise SystemExit(guarded(main, sys.argv[1:]))
