"""What a report shows of the Critic-Discernment Game: success by role, and win rates between iterations (figure 4 of
Wang et al.)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..critics.win_rates import matrix_of
from .charts import SHARE, Chart, compare, draw
from .load import Run
from .pictures import Figure, matrix_map
from .tables import Table, definition

SECTION = "Critic game"
CHARTS = (
    Chart(
        "Revisions of wrong answers",
        (("prover/corrected_rate", "corrected"),),
        SHARE,
    ),
    Chart(
        "Revisions of right answers",
        tuple((f"prover/{how}_rate", how) for how in ("resisted", "kept", "misled")),
        SHARE,
    ),
    Chart(
        "Who wins",
        (("prover/success_rate", "prover"), ("helpful/win_rate", "helpful"), ("misleading/win_rate", "misleading")),
        SHARE,
    ),
    Chart(
        "Critiques that can be read",
        (("helpful/read_rate", "helpful"), ("misleading/read_rate", "misleading")),
        SHARE,
    ),
)
WORDS = {
    "prover/correct_rate": "prover: first answers that are right",
    "prover/success_rate": "prover: the right answer stands",
    "prover/corrected_rate": "prover: wrong answers corrected",
    "prover/resisted_rate": "prover: misleading critiques rejected",
    "prover/kept_rate": "prover: right answers given anew",
    "helpful/win_rate": "helpful critic wins",
    "misleading/win_rate": "misleading critic wins",
    "helpful/read_rate": "helpful critiques that can be read",
    "misleading/read_rate": "misleading critiques that can be read",
}
MATRICES = {
    "corrected": "Wrong answers corrected",
    "resisted": "Misleading critiques rejected",
    "stands": "Right answers that stand",
}


def drawn_critic(runs: Sequence[Run]) -> dict[str, dict[str, Figure]]:
    """The section's charts, and the win-rate matrices of runs that have them; {} if no run played the game."""
    found: dict[str, Figure] = {}
    if any(run.series(metric) for run in runs for chart in CHARTS for metric, _ in chart.metrics):
        for chart in CHARTS:
            found |= draw(chart, runs[0]) if len(runs) == 1 else compare(chart, runs)
    for run in runs:
        found |= matrices(run, f", {run.name}" if len(runs) > 1 else "")
    return {SECTION: found} if found else {}


def matrices(run: Run, whose: str = "") -> dict[str, Figure]:
    """Figure 4: provers of all iterations against critics of all iterations; {} without win_rates.json."""
    found: dict[str, Figure] = {}
    for rate, words in MATRICES.items() if run.win_rates else ():
        values = np.array(matrix_of(run.win_rates, rate), dtype=float)  # None becomes NaN
        if np.isfinite(values).any():
            title = f"{words}{whose}"
            names = run.win_rates["provers"], run.win_rates["critics"]
            found[title] = matrix_map(title, *names, values, "critics of iteration", "prover of iteration")
    return found


def by_iteration(runs: Sequence[Run]) -> Table | None:
    """Game success by role and iteration with intervals; None without an iterated run."""
    iterated = [run for run in runs if run.iterations]
    if not iterated:
        return None
    rows = []
    for metric, words in WORDS.items():
        cells = [one.get(metric) for run in iterated for one in run.iterations]
        if any(cell is not None for cell in cells):
            rows.append([{"text": words, "hint": definition(metric, runs)}, *cells])
    head = [f"iteration {one['iteration']}" for run in iterated for one in run.iterations]
    note = (
        "Each iteration is played by the models that the one before left. 95% intervals over problems; texts that the "
        "token budget cut are not counted."
    )
    titles = [run.name for run in iterated] if len(iterated) > 1 else []
    same = len({len(run.iterations) for run in iterated}) == 1
    return Table(["", *head], rows, note, groups=titles if same else [])
