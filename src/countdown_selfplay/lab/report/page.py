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
from ...evaluation.findings import Judgement, findings, sign, verdict
from ...evaluation.load import Run
from ...games.metrics import OF_RIGHT, OF_WRONG
from ...options import is_number
from ..compare import Comparison
from . import tables
from .charts import arms_of, band_text, charts_of, declared_in, is_quiet
from .panels import MEASURED, PLAYED
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
    pictures = {title: text for named in charts.values() for title, text in named.items()}
    lead = next((title for wanted in LEADS for title in pictures if title.startswith(wanted)), None)
    names = " and ".join(run.name for run in runs) if len(runs) < 3 else f"{len(runs)} runs"
    return template("page.html.j2").render(
        title=f"Self-play: {names}", heads=[_head(run) for run in runs], verdict=_verdict(other), result=result,
        lead=lead, pictures=pictures, tables=shown, charts=charts,
        quiet=[chart.title for chart in charts_of(runs) if is_quiet(chart.metrics, runs)],
        curves=f"Bold: running means; thin: single rounds; a gap has no value. {band_text(arms)}",
        hints=_hints(runs), reload=reload,
    )  # fmt: skip


def _verdict(comparison: Comparison | str | None) -> Judgement | None:
    """Describe which arms differ from the first one in pass@1, by the intervals that cover all differences; a
    sentence on why there is no comparison is passed on."""
    if comparison is None or isinstance(comparison, str):
        return None if comparison is None else Judgement("not compared", comparison)
    k = comparison.ks[0]
    parts = [
        f"{d.arm} {d.bonferroni.difference:+.3f} [{d.bonferroni.low:+.3f}, {d.bonferroni.high:+.3f}]"
        for d in comparison.differences
        if d.k == k and sign(d.bonferroni)
    ]
    words = f"pass@{k} after training, against {comparison.arms[0]} on {comparison.problems} common problems"
    return Judgement("compared", f"{words}: {'; '.join(parts) or 'no difference shown'}.")


def _hints(runs: Sequence[Run]) -> dict[str, str]:
    """Return title of a chart -> the definitions of its metrics."""
    hints, declared = dict[str, str](), declared_in(runs)
    for chart in charts_of(runs):
        texts = [tables.definition(name, declared[name]) for name, _ in chart.metrics]
        hints |= {f"{chart.title}: {pair[1]}": text for pair, text in zip(chart.metrics, texts, strict=True)}
        hints[chart.title] = "\n".join(texts)
    return hints


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


def _head(run: Run) -> dict[str, Any]:
    """Return the page's part on one run: summary, faults, settings and samples."""
    version = run.environment.get("countdown-selfplay")
    covered = [step - before for before, step in pairwise([0, *run.steps])]
    seconds = sum(row.get("step_time", 0) * count for row, count in zip(run.rounds, covered, strict=True))
    tokens = max((value for _, value in run.series("round/tokens")), default=0)
    facts = [
        f"{len(run.rounds)} logged rounds",
        run.started and f"started {run.started[:16].replace('T', ' ')}",
        seconds and f"{timedelta(seconds=round(seconds))} of rounds",
        tokens and f"{tokens:,.0f} tokens sampled",
        version and f"countdown-selfplay {version}",
    ]
    return {
        "name": run.name, "facts": list(filter(None, facts)), "verdict": verdict(run), "findings": findings(run),
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
            cards.append({**_card(row), "text": dialogue, "prompt": ""})
    return cards


def _card(row: dict[str, Any]) -> dict[str, Any]:
    reward, reason, step = row.get("reward"), str(row.get("reason") or "no reason"), row.get("step")
    facts = [f"round {step:g}" if is_number(step) else "round ?"]
    facts += [str(row["problem"])] if row.get("problem") else []
    facts += [f"reward {reward:.3g}"] if is_number(reward) else []
    return {
        "reason": reason, "good": reason in GOOD, "facts": " · ".join(facts), "text": text_of(row.get("completion")),
        "prompt": text_of(row.get("prompt")), "stratum": "",
    }  # fmt: skip


def text_of(value: Any) -> str:
    """Format a text, or a chat as "role: content" lines; truncated when long."""
    if isinstance(value, list) and all(isinstance(turn, dict) for turn in value):
        value = "\n".join(f"{turn.get('role', '?')}: {turn.get('content', '')}" for turn in value)
    elif not isinstance(value, str):
        value = "" if value is None else json.dumps(value)
    return value if len(value) <= _LONGEST else f"{value[:_LONGEST]} … ({len(value) - _LONGEST} more characters)"
