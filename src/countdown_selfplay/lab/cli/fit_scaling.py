"""`countdown-selfplay fit-scaling`: SGS's scaling curve of one or several arms. No torch."""

import argparse
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...cli.plain import add_options, parser_of, positive, write_output
from ...errors import ConfigError, DataError
from ...evaluation.terminal import aligned
from ..compare import check_names, markdown, split_arm
from ..scaling import ScalingArm, fit_arm, load_curve

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RECENTRED = " (re-centred)"
EPILOG = """\
An arm is a run folder (metrics.jsonl), a .csv or a .jsonl file, or name=PATH,PATH with one per training seed. Fitted
is R(C) = R0 + (A - R0) / (1 + (C_mid / C)^B) on log compute, with bounds. A fit that fails has a reason and no number.
--recenter adds the form of SGS 2026, appendix A, in which C and R0 begin at the first point that --drop_below leaves.
One cumulative curve has no interval: give several runs, or a run folder with first_solved.json.

examples: countdown-selfplay fit-scaling runs/sgs --drop_below 100000
          countdown-selfplay fit-scaling sgs='runs/sgs-*' rl='runs/rl-*' --rate eval_pass@8 --output scaling
          countdown-selfplay fit-scaling points.csv --compute tokens --rate solved
exit codes: 0 all fits converged, 1 a fit failed, 2 wrong input"""


def main(argv: list[str]) -> int:
    options = parse(argv)
    fits, compute, rate = fitted(options)
    lines = [f"{rate} against {compute}; points below {options.drop_below:g} are left out", *remarks(fits)]
    print(aligned(rows_of(fits)))
    print("\n".join(lines))
    if options.output is not None:
        result = {"compute": compute, "rate": rate, "drop_below": options.drop_below}
        result["fits"] = [one.to_dict() for one in fits]
        texts = {"scaling.md": markdown(rows_of(fits), lines), "scaling.json": json.dumps(result, indent=1) + "\n"}
        if any((curve.compute > 0).any() for one in fits for curve in one.curves):
            from ..report.pictures import svg

            texts["scaling.svg"] = svg(chart(fits, compute, rate))
        write_output(options.output, {options.output / name: text for name, text in texts.items()})
    return 0 if all(one.fit.converged for one in fits) else 1


def fitted(options: argparse.Namespace) -> tuple[list[ScalingArm], str, str]:
    """Return the fit of each arm, and the columns of compute and rate."""
    if math.isnan(options.drop_below):
        raise ConfigError("`--drop_below` (nan) must be a number.")
    fits, axes = [], set()
    arms = [(name or Path(paths[0]).name, paths) for name, paths in map(split_arm, options.arms)]
    check_names([name for name, _ in arms])
    for name, paths in arms:
        runs = []
        for path in paths:
            curve, compute, rate = load_curve(path, options.compute, options.rate)
            runs.append(curve)
            axes.add((compute, rate))
        if len(axes) > 1:
            raise DataError(f"The arms have different columns ({sorted(axes)}); name them with --compute and --rate.")
        fits.append(fit_arm(name, runs, options.drop_below, options.resamples, options.seed))
        if options.recenter:
            again = fit_arm(f"{name}{RECENTRED}", runs, options.drop_below, options.resamples, options.seed, True)
            fits.append(again)
    return fits, *next(iter(axes))


def parse(argv: list[str]) -> argparse.Namespace:
    parser = parser_of("fit-scaling", EPILOG)
    parser.add_argument("arms", nargs="+", metavar="ARM", help="see below")
    parser.add_argument("--compute", metavar="COLUMN", help="default: compute, or the texts sampled so far")
    parser.add_argument("--rate", metavar="COLUMN", help="default: rate, a cumulative solve rate, or eval_pass@1")
    parser.add_argument("--drop_below", type=float, default=0.0, metavar="C", help="leave out less compute (0)")
    again = "also fit with compute and rate counted from the first point left in"
    parser.add_argument("--recenter", action="store_true", help=again)
    of = "of the bootstrap of one run's points (500)"
    parser.add_argument("--resamples", type=positive, default=500, metavar="N", help=of)
    add_options(parser, seed="of the bootstrap (0)")
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="write scaling.md, .json and .svg")
    return parser.parse_args(argv)


def rows_of(fits: Sequence[ScalingArm]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("arm", "points", "asymptote", "95% interval", "over", "C_mid", "B", "R0")]
    for one in fits:
        points, fit = str(sum(len(curve.compute) for curve in one.curves)), one.fit
        if fit.asymptote is None or fit.c_mid is None or fit.slope is None:
            rows.append((one.name, points, "failed", *("–",) * (len(rows[0]) - 3)))
            continue
        interval = "–" if one.interval is None else f"[{one.interval.low:.4f}, {one.interval.high:.4f}]"
        over = "–" if one.interval is None else one.over
        numbers = (f"{fit.c_mid:.4g}", f"{fit.slope:.3f}", f"{fit.initial:.4f}")
        rows.append((one.name, points, f"{fit.asymptote:.4f}", interval, over, *numbers))
    return rows


def remarks(fits: Sequence[ScalingArm]) -> list[str]:
    lines = [f"{one.name}: the fit failed. {one.fit.reason}" for one in fits if not one.fit.converged]
    for one in fits:
        if one.fit.converged and one.interval is None and one.failed == 0:
            lines.append(f"{one.name}: {one.over}.")
        if one.fit.converged and one.failed > 0:
            none = "; there is no interval" if one.interval is None else ""
            lines.append(f"{one.name}: {one.failed:.0%} of the resampled fits failed{none}.")
    return lines


def chart(fits: Sequence[ScalingArm], compute: str, rate: str) -> "Figure":
    from ..report.pictures import Curve, line_chart

    fits = [one for one in fits if not one.name.endswith(RECENTRED)]  # its compute begins elsewhere
    positive = [c for one in fits for curve in one.curves for c in curve.compute.tolist() if c > 0]
    low, high = min(positive), max(positive)
    x, curves = np.geomspace(low, high, 120), []
    for one in fits:
        points = [point for curve in one.curves for point in zip(curve.compute, curve.rate, strict=True)]
        shown = [(float(c), float(r)) for c, r in points if c > 0]
        shown = shown[:: max(1, len(shown) // 200)]
        y = one.fit(x) if one.fit.converged else np.full_like(x, np.nan)
        curves.append(Curve(one.name, x, y, dots=([c for c, _ in shown], [r for _, r in shown])))
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [f * 10.0**d for d in decades for f in ((1,) if len(decades) > 3 else (1, 2, 5))]
    ticks = [tick for tick in ticks if low <= tick <= high]
    return line_chart("Fitted scaling curves", curves, y_range=(0,), x_label=f"{compute} ({rate})", x_ticks=ticks)
