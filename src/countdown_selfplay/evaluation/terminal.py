"""Plain text for the terminal: tables of evaluations, single players of a pool among them, and a line that says how
far a long evaluation is."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, TextIO

from ..statistics.bootstrap import Estimate, Interval, independent_difference, paired_bootstrap
from .summary import rungs_text

_REDRAW = 0.2  # seconds between two drawings on a terminal
_REPEAT = 30.0  # seconds between two lines where stderr is a file or a pipe
RESAMPLES = 2_000
"""Of the interval of one player, which is a detail beside that of all together."""


def control_table(result: dict[str, Any]) -> str:
    """The prover trained without and with a conjecturer, with 95% intervals; `result` as in control.json."""
    return aligned([("", "without", "with", "difference"), *_prover_rows(result, "control", "run")])


def _prover_rows(result: dict[str, Any], first: str, second: str, who: str = "prover") -> list[tuple[str, ...]]:
    a, b = (result[side]["prover"]["pass_at"] for side in (first, second))
    change = result["difference"]
    return [(f"{who} pass@{k}", _estimate(a[k]), _estimate(b[k]), str(Interval(*change[f"pass@{k}"]))) for k in a]


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
                rows.append((f"{player} {name}", *shown, str(moved)))
        rows += _rung_rows(result)
    for role in (*(single_players(after, "conjecturer") or ["conjecturer"]), "guide"):
        figures = [result[when].get(role, {}) for when in ("before", "after")]
        for name in rates(*figures):
            pair = [found.get(name) for found in figures]
            if any(value is not None for value in pair):
                change = "" if None in pair else str(independent_difference(*(Estimate(**found) for found in pair)))
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
            rows.append((f"prover pass@{k}, {label}", *shown, str(Interval(*changes[name][k]))))
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
    return str(Estimate(**value) if isinstance(value, dict) else Estimate(*value))


def single_players(side: Mapping[str, Any], kind: str) -> list[str]:
    """`prover/0`, `prover/1` of a pool, in their order; [] where the kind has one player, who has the kind's name."""
    return sorted((name for name in side if name.startswith(f"{kind}/")), key=lambda name: (len(name), name))


def changes_of_players(result: Mapping[str, Any]) -> dict[str, dict[str, Interval]]:
    """Prover -> pass@k -> after minus before with a 95% interval, paired over problems, for the least and the greatest
    k; {} where one prover was measured. `result`: as in evaluation.json."""
    before, after = result.get("before") or {}, result.get("after") or {}
    found: dict[str, dict[str, Interval]] = {}
    for player in single_players(after, "prover"):
        if player not in before:
            continue
        a, b = before[player], after[player]
        ks = sorted(map(int, b["pass_at"]))
        found[player] = {
            f"pass@{k}": paired_bootstrap(a["correct"], b["correct"], a["n"], k=k, resamples=RESAMPLES)
            for k in dict.fromkeys((ks[0], ks[-1]))
        }
    return found


def duration(seconds: float) -> str:
    """ "40 s", "3 min", "2 h 5 min"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


class ProgressLine(AbstractContextManager["ProgressLine"]):
    """Call it with (done, total) as often as you like, as a context manager.

    On a terminal one line is drawn over and ends with a newline; elsewhere a whole line is written every 30 seconds,
    and none for what is over before that. `enabled`: False on all processes but one, and under --disable_tqdm.
    """

    def __init__(self, label: str, unit: str = "answers", enabled: bool = True, stream: TextIO | None = None) -> None:
        self.label, self.unit, self.enabled = label, unit, enabled
        self.stream = sys.stderr if stream is None else stream
        self.terminal = self.stream.isatty()
        self.start = time.monotonic()
        self.said = float("-inf") if self.terminal else self.start
        self.drawn = False  # on the terminal

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        pause = _REDRAW if self.terminal else _REPEAT
        last = self.terminal and done >= total
        if not self.enabled or (now - self.said < pause and not last):
            return
        self.said = now
        text = f"{self.label}: {done} of {total} {self.unit}, {duration(now - self.start)}"
        if 0 < done < total:
            text += f", about {duration((now - self.start) * (total - done) / done)} left"
        if not self.terminal:
            print(text, file=self.stream, flush=True)
            return
        self.stream.write(f"\r{text}\x1b[K")  # clears the rest of the line: a training bar may have been there
        self.stream.flush()
        self.drawn = True

    def __exit__(self, *_: object) -> None:
        if self.drawn:
            self.stream.write("\n")
            self.stream.flush()
            self.drawn = False
