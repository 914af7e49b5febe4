"""The page put together: one HTML text with its style and charts inside, no script, nothing loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from . import tables
from .arms import arms_of, band_text
from .charts import window_text
from .comparison import comparison, gains
from .examples import examples
from .findings import findings
from .load import Run
from .symbolic import filtering


def page(runs: Sequence[Run], charts: Mapping[str, Mapping[str, str]]) -> str:
    """The whole document; `charts`: section -> name -> SVG. Equal runs give equal text: nothing here depends on the
    time or the machine. What runs and models wrote is escaped by the template."""
    arms = arms_of(runs)
    shown = {"Before and after": tables.results(runs)}
    curves = window_text(runs[0])
    if len(runs) > 1:
        shown |= {"Over training seeds": gains(arms), "Comparison": comparison(arms)}
        shown["Settings that differ"] = tables.differences(runs)
        curves = f"Running means; a gap has no value. {band_text(arms)}"
    shown["Health of the curriculum"] = tables.health(runs)
    shown["Filters of the symbolic proposer"] = filtering(runs)
    names = " and ".join(run.name for run in runs) if len(runs) < 3 else f"{len(runs)} runs"
    environment = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        extensions=["jinja2.ext.do"],
    )
    return environment.get_template("page.html.j2").render(
        title=f"Self-play: {names}", heads=[_head(run) for run in runs], tables=shown, charts=charts, curves=curves
    )


def _head(run: Run) -> dict[str, Any]:
    """What the page says of one run: what ran, what was not healthy, its settings and samples."""
    version = run.environment.get("countdown-selfplay")
    facts = [f"{len(run.rounds)} logged rounds"]
    facts += [f"started {run.started[:16].replace('T', ' ')}"] if run.started else []
    facts += [f"countdown-selfplay {version}"] if version else []
    return {
        "name": run.name,
        "facts": facts,
        "findings": findings(run),
        "setting": tables.setting(run),
        "config": tables.whole_config(run),
        "examples": examples(run),
    }
