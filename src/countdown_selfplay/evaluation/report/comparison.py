"""The arms of a report against the first one, and what each arm gained over its seeds."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import DataError
from ...statistics.bootstrap import Interval
from ..compare.arms import Arm, aligned_arms, check_settings, load_result
from ..compare.comparison import Comparison, compare_arms
from .arms import RunArm, band_text, over_seeds
from .tables import Table

_RESAMPLES = 10_000
_ALIKE = 1e-9  # a width that only rounding gives


def compared(arms: Sequence[RunArm]) -> tuple[Comparison | str | None, str]:
    """pass@k after training of every arm against the first, on the problems that all were evaluated on, and what is to
    be said of these problems; a sentence where the evaluations cannot be compared, None with one arm, or if
    evaluations hold no problem keys."""
    if len(arms) < 2 or not all(run.evaluation for arm in arms for run in arm.runs):
        return None, ""
    try:
        loaded = [Arm(arm.name, [load_result(str(run.path)) for run in arm.runs]) for arm in arms]
    except DataError:  # written before the keys were: before and after are shown, arms are not compared
        return None, ""
    differing = check_settings(loaded)
    if differing is not None:
        return f"{differing}: these arms are not compared.", ""
    try:
        aligned = aligned_arms(loaded, common=True)
    except DataError as error:
        return str(error), ""
    sizes = [len(result.keys) for arm in loaded for result in arm.results]
    common = len(aligned[0].results[0].keys)
    said = ""
    if any(size != common for size in sizes):
        said = (
            f"The runs were evaluated on different problems ({min(sizes)} to {max(sizes)} of them): compared are the "
            f"{common} that all have in common."
        )
    return compare_arms(aligned, resamples=_RESAMPLES), said


def comparison(found: Comparison | str | None, said: str = "") -> Table | None:
    """The table of what `compared` found."""
    if not isinstance(found, Comparison):
        return None if found is None else Table([], [], found)
    rows = []
    for d in found.differences:
        first, own = found.values[found.arms[0], d.k], found.values[d.arm, d.k]
        wide = f"[{d.bonferroni.low:+.3f}, {d.bonferroni.high:+.3f}]"
        rows.append([f"{d.arm} pass@{d.k}", first, own, d.percentile, wide, f"{d.p_holm:.3f}"])
    head = ["", found.arms[0], "arm's", "difference", f"Bonferroni ({len(rows)})", "p (Holm)"]
    return Table(head, rows, " ".join(filter(None, (said, *found.notes()))))


def gains(arms: Sequence[RunArm]) -> Table | None:
    """What training changed in pass@k, mean over the seeds of each arm; None if no arm has several evaluated seeds."""
    several = [arm for arm in arms if len(arm.runs) > 1 and all(run.evaluation for run in arm.runs)]
    names = dict.fromkeys(name for arm in several for run in arm.runs for name in run.evaluation["difference"])
    rows = []
    for name in names:
        cells: list[Interval | None] = []
        for arm in several:
            known = [run.evaluation["difference"][name] for run in arm.runs if name in run.evaluation["difference"]]
            cells.append(_over_seeds(known) if len(known) == len(arm.runs) else None)
        rows.append([name, *cells])
    note = band_text(several).replace("Bold: mean over the seeds of an arm; shaded", "In brackets")
    return Table(["after minus before", *(arm.name for arm in several)], rows, note) if rows else None


def _over_seeds(known: Sequence[Interval]) -> Interval:
    """The mean of what single seeds gained with its interval; of seeds that agree, whose spread is unknown, the
    intervals over problems put together."""
    found = over_seeds([one.difference for one in known])
    if found.high - found.low > _ALIKE:
        return Interval(found.value, found.low, found.high)
    return Interval(found.value, min(one.low for one in known), max(one.high for one in known))
