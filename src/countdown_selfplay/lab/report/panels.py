"""Tables and figures of single systems, beside the charts that their metrics declare: a pool's early and late rounds
(Multimodal LLM Self-Play, table 2), the symbolic proposers' filters and reliability (Task Difficulty and Diversity),
the critic game by iteration and its win rates (Wang et al., figure 4)."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...contract.metric import SHARE
from ...evaluation.load import Run, read_object
from ...statistics.bootstrap import Estimate
from ..critics.win_rates import checked_matrices, matrix_of
from .arms import arms_of, over_seeds
from .pictures import Curve, Figure, line_chart, matrix_map
from .tables import Table, definition

WINDOW = 5
"""Rounds at either end of a run that table 2 compares; half of them all in a shorter run."""
_TIER = re.compile(r"prover_pass_rate_tier_(\d+)")
RELIABILITY = "Reliability of the predictor"
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
MATRICES = {
    "corrected": "Wrong answers corrected",
    "resisted": "Misleading critiques rejected",
    "stands": "Right answers that stand",
}
_WORDS = {
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


def added(runs: Sequence[Run]) -> dict[str, dict[str, Figure]]:
    """Figures by section; {} for other runs."""
    found: dict[str, Figure] = {}
    for run in runs:
        found |= matrices(run, f", {run.name}" if len(runs) > 1 else "")
    return {"Symbolic proposer": reliability(runs), "Critic game": found}


def tiers_of(runs: Sequence[Run]) -> list[int]:
    """The tiers that the runs log, from 0 on; [] for runs without."""
    return sorted({int(match[1]) for run in runs for match in map(_TIER.fullmatch, run.names) if match})


def windows(runs: Sequence[Run]) -> Table | None:
    """Table 2: means over the first and the last WINDOW rounds, arms side by side, those of several seeds as a mean
    with an interval; None for runs without tiers."""
    tiers = tiers_of(runs)
    width = min((width_of(run) for run in runs), default=0)
    if not tiers or not width:
        return None
    names = {"valid conjecture rate": "valid_conjecture_rate", "mean prover pass rate": "mean_prover_pass_rate"}
    names |= {f"tier {k} pass rate": f"prover_pass_rate_tier_{k}" for k in tiers}
    arms, rows = arms_of(runs), list[list[Any]]()
    for words, metric in names.items():
        found = [zip(*(ends(run, metric, width) for run in arm.runs), strict=True) for arm in arms]
        cells = [_shown(values) for sides in found for values in sides]
        rows.append([{"text": words, "hint": definition(metric, runs)}, *cells])
    note = (
        f"Means over the first and the last {width} rounds (Multimodal LLM Self-Play, table 2: .30 to .56, .16 to "
        f".50, tier 1 .15 to .51). The problems are those of the round: a pass rate may rise because problems became "
        f"easier."
        + (" Several seeds: mean with a 95% t interval, of two least and greatest." if len(arms) < len(runs) else "")
    )
    head = [f"rounds 1 to {width}" if width > 1 else "round 1", f"last {width}"] * len(arms)
    return Table(["", *head], rows, note, groups=[arm.name for arm in arms] if len(arms) > 1 else [])


def width_of(run: Run) -> int:
    """WINDOW, or so many rounds that the first and the last ones do not overlap; 0 for a single round."""
    return min(WINDOW, max(run.steps, default=0) // run.per_round // 2)


def ends(run: Run, metric: str, width: int = WINDOW) -> tuple[float | None, float | None]:
    """The metric's mean over the first and over the last `width` rounds; None where none of them has it."""
    last = max(run.steps, default=0)
    early = [value for step, value in run.series(metric) if step <= width * run.per_round]
    late = [value for step, value in run.series(metric) if step > last - width * run.per_round]
    first, second = (math.fsum(values) / len(values) if values else None for values in (early, late))
    return first, second


def _shown(values: Sequence[float | None]) -> str | Estimate | None:
    """One seed's value in words, that of several as a mean over those that have it."""
    known = [value for value in values if value is not None]
    if len(known) > 1:
        return over_seeds(known)
    return f"{known[0]:.3f}" if known else None


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
    return {RELIABILITY: line_chart(RELIABILITY, curves, y_range=SHARE, x_label="estimated solve rate")}


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


def matrices(run: Run, whose: str = "") -> dict[str, Figure]:
    """Figure 4: provers of all iterations against critics of all iterations; {} without win_rates.json."""
    found: dict[str, Figure] = {}
    raw = read_object(run.path / "win_rates.json", "the win rates of `eval --task win_rates`", checked_matrices)
    for rate, words in MATRICES.items() if raw else ():
        values = np.array(matrix_of(raw, rate), dtype=float)  # None becomes NaN
        if np.isfinite(values).any():
            title = f"{words}{whose}"
            names = raw["provers"], raw["critics"]
            found[title] = matrix_map(title, *names, values, "critics of iteration", "prover of iteration")
    return found


def by_iteration(runs: Sequence[Run]) -> Table | None:
    """Game success by role and iteration with intervals; None without an iterated run."""
    iterated = [run for run in runs if run.iterations]
    if not iterated:
        return None
    rows = []
    for metric, words in _WORDS.items():
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
