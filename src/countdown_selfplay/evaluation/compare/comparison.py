"""Arms against a baseline: pass@k differences with intervals, what their number does to them, and their tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import ConfigError
from ...statistics.bootstrap import CHANGE, SHARE, Estimate, Interval, ends, holm, two_sided_p
from ...statistics.pass_at_k import pass_at_k_array
from ...statistics.seeds import two_level_draws
from ..summary import powers_of_two
from .arms import Arm

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        **{mark: rf"\{mark}" for mark in "&%$#_{}"},
    }
)

LEVEL = 0.95
_TAIL = 10  # resamples that should lie beyond the end of an interval
_FEW_SEEDS = 5


@dataclass(frozen=True)
class Difference:
    """pass@k of `arm` minus that of the baseline.

    percentile: the 95% interval of this difference alone; bonferroni: that at level 1 - .05 / m, which covers all m
    differences of the comparison at once; p: bootstrap p-value of no difference; p_holm: adjusted for the m of them.
    """

    arm: str
    k: int
    percentile: Interval
    bonferroni: Interval
    p: float
    p_holm: float


@dataclass(frozen=True)
class Comparison:
    """arms: names, the baseline first. values: (arm, k) -> pass@k with a 95% interval. differences: by arm and k.
    problems: how many were compared on; seeds: training seeds per arm; resamples: how many were drawn."""

    arms: list[str]
    ks: list[int]
    values: dict[tuple[str, int], Estimate]
    differences: list[Difference]
    problems: int
    seeds: dict[str, int]
    resamples: int

    def notes(self) -> list[str]:
        """What one must know to read the numbers."""
        m = len(self.differences)
        several = any(count > 1 for count in self.seeds.values())
        drawn = "training seeds of each arm and problems" if several else "problems"
        notes = [
            f"{self.problems} problems, paired. {self.resamples:,} resamples of {drawn}; 95% intervals of single "
            f"differences. Baseline: {self.arms[0]}.",
            f"{m} interval{'s' * (m > 1)} of differences: if no arm differed, {m} x 5% = {m * 0.05:.2g} would be "
            "expected to exclude 0. Bonferroni intervals hold for all of them at once, Holm's p-values are adjusted "
            "for their number."
            if m > 1
            else "1 interval of a difference: nothing to adjust for.",
        ]
        if several:
            few = [f"{name} has {count}" for name, count in self.seeds.items() if 1 < count < _FEW_SEEDS]
            notes.append(
                "Two-level bootstrap: problems are resampled, and the means of training seeds spread by Student's t "
                "with Welch's degrees of freedom."
            )
            if few:
                notes.append(
                    f"Few training seeds ({', '.join(few)}): they say little about their own spread, and the "
                    "intervals are wide for it."
                )
            single = [name for name, count in self.seeds.items() if count == 1]
            if single:
                notes.append(
                    f"One training seed of {', '.join(single)}: the spread over its seeds is unknown and not in the "
                    "intervals."
                )
        elif m:
            notes.append("One training seed per arm: this is about these weights, not about the methods.")
        if self.resamples * (1 - LEVEL) / (2 * max(m, 1)) < _TAIL:
            notes.append(f"{self.resamples:,} resamples are few for {m} Bonferroni intervals; take more.")
        return notes

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "arms": self.arms,
            "problems": self.problems,
            "training_seeds": self.seeds,
            "resamples": self.resamples,
            "pass_at": {arm: {str(k): self.values[arm, k].to_dict() for k in self.ks} for arm in self.arms},
            "differences": [{"arm": d.arm, "minus": self.arms[0], **asdict(d)} for d in self.differences],
            "notes": self.notes(),
        }


def compare_arms(
    arms: Sequence[Arm], ks: Sequence[int] | None = None, resamples: int = 10_000, seed: int = 0
) -> Comparison:
    """Every arm minus the first one at each k (default: the powers of two up to the least n).

    The evaluations must be aligned (`aligned_arms`). With one evaluation per arm a resample draws problems (paired);
    if an arm has several, the spread over training seeds comes on top (two_level_bootstrap). pass@k is unbiased
    for each evaluation's own n, so these may differ. ConfigError with fewer than two arms or a k above the least n.
    """
    if len(arms) < 2:
        raise ConfigError(f"A comparison needs at least two arms, got {len(arms)}.")
    least = min(result.n for arm in arms for result in arm.results)
    ks = powers_of_two(least) if ks is None else sorted(set(ks))
    wrong = [k for k in ks if not 1 <= k <= least]
    if wrong or not ks:
        raise ConfigError(f"`ks` ({wrong[0] if wrong else ks}) must lie between 1 and the least answers, n = {least}.")
    values: dict[tuple[str, int], Estimate] = {}
    passed: dict[tuple[str, int], np.ndarray] = {}
    drawn: list[tuple[str, int, np.ndarray]] = []
    for arm in arms:
        for k in ks:
            own_SP = np.stack([pass_at_k_array(result.correct, result.n, k) for result in arm.results])
            passed[arm.name, k] = own_SP
            means = two_level_draws(np.zeros((1, own_SP.shape[1])), own_SP, resamples, seed)
            low, high = ends(own_SP.mean(0), means, LEVEL, SHARE)
            values[arm.name, k] = Estimate(float(own_SP.mean()), low, high)
            if arm is not arms[0]:
                drawn.append((arm.name, k, two_level_draws(passed[arms[0].name, k], own_SP, resamples, seed)))
    problems = len(arms[0].results[0].keys)
    p_values = [two_sided_p(means, problems) for _, _, means in drawn]
    strict = 1 - (1 - LEVEL) / max(len(drawn), 1)
    differences = []
    for (name, k, means), p, p_holm in zip(drawn, p_values, holm(p_values), strict=True):
        value_P = passed[name, k].mean(0) - passed[arms[0].name, k].mean(0)
        own, every = (
            Interval(float(value_P.mean()), *ends(value_P, means, level, CHANGE)) for level in (LEVEL, strict)
        )
        differences.append(Difference(name, k, own, every, p, p_holm))
    seeds = {arm.name: len(arm.results) for arm in arms}
    return Comparison(list(seeds), list(ks), values, differences, problems, seeds, resamples)


def rows_of(found: Comparison) -> list[tuple[str, ...]]:
    """A header and one row per difference, as plain text."""
    head = ["arm", "pass@k", found.arms[0], "arm's", "difference", "95% interval"]
    head += [f"Bonferroni ({len(found.differences)})", "p", "p (Holm)"]
    rows = [tuple(head)]
    for d in found.differences:
        cells = [d.arm, str(d.k), *(f"{found.values[arm, d.k].value:.4f}" for arm in (found.arms[0], d.arm))]
        cells += [f"{d.percentile.difference:+.4f}", _ends(d.percentile)]
        cells += [_ends(d.bonferroni), _p(d.p, found.resamples), _p(d.p_holm, found.resamples)]
        rows.append(tuple(cells))
    return rows


def markdown(rows: Sequence[tuple[str, ...]], notes: Sequence[str]) -> str:
    """A table with notes below it; the first row is its header."""
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:], "", *(f"- {note}" for note in notes)]) + "\n"


def latex(found: Comparison) -> str:
    """A `tabular` for the package booktabs; the notes are comments above it."""
    head, *rows = [[cell.translate(_LATEX).replace("–", "--") for cell in row] for row in rows_of(found)]
    lines = [f"% {note}" for note in found.notes()]
    lines += [rf"\begin{{tabular}}{{lr{'l' * (len(head) - 2)}}}", r"\toprule", " & ".join(head) + r" \\", r"\midrule"]
    for i, row in enumerate(rows):
        if i and rows[i - 1][0] != row[0]:
            lines.append(r"\addlinespace")
        lines.append(" & ".join(row) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def figure(found: Comparison) -> Figure:
    """pass@k of every arm against k (logarithmic), each with its own 95% interval. The intervals are not paired: two
    that overlap may still differ."""
    from ..report.pictures import Curve, line_chart

    curves = []
    for arm in found.arms:
        values = [found.values[arm, k] for k in found.ks]
        y, low, high = (np.array([getattr(v, name) for v in values]) for name in ("value", "low", "high"))
        curves.append(Curve(arm, np.array(found.ks), y, low=low, high=high))
    return line_chart("pass@k with 95% intervals", curves, y_range=(0, 1), x_label="k", x_ticks=found.ks)


def _ends(interval: Interval) -> str:
    return f"[{interval.low:+.4f}, {interval.high:+.4f}]"


def _p(p: float, resamples: int) -> str:
    """Not more digits than the resamples give."""
    least = 2 / (resamples + 1)
    return f"<{10 ** math.ceil(math.log10(least)):g}" if p <= least * 1.001 else f"{p:.4f}"
