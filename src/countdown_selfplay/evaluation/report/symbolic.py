"""What a report shows of a symbolic proposer: figures 3 and 4 and the filtering table of Task Difficulty and
Diversity, and calibration."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .charts import SHARE, Chart, compare, draw
from .load import Run
from .pictures import Curve, Figure, line_chart
from .tables import Table, definition

SECTION = "Symbolic proposer"
ARMS = ("easy", "medium", "hard", "add_sub", "multiply", "divide", "multi_step")
CHARTS = (
    Chart(
        "Candidates: valid, and eligible of these",
        (("proposer/valid_rate", "valid"), ("proposer/eligible_rate", "eligible")),
        SHARE,
    ),
    Chart("Diversity of the selected", (("proposer/diversity", "distance to the archive"),), (0, 0.1)),
    Chart(
        "Estimated solve rate of the selected",
        (("proposer/selected_p", "mean"), ("proposer/least_p", "least")),
        SHARE,
    ),
    Chart(
        "Brier score on fresh labels",
        (("proposer/brier_before", "before the refresh"), ("proposer/brier_after", "after it, unseen labels")),
        (0, 0.25),
    ),
    Chart("Estimated against played", (("proposer/estimate_error", "mean error"),), (0, 0.2)),
    Chart(
        "Who makes the candidates",
        tuple((f"proposer/arm_{arm}", arm) for arm in ARMS),
        SHARE,
    ),
)
FILTERS = (  # metric, in words
    ("proposer/raw", "candidates of a refresh"),
    ("proposer/valid_rate", "valid, of the candidates"),
    *((f"proposer/rejected_{why}", f"refused: {why.replace('_', ' ')}") for why in (
        "out_of_range", "unsolvable", "trivial", "duplicate", "archived", "held_out",
    )),
    ("proposer/eligible_rate", "eligible, of the valid"),
    *((f"proposer/refused_{why}", f"refused: {why.replace('_', ' ')}") for why in (
        "too_hard", "too_easy", "low_diversity",
    )),
    ("proposer/selected", "selected of a refresh"),
)  # fmt: skip


EXPLAINED = (*CHARTS, Chart("Reliability of the predictor", (("proposer/rate_at_0", "measured"),)), Chart("", FILTERS))
"""What the section shows."""


def drawn_symbolic(runs: Sequence[Run]) -> dict[str, dict[str, Figure]]:
    """The section's charts; {} if no run had a symbolic proposer."""
    found: dict[str, Figure] = {}
    for chart in CHARTS:
        found |= draw(chart, runs[0]) if len(runs) == 1 else compare(chart, runs)
    return {SECTION: {**found, **reliability(runs)}} if filtering(runs) else {}


def reliability(runs: Sequence[Run]) -> dict[str, Figure]:
    """Measured solve rate against the estimate, at the last refresh of each run's predictor."""
    curves = []
    for run in runs:
        last = [run.series(f"proposer/rate_at_{tenth}")[-1:] for tenth in range(10)]
        step = max((at for points in last for at, _ in points), default=None)
        rate = [points[0][1] if points and points[0][0] == step else np.nan for points in last]
        curves.append(Curve(run.name if len(runs) > 1 else "measured", np.arange(10) / 10 + 0.05, np.array(rate)))
    if all(np.isnan(one.y).all() for one in curves):
        return {}
    ends = np.array([0.0, 1.0])
    curves.append(Curve("calibrated", ends, ends))
    return {"Reliability of the predictor": line_chart(
        "Reliability of the predictor", curves, y_range=SHARE, x_label="estimated solve rate"
    )}  # fmt: skip


def filtering(runs: Sequence[Run]) -> Table | None:
    """The filter cascade, mean over the refreshes, runs side by side; None without a symbolic proposer."""
    if not any(run.series("proposer/raw") for run in runs):
        return None
    rows = []
    for metric, words in FILTERS:
        refreshes = [len(run.series("proposer/raw")) for run in runs]
        totals = [sum(value for _, value in run.series(metric)) for run in runs]  # a share that is not logged is 0
        counted = metric in ("proposer/raw", "proposer/selected")
        if any(totals):
            rows.append([{"text": words, "hint": definition(metric, runs)}, *(
                None if not n else f"{total / n:.4g}" if counted else f"{total / n:.1%}"
                for total, n in zip(totals, refreshes, strict=True)
            )])  # fmt: skip
    note = (
        "Means over the refreshes. Task Difficulty and Diversity: 65 to 70% valid; of these 100% eligible with UCB, "
        "44.7% behind the hard band with 7 features (too hard 7.1%, too easy 20.4%, low diversity 27.8%) and 68.2% "
        "with 13 (3.7%, 26.4%, 1.7%)."
    )
    return Table(["", *(run.name for run in runs)], rows, note)
