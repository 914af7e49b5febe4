"""The page put together: one HTML text with its style and charts inside, no script, nothing loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from . import panels, tables, targets
from .arms import arms_of, band_text
from .charts import hints, quiet, window_text
from .comparison import compared, comparison, gains
from .examples import examples
from .findings import findings
from .load import Run
from .rungs import MEASURED, PLAYED
from .verdict import verdict, verdict_of_arms

LEADS = (
    *(MEASURED, targets.SOLVED, "pass@k in training", "Mean pass rate", "Who wins", PLAYED),
    *("Solve rate of the problems", "Correct answers"),
)
"""The picture beside the result: the first of these that a run has."""
SHOWN = {
    panels.RELIABILITY: "proposer/rate_at_",
    targets.SOLVED: "targets/solve_rate",
    targets.BEFORE: "targets/presolve_",
}
"""Title -> beginning of the names of the metrics in it."""


def page(runs: Sequence[Run], charts: Mapping[str, Mapping[str, str]], reload: int | None = None) -> str:
    """The whole document; `charts`: section -> name -> SVG. `reload`: seconds after which a browser loads it again.
    Equal runs give equal text: nothing here depends on the time or the machine. What runs and models wrote is escaped
    by the template."""
    arms = arms_of(runs)
    result = {
        "Before and after": tables.results(runs),
        "With and without the conjecturer": tables.against_control(runs),
    }
    curves, shown, judged = window_text(runs[0]), dict[str, tables.Table | None](), None
    if len(runs) > 1:
        found, said = compared(arms)
        judged = verdict_of_arms(found)
        result |= {"Over training seeds": gains(arms), "Comparison": comparison(found, said)}
        shown["Settings that differ"] = tables.differences(runs)
        curves = f"Running means; a gap has no value. {band_text(arms)}"
    shown["Early and late rounds of the pool"] = panels.windows(runs)
    shown["Health of the curriculum"] = tables.health(runs)
    shown["The critic game by iteration"] = panels.by_iteration(runs)
    shown["Filters of the symbolic proposer"] = panels.filtering(runs)
    lead, charts = _lead(charts)
    names = " and ".join(run.name for run in runs) if len(runs) < 3 else f"{len(runs)} runs"
    environment = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        extensions=["jinja2.ext.do"],
    )
    return environment.get_template("page.html.j2").render(
        title=f"Self-play: {names}",
        heads=[_head(run) for run in runs],
        verdict=judged,
        result=result,
        lead=lead,
        tables=shown,
        charts=charts,
        quiet=quiet(runs),
        curves=curves,
        hints={**hints(runs), **_explained(runs)},
        reload=reload,
    )


def _explained(runs: Sequence[Run]) -> dict[str, str]:
    """The definitions of the metrics that charts other than declared ones show."""
    names = [name for run in runs for name in run.declared]
    found = {title: next((name for name in names if name.startswith(start)), "") for title, start in SHOWN.items()}
    return {title: tables.definition(name, runs) for title, name in found.items() if name}


def _lead(
    charts: Mapping[str, Mapping[str, str]],
) -> tuple[tuple[str, str] | None, dict[str, dict[str, str]]]:
    """Name and text of the picture that goes with the result, and the charts without it; None where none of LEADS is
    drawn."""
    every = [(section, name) for section, found in charts.items() for name in found]
    first = next((pair for wanted in LEADS for pair in every if pair[1].startswith(wanted)), None)
    rest = {s: {n: svg for n, svg in found.items() if (s, n) != first} for s, found in charts.items()}
    return None if first is None else (first[1], charts[first[0]][first[1]]), rest


def _spent(run: Run) -> list[str]:
    """How long the logged rounds took, and what was sampled in them."""
    steps = [0, *run.steps]
    covered = [step - before for before, step in pairwise(steps)]
    seconds = sum(row.get("step_time", 0) * count for row, count in zip(run.rounds, covered, strict=True))
    tokens = max((value for _, value in run.series("round/tokens")), default=0)
    minutes, rest = divmod(round(seconds), 60)
    time = (
        f"{minutes // 60} h {minutes % 60} min"
        if minutes >= 60
        else f"{minutes} min {rest} s"
        if minutes
        else f"{rest} s"
    )
    return [f"{time} of rounds"] * (seconds > 0) + [f"{tokens:,.0f} tokens sampled"] * (tokens > 0)


def _head(run: Run) -> dict[str, Any]:
    """What the page says of one run: what ran, what was not healthy, its settings and samples."""
    version = run.environment.get("countdown-selfplay")
    facts = [f"{len(run.rounds)} logged rounds"]
    facts += [f"started {run.started[:16].replace('T', ' ')}"] if run.started else []
    facts += _spent(run)
    facts += [f"countdown-selfplay {version}"] if version else []
    return {
        "name": run.name,
        "facts": facts,
        "verdict": verdict(run),
        "findings": findings(run),
        "setting": tables.setting(run),
        "config": tables.whole_config(run),
        "examples": examples(run),
    }
