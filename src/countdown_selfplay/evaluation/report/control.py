"""What the conjecturer was worth: a run beside the one that `--control` trained without it."""

from __future__ import annotations

from collections.abc import Sequence

from .load import Run
from .tables import Table


def against_control(runs: Sequence[Run]) -> Table | None:
    """pass@k after training without and with a conjecturer, and the paired difference; None without such a run."""
    controlled = [run for run in runs if run.control]
    if not controlled:
        return None
    names = dict.fromkeys(name for run in controlled for name in run.control["difference"])
    rows = [
        [f"prover {name}", *(run.control[side].get(name) for run in controlled for side in SIDES)] for name in names
    ]
    note = (
        "After training; the run without a conjecturer had as many samples of the prover, the same anchors and the "
        "same start. In brackets 95% intervals, paired over the held-out problems for differences."
    )
    head = ["", *["without", "with", "difference"] * len(controlled)]
    return Table(head, rows, note, groups=[run.name for run in controlled] if len(runs) > 1 else [])


SIDES = ("control", "run", "difference")
