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
    if output is None:
        output = Path(run_dirs[0], "report.html") if len(run_dirs) == 1 else Path("report.html")
    return write_report(run_dirs, output)


def write_report(
    run_dirs: Sequence[Path | str],
    out: Path | str,
    yardsticks: Mapping[str, float] | None = None,
    reload: int | None = None,
) -> Path:
    """Write the page about `run_dirs` to `out`, and of a single run the plots into its folder; return the path of the
    page. `reload`: seconds between two loads by a browser. All input is read before anything is written. yardsticks:
    name -> rate, lines in the chart of the targets' cumulative solve rate. Raises DataError, which names the missing
    or damaged file and line, or the place that cannot be written."""
    runs = load_runs([Path(folder) for folder in run_dirs])
    sections = drawn(runs, yardsticks)
    drawn_sections = {name: {title: svg(one) for title, one in sections[name].items()} for name in sections}
    text = page(runs, drawn_sections, reload)
    out = Path(out)
    save(text, out)
    if len(runs) == 1:  # to draw those of each run of a comparison takes most of the time
        try:
            _write_plots(runs[0].path / "plots", drawn_sections)
        except OSError as error:
            raise DataError(f"{error.filename} cannot be written ({error.strerror}).") from error
    return out


def _write_plots(folder: Path, sections: Mapping[str, Mapping[str, str]]) -> None:
    """Write the charts as SVG files named after their titles; those of an earlier report are replaced."""
    folder.mkdir(exist_ok=True)
    for stale in folder.glob("*.svg"):
        stale.unlink()
    for charts in sections.values():
        for name, text in charts.items():
            (folder / f"{re.sub(r'[^a-z0-9]+', '-', name.lower()).strip('-')}.svg").write_text(text, encoding="utf-8")
