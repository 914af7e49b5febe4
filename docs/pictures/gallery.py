"""The charts of docs/gallery.md: every one that a report can hold, drawn by the report from invented numbers.

`python -m docs.pictures` writes them to docs/assets/gallery/. Two are not made here: the heat map of rungs, which the
README has from a real run, and charts of several runs, which are the same with a curve for each run.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from countdown_selfplay.lab.report import load_runs, write_report
from countdown_selfplay.lab.report.pictures import svg
from countdown_selfplay.lab.report.targets import beyond_baseline

from .example_run import write_run


def charts() -> dict[str, str]:
    """Name of the file in docs/assets/gallery/, without its ending -> SVG text."""
    with tempfile.TemporaryDirectory() as place:
        run, baseline = write_run(Path(place) / "example"), write_run(Path(place) / "baseline", baseline=True)
        write_report([run], Path(place) / "report.html")
        found = {path.stem: path.read_text(encoding="utf-8") for path in sorted((run / "plots").glob("*.svg"))}
        beyond = beyond_baseline(load_runs([run, baseline]))
    return {**found, "beyond-the-baseline": svg(*beyond.values())}
