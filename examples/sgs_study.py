"""What examples/sgs.py says of its runs: one row per arm, and what of the claims of seed 003 the numbers bear out."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from countdown_selfplay.evaluation.asymptotes import ScalingArm, fit_arm
from countdown_selfplay.evaluation.compare.scaling_data import load_curve
from countdown_selfplay.evaluation.compare.study import run_folder
from countdown_selfplay.evaluation.report import Run, load_run
from countdown_selfplay.evaluation.report.target_sets import first_solved
from countdown_selfplay.statistics.independent import independent_difference
from countdown_selfplay.statistics.seeds import t_interval

BASELINE = "reinforce_half"
CUT = 0.025
"""Share of the generations before which points are left out of the re-centred fit; the paper: 100,000 of 4 million."""

ENDS = 5
"""Rounds at either end of a run that its first and last values are means over."""


def mean(run: Run, metric: str, part: slice = slice(None)) -> float:
    """Of the metric in these rounds; NaN if none of them has it."""
    values = [row[metric] for row in run.rounds[part] if metric in row]
    return float(np.mean(values)) if values else float("nan")


def end(metric: str) -> Callable[[Run], float]:
    return lambda run: mean(run, metric, slice(-ENDS, None))


def kept(metric: str) -> Callable[[Run], float]:
    """The last rounds' value as a share of the first rounds'."""
    return lambda run: end(metric)(run) / first if (first := mean(run, metric, slice(ENDS))) else float("nan")


@dataclass(frozen=True)
class Claim:
    """The paper says that `of` is greater in the first arm than in the second; `equal`: that it is the same."""

    says: str
    of: str
    value: Callable[[Run], float]
    more: str
    less: str
    equal: bool = False

    def judged(self, runs: dict[str, list[Run]]) -> str:
        """A row of the table: both means, their difference with its interval over seeds, and the verdict."""
        sides = [[v for run in runs[arm] if np.isfinite(v := self.value(run))] for arm in (self.more, self.less)]
        if not all(sides):
            return f"| {self.says} | {self.of} | – | – | not measured |"
        means = [float(np.mean(values)) for values in sides]
        shown, verdict = f"{means[0] - means[1]:+.3f}", "open: it takes two seeds at least"
        if min(map(len, sides)) > 1:
            gap = independent_difference(t_interval(sides[1]), t_interval(sides[0]))
            shown += f" [{gap.low:+.3f}, {gap.high:+.3f}]"
            verdict = self.verdict(gap.low, gap.high)
        return f"| {self.says} | {self.of}: {means[0]:.3f}, {means[1]:.3f} | {shown} | {verdict} |"

    def verdict(self, low: float, high: float) -> str:
        if self.equal:
            return "no difference seen" if low <= 0 <= high else "refuted"
        return "reproduced" if low > 0 else "refuted" if high < 0 else "open: the interval holds 0"


def solved(run: Run) -> float:
    return run.series("targets/solve_rate")[-1][1]


CLAIMS = (
    Claim("REINFORCE^1/2 keeps entropy", "share left", kept("prover/entropy"), BASELINE, "cispo_alone"),
    Claim("so it does within SGS", "share left", kept("prover/entropy"), "sgs", "cispo"),
    Claim("CISPO starves the conjecturer", "rounds with a signal", lambda run: mean(run, "conjecturer/signal"),
          "sgs", "cispo"),
    Claim("no guide degenerates", "complex problems at the end", end("targets/problem_complex"), "no_guide", "sgs"),
    Claim("its problems grow", "their numbers at the end", end("targets/problem_size"), "no_guide", "sgs"),
    Claim("the guide helps", "solved", solved, "sgs", "no_guide"),
    Claim("a frozen conjecturer saturates", "share of trainable problems left", kept("targets/trainable"), "no_guide",
          "frozen"),
    Claim("no conditioning equals the baseline", "solved", solved, "unconditioned", BASELINE, equal=True),
    Claim("SGS passes the baseline", "solved", solved, "sgs", BASELINE),
    Claim("SGS passes STP", "solved", solved, "sgs", "stp"),
)  # fmt: skip
"""Sections 4.3 to 4.5, figures 1, 2, 6, 7 and 12."""


def beyond_asymptote(runs: Sequence[Run], baseline: ScalingArm) -> str:
    """A row of the same table: what SGS has solved against what the baseline's curve would come to with any number of
    generations (figure 1)."""
    claim = Claim("SGS passes the baseline's asymptote", "solved, asymptote", solved, "sgs", BASELINE)
    if baseline.interval is None or len(runs) < 2:
        return f"| {claim.says} | {claim.of} | – | open: it takes two seeds and a fit with an interval |"
    final = t_interval([solved(run) for run in runs])
    gap = independent_difference(baseline.interval, final)
    change = f"{gap.difference:+.3f} [{gap.low:+.3f}, {gap.high:+.3f}]"
    means = f"{final.value:.3f}, {baseline.interval.value:.3f}"
    return f"| {claim.says} | {claim.of}: {means} | {change} | {claim.verdict(gap.low, gap.high)} |"


def study(root: Path, arms: Sequence[str], seeds: dict[str, list[int]], generations: int) -> str:
    """Markdown: what each arm solved, its asymptote in both forms, entropy, what it solved where the baseline never
    did, and the claims. Writes study.json beside it."""
    folders = {arm: [run_folder(root, arm, s) for s in seeds[arm]] for arm in arms}
    runs = {arm: [load_run(folder) for folder in own] for arm, own in folders.items()}
    first = {arm: [first_solved(run) for run in own] for arm, own in runs.items()}
    fits: dict[str, ScalingArm] = {}
    base = first.get(BASELINE, [])
    hard = {key for key in (base[0] if base else {}) if all(one[key] is None for one in base)}
    lines = [
        "| arm | seeds | solved | asymptote [95%] | re-centred | of D_hard | entropy, first and last rounds "
        "| trainable a round |",
        "|---" * 8 + "|",
    ]
    out: dict[str, Any] = {"generations": generations, "D_hard": sorted(hard), "arms": {}}
    for arm in arms:
        curves = [load_curve(str(folder), "round/generations", None)[0] for folder in folders[arm]]
        fit, again = (fit_arm(arm, curves, cut, recenter=cut > 0) for cut in (0.0, CUT * generations))
        fits[arm] = fit
        rate = float(np.mean([curve.rate[-1] for curve in curves]))
        share = [np.mean([one[key] is not None for key in hard]) for one in first[arm]] if hard else []
        entropy = [
            float(np.nanmean([mean(run, "prover/entropy", part) for run in runs[arm]]))
            for part in (slice(ENDS), slice(-ENDS, None))
        ]
        made = [value for run in runs[arm] if np.isfinite(value := mean(run, "targets/trainable"))]
        cells = [arm, str(len(curves)), f"{rate:.3f}", shown(fit), shown(again)]
        cells += [f"{np.mean(share):.3f}" if share else "–", f"{entropy[0]:.3f}, {entropy[1]:.3f}"]
        lines.append("| " + " | ".join([*cells, f"{np.mean(made):.1f}" if made else "–"]) + " |")
        out["arms"][arm] = {
            "solve_rate": rate, "fit": fit.to_dict(), "recentred": again.to_dict(), "entropy": entropy,
            "of_D_hard": float(np.mean(share)) if share else None,
        }  # fmt: skip
    notes = f"Targets solved at least once after {generations:,} generations; D_hard: the {len(hard)} that {BASELINE} "
    lines += ["", f"{notes}never solved. Re-centred: without the first {CUT * generations:,.0f} generations.", ""]
    told = [claim.judged(runs) for claim in CLAIMS if {claim.more, claim.less} <= set(arms)]
    if {"sgs", BASELINE} <= set(arms):
        told.append(beyond_asymptote(runs["sgs"], fits[BASELINE]))
    if told:
        lines += ["| claim | of | difference [95%] | here |", "|---" * 4 + "|", *told]
    out["claims"] = told
    (root / "study.json").write_text(json.dumps(out, indent=1, default=float) + "\n")
    return "\n".join(lines) + "\n"


def shown(arm: ScalingArm) -> str:
    """The asymptote with its interval, or that there is none."""
    if arm.fit.asymptote is None:
        return "no fit"
    interval = "" if arm.interval is None else f" [{arm.interval.low:.3f}, {arm.interval.high:.3f}]"
    return f"{arm.fit.asymptote:.3f}{interval}"
