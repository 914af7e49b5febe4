"""The heat map of a ladder run for the README, from a small file of figures.

    countdown-selfplay joint --recipe tiny/ladder --eval_strategy steps --eval_steps 5 --output_dir runs/ladder
    python -m docs.pictures.ladder_map runs/ladder

The second command writes docs/benchmarks/ladder_default_run.json; `python -m docs.pictures` draws it.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from countdown_selfplay.errors import DataError
from countdown_selfplay.lab.report import load_run
from countdown_selfplay.lab.report.panels import RungMap, rung_data, rung_map
from countdown_selfplay.lab.report.pictures import svg

FIGURES = Path(__file__).resolve().parents[1] / "benchmarks" / "ladder_default_run.json"
LEAST = 0.015  # shares below it are not drawn
TITLE = "Held-out problems solved"


def ladder() -> str:
    """The README: how well each rung is solved, and what was proposed of those that are measured. The last column, at
    the end of training, is as wide as half of the distance between two evaluations."""
    found = json.loads(FIGURES.read_text(encoding="utf-8"))
    rates_CR, shares_MR = (np.array(found[name], dtype=float) for name in ("rates", "shares"))
    measured = np.isfinite(rates_CR).any(0)
    rungs = np.array(found["rungs"])[measured].tolist()
    shares_MR = shares_MR.reshape(-1, 2, len(measured)).mean(1)[:, measured]  # of two marks of the report in one
    marks = np.reshape(found["marks"], (-1, 2)).mean(1).tolist()
    shares_MR[shares_MR < LEAST] = 0
    data = RungMap(rungs, found["starts"], found["end"], rates_CR[:, measured], marks, shares_MR)
    return svg(rung_map(TITLE, data))


def figures(folder: Path) -> dict[str, object]:
    """What the picture shows of a run folder: see RungMap; null for what was not measured."""
    run = load_run(folder)
    data = rung_data(run)
    if data is None or not data.measured:
        raise DataError(f"'{folder}' has no evaluations by rung; run with --eval_strategy steps.")
    rates = [[None if np.isnan(rate) else round(float(rate), 4) for rate in row] for row in data.rates_CR]
    shares = [[round(float(share), 4) for share in row] for row in data.shares_MR]
    kept = ("torch", "python", "device")
    return {
        "environment": {name: run.environment[name] for name in kept if name in run.environment},
        "started": run.started,
        "seed": run.config.get("seed"),
        "rungs": data.rungs,
        "starts": data.starts,
        "end": data.end,
        "rates": rates,
        "marks": data.marks,
        "shares": shares,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    lines = json.dumps(figures(parser.parse_args().run)).replace("], [", "],\n  [").replace(', "', ',\n "')
    FIGURES.write_text(lines + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
