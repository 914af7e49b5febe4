"""HTML page of the report: one text with its style and charts inside, no script, nothing loaded from elsewhere; with
sample proposals and answers, one per outcome."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from ...errors import DataError
from ...evaluation.findings import findings, verdict
from ...evaluation.load import Run
from ...games.metrics import OF_RIGHT, OF_WRONG
from ...options import is_number
from . import tables
from .arms import arms_of, band_text, verdict_of_arms
from .charts import charts_of, is_quiet, window_text
from .panels import MEASURED, PLAYED, hints
from .targets import SOLVED

LEADS = (
    *(MEASURED, SOLVED, "pass@k in training", "Mean pass rate", "Who wins", PLAYED),
    *("Solve rate of the problems", "Correct answers"),
)
"""Pictures beside the result; the first one that a run has is shown."""
OUTCOMES = (*OF_WRONG, *OF_RIGHT)
GOOD = ("ok", "correct", "right", "corrected", "resisted", "kept")
HEADINGS = {
    "conjecturer": "Proposals", "prover": "Answers", "helpful": "Helpful critiques",
    "misleading": "Misleading critiques", "guide": "Reviews",
}  # fmt: skip
_LONGEST = 2000  # characters of a text that are shown
_REASONS = 8  # most reasons of refusal of a player


def page(runs: Sequence[Run], charts: Mapping[str, Mapping[str, str]], reload: int | None = None) -> str:
    """Return the whole document. Equal runs give equal text, independent of time and machine; texts of runs and models
    are escaped by the template. `charts`: section -> name -> SVG. `reload`: seconds between two loads by a browser."""
    arms = arms_of(runs)
    (other, note), several = tables.compared(arms), len(runs) > 1
    result = {
        "Before and after": tables.results(runs),
        "With and without the conjecturer": tables.against_control(runs),
        "Over training seeds": tables.gains(arms),
        "Comparison": tables.comparison(other, note),
    }
    shown = {
        "Settings that differ": tables.differences(runs) if several else None,
        "Early and late rounds of the pool": tables.windows(runs), "Health of the curriculum": tables.health(runs),
        "The critic game by iteration": tables.by_iteration(runs),
        "Filters of the symbolic proposer": tables.filtering(runs),
    }  # fmt: skip
    lead, charts = _lead(charts)
    names = " and ".join(run.name for run in runs) if len(runs) < 3 else f"{len(runs)} runs"
    return template("page.html.j2").render(
        title=f"Self-play: {names}", heads=[_head(run) for run in runs], verdict=verdict_of_arms(other), result=result,
        lead=lead, tables=shown, charts=charts,
        quiet=[chart.title for chart in charts_of(runs) if is_quiet(chart.metrics, runs)],
        curves=f"Running means; a gap has no value. {band_text(arms)}" if several else window_text(runs[0]),
        hints=hints(runs), reload=reload,
    )  # fmt: skip


def template(name: str) -> Template:
    """Return a template of this package, which escapes its values."""
    environment = Environment(
        loader=PackageLoader(__package__), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        extensions=["jinja2.ext.do"],
    )  # fmt: skip
    return environment.get_template(name)


def save(text: str, out: Path) -> None:
    """Write a page. Raises DataError for a place that cannot be written."""
    if out.is_dir():
        raise DataError(f"'{out}' is a folder; pass the name of a file such as {out / 'report.html'}.")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise DataError(f"{error.filename or out} cannot be written ({error.strerror}).") from error


def _lead(
    charts: Mapping[str, Mapping[str, str]],
) -> tuple[tuple[str, str] | None, dict[str, dict[str, str]]]:
    """Return name and text of the picture beside the result, and the charts without it; None if none of
    LEADS is drawn."""
    every = [(section, name) for section, named in charts.items() for name in named]
    first = next((pair for wanted in LEADS for pair in every if pair[1].startswith(wanted)), None)
    rest = {s: {n: svg for n, svg in named.items() if (s, n) != first} for s, named in charts.items()}
    return None if first is None else (first[1], charts[first[0]][first[1]]), rest


def _spent(run: Run) -> list[str]:
    """Describe the duration of the logged rounds and the samples in them."""
    steps = [0, *run.steps]
    covered = [step - before for before, step in pairwise(steps)]
    seconds = sum(row.get("step_time", 0) * count for row, count in zip(run.rounds, covered, strict=True))
    tokens = max((value for _, value in run.series("round/tokens")), default=0)
    time = f"{timedelta(seconds=round(seconds))} of rounds"
    return [time] * (seconds > 0) + [f"{tokens:,.0f} tokens sampled"] * (tokens > 0)


def _head(run: Run) -> dict[str, Any]:
    """Return the page's part on one run: summary, faults, settings and samples."""
    version = run.environment.get("countdown-selfplay")
    facts = [f"{len(run.rounds)} logged rounds"]
    facts += [f"started {run.started[:16].replace('T', ' ')}"] if run.started else []
    facts += _spent(run)
    facts += [f"countdown-selfplay {version}"] if version else []
    return {
        "name": run.name, "facts": facts, "verdict": verdict(run), "findings": findings(run),
        "setting": tables.setting(run), "config": tables.whole_config(run), "examples": examples(run),
    }  # fmt: skip


def examples(run: Run) -> dict[str, list[dict[str, Any]]]:
    """Return cards of samples.jsonl under their headings, a heading for each player; {} if it is absent or empty."""
    headed, order = {}, {kind: i for i, kind in enumerate(HEADINGS)}
    rows = [row for row in run.samples if row.get("reason") not in OUTCOMES]
    players = {str(row.get("role")): str(row.get("role")).partition("/")[0] for row in rows}
    for player, kind in sorted(players.items(), key=lambda one: (order.get(one[1], len(order)), one[0])):
        heading = HEADINGS.get(kind, f"Texts of {kind}") + (f" of {player}" if "/" in player else "")
        headed[heading] = strata([row for row in rows if str(row.get("role")) == player])
    headed["Transcripts"] = transcripts(run)
    return {heading: cards for heading, cards in headed.items() if cards}


def strata(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return of a player's texts the best reward, a typical one (the median), and every reason of refusal once, the
    most frequent first with its share; of equals the latest."""
    labels = dict[int, list[str]]()
    rewarded = sorted((row["reward"], i) for i, row in enumerate(rows) if is_number(row.get("reward")))
    if rewarded:
        middle = rewarded[(len(rewarded) - 1) // 2][0]
        labels[rewarded[-1][1]] = ["best reward"]
        labels.setdefault(max(i for reward, i in rewarded if reward == middle), ["typical reward"])
    reasons = [str(row.get("reason") or "no reason") for row in rows]
    for reason, count in [pair for pair in Counter(reasons).most_common() if pair[0] not in GOOD][:_REASONS]:
        latest = max(i for i, one in enumerate(reasons) if one == reason)
        labels.setdefault(latest, []).append(f"{reason}: {count} of {len(rows)} logged")
    return [{**_card(rows[i]), "stratum": "; ".join(one)} for i, one in labels.items()]


def transcripts(run: Run) -> list[dict[str, Any]]:
    """Return the first and the last logged revision of every outcome of the critic game, each with question, answer
    and critique before it (Wang et al. 2025, figures 11 to 17)."""
    cards = []
    for outcome in OUTCOMES:
        rows = [row for row in run.samples if row.get("reason") == outcome]
        for row in rows[:1] + rows[1:][-1:]:
            dialogue = f"{text_of(row.get('prompt'))}\n{row.get('role')}: {text_of(row.get('completion'))}"
            cards.append({**_card(row), "text": dialogue, "prompt": "", "stratum": ""})
    return cards


def _card(row: dict[str, Any]) -> dict[str, Any]:
    reward, reason = row.get("reward"), str(row.get("reason") or "no reason")
    step = row.get("step")
    facts = [f"round {step:g}" if step is not None and is_number(step) else "round ?"]
    facts += [str(row["problem"])] if row.get("problem") else []
    facts += [f"reward {reward:.3g}"] if is_number(reward) else []
    return {
        "reason": reason, "good": reason in GOOD, "facts": " · ".join(facts), "text": text_of(row.get("completion")),
        "prompt": text_of(row.get("prompt")),
    }  # fmt: skip


def text_of(value: Any) -> str:
    """Format a text, or a chat as "role: content" lines; truncated when long."""
    if isinstance(value, list) and all(isinstance(turn, dict) for turn in value):
        value = "\n".join(f"{turn.get('role', '?')}: {turn.get('content', '')}" for turn in value)
    elif not isinstance(value, str):
        value = "" if value is None else json.dumps(value)
    return value if len(value) <= _LONGEST else f"{value[:_LONGEST]} … ({len(value) - _LONGEST} more characters)"
