"""The arms of a report against the first one, and what each arm gained over its seeds."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import DataError
from ...statistics.bootstrap import Interval
from ..compare.arms import Arm, aligned_arms, check_settings, load_result
from ..compare.comparison import compare_arms
from .arms import RunArm, band_text, over_seeds
from .tables import Table

_RESAMPLES = 10_000


def comparison(arms: Sequence[RunArm]) -> Table | None:
    """pass@k after training of every arm minus the first; None with one arm, or if evaluations hold no problem keys;
    one sentence if the evaluations cannot be compared."""
    if len(arms) < 2 or not all(run.evaluation for arm in arms for run in arm.runs):
        return None
    try:
        loaded = [Arm(arm.name, [load_result(str(run.path)) for run in arm.runs]) for arm in arms]
    except DataError:  # written before the keys were: before and after are shown, arms are not compared
        return None
    differing = check_settings(loaded)
    if differing is not None:
        return Table([], [], f"{differing}: these arms are not compared.")
    try:
        found = compare_arms(aligned_arms(loaded), resamples=_RESAMPLES)
    except DataError as error:
        return Table([], [], str(error))
    rows = []
    for d in found.differences:
        first, own = found.values[found.arms[0], d.k], found.values[d.arm, d.k]
        wide = f"[{d.bonferroni.low:+.3f}, {d.bonferroni.high:+.3f}]"
        rows.append([f"{d.arm} pass@{d.k}", first, own, d.percentile, wide, f"{d.p_holm:.3f}"])
    head = ["", found.arms[0], "arm's", "difference", f"Bonferroni ({len(rows)})", "p (Holm)"]
    return Table(head, rows, " ".join(found.notes()))


def gains(arms: Sequence[RunArm]) -> Table | None:
    """What training changed in pass@k, mean over the seeds of each arm; None if no arm has several evaluated seeds."""
    several = [arm for arm in arms if len(arm.runs) > 1 and all(run.evaluation for run in arm.runs)]
    names = dict.fromkeys(name for arm in several for run in arm.runs for name in run.evaluation["difference"])
    rows = []
    for name in names:
        cells: list[Interval | None] = []
        for arm in several:
            known = [run.evaluation["difference"][name] for run in arm.runs if name in run.evaluation["difference"]]
            found = over_seeds([one.difference for one in known]) if len(known) == len(arm.runs) else None
            cells.append(None if found is None else Interval(found.value, found.low, found.high))
        rows.append([name, *cells])
    note = band_text(several).replace("Bold: mean over the seeds of an arm; shaded", "In brackets")
    return Table(["after minus before", *(arm.name for arm in several)], rows, note) if rows else None
