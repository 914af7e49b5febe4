"""What studies/sgs.py says of its runs: one row per arm, and what of SGS's claims the numbers bear out.
docs/sgs.md says what the verdicts mean."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from many_runs import run_folder

from countdown_selfplay.errors import DataError
from countdown_selfplay.lab.report import Run, load_run
from countdown_selfplay.lab.report.targets import after_first_pass, first_solved, solved_by
from countdown_selfplay.lab.scaling import ScalingArm, fit_arm, load_curve
from countdown_selfplay.lab.scaling_fit import ScalingCurve
from countdown_selfplay.statistics.bootstrap import Estimate, independent_difference, t_interval

BASELINE, SAMPLING = "reinforce_half", "parallel_sampling"
ENTROPY = "prover/sampled_entropy"

MARGIN = 0.03
"""Solve rates that differ by less count as the same. The paper treats 1.1 points with caution; three to five seeds on
320 targets cannot show that."""

ENDS = 5
"""Rounds at either end of a run, of those that have a metric, that its first and last values are means over."""

OF_ONE = "open: it takes two seeds at least"
ALL, FIRST, LAST = slice(None), slice(ENDS), slice(-ENDS, None)


def mean(values: Sequence[float], part: slice = ALL) -> float:
    """NaN without a value."""
    return float(np.mean(values[part])) if len(values) else float("nan")


def logged(metric: str) -> Callable[[Run], list[float]]:
    """Its values, of the rounds that have it."""
    return lambda run: [row[metric] for row in run.rounds if metric in row]


def trainable(run: Run) -> list[float]:
    """Of each round that asked for synthetic problems the share that was worth training on."""
    rows = [row for row in run.rounds if row.get("targets/asked")]
    return [row.get("targets/trainable", 0.0) / row["targets/asked"] for row in rows]


def extreme(run: Run) -> list[float]:
    """Of each round with synthetic problems the share that no answer solved or all did (figure 7, bottom right)."""
    counts = [run.histograms[step] for step in sorted(run.histograms)]
    return [(bins[0] + bins[-1]) / sum(bins) for bins in counts if sum(bins)]


def over(values: Callable[[Run], list[float]], part: slice = ALL) -> Callable[[Run], float]:
    return lambda run: mean(values(run), part)


def kept(values: Callable[[Run], list[float]]) -> Callable[[Run], float]:
    """The last rounds' value as a share of the first rounds'."""
    return lambda run: over(values, LAST)(run) / first if (first := over(values, FIRST)(run)) else float("nan")


@dataclass(frozen=True)
class Claim:
    """What the paper says of `of` in the first arm against the second: that it is "more", "equal", or "no_more"."""

    says: str
    of: str
    value: Callable[[Run], float]
    first: str
    second: str
    kind: Literal["more", "equal", "no_more"] = "more"

    def judged(self, runs: dict[str, list[Run]]) -> str:
        """A row of the table: both means, their difference with its interval over seeds, and the verdict."""
        sides = [[v for run in runs[arm] if np.isfinite(v := self.value(run))] for arm in (self.first, self.second)]
        if not all(sides):
            return f"| {self.says} | {self.of} | – | not measured |"
        if min(map(len, sides)) > 1:
            return row(self.says, self.of, *map(t_interval, sides), verdict=self.verdict)
        a, b = map(mean, sides)
        return f"| {self.says} | {self.of}: {a:.3f}, {b:.3f} | {a - b:+.3f} | {OF_ONE} |"

    def verdict(self, low: float, high: float) -> str:
        if self.kind == "equal":
            if low > -MARGIN and high < MARGIN:
                return f"reproduced: equal to within {MARGIN}"
            return "refuted" if low > MARGIN or high < -MARGIN else f"open: the interval leaves ±{MARGIN}"
        if self.kind == "no_more":
            if high < MARGIN:
                return f"reproduced: no better by {MARGIN}"
            return "refuted" if low > 0 else f"open: the interval passes {MARGIN}"
        return "reproduced" if low > 0 else "refuted" if high < 0 else "open: the interval holds 0"


def row(says: str, of: str, a: Estimate, b: Estimate, verdict: Callable[[float, float], str]) -> str:
    """A row of the table for a - b."""
    gap = independent_difference(b, a)
    change = f"{gap.difference:+.3f} [{gap.low:+.3f}, {gap.high:+.3f}]"
    return f"| {says} | {of}: {a.value:.3f}, {b.value:.3f} | {change} | {verdict(gap.low, gap.high)} |"


def solved(run: Run) -> float:
    return run.series("targets/solve_rate")[-1][1]


R_SOLVE, COMPLEX, SIZE = map(logged, ("round/reward_r_solve", "targets/problem_complex", "targets/problem_size"))
RIGHT = logged("round/anchor_solve_rate_mean")  # the anchors are the targets
CLAIMS = (
    Claim("REINFORCE^1/2 keeps entropy", "share left", kept(logged(ENTROPY)), BASELINE, "cispo_alone"),
    Claim("so it does within SGS", "share left", kept(logged(ENTROPY)), "sgs", "cispo"),
    Claim("CISPO pushes solve rates to 0 and 1", "share at the end", over(extreme, LAST), "cispo", "sgs"),
    Claim("CISPO starves the conjecturer", "R_solve of a synthetic problem", over(R_SOLVE), "sgs", "cispo"),
    Claim("SGS with CISPO equals CISPO", "solved", solved, "cispo", "cispo_alone", "equal"),
    Claim("the baseline passes CISPO", "solved", solved, BASELINE, "cispo_alone"),
    Claim("the baseline passes expert iteration", "solved", solved, BASELINE, "expert_iteration"),
    Claim("no guide degenerates", "complex problems at the end", over(COMPLEX, LAST), "no_guide", "sgs"),
    Claim("its problems grow", "their numbers at the end", over(SIZE, LAST), "no_guide", "sgs"),
    Claim("the guide helps", "solved", solved, "sgs", "no_guide"),
    Claim("no guide passes the baseline", "solved", solved, "no_guide", BASELINE),
    Claim("a frozen conjecturer falls behind", "trainable of what was asked for, share left", kept(trainable),
          "no_guide", "frozen"),
    Claim("frozen passes the baseline", "solved", solved, "frozen", BASELINE),
    Claim("SGS passes frozen", "solved", solved, "sgs", "frozen"),
    Claim("no guide passes frozen", "solved", solved, "no_guide", "frozen"),
    Claim("no conditioning is no better than the baseline", "solved", solved, "unconditioned", BASELINE, "no_more"),
    Claim("SGS passes the baseline", "solved", solved, "sgs", BASELINE),
    Claim("SGS passes parallel sampling", "solved", solved, "sgs", SAMPLING),
    Claim("the baseline passes parallel sampling", "solved", solved, BASELINE, SAMPLING),
    Claim("(ours) its attempts at targets are right more often", "share at the end", over(RIGHT, LAST), BASELINE,
          SAMPLING),
    Claim("SGS passes STP", "solved", solved, "sgs", "stp"),
)  # fmt: skip
"""Sections 4.3 to 4.5, figures 1, 2, 4, 6, 7 and 12; "(ours)" is no claim of the paper."""


def fewest_rounds(runs: Sequence[Run]) -> int:
    return min(len(run.series("targets/solve_rate")) for run in runs)


def solved_after(runs: Sequence[Run], rounds: int) -> list[float]:
    """What each run had solved after so many rounds."""
    return [run.series("targets/solve_rate")[rounds - 1][1] for run in runs]


def equal_attempts(sgs: Sequence[Run], base: Sequence[Run]) -> str:
    """A row of the same table: SGS against its baseline after equally many rounds. A round attempts as many targets in
    both, and in SGS synthetic problems besides, so that at equal generations it has had fewer attempts at targets."""
    rounds = fewest_rounds([*sgs, *base])
    says, of = "(ours) SGS passes the baseline at equal attempts at targets", f"solved in {rounds} rounds"
    if min(len(sgs), len(base)) < 2:
        return f"| {says} | {of} | – | {OF_ONE} |"
    return row(says, of, *(t_interval(solved_after(arm, rounds)) for arm in (sgs, base)), CLAIMS[0].verdict)


def beyond_asymptote(runs: Sequence[Run], baseline: ScalingArm) -> str:
    """A row of the same table: what SGS has solved against what the baseline's curve would come to with any number of
    generations (figure 1). A rate below that is no refutation: the budget is finite, the asymptote is not."""
    says, of = "SGS passes the baseline's asymptote", "solved, asymptote"
    if baseline.interval is None or len(runs) < 2:
        return f"| {says} | {of} | – | open: it takes two seeds and a fit with an interval |"
    final = t_interval([solved(run) for run in runs])
    return row(says, of, final, baseline.interval,
               verdict=lambda low, high: "reproduced" if low > 0 else "open: not within the budget")  # fmt: skip


def higher_asymptote(of: str, first: ScalingArm, second: ScalingArm) -> str:
    """A row of the same table: the difference of two asymptotes (figures 1 and 6)."""
    says = f"SGS has a higher asymptote than {of}"
    if first.interval is None or second.interval is None:
        return f"| {says} | asymptotes | – | open: it takes two fits with intervals |"
    return row(says, "asymptotes", first.interval, second.interval, CLAIMS[0].verdict)


def share_of(keys: set[str], first: dict[str, int | None]) -> float:
    """The share of `keys` that a run solved; NaN of none."""
    return mean([first.get(key) is not None for key in keys])


def held_out(own: Sequence[dict[str, int | None]], base: Sequence[dict[str, int | None]]) -> list[float]:
    """What run i of an arm solved of the targets that all runs of the baseline but its run i left unsolved. Of those
    that all of them left another run of the baseline would solve some too, and these are 0 by their choice."""
    shares = []
    for i, first in enumerate(own[: len(base)] if len(base) > 1 else []):
        others = [one for j, one in enumerate(base) if j != i]
        shares.append(share_of({key for key in first if all(one.get(key) is None for one in others)}, first))
    return shares


def beyond_baseline(sgs: Sequence[float], base: Sequence[float]) -> str:
    """A row of the same table: what SGS solves of what the baseline leaves, against another run of the baseline
    (figure 13 has no such control). Both shares of a pair are of the same targets. sgs, base: `held_out`."""
    says, of = "SGS solves what the baseline leaves", "share, against another run of the baseline"
    pairs = [pair for pair in zip(sgs, base, strict=False) if np.isfinite(pair).all()]
    if len(pairs) < 2:
        return f"| {says} | {of} | – | open: it takes two seeds at least that leave something |"
    gap = t_interval([a - b for a, b in pairs])
    a, b = (mean(side) for side in zip(*pairs, strict=True))
    change = f"{gap.value:+.3f} [{gap.low:+.3f}, {gap.high:+.3f}]"
    return f"| {says} | {of}: {a:.3f}, {b:.3f} | {change} | {CLAIMS[0].verdict(gap.low, gap.high)} |"


def after_pass(run: Run, curve: ScalingCurve) -> ScalingCurve:
    """The curve from the round on in which the run had attempted every target once. Before it the rate grows with
    every batch of targets, whatever is learned, so its first rate would be no R0."""
    generations, _ = solved_by(run)
    cut = float(generations[after_first_pass(run)]) if len(generations) else 0.0
    if cut >= curve.compute[-1]:
        raise DataError(
            f"'{run.name}' ended after {curve.compute[-1]:,.0f} generations, before a round that followed the first "
            "attempt at every target; raise --generations, or lower --targets."
        )
    later = curve.recentred(cut)
    return replace(later, compute=curve.compute[len(curve.compute) - len(later.compute) :])


def study(root: Path, arms: Sequence[str], seeds: dict[str, list[int]], generations: int) -> str:
    """Markdown: what each arm solved, its asymptote in both forms, entropy, what it solved where the baseline never
    did, and the claims. Writes study.json beside it."""
    folders = {arm: [run_folder(root, arm, s) for s in seeds[arm]] for arm in arms}
    runs = {arm: [load_run(folder) for folder in own] for arm, own in folders.items()}
    firsts = {arm: [first_solved(run) for run in own] for arm, own in runs.items()}
    base = firsts.get(BASELINE, [])
    hard = {key for key in (base[0] if base else {}) if all(one.get(key) is None for one in base)}
    lines = [
        "| arm | seeds | solved | asymptote [95%] | re-centred | of D_hard | held out | entropy of answers to "
        "targets, first and last rounds | trainable a round |",
        "|---" * 9 + "|",
    ]
    out: dict[str, Any] = {"generations": generations, "D_hard": sorted(hard), "arms": {}}
    fits: dict[str, ScalingArm] = {}
    shares: dict[str, list[float]] = {}  # held out
    for arm in arms:
        curves = [load_curve(str(folder), "round/generations", None)[0] for folder in folders[arm]]
        begun = [after_pass(run, curve) for run, curve in zip(runs[arm], curves, strict=True)]
        fit, fits[arm] = (fit_arm(arm, begun, recenter=again) for again in (False, True))
        rates = [float(curve.rate[-1]) for curve in curves]
        never = mean([share_of(hard, one) for one in firsts[arm]])
        shares[arm] = held_out(firsts[arm], base)
        entropy = [mean([v for run in runs[arm] if np.isfinite(v := over(logged(ENTROPY), part)(run))])
                   for part in (FIRST, LAST)]  # fmt: skip
        made = [value for run in runs[arm] if np.isfinite(value := over(logged("targets/trainable"))(run))]
        cells = [arm, str(len(curves)), number(mean(rates)), shown(fit), shown(fits[arm])]
        cells += [
            number(never),
            number(mean([v for v in shares[arm] if np.isfinite(v)])),
            f"{entropy[0]:.3f}, {entropy[1]:.3f}",
        ]
        lines.append("| " + " | ".join([*cells, f"{mean(made):.1f}" if made else "–"]) + " |")
        out["arms"][arm] = {
            "solve_rate": mean(rates), "of_seeds": rates, "fit": fit.to_dict(), "recentred": fits[arm].to_dict(),
            "entropy": entropy, "of_D_hard": never if hard else None,
            "held_out": [share if np.isfinite(share) else None for share in shares[arm]],
            "fitted_from": [float(c.compute[0]) for c in begun],
        }  # fmt: skip
    starts = [start for arm in out["arms"].values() for start in arm["fitted_from"]]
    lines += [
        "",
        f"Targets solved at least once after {generations:,} generations; D_hard: the {len(hard)} that {BASELINE} "
        "never solved; held out: what run i solved of those that its other runs left. Both fits begin where a run had "
        f"attempted every target once, after {min(starts):,.0f} to {max(starts):,.0f} generations.",
        "",
    ]
    told = [claim.judged(runs) for claim in CLAIMS if {claim.first, claim.second} <= set(arms)]
    if {"sgs", BASELINE} <= set(arms):
        told += [equal_attempts(runs["sgs"], runs[BASELINE]), beyond_asymptote(runs["sgs"], fits[BASELINE])]
        told += [beyond_baseline(shares["sgs"], shares[BASELINE])]
    names = {BASELINE: "the baseline", "no_guide": "no guide"}
    told += [
        higher_asymptote(said, fits["sgs"], fits[arm]) for arm, said in names.items() if {"sgs", arm} <= set(arms)
    ]
    if told:
        lines += ["| claim | of | difference [95%] | here |", "|---" * 4 + "|", *told]
    rounds = fewest_rounds([run for own in runs.values() for run in own])
    out["after_equal_rounds"] = {"rounds": rounds, **{arm: solved_after(own, rounds) for arm, own in runs.items()}}
    out["claims"] = told
    (root / "study.json").write_text(json.dumps(out, indent=1, default=float) + "\n")
    return "\n".join(lines) + "\n"


BY_ROUND = {
    "solved": "targets/solve_rate", "r_guide": "round/reward_r_guide", "r_solve": "round/reward_r_solve",
    "steps": "prover/steps", "trained": "prover/trained_samples", "entropy": ENTROPY,
    "right": "round/anchor_solve_rate_mean", "trainable": "targets/trainable", "asked": "targets/asked",
}  # fmt: skip


def swept_arms(folders: Mapping[str, Sequence[Path]]) -> dict[str, Any]:
    """Of the runs of each arm and rate (`ARM RATE`): what was solved at the end and after the fewest rounds that a run
    had (as many attempts at targets); of each arm's best rate also the metrics of `BY_ROUND`, a list a seed, None in
    rounds without a value."""
    runs = {arm: [load_run(folder) for folder in own] for arm, own in folders.items()}
    rounds = fewest_rounds([run for own in runs.values() for run in own])
    arms: dict[str, dict[str, Any]] = {}
    for arm, own in runs.items():
        arms[arm] = {"of_seeds": [solved(run) for run in own], "at_equal_attempts": solved_after(own, rounds)}
    ordered = sorted(runs, key=lambda arm: mean(arms[arm]["of_seeds"]))
    for arm in {name.split()[0]: name for name in ordered}.values():
        series = {name: [[_rounded(row.get(metric)) for row in run.rounds] for run in runs[arm]]
                  for name, metric in BY_ROUND.items()}  # fmt: skip
        arms[arm] |= {name: values for name, values in series.items() if any(map(any, values))}
    return {"rounds_of_equal_attempts": rounds, "arms": arms}


def _rounded(value: float | None) -> float | None:
    return None if value is None or not np.isfinite(value) else round(value, 4)


def number(value: float) -> str:
    return f"{value:.3f}" if np.isfinite(value) else "–"


def shown(arm: ScalingArm) -> str:
    """The asymptote with its interval, or that there is none."""
    if arm.fit.asymptote is None:
        return "no fit"
    interval = "" if arm.interval is None else f" [{arm.interval.low:.3f}, {arm.interval.high:.3f}]"
    return f"{arm.fit.asymptote:.3f}{interval}"
