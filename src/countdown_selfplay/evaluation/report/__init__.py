"""report.html: one page about one or several runs that opens anywhere, and each run's charts as plots/*.svg."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...errors import DataError
from .charts import SECTIONS, draw, file_name, solve_rate_map
from .load import Run, load_run, load_runs
from .page import page
from .svg import standalone

__all__ = ["Run", "load_run", "load_runs", "write_plots", "write_report"]


def write_report(run_dirs: Sequence[Path | str], out: Path | str) -> Path:
    """Write the page about `run_dirs` to `out`, and every run's plots into its folder; returns the path of the page.

    Everything is read before anything is written. DataError names the file and line that is missing or damaged, or the
    place that cannot be written.
    """
    runs = load_runs([Path(folder) for folder in run_dirs])
    text = page(runs)
    out = Path(out)
    if out.is_dir():
        raise DataError(f"'{out}' is a folder; pass the name of a file such as {out / 'report.html'}.")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text, encoding="utf-8")
        for run in runs:
            write_plots(run)
    except OSError as error:
        raise DataError(f"{error.filename or out} cannot be written ({error.strerror}).") from error
    return out


def write_plots(run: Run) -> list[Path]:
    """The run's charts as SVG files in its folder `plots`; the ones of an earlier report are replaced."""
    folder = run.path / "plots"
    charts = {chart.title: draw(chart, run) for charts in SECTIONS.values() for chart in charts}
    charts["Solve rate histogram"] = solve_rate_map(run)
    folder.mkdir(exist_ok=True)
    for stale in folder.glob("*.svg"):
        stale.unlink()
    written = []
    for title, svg in charts.items():
        if svg is not None:
            path = folder / f"{file_name(title)}.svg"
            path.write_text(standalone(svg), encoding="utf-8")
            written.append(path)
    return written
