"""The page put together: one HTML text with its style and charts inside, no script, nothing loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from . import tables
from .arms import arms_of, band_text
from .charts import SECTIONS, compare, draw, solve_rate_map, window_text
from .comparison import comparison, gains
from .examples import examples
from .findings import findings
from .load import Run
from .svg import CHART_STYLE, DARK_VARIABLES, VARIABLES

STYLE = f"""
:root {{ color-scheme: light dark; {VARIABLES} }}
@media (prefers-color-scheme: dark) {{ :root {{ {DARK_VARIABLES} }} }}
* {{ box-sizing: border-box; }}
body {{ margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; -webkit-text-size-adjust: 100%; }}
main {{ max-width: 1280px; margin: 0 auto; padding: 20px 16px 48px; }}
h1 {{ font-size: 1.5rem; line-height: 1.25; margin: 0 0 4px; overflow-wrap: anywhere; }}
h2 {{ font-size: 1.2rem; margin: 36px 0 10px; padding-top: 12px; border-top: 1px solid var(--line); }}
h3 {{ font-size: 1rem; margin: 22px 0 8px; overflow-wrap: anywhere; }}
h4 {{ font-size: .9rem; margin: 16px 0 6px; color: var(--soft); }}
p {{ margin: 6px 0; }}
.sub, .note {{ color: var(--soft); font-size: .85rem; }}
.charts {{ display: grid; gap: 14px; grid-template-columns: repeat(auto-fill, minmax(min(100%, 360px), 1fr)); }}
.charts > div, .card {{ background: var(--card); border: 1px solid var(--line);
  border-radius: 8px; padding: 8px; min-width: 0; }}
.chart {{ display: block; width: 100%; height: auto; }}
.scroll {{ overflow-x: auto; }}
table {{ border-collapse: collapse; font-size: .875rem; }}
th, td {{ text-align: left; padding: 5px 12px 5px 0; border-bottom: 1px solid var(--line); vertical-align: top; }}
th {{ color: var(--soft); font-weight: 600; vertical-align: bottom; }}
.num {{ text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap;
  padding-left: 8px; padding-right: 8px; }}
.rule {{ border-left: 1px solid var(--line); padding-left: 12px; }}
.ci, .from {{ color: var(--soft); font-size: .8rem; }}
td:first-child, th:first-child {{ position: sticky; left: 0; background: var(--page); }}
.up {{ color: var(--good); }} .down {{ color: var(--bad); }}
ul.findings {{ list-style: none; margin: 10px 0; padding: 0; }}
ul.findings li {{ border-left: 3px solid var(--bad); background: var(--card); padding: 5px 10px; margin: 5px 0; }}
ul.findings li.fine {{ border-color: var(--good); }}
.setting {{ display: grid; grid-template-columns: repeat(auto-fill, minmax(150px, 1fr));
  gap: 8px 16px; margin: 12px 0; }}
.setting div {{ min-width: 0; }}
dt {{ color: var(--soft); font-size: .75rem; }}
dd {{ margin: 0; overflow-wrap: anywhere; }}
details {{ margin: 6px 0; }}
summary {{ cursor: pointer; color: var(--accent); font-size: .85rem; }}
code, pre {{ font: .8rem/1.45 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; overflow-wrap: anywhere; }}
pre {{ white-space: pre-wrap; margin: 6px 0; max-height: 18em; overflow: auto; }}
.cards {{ display: grid; gap: 10px; grid-template-columns: repeat(auto-fill, minmax(min(100%, 300px), 1fr)); }}
.facts {{ font-size: .8rem; color: var(--soft); overflow-wrap: anywhere; }}
.badge {{ border: 1px solid currentColor; border-radius: 4px; padding: 0 5px; font-weight: 600; }}
.good {{ color: var(--good); }} .bad {{ color: var(--bad); }}
@media (max-width: 600px) {{
  table {{ font-size: .8rem; }} .num {{ padding-left: 4px; padding-right: 4px; }} .rule {{ padding-left: 10px; }}
  td:first-child {{ padding-right: 4px; }} .ci {{ display: block; font-size: .7rem; }}
}}
@media print {{ details {{ display: none; }} .charts > div, .card {{ break-inside: avoid; }} }}
{CHART_STYLE}"""


def page(runs: Sequence[Run]) -> str:
    """The whole document. Equal runs give equal text: nothing here depends on the time or the machine."""
    several = len(runs) > 1
    title = f"Self-play: {' and '.join(run.name for run in runs)}" if len(runs) < 3 else f"Self-play: {len(runs)} runs"
    parts = [f"<h1>{escape(title)}</h1>"]
    parts += [_head(run, several) for run in runs]
    found = tables.results(runs)
    if found:
        parts.append(f"<h2>Before and after</h2>{found}")
    if several:
        arms = arms_of(runs)
        tested = (("Over training seeds", gains(arms)), ("Comparison", comparison(arms)))
        parts += [f"<h2>{title}</h2>{text}" for title, text in tested if text]
        parts.append(f"<h2>Settings that differ</h2>{tables.differences(runs)}")
    found = tables.health(runs)
    if found:
        parts.append(f"<h2>Health of the curriculum</h2>{found}")
    parts += _curves(runs)
    shown = [(run, examples(run)) for run in runs]
    if any(text for _, text in shown):
        parts.append("<h2>Examples</h2>")
        parts += [(f"<h3>{escape(run.name)}</h3>" if several else "") + text for run, text in shown if text]
    if several:
        parts.append("<h2>All settings</h2>")
        parts += [f"<h3>{escape(run.name)}</h3>{tables.setting(run)}{tables.whole_config(run)}" for run in runs]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n<body><main>\n"
        + "\n".join(parts)
        + "\n</main></body></html>\n"
    )


def _head(run: Run, several: bool) -> str:
    """What ran, and what was not healthy."""
    facts = [f"{len(run.rounds)} logged rounds"]
    facts += [f"started {run.started[:16].replace('T', ' ')}"] if run.started else []
    version = run.environment.get("countdown-selfplay")
    facts += [f"countdown-selfplay {version}"] if version else []
    name = f"<h3>{escape(run.name)}</h3>" if several else ""
    broken = findings(run)
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in broken)
    if not broken:
        items = '<li class="fine">No health limit is broken.</li>'
    body = f'{name}<p class="sub">{escape(" · ".join(facts))}</p><ul class="findings">{items}</ul>'
    return body if several else body + tables.setting(run) + tables.whole_config(run)


def _curves(runs: Sequence[Run]) -> list[str]:
    parts = []
    for section, charts in SECTIONS.items():
        if len(runs) > 1:
            drawn = [svg for chart in charts for svg in compare(chart, runs)]
            maps = [solve_rate_map(run, f"Solve rates: {run.name}") for run in runs] if section == "Curriculum" else []
        else:
            drawn = [svg for chart in charts if (svg := draw(chart, runs[0])) is not None]
            maps = [solve_rate_map(runs[0])] if section == "Curriculum" else []
        drawn += [svg for svg in maps if svg is not None]
        if drawn:
            grid = "".join(f"<div>{svg}</div>" for svg in drawn)
            parts.append(f'<h2>{section}</h2><div class="charts">{grid}</div>')
    if parts:
        notes = dict.fromkeys(window_text(run) for run in runs)
        text = " ".join(note for note in notes if note) if len(runs) == 1 else "Running means; a gap has no value."
        text += " " + band_text(arms_of(runs)) if len(runs) > 1 else ""
        parts.append(f'<p class="note">{escape(text[:1].upper() + text[1:].rstrip())}</p>')
    return parts
