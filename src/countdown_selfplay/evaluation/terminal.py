"""Plain-text tables for the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..statistics.bootstrap import Estimate
from ..statistics.independent import independent_difference
from .players import changes_of_players, single_players
from .rungs import rungs_text


def findings_text(folder: Path) -> str:
    """The top of the report: the verdict on the run, then a line for each metric that is not healthy."""
    from .report.findings import findings  # matplotlib
    from .report.load import load_run
    from .report.verdict import verdict

    run = load_run(folder)
    found = findings(run)
    said = ["", f"Not healthy in {folder}:", *(f"- {sentence}" for sentence in found), ""] if found else []
    return "\n".join([str(verdict(run)), *said])


def control_table(result: dict[str, Any]) -> str:
    """The prover trained without and with a conjecturer, with 95% intervals; `result` as in control.json."""
    return aligned([("", "without", "with", "difference"), *_prover_rows(result, "control", "run")])


def _prover_rows(result: dict[str, Any], first: str, second: str, who: str = "prover") -> list[tuple[str, ...]]:
    a, b = (result[side]["prover"]["pass_at"] for side in (first, second))
    change = result["difference"]
    return [(f"{who} pass@{k}", _estimate(a[k]), _estimate(b[k]), _signed(change[f"pass@{k}"])) for k in a]


def before_after_table(result: dict[str, Any]) -> str:
    """Prover, conjecturer and guide before and after training, with 95% intervals; `result` as in evaluation.json."""
    rows: list[tuple[str, ...]] = [("", "before", "after", "difference")]
    after = result["after"]
    if "difference" in result:
        pool = changes_of_players(result)
        rows += _prover_rows(result, "before", "after", "all provers:" if pool else "prover")
        for player, changes in pool.items():
            for name, moved in changes.items():
                k = name.partition("@")[2]
                shown = [_estimate(result[when][player]["pass_at"][k]) for when in ("before", "after")]
                rows.append((f"{player} {name}", *shown, _signed([moved.difference, moved.low, moved.high])))
        rows += _rung_rows(result)
    for role in (*(single_players(after, "conjecturer") or ["conjecturer"]), "guide"):
        figures = [result[when].get(role, {}) for when in ("before", "after")]
        for name in rates(*figures):
            pair = [found.get(name) for found in figures]
            if any(value is not None for value in pair):
                change = "" if None in pair else _change(*pair)
                rows.append((f"{role} {name.replace('_', ' ')}", *(_estimate(value) for value in pair), change))
    return aligned(rows)


def _rung_rows(result: dict[str, Any]) -> list[tuple[str, ...]]:
    """Of a prover's evaluations by rung: the ladder and each rung, for the least and the greatest k; rungs without a
    right answer before and after are one row."""
    changes, silent = result.get("difference_by_rung", {}), list[int]()
    before, after = (result[when]["prover"] for when in ("before", "after"))
    rows: list[tuple[str, ...]] = []
    for name in sorted(changes, key=lambda name: name != "ladder"):  # the ladder first
        pair = [side["ladder"] if name == "ladder" else side["by_rung"][name] for side in (before, after)]
        if name != "ladder" and not any(any(side["correct"]) for side in pair):
            silent.append(int(name))
            continue
        label = f"rungs {rungs_text(pair[0]['rungs'])}" if name == "ladder" else f"rung {name}"
        for k in dict.fromkeys((min(changes[name], key=int), max(changes[name], key=int))):
            shown = (_estimate(side["pass_at"][k]) for side in pair)
            rows.append((f"prover pass@{k}, {label}", *shown, _signed(changes[name][k])))
    named = f"rung{'s' * (len(silent) > 1)} {rungs_text(silent)}" if silent else ""
    return [*rows, (f"prover, {named}", "0", "0", "")] if silent else rows


def rates(*figures: dict[str, Any]) -> list[str]:
    """Names of the estimates in conjecturers' figures, in their order."""
    return list(dict.fromkeys(n for found in figures for n, v in found.items() if isinstance(v, dict) and "low" in v))


def aligned(rows: list[tuple[str, ...]]) -> str:
    """Columns padded to their widest cell; a rule under the header."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "-" * (sum(widths) + 2 * len(widths) - 2), *lines[1:]])


def _estimate(value: Any) -> str:
    if value is None:
        return "-"
    center, low, high = (value["value"], value["low"], value["high"]) if isinstance(value, dict) else value
    return f"{center:.3f} [{low:.3f}, {high:.3f}]"


def _change(before: dict[str, float], after: dict[str, float]) -> str:
    found = independent_difference(Estimate(**before), Estimate(**after))
    return _signed([found.difference, found.low, found.high])


def _signed(interval: list[float]) -> str:
    return f"{interval[0]:+.3f} [{interval[1]:+.3f}, {interval[2]:+.3f}]"
