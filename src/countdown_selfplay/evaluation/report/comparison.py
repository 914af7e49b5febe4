"""The arms of a report against the first one, and what each arm gained over its seeds, as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from ...errors import DataError
from ..compare.arms import Arm, aligned_arms, check_settings, load_result
from ..compare.comparison import compare_arms
from .arms import RunArm, band_text, over_seeds
from .tables import estimate, signed, table

_RESAMPLES = 10_000


def comparison(arms: Sequence[RunArm]) -> str:
    """pass@k after training of every arm minus the first; "" with one arm, or if evaluations hold no problem keys; one
    sentence if the evaluations cannot be compared."""
    if len(arms) < 2 or not all(run.evaluation for arm in arms for run in arm.runs):
        return ""
    try:
        loaded = [Arm(arm.name, [load_result(str(run.path)) for run in arm.runs]) for arm in arms]
    except DataError:  # written before the keys were: before and after are shown, arms are not compared
        return ""
    differing = check_settings(loaded)
    if differing is not None:
        return f'<p class="note">{escape(differing)}: these arms are not compared.</p>'
    try:
        found = compare_arms(aligned_arms(loaded), resamples=_RESAMPLES)
    except DataError as error:
        return f'<p class="note">{escape(str(error))}</p>'
    rows = []
    for d in found.differences:
        first, own, single = found.values[found.arms[0], d.k], found.values[d.arm, d.k], d.percentile
        rows.append(
            [
                f"{escape(d.arm)} pass@{d.k}",
                estimate((first.value, first.low, first.high)),
                estimate((own.value, own.low, own.high)),
                signed((single.difference, single.low, single.high)),
                f"[{d.bonferroni.low:+.3f}, {d.bonferroni.high:+.3f}]",
                f"{d.p_holm:.3f}",
            ]
        )
    head = ["", found.arms[0], "arm's", "difference", f"Bonferroni ({len(rows)})", "p (Holm)"]
    return table(head, rows) + f'<p class="note">{escape(" ".join(found.notes()))}</p>'


def gains(arms: Sequence[RunArm]) -> str:
    """What training changed in pass@k, mean over the seeds of each arm; "" if no arm has several evaluated seeds."""
    several = [arm for arm in arms if len(arm.runs) > 1 and all(run.evaluation for run in arm.runs)]
    names = dict.fromkeys(name for arm in several for run in arm.runs for name in run.evaluation["difference"])
    rows = []
    for name in names:
        cells = []
        for arm in several:
            values = [run.evaluation["difference"].get(name) for run in arm.runs]
            known = [value[0] for value in values if value is not None]
            found = over_seeds(known) if len(known) == len(values) else None
            cells.append("–" if found is None else signed((found.value, found.low, found.high)))
        rows.append([escape(name), *cells])
    if not rows:
        return ""
    note = band_text(several).replace("Bold: mean over the seeds of an arm; shaded", "In brackets")
    return table(["after minus before", *(arm.name for arm in several)], rows) + f'<p class="note">{escape(note)}</p>'
