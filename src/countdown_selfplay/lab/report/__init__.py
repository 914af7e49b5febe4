"""report.html: one page about one or several runs that opens anywhere; of one run also its charts as plots/*.svg."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...errors import DataError
from ...evaluation.load import Run, load_run, load_runs
from .page import page, save
from .panels import drawn
from .pictures import svg

__all__ = ["Run", "load_run", "load_runs", "report", "write_report"]


def report(*folders: Path | str | Sequence[Path | str], output: Path | str | None = None) -> Path:
    """Write the page about one or several run folders; return its path, by default report.html in the folder of a
    single run and in the current one for several."""
    run_dirs = [one for given in folders for one in ([given] if isinstance(given, str | Path) else given)]
    return write_report(run_dirs, output)


def write_report(
    run_dirs: Sequence[Path | str],
    out: Path | str | None = None,
    yardsticks: Mapping[str, float] | None = None,
    reload: int | None = None,
) -> Path:
    """Write the page about `run_dirs` to `out` (None: as `report` does), and of a single run the plots into its
    folder, named after their titles; return the path of the page. `reload`: seconds between two loads by a browser.
    All input is read before anything is written. yardsticks: name -> rate, lines in the chart of the targets'
    cumulative solve rate. Raises DataError, which names the missing or damaged file and line, or the place that
    cannot be written."""
    runs = load_runs([Path(folder) for folder in run_dirs])
    sections = {
        section: {title: svg(figure) for title, figure in figures.items()}
        for section, figures in drawn(runs, yardsticks).items()
    }
    if out is None:
        out = runs[0].path / "report.html" if len(runs) == 1 else "report.html"
    save(page(runs, sections, reload), Path(out))
    if len(runs) == 1:  # to draw those of each run of a comparison takes most of the time
        folder = runs[0].path / "plots"
        stale = {*folder.glob("*.svg")}
        for title, text in (chart for charts in sections.values() for chart in charts.items()):
            plot = folder / f"{re.sub(r'[^a-z0-9]+', '-', title.lower()).strip('-')}.svg"
            save(text, plot)
            stale.discard(plot)
        try:
            for plot in stale:
                plot.unlink()
        except OSError as error:
            raise DataError(f"{error.filename} cannot be removed ({error.strerror}).") from error
    return Path(out)
